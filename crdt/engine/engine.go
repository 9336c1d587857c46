// Package engine is the narrow door to the Automerge core: load, apply, edit, read, save. Everything else
// about changes (hashes, the graph, the sync protocol) is package crdt's, in pure Go.
//
// A [Document] has one owner at a time: its methods may not be called concurrently. A [BadChangeError], an
// [OpError], [ErrUnknownVersion] and [ErrUnsavable] leave it whole. After any other error its state is unknown; its owner closes
// it and loads it again from what is stored.
package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cowrite/crdt"
)

// Engine holds the content of documents.
type Engine interface {
	// Load builds a document from its stored parts, in order: saved documents and changes, compressed or not.
	// No parts at all is the empty document.
	Load(ctx context.Context, id crdt.DocumentID, parts [][]byte) (Document, error)

	// Unpack opens a saved document (chunk type 0), which is as untrusted as any input, and returns its
	// changes in an order in which each stands behind its dependencies. A chunk that is damaged gives a
	// *BadChangeError.
	Unpack(ctx context.Context, chunk []byte) ([]crdt.Change, error)

	// Save returns the document that is made of stored parts as one saved chunk, and holds up none that is loaded
	// meanwhile. ErrUnsavable when it would be of no use.
	Save(ctx context.Context, parts [][]byte) ([]byte, error)

	// Close ends all documents.
	Close() error
}

// Document is one document's content.
type Document interface {
	// Apply merges changes whose dependencies are all there or stand earlier in the slice. Known changes
	// are ignored. When the core refuses one it gives a *BadChangeError naming it, and the changes before
	// it in the slice are applied.
	Apply(ctx context.Context, changes []crdt.Change) error

	// Edit makes one change as if its author had typed the operations on the version base and merges it.
	// base nil is the present version; empty but not nil is the version before the first change. The new change is
	// returned, nil when the operations do nothing. When one of them cannot be done none is: *OpError.
	Edit(ctx context.Context, base []crdt.Hash, at time.Time, ops []Op) (*crdt.Change, error)

	// EditRead is Edit, and then Read of the present value at path, in one call of a worker. The path is not empty.
	EditRead(ctx context.Context, base []crdt.Hash, at time.Time, ops []Op, path crdt.Path) (*crdt.Change, Value, error)

	// Read returns the value at path as it was at the version at (nil: the present one). An empty path is the whole
	// document. A path that leads nowhere, or through something that is no map, reads as nil, and so does what is
	// nested deeper than 64 levels.
	Read(ctx context.Context, at []crdt.Hash, path crdt.Path) (Value, error)

	// Save returns the whole document as one saved chunk. ErrUnsavable when it would be of no use.
	Save(ctx context.Context) ([]byte, error)

	// Rebase says that the document as it is can be had from these parts too, as Load takes them: a short form for when
	// it has to be loaded again.
	Rebase(parts [][]byte)

	// Close lets the document's memory go. The engine lives on.
	Close() error
}

// Op is one operation of an edit: exactly one of the types below.
type Op interface{ op() }

// Splice replaces, in the Text at Path, Delete code points from position At on by Insert. Positions count
// Unicode code points of the text as the operations before it left it.
type Splice struct {
	Path       crdt.Path
	At, Delete int
	Insert     string
}

// PutText makes a new Text object with the given content at Path, in the place of whatever is there.
type PutText struct {
	Path crdt.Path
	Text string
}

// PutMap makes a new empty map at Path, in the place of whatever is there.
type PutMap struct{ Path crdt.Path }

// Put writes a scalar at Path: string, bool, int64, float64 or nil.
type Put struct {
	Path  crdt.Path
	Value any
}

// Delete removes the property at Path.
type Delete struct{ Path crdt.Path }

func (Splice) op()  {}
func (PutText) op() {}
func (PutMap) op()  {}
func (Put) op()     {}
func (Delete) op()  {}

// Value is what a document holds at a path: nil (also for "nothing there"), string, Text, bool, int64,
// uint64, float64, []byte, time.Time, Counter, []Value or map[string]Value.
type Value any

// Text is the content of a Text object, told apart from the scalar string.
type Text string

// Counter is the value of an Automerge counter.
type Counter int64

// BadChangeError says that the core refused a change, or that a chunk was no valid one.
type BadChangeError struct {
	Hash  crdt.Hash // zero when the chunk could not even be named
	Cause error
}

func (e *BadChangeError) Error() string {
	if e.Hash == (crdt.Hash{}) {
		return fmt.Sprintf("bad change: %v", e.Cause)
	}
	return fmt.Sprintf("bad change %s: %v", e.Hash, e.Cause)
}

func (e *BadChangeError) Unwrap() error { return e.Cause }

// OpError says that an edit cannot be done: the operation at Index has no such place to work on. The document is
// as before.
type OpError struct {
	Index int
	What  string
}

func (e *OpError) Error() string { return fmt.Sprintf("operation %d: %s", e.Index, e.What) }

// ErrUnknownVersion says that a version names a change that the document does not have.
var ErrUnknownVersion = errors.New("unknown version")

// ErrUnsavable says that a document cannot be saved: the core writes it in a form that it cannot load again, since
// one of its changes refers to something that is not there. Its changes one by one are as good as any.
var ErrUnsavable = errors.New("the document cannot be saved as a whole")
