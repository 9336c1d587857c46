package crdt

import (
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Change is one parsed change. Its slices are not to be written to.
type Change struct {
	Hash    Hash
	Deps    []Hash
	Actor   ActorID
	Seq     uint64 // the actor's changes count from 1
	StartOp uint64
	NumOps  uint64
	Time    time.Time // to the second; zero when its author gave none
	Message string
	Raw     []byte // the chunk as it arrived: type 1, or type 2 (deflated)

	plain  []byte    // the chunk as type 1
	actors []ActorID // the author, then the others in the order in which its operations number them
	ops    opColumns
}

// Plain is the chunk uncompressed, which is what peers of the first sync version understand.
func (c Change) Plain() []byte { return c.plain }

// Limits bound what a parser accepts.
type Limits struct {
	ChangeBytes int // of one change, after inflation
	Ops         int // operations of one change; 0 is DefaultOps
}

// NoLimits are for what was taken in before, whatever the limits were then, and for what the core makes.
var NoLimits = Limits{ChangeBytes: math.MaxInt32, Ops: math.MaxInt32}

// Check gives a *ParseError where a change that was read with wider limits is over these.
func (l Limits) Check(c Change) error {
	if err := l.checkBytes(len(c.plain)); err != nil {
		return err
	}
	return l.checkOps(c.NumOps)
}

func (l Limits) checkBytes(n int) error {
	if n > l.ChangeBytes {
		return tooLarge("change of %d bytes, at most %d", n, l.ChangeBytes)
	}
	return nil
}

func (l Limits) checkOps(n uint64) error {
	if most := cmp.Or(l.Ops, DefaultOps); n > uint64(most) {
		return tooLarge("change of %d operations, at most %d", n, most)
	}
	return nil
}

// DefaultOps bounds the operations of one change. A few bytes can encode any number of deletions in a row, each of
// which costs the engine time and memory. It is as many characters as are typed in one go when a large text is
// brought in.
const DefaultOps = 5 << 20

// inflationFactor bounds what all deflated chunks of one call may grow to, beside one change of the greatest
// size: text deflates to a tenth, a bomb to a thousandth.
const inflationFactor = 32

// ParseError says why bytes are no valid chunk or message.
type ParseError struct {
	What     string
	TooLarge bool // they may be valid, but are over a limit
}

func (e *ParseError) Error() string { return e.What }

// Chunk types of the Automerge binary format (https://automerge.org/automerge-binary-format-spec).
const (
	chunkDocument = 0
	chunkChange   = 1
	chunkDeflated = 2
)

var chunkMagic = [4]byte{0x85, 0x6f, 0x4a, 0x83}

const checksumLength = 4

// ParseEntry reads one entry of a sync message's list of changes, or a row of the store: change chunks one
// behind the other, plain or deflated, and whole-document chunks. The latter are returned unopened, for
// the engine. What is returned shares the entry's memory. Errors are *ParseError.
func ParseEntry(entry []byte, limits Limits) (changes []Change, documents [][]byte, err error) {
	p := newParser(limits, len(entry))
	if err := p.entry(entry); err != nil {
		return nil, nil, err
	}
	return p.changes, p.documents, nil
}

// parser collects the chunks of one entry or message.
type parser struct {
	limits    Limits
	inflated  int // bytes that may still come out of deflated chunks
	changes   []Change
	documents [][]byte
}

func newParser(limits Limits, size int) *parser {
	return &parser{limits: limits, inflated: limits.ChangeBytes + inflationFactor*size}
}

// entry returns a *ParseError or nil.
func (p *parser) entry(entry []byte) error {
	r := reader{rest: entry}
	for !r.empty() {
		start := r.rest
		magic := r.bytes(uint64(len(chunkMagic)))
		checksum := r.bytes(checksumLength)
		kind := r.byte()
		body := r.prefixed()
		if r.err != nil {
			return r.err
		}
		if !bytes.Equal(magic, chunkMagic[:]) {
			return &ParseError{What: "not a chunk"}
		}
		raw := start[: len(start)-len(r.rest) : len(start)-len(r.rest)]
		if err := p.chunk(raw, checksum, kind, body); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) chunk(raw, checksum []byte, kind byte, body []byte) error {
	plain := raw
	switch kind {
	case chunkDocument:
		// The checksum is the engine's to verify, together with all the rest of it.
		p.documents = append(p.documents, raw)
		return nil
	case chunkChange:
	case chunkDeflated:
		var err error
		if plain, body, err = p.inflate(checksum, body); err != nil {
			return err
		}
	default:
		return &ParseError{What: fmt.Sprintf("chunk of unknown type %d", kind)}
	}
	if err := p.limits.checkBytes(len(plain)); err != nil {
		return err
	}
	hash := hashChunk(chunkChange, body)
	if !bytes.Equal(hash[:checksumLength], checksum) {
		return &ParseError{What: "wrong checksum"}
	}
	c, err := parseChange(body, p.limits)
	if err != nil {
		return err
	}
	c.Hash, c.Raw, c.plain = hash, raw, plain
	p.changes = append(p.changes, c)
	return nil
}

// inflate gives the plain chunk of a deflated one, and its body.
func (p *parser) inflate(checksum, deflated []byte) (plain, body []byte, err error) {
	limit := min(p.limits.ChangeBytes, p.inflated)
	inflater := flate.NewReader(bytes.NewReader(deflated))
	body, err = io.ReadAll(io.LimitReader(inflater, int64(limit)+1))
	if err != nil {
		return nil, nil, &ParseError{What: "damaged deflated chunk"}
	}
	if len(body) > limit {
		return nil, nil, tooLarge("change inflates to more than %d bytes", limit)
	}
	p.inflated -= len(body)
	plain = make([]byte, 0, len(chunkMagic)+checksumLength+1+binary.MaxVarintLen64+len(body))
	plain = append(plain, chunkMagic[:]...)
	plain = append(plain, checksum...)
	plain = append(plain, chunkChange)
	plain = binary.AppendUvarint(plain, uint64(len(body)))
	start := len(plain)
	plain = append(plain, body...)
	return plain, plain[start:], nil
}

// hashChunk is the hash of a chunk: SHA-256 over its type, length and body.
func hashChunk(kind byte, body []byte) (h Hash) {
	sum := sha256.New()
	sum.Write(binary.AppendUvarint([]byte{kind}, uint64(len(body))))
	sum.Write(body)
	sum.Sum(h[:0])
	return h
}

// parseChange reads the body of a change chunk. Hash, Raw and plain are its caller's.
func parseChange(body []byte, limits Limits) (Change, error) {
	r := reader{rest: body}
	c := Change{Deps: r.hashes()}
	c.Actor = ActorID(r.prefixed())
	c.Seq = r.uint()
	c.StartOp = r.uint()
	c.Time = changeTime(r.int())
	c.Message = r.text()
	c.actors = make([]ActorID, 1, 1+r.count(1))
	c.actors[0] = c.Actor
	for range cap(c.actors) - 1 {
		c.actors = append(c.actors, ActorID(r.prefixed()))
	}
	if r.err != nil {
		return c, r.err
	}
	if err := c.ops.parse(&r); err != nil {
		return c, err
	}
	if err := c.checkOps(limits); err != nil {
		return c, err
	}
	switch {
	case !slices.IsSortedFunc(c.Deps, CompareHashes) || len(slices.Compact(slices.Clone(c.Deps))) != len(c.Deps):
		return c, &ParseError{What: "dependencies out of order"}
	case c.Seq == 0:
		return c, &ParseError{What: "change numbered zero"}
	}
	return c, nil
}

// changeTime reads seconds since 1970, as JavaScript writes them. What lies outside of the years that can be
// written with four digits is taken for none given.
func changeTime(seconds int64) time.Time {
	const year10000 = 253402300800
	if seconds <= 0 || seconds >= year10000 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

func tooLarge(format string, args ...any) *ParseError {
	return &ParseError{What: fmt.Sprintf(format, args...), TooLarge: true}
}
