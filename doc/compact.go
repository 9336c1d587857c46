package doc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// A document is compacted when so many changes came since it last was, and a quarter of all; when nobody has used it for a
// while, fewer are enough. So the cost of compaction is a constant for each change, whatever the history. Changes that take a quarter of
// what a document may take are compacted however few they are: what it may take is not to be used up by rows.
const (
	compactFrom = 1024
	compactIdle = 64
	compactPart = 4
)

// compaction is one under way: at most one for a document.
type compaction struct {
	running bool
	upto    int
	retry   int        // not before the document has so many changes
	never   bool       // the engine cannot save the document: its changes are kept one by one
	makes   stored     // what it puts in the place of which rows
	done    chan error // receives once for each that was begun
}

// settle waits for the end of a compaction under way. Before it, what the store has may change from one look to the next:
// rows go when the saved form comes.
func (d *desk) settle() {
	if d.compaction.running {
		d.compacted(<-d.compaction.done)
	}
}

func (d *desk) compactable(from int) bool {
	n := d.graph.Len()
	if n < d.compaction.retry || d.compaction.running || d.compaction.never {
		return false
	}
	grown := n - d.upto
	if d.stored.rows > d.lib.limits.DocumentBytes/compactPart {
		return grown > 0
	}
	return grown >= from && (from <= compactIdle || compactPart*grown >= n)
}

// stored is the bytes that a document takes in the store.
type stored struct {
	saved int // its saved form and the index
	rows  int
}

// hasRoom refuses what would make the document larger than it may be, DOCUMENT_FULL.
func (d *desk) hasRoom(bytes int) *code.Error {
	limit := d.lib.limits.DocumentBytes
	if d.stored.saved+d.stored.rows+bytes <= limit {
		return nil
	}
	return code.New(code.DocumentFull, "the document has %d bytes, at most %d are taken", d.stored.saved+d.stored.rows, limit).With("limit", limit)
}

func rawBytes(changes []crdt.Change) (sum int) {
	for _, c := range changes {
		sum += len(c.Raw)
	}
	return sum
}

// compact makes the saved form and the index of the document as it is and has them stored in the background. The
// rows go only in the transaction that brings the saved form, and only when that names the heads that the graph
// has. Nothing that was acknowledged is ever without one of the two.
func (d *desk) compact(ctx context.Context) error {
	if err := d.flushFolds(ctx, true); err != nil { // only changes that are in the log can lose their rows
		return err
	}
	d.compaction.upto = d.graph.Len()
	saved, err := d.prepare(ctx)
	if err != nil {
		d.compacted(err)
		return nil
	}
	d.compaction.running, d.compaction.makes = true, stored{len(saved.Chunk) + len(saved.Index), d.stored.rows}
	d.lib.wg.Go(func() { d.compaction.done <- d.lib.store.Compact(ctx, d.id, saved) })
	return nil
}

func (d *desk) prepare(ctx context.Context) (Saved, error) {
	chunk, err := d.save(ctx)
	if err != nil {
		return Saved{}, err
	}
	index, err := d.makeIndex()
	if err != nil {
		return Saved{}, fmt.Errorf("make index: %w", err)
	}
	return Saved{Upto: int64(d.graph.Len()), Chunk: chunk, Index: index}, nil
}

// save has the engine write the document, and checks that it is the one that the graph knows.
func (d *desk) save(ctx context.Context) ([]byte, error) {
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	chunk, err := doc.Save(ctx)
	if err != nil {
		return nil, unavailable("save document", err)
	}
	heads, err := crdt.SavedHeads(chunk)
	if err != nil {
		return nil, fmt.Errorf("save document: %w", err)
	}
	if !slices.Equal(heads, d.graph.Heads()) {
		return nil, fmt.Errorf("save document: the engine has other heads than the graph")
	}
	return chunk, nil
}

// compacted notes how a compaction ended. One that failed is tried again when the document has grown some more.
func (d *desk) compacted(err error) {
	d.compaction.running = false
	if err != nil {
		d.lib.log.Error("compact document", "document", d.id, "err", err)
		d.compaction.retry = d.graph.Len() + compactIdle
		d.compaction.never = errors.Is(err, engine.ErrUnsavable)
		return
	}
	d.upto = d.compaction.upto
	d.stored = stored{d.compaction.makes.saved, d.stored.rows - d.compaction.makes.rows}
}
