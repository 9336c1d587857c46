package doc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// loadPage is how many change rows are read at once.
const loadPage = 1000

// load reads what a desk must know of the document without the engine, and completes its log.
func (d *desk) load(ctx context.Context) error {
	d.reread = true
	meta, err := d.lib.store.Document(ctx, d.id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("find document: %w", err)
	case !meta.Deletion.At.IsZero():
		return deleted(meta)
	case !meta.Block.At.IsZero():
		return blocked(meta)
	}
	d.exists = true
	d.stored.saved = int(meta.Bytes) // and the rows, until they are remembered
	saved, err := d.lib.store.Saved(ctx, d.id, false)
	if err != nil {
		return err
	}
	if saved.Upto > 0 {
		if err := d.readIndex(saved.Index); err != nil {
			return fmt.Errorf("read index of %s: %w", d.id, err)
		}
		if d.graph.Len() != int(saved.Upto) {
			return fmt.Errorf("read index of %s: it has %d changes, want %d", d.id, d.graph.Len(), saved.Upto)
		}
		d.upto, d.kept = int(saved.Upto), int(saved.Upto)
	}
	err = d.lib.eachRow(ctx, d.id, d.upto, func(row ChangeRow) error {
		t, err := d.loadRow(row)
		if err == nil && !row.Logged {
			d.folds.addRow(row, t)
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.flushFolds(ctx, true)
}

// eachRow goes over the rows of a document's changes behind a number.
func (l *Library) eachRow(ctx context.Context, id crdt.DocumentID, upto int, do func(ChangeRow) error) error {
	for after := int64(upto); ; {
		page, err := l.store.Changes(ctx, id, after, loadPage)
		if err != nil {
			return fmt.Errorf("read changes: %w", err)
		}
		for _, row := range page {
			if err := do(row); err != nil {
				return err
			}
			after = row.Number
		}
		if len(page) < loadPage {
			return nil
		}
	}
}

// loadRow takes a stored change into the graph and returns what it touches.
func (d *desk) loadRow(row ChangeRow) (touched, error) {
	changes, documents, err := crdt.ParseEntry(row.Raw, crdt.NoLimits)
	if err != nil {
		return touched{}, fmt.Errorf("read stored change %s: %w", row.Hash, err)
	}
	if len(changes) != 1 || len(documents) != 0 || changes[0].Hash != row.Hash {
		return touched{}, fmt.Errorf("read stored change %s: it is not what its name says", row.Hash)
	}
	t := d.remember(changes[0], row.Author)
	d.kept = d.graph.Len()
	d.stored.saved -= len(row.Raw)
	if d.graph.Len() != int(row.Number) {
		return touched{}, fmt.Errorf("read stored change %s: it is number %d, want %d", row.Hash, d.graph.Len(), row.Number)
	}
	return t, nil
}

// remember takes a change into the graph and returns what it touches.
func (d *desk) remember(c crdt.Change, author Agent) touched {
	d.graph.Add(c)
	d.stored.rows += len(c.Raw)
	d.tail.add(c.Hash, c.Raw, d.graph.Len()-d.kept)
	t := touchedBy(d.objects.Add(c))
	d.origins.add(author, t.sectionIDs())
	d.rememberIn(c, t)
	for sid := range t.sections {
		d.stale[sid] = true
	}
	if t.title || len(t.other) > 0 {
		d.reread = true
	}
	return t
}

// errPast ends going over rows that nobody asked for.
var errPast = errors.New("past the last row that is wanted")

// stored reads all that a document is stored as: the saved form and the rows behind it, up to a change. A compaction may put
// a new form in the place of rows between two looks; then it looks again.
func (l *Library) stored(ctx context.Context, id crdt.DocumentID, upto int) (chunk []byte, raws [][]byte, err error) {
	for range 3 {
		saved, err := l.store.Saved(ctx, id, true)
		if err != nil {
			return nil, nil, err
		}
		raws = raws[:0]
		last, follows := saved.Upto, true
		err = l.eachRow(ctx, id, int(saved.Upto), func(row ChangeRow) error {
			if row.Number > int64(upto) {
				return errPast
			}
			follows = follows && row.Number == last+1
			last = row.Number
			raws = append(raws, row.Raw)
			return nil
		})
		if err != nil && err != errPast {
			return nil, nil, err
		}
		if follows && last == int64(upto) {
			return saved.Chunk, raws, nil
		}
	}
	return nil, nil, fmt.Errorf("read stored document %s: its rows do not lead from the saved form to change %d", id, upto)
}

// storedForm is what of the document is stored: nothing of one that this step makes.
func (d *desk) storedForm(ctx context.Context) (chunk []byte, raws [][]byte, err error) {
	if !d.exists {
		return nil, nil, nil
	}
	return d.lib.stored(ctx, d.id, d.kept)
}

// parts is what the engine loads a stored document from.
func parts(chunk []byte, raws [][]byte) [][]byte {
	if chunk == nil {
		return raws
	}
	return append([][]byte{chunk}, raws...)
}

// engine gives the document in the engine, loading it if need be.
func (d *desk) engine(ctx context.Context) (engine.Document, error) {
	d.used = d.lib.now()
	if d.loaded != nil {
		return d.loaded, nil
	}
	chunk, raws, err := d.storedForm(ctx)
	if err != nil {
		return nil, err
	}
	doc, err := d.lib.engine.Load(ctx, d.id, parts(chunk, raws))
	if err != nil {
		err = unavailable("load document", err)
		d.lib.fault(d.id, err)
		return nil, err
	}
	d.lib.mended(d.id)
	d.loaded = doc
	d.lib.weigh(d)
	return doc, nil
}

// putAway lets the engine's document go, and what was read from it.
func (d *desk) putAway() {
	d.whole, d.unpacked = whole{}, unpacked{}
	d.lib.unweigh(d)
	if d.loaded == nil {
		return
	}
	if err := d.loaded.Close(); err != nil {
		d.lib.log.Error("close document", "document", d.id, "err", err)
	}
	d.loaded, d.content, d.reread, d.sequences = nil, content{}, true, nil
	clear(d.stale)
}

// unavailable says what an engine's error is to a caller. That it took too long, or that its worker ended, leaves
// the document as it was: who asked may come back. Any other error ends the desk.
func unavailable(doing string, err error) error {
	if errors.Is(err, engine.ErrTimeout) || errors.Is(err, engine.ErrWorker) || errors.Is(err, engine.ErrClosed) {
		return code.New(code.Busy, "the document cannot be worked on just now, ask again").Because(fmt.Errorf("%s: %w", doing, err))
	}
	if op := (*engine.OpError)(nil); errors.As(err, &op) {
		return code.New(code.BadRequest, "the document has no such place to write to").Because(fmt.Errorf("%s: %w", doing, err))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// tail is the bytes of the latest changes, which peers that keep up ask for, and of all that are not stored yet.
type tail struct {
	raws   map[crdt.Hash][]byte
	hashes []crdt.Hash // in order
	bytes  int
}

const (
	maxTail      = 1024
	maxTailBytes = 1 << 20
)

func newTail() tail { return tail{raws: map[crdt.Hash][]byte{}} }

// add takes in the latest change, with which so many are not stored.
func (t *tail) add(h crdt.Hash, raw []byte, unstored int) {
	t.raws[h] = raw
	t.hashes = append(t.hashes, h)
	t.bytes += len(raw)
	t.trim(unstored)
}

// trim drops the oldest changes, but for those that are not stored.
func (t *tail) trim(unstored int) {
	drop := 0
	for n := len(t.hashes); n > max(1, unstored) && (n > maxTail || t.bytes > maxTailBytes); n-- {
		old := t.hashes[drop]
		t.bytes -= len(t.raws[old])
		delete(t.raws, old)
		drop++
	}
	if drop > 0 {
		t.hashes = slices.Delete(t.hashes, 0, drop)
	}
}

// weight is what a document in the engine is taken to weigh, with what was unpacked of it, and when it was last needed.
type weight struct {
	bytes  int
	loaded bool // it is in the engine
	used   time.Time
}

// What the engine takes for a change and its operations: 470 MB were measured for 260,000 changes of one character.
const bytesPerChange = 1800

// weigh notes what the desk's document weighs in the engine, and asks the one that was not needed for longest to
// go where all are too heavy.
func (l *Library) weigh(d *desk) {
	w := weight{bytes: d.sequencesSize() + d.unpacked.bytes, loaded: d.loaded != nil, used: d.used}
	if w.loaded {
		w.bytes += bytesPerChange * d.graph.Len()
	} else if w.bytes == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weight += w.bytes - l.weights[d].bytes
	l.weights[d] = w
	if l.weight <= l.limits.EngineBytes {
		return
	}
	var oldest *desk
	for other, w := range l.weights {
		if other != d && (oldest == nil || w.used.Before(l.weights[oldest].used)) {
			oldest = other
		}
	}
	if oldest != nil {
		select {
		case oldest.unload <- struct{}{}:
		default:
		}
	}
}

func (l *Library) unweigh(d *desk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weight -= l.weights[d].bytes
	delete(l.weights, d)
}
