package doc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cowrite/crdt"
	"cowrite/crdt/engine"
)

// A document is compacted when so many changes came since it last was, and a quarter of all; when nobody has used it for a
// while, fewer are enough. So the cost of compaction is a constant for each change, whatever the history.
const (
	compactFrom = 1024
	compactIdle = 64
)

// compaction is one under way: at most one for a document.
type compaction struct {
	running bool
	upto    int
	retry   int        // not before the document has so many changes
	never   bool       // the engine cannot save the document: its changes are kept one by one
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
	grown := n - d.upto
	if from > compactIdle && 4*grown < n {
		return false
	}
	return grown >= from && n >= d.compaction.retry && !d.compaction.running && !d.compaction.never
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
	d.compaction.running = true
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
}
