package crdt

import "time"

// Change is one parsed change. Its slices are not to be written to.
type Change struct {
	Hash    Hash
	Deps    []Hash
	Actor   ActorID
	Seq     uint64 // the actor's changes count from 1
	StartOp uint64
	NumOps  uint64
	Time    time.Time
	Message string
	Raw     []byte // the chunk as it arrived: type 1, or type 2 (deflated)
}

// ParseEntry reads one entry of a sync message's list of changes, or a row of the store: change chunks one
// behind the other, plain or deflated, and whole-document chunks. The latter are returned unopened, for
// the engine. Errors are *ParseError.
func ParseEntry(entry []byte, limits Limits) (changes []Change, documents [][]byte, err error) {
	panic("stub")
}

// Limits bound what a parser accepts.
type Limits struct {
	ChangeBytes int // of one change, after inflation
}

// ParseError says why bytes are no valid chunk or message.
type ParseError struct{ What string }

func (e *ParseError) Error() string { return e.What }
