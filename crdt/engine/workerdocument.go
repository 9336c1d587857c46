package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cowrite/crdt"
)

// workerDocument is a document in a worker. It outlives the worker: from its journal it is loaded into another one
// when next needed.
type workerDocument struct {
	workers *workers
	seat    *seat
	journal journal
	closed  bool

	foreign   bool // others' changes came since a saved form was last seen to be good
	unsavable bool

	generation uint64 // of the process that has it loaded; 0 is none
	number     uint64 // its number there
}

// journal is what the document is made of: its parts as they were loaded, or saved since, and what came after. It
// holds nothing that a call which failed may have done.
type journal struct {
	parts [][]byte
	bytes int // of all parts
	saved int // of them, as of the last save
}

func (j *journal) add(part []byte) {
	j.parts = append(j.parts, part)
	j.bytes += len(part)
}

// replace puts a saved form and what came after it in the place of all.
func (j *journal) replace(saved []byte, after ...[]byte) {
	*j = journal{parts: [][]byte{saved}, bytes: len(saved), saved: len(saved)}
	for _, part := range after {
		j.add(part)
	}
}

// A journal is saved afresh when it is longer than compactFrom bytes and than compactFactor times what it was when last
// saved: one character typed takes about a hundred bytes as a change and half of one in a saved document. That holds
// the document up, and is for an owner that does not give it a shorter form before.
const (
	compactFrom   = 4 << 20
	compactFactor = 16
)

func (j *journal) long() bool { return j.bytes > max(compactFrom, compactFactor*j.saved) }

// attempt makes one call on the document's worker, into which it is loaded if it is not there. loaded says
// whether the call itself was made.
func (d *workerDocument) attempt(ctx context.Context, q request) (a reply, loaded bool, err error) {
	if d.closed {
		return a, false, ErrClosed
	}
	err = d.workers.with(ctx, d.seat, func(p *process) error {
		if d.generation != d.seat.generation {
			d.seat.lastDoc++
			d.number = d.seat.lastDoc
			if _, err := p.call(request{Method: methodLoad, Doc: d.number, Parts: d.journal.parts}); err != nil {
				return fmt.Errorf("load: %w", err)
			}
			d.generation = d.seat.generation
		}
		loaded = true
		if q.Method == methodHello {
			return nil // it was to be loaded, and no more
		}
		q.Doc = d.number
		a, err = p.call(q)
		if a.Fault == faultOther { // its state is unknown
			d.forget()
		}
		return err
	})
	return a, loaded, err
}

// forget has the document loaded afresh when it is next needed.
func (d *workerDocument) forget() {
	if d.generation != 0 {
		d.seat.mu.Lock()
		d.seat.leaving = append(d.seat.leaving, d.number)
		d.seat.mu.Unlock()
		d.generation = 0
	}
}

// call makes a call that is not to blame if the worker ends: it is made again.
func (d *workerDocument) call(ctx context.Context, q request) (a reply, err error) {
	for range attempts {
		a, _, err = d.attempt(ctx, q)
		var dead *death
		if !errors.As(err, &dead) || dead.cause == expired {
			break
		}
	}
	return a, outcome(err)
}

func (d *workerDocument) Apply(ctx context.Context, changes []crdt.Change) error {
	known := slices.IndexFunc(changes, func(c crdt.Change) bool { return d.workers.convicts.has(c.Hash) })
	if known >= 0 {
		if err := d.apply(ctx, changes[:known]); err != nil {
			return err
		}
		return &BadChangeError{Hash: changes[known].Hash, Cause: errConvict}
	}
	return d.apply(ctx, changes)
}

func (d *workerDocument) apply(ctx context.Context, changes []crdt.Change) (err error) {
	if len(changes) == 0 {
		return nil
	}
	for range attempts {
		var loaded bool
		_, loaded, err = d.attempt(ctx, applyRequest(changes...))
		var dead *death
		switch {
		case !errors.As(err, &dead):
			return d.applied(ctx, changes, err)
		case loaded && dead.cause != killed:
			return d.isolate(ctx, changes)
		case dead.cause == expired:
			return outcome(err)
		}
	}
	return outcome(err)
}

func applyRequest(changes ...crdt.Change) request {
	q := request{Method: methodApply}
	for _, c := range changes {
		q.Parts = append(q.Parts, c.Plain())
	}
	return q
}

// applied writes down what an apply did that came back with err, and gives err on.
func (d *workerDocument) applied(ctx context.Context, changes []crdt.Change, err error) error {
	var bad *BadChangeError
	switch {
	case err == nil:
	case errors.As(err, &bad):
		i := slices.IndexFunc(changes, func(c crdt.Change) bool { return c.Hash == bad.Hash })
		changes = changes[:max(i, 0)]
	default:
		return err
	}
	for _, c := range changes {
		d.journal.add(c.Raw)
		d.foreign = true
	}
	d.compact(ctx)
	return err
}

// isolate applies changes that ended a worker, each in the spare worker first. What ends that too is refused and
// remembered; those before it are applied. After any other error none is.
func (d *workerDocument) isolate(ctx context.Context, changes []crdt.Change) (err error) {
	before := d.journal
	defer func() {
		if bad := (*BadChangeError)(nil); err != nil && !errors.As(err, &bad) {
			d.journal = before
			d.forget()
		}
	}()
	var rehearsed *process // that has the document, and the changes before, as number
	var number uint64
	spare := d.workers.spare
	defer func() {
		if rehearsed != nil {
			d.workers.leave(spare, number)
		}
	}()
	for _, c := range changes {
		blamed := false
		_, err := d.workers.try(ctx, spare, func(p *process) (reply, error) {
			blamed = false
			if p != rehearsed {
				spare.lastDoc++
				number = spare.lastDoc
				if a, err := p.call(request{Method: methodLoad, Doc: number, Parts: d.journal.parts}); err != nil {
					return a, fmt.Errorf("load: %w", err)
				}
				rehearsed = p
			}
			blamed = true
			q := applyRequest(c)
			q.Doc = number
			return p.call(q)
		})
		var dead *death
		var bad *BadChangeError
		switch {
		case err == nil:
			if _, err = d.call(ctx, applyRequest(c)); err != nil {
				return err
			}
			d.journal.add(c.Raw)
			d.foreign = true
		case errors.As(err, &bad) && blamed:
			return err
		case errors.As(err, &dead) && dead.cause == crashed && blamed:
			d.workers.convicts.add(c.Hash)
			return &BadChangeError{Hash: c.Hash, Cause: err}
		default:
			return outcome(err)
		}
	}
	d.compact(ctx)
	return nil
}

func (d *workerDocument) Edit(ctx context.Context, base []crdt.Hash, at time.Time, ops []Op) (*crdt.Change, error) {
	change, _, err := d.EditRead(ctx, base, at, ops, nil)
	return change, err
}

func (d *workerDocument) EditRead(ctx context.Context, base []crdt.Hash, at time.Time, ops []Op, path crdt.Path) (change *crdt.Change, v Value, err error) {
	a, err := d.call(ctx, request{Method: methodEdit, Heads: toWireHeads(base), At: at.Unix(), Ops: toWireOps(ops), Path: path})
	if err != nil {
		return nil, nil, err
	}
	if len(a.Parts) > 0 {
		changes, _, err := crdt.ParseEntry(a.Parts[0], crdt.NoLimits)
		if err != nil {
			d.forget()
			return nil, nil, fmt.Errorf("read change: %w", err)
		}
		change = &changes[0]
		d.journal.add(change.Raw)
		d.compact(ctx)
	}
	if a.Value != nil {
		v = fromWireValue(*a.Value)
	}
	return change, v, nil
}

func (d *workerDocument) Read(ctx context.Context, at []crdt.Hash, path crdt.Path) (Value, error) {
	a, err := d.call(ctx, request{Method: methodRead, Heads: toWireHeads(at), Path: path})
	if err != nil {
		return nil, err
	}
	return fromWireValue(*a.Value), nil
}

// Save has the spare worker load what was saved before anything relies on it.
func (d *workerDocument) Save(ctx context.Context) ([]byte, error) {
	if d.unsavable {
		return nil, ErrUnsavable
	}
	a, err := d.call(ctx, request{Method: methodSave})
	if err != nil {
		return nil, err
	}
	saved := a.Parts[0]
	if d.foreign {
		if err := d.workers.verify(ctx, d.workers.spare, saved); err != nil {
			d.unsavable = errors.Is(err, ErrUnsavable)
			return nil, err
		}
		d.foreign = false
	}
	d.journal.replace(saved)
	return saved, nil
}

// Rebase shortens the journal.
func (d *workerDocument) Rebase(parts [][]byte) {
	d.journal.replace(parts[0], parts[1:]...)
	d.foreign = len(parts) > 1
}

// compact shortens the journal when it is time. When that fails the journal is as good as before, and the next write
// tries again.
func (d *workerDocument) compact(ctx context.Context) {
	if d.journal.long() && !d.unsavable {
		_, _ = d.Save(ctx)
	}
}

func (d *workerDocument) Close() error {
	if !d.closed {
		d.closed = true
		d.journal = journal{}
		if d.generation != 0 {
			d.workers.leave(d.seat, d.number)
		}
	}
	return nil
}
