package doc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// A document is compacted when so many changes came since it last was, and a quarter of all; when nobody has used it for a
// while, fewer are enough. So the cost of compaction is a constant for each change, whatever the history. Changes that take a quarter of
// what a document may take are compacted however few they are: what it may take is not to be used up by rows.
// And so is a document whose rows are long, and long beside its saved form: a change made beside many others names them all.
const (
	compactFrom  = 1024
	compactIdle  = 64
	compactPart  = 4
	compactBytes = 1 << 20
)

// compaction is one under way: at most one for a document.
type compaction struct {
	running bool
	upto    int
	rows    int                // what those that it replaces take
	retry   int                // not before the document has so many changes
	never   bool               // the engine cannot save the document: its changes are kept one by one
	done    chan compactionEnd // receives once for each that was begun
}

// compactionEnd is how a compaction ended: with what it stored, or an error.
type compactionEnd struct {
	Saved
	err error
}

// settle waits for the end of a compaction under way, of a desk that serves nobody any more.
func (d *desk) settle() {
	for d.compaction.running {
		select {
		case c := <-d.compaction.done:
			d.compacted(c)
		case r := <-d.requests: // peers that were told that it ends detach
			r.done(errUnserved)
		}
	}
}

func (d *desk) compactable(from int) bool {
	n := d.graph.Len()
	if n < d.compaction.retry || d.compaction.running || d.compaction.never {
		return false
	}
	grown := n - d.upto
	if d.stored.rows > min(d.lib.limits.DocumentBytes/compactPart, max(compactBytes, compactPart*d.stored.saved)) {
		return grown > 0
	}
	return grown >= from && (from <= compactIdle || compactPart*grown >= n)
}

// stored is the bytes that a document takes in the store.
type stored struct {
	saved int // its saved form and the index
	rows  int
}

// maxNumber is the greatest number of an operation behind which there is room for a change of as many as are taken: numbers
// have 32 bits.
const maxNumber = math.MaxUint32 - crdt.DefaultOps

// hasRoom refuses what would make the document larger than it may be, DOCUMENT_FULL.
func (d *desk) hasRoom(bytes int) *code.Error {
	if d.graph.MaxOp() > maxNumber {
		return code.New(code.DocumentFull, "the numbers for the document's operations are used up").With("limit", maxNumber)
	}
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

// compact has the saved form and the index of the document as it is made and stored, beside the document, which goes on. The
// rows go only in the transaction that brings the saved form, and only when that names the heads that the graph
// had. Nothing that was acknowledged is ever without one of the two.
func (d *desk) compact(ctx context.Context) error {
	if err := d.flushFolds(ctx, true); err != nil { // only changes that are in the log can lose their rows
		return err
	}
	index, err := d.makeIndex()
	d.compaction.upto, d.compaction.rows = d.graph.Len(), d.stored.rows
	if err != nil {
		d.compacted(compactionEnd{err: fmt.Errorf("make index: %w", err)})
		return nil
	}
	d.compaction.running = true
	saved, heads := Saved{Upto: int64(d.graph.Len()), Index: index}, slices.Clone(d.graph.Heads())
	d.lib.wg.Go(func() { d.compaction.done <- d.lib.compact(ctx, d.id, saved, heads) })
	return nil
}

// compact makes the chunk of a saved form, which is to name the heads, of the one before and the rows behind it, and stores it.
func (l *Library) compact(ctx context.Context, id crdt.DocumentID, saved Saved, heads []crdt.Hash) compactionEnd {
	var err error
	if saved.Chunk, err = l.saveStored(ctx, id, int(saved.Upto)); err != nil {
		return compactionEnd{err: err}
	}
	if err := namesHeads(saved.Chunk, heads); err != nil {
		return compactionEnd{err: err}
	}
	return compactionEnd{saved, l.store.Compact(ctx, id, saved)}
}

// saveStored makes one saved chunk of all that a document is stored as, up to a change. One at a time: the engine has one
// worker for it, and what waits for that would wait with whole documents in hand.
func (l *Library) saveStored(ctx context.Context, id crdt.DocumentID, upto int) ([]byte, error) {
	select {
	case l.saving <- struct{}{}:
		defer func() { <-l.saving }()
	case <-ctx.Done():
		return nil, fmt.Errorf("save document: %w", ctx.Err())
	}
	chunk, raws, err := l.stored(ctx, id, upto)
	if err != nil {
		return nil, err
	}
	saved, err := l.engine.Save(ctx, parts(chunk, raws))
	if err != nil {
		return nil, unavailable("save document", err)
	}
	return saved, nil
}

// namesHeads says that a saved document is the one that the graph knows.
func namesHeads(chunk []byte, want []crdt.Hash) error {
	heads, err := crdt.SavedHeads(chunk)
	if err != nil {
		return fmt.Errorf("save document: %w", err)
	}
	if !slices.Equal(heads, want) {
		return errors.New("save document: the engine has other heads than the graph")
	}
	return nil
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
	return chunk, namesHeads(chunk, d.graph.Heads())
}

// compacted notes how a compaction ended. One that failed is tried again when the document has grown some more.
func (d *desk) compacted(c compactionEnd) {
	d.compaction.running = false
	if c.err != nil {
		d.lib.log.Error("compact document", "document", d.id, "err", c.err)
		d.compaction.retry = d.graph.Len() + compactIdle
		d.compaction.never = errors.Is(c.err, engine.ErrUnsavable)
		return
	}
	d.upto = d.compaction.upto
	d.stored = stored{len(c.Chunk) + len(c.Index), d.stored.rows - d.compaction.rows}
	if d.loaded == nil {
		return
	}
	after, err := d.Raw(d.graph.From(d.upto), true)
	if err != nil {
		d.lib.log.Error("read what came during a compaction", "document", d.id, "err", err)
		return
	}
	d.loaded.Rebase(append([][]byte{c.Chunk}, after...))
}
