package doc

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

const (
	deskBatch = 64               // requests that share one commit
	deskIdle  = 30 * time.Second // a desk that nobody uses for so long lets its document go

)

// desk owns one open document. Its goroutine (run) takes requests in order, lets each stage what it does in
// the engine, stores all of it in one append, and only then answers and tells the peers. A failed append, or an
// engine in an unknown state, ends the desk: what is stored is the truth, and the next user opens it anew.
type desk struct {
	lib      *Library
	id       crdt.DocumentID
	requests chan *request
	ending   chan *code.Error // why it has to end, from end
	ended    chan struct{}    // closed when the goroutine is done; err is set before
	err      error

	// Guarded by lib.mu.
	users   int           // calls under way and attachments
	idle    time.Time     // when a user last left
	unused  *list.Element // its place among the desks without users; nil: it has some, or is to go
	leaving bool          // it is ending: new users wait for its end and open another

	standing *Meta // see Library.standing

	pause atomic.Int32  // while it waits for more requests: which of them, a patience
	wake  chan struct{} // another one has come

	unload   chan struct{} // the library wants the engine's memory for others
	unneeded chan struct{} // the library wants its place for others

	// All below is the goroutine's own.
	exists  bool
	wrote   bool      // since it was opened
	stepped time.Time // when peers were last told of something new
	pace    pace
	peers   map[*Attachment]struct{}
	feeds   feeds
	orphans []orphan
	folds   folds

	// What is known of the changes without the engine.
	graph   *crdt.Graph
	objects *crdt.Objects
	origins origins
	tail    tail
	upto    int // the number of the last change in the store's saved form; the graph numbers its changes alike
	kept    int // the number of the last one that is stored
	stored  stored
	whole   whole

	unpacked unpacked // until the document is put away

	compaction compaction

	// What only the engine can tell. The document is loaded when it is first needed, and let go after a while.
	loaded  engine.Document // nil: it is not. Only through engine()
	used    time.Time       // when it was last needed
	content content
	stale   map[SectionID]bool // sections whose content has to be read again
	reread  bool               // all of it has

	sequences map[SectionID]*crdt.Sequence // see sequence
}

// request is one thing to do at a desk.
type request struct {
	ctx  context.Context
	came time.Time // when it was put in the queue

	// Either: stage does it in the engine and adds to the step what is to be stored. A refusal (*code.Error) must leave
	// nothing behind; any other error ends the desk.
	stage func(*step) error
	// Or: it is to be merged. It may wait for others, see gatherPause.
	brought *brought

	alone bool // no other request shares its commit

	// done is told, once, what became of it: on the desk's goroutine, which it must not block, once the step is durable.
	done func(error)
}

// dropped says why a request is not to be served any more, if it is not.
func (r *request) dropped() error {
	if r.brought != nil && r.brought.from.barred != nil {
		return r.brought.from.barred
	}
	return r.ctx.Err()
}

// step is what a batch of requests adds to the document, in one transaction.
type step struct {
	Append
	create  *Meta // the document is made by this step
	changed bool  // the graph grew
	at      time.Time
}

func (s *step) empty() bool {
	return len(s.Changes) == 0 && len(s.Events) == 0 && len(s.Logged) == 0 && len(s.Calls) == 0 && s.Title == nil && s.Deletion == nil && s.create == nil
}

// errUnserved says that a desk ended before it came to a request, of which nothing was done. Why it ended is d.err.
var errUnserved = errors.New("the desk ended before")

// do has the desk serve a request and waits for its end.
func (d *desk) do(r *request) error {
	done := make(chan error, 1)
	r.done = func(err error) { done <- err }
	if err := d.put(r); err != nil {
		return err
	}
	return <-done
}

// put gives a request its place in the queue. An error says that it has none, and done is not called.
func (d *desk) put(r *request) error {
	r.came = d.lib.now()
	select {
	case d.requests <- r:
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-d.ended:
		return errUnserved
	}
	d.nudge(r)
	return nil
}

// offer is put for who cannot wait: false says that the queue is full, or the desk has ended.
func (d *desk) offer(r *request) bool {
	select {
	case <-d.ended:
		return false
	default:
	}
	r.came = d.lib.now()
	select {
	case d.requests <- r:
		d.nudge(r)
		return true
	default:
		return false
	}
}

// nudge sees to it that a request in the queue is come to.
func (d *desk) nudge(r *request) {
	if waits := patience(d.pause.Load()); waits > r.patience() || waits > none && len(d.requests) >= deskBatch {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	select {
	case <-d.ended:
		d.dismiss() // the desk may not have seen it
	default:
	}
}

// dismiss answers what an ended desk left in its queue.
func (d *desk) dismiss() {
	for {
		select {
		case r := <-d.requests:
			r.done(errUnserved)
		default:
			return
		}
	}
}

// end has the desk complete the log and end. It does not block; only the first reason counts.
func (d *desk) end(why *code.Error) {
	select {
	case d.ending <- why:
	default:
	}
}

// run is the desk's goroutine.
func (d *desk) run(ctx context.Context) {
	err := d.load(ctx)
	for err == nil {
		err = d.serveNext(ctx)
	}
	d.lib.leave(d)
	if !isRefused(err) {
		d.lib.fault(d.id, err)
	}
	refusal := code.From(err)
	for a := range d.peers {
		a.replica.Gone(d.id, refusal)
	}
	for f := range d.feeds.all {
		f.follower.Gone(d.id, refusal)
	}
	d.err = refusal
	d.settle()
	d.putAway()
	d.lib.forget(d)
	close(d.ended)
	d.dismiss()
}

// The ends of a desk that are nobody's fault.
var (
	errIdle    = code.New(code.Busy, "the document was just put away, ask again")
	errClosing = code.New(code.ShuttingDown, "the server is shutting down")
	errDeleted = code.New(code.DocumentDeleted, "this document was deleted")
)

// serveNext waits for something to do and does it. An error ends the desk.
func (d *desk) serveNext(ctx context.Context) error {
	wait := time.NewTimer(d.nextWake())
	defer wait.Stop()
	select {
	case r := <-d.requests:
		return d.serve(ctx, d.gather(r))
	case why := <-d.ending:
		if err := d.flushFolds(ctx, true); err != nil {
			return err
		}
		return why
	case c := <-d.compaction.done:
		d.compacted(c)
		return nil
	case <-d.unload:
		d.putAway()
		return nil
	case <-d.unneeded:
		return d.makeRoom(ctx)
	case <-wait.C:
		return d.rest(ctx)
	}
}

// rest is what a desk does when nobody asks anything of it. An error ends the desk.
func (d *desk) rest(ctx context.Context) error {
	if err := d.flushFolds(ctx, false); err != nil {
		return err
	}
	idle := d.lib.now().Sub(d.used) >= deskIdle
	if idle && d.folds.empty() {
		if d.wrote && d.compactable(compactIdle) {
			return d.compact(ctx)
		}
		d.putAway()
		if !d.compaction.running && d.lib.retire(d, deskIdle) {
			return errIdle
		}
	}
	return nil
}

// makeRoom ends the desk, unless somebody came meanwhile.
func (d *desk) makeRoom(ctx context.Context) error {
	if err := d.flushFolds(ctx, true); err != nil {
		return err
	}
	if d.wrote && d.compactable(compactIdle) {
		return d.compact(ctx)
	}
	if !d.compaction.running && d.lib.retire(d, 0) {
		return errIdle
	}
	return nil
}

func (d *desk) nextWake() time.Duration {
	if due, ok := d.folds.due(); ok {
		return max(0, due.Sub(d.lib.now()))
	}
	return deskIdle
}

// serve runs a batch. The last request may be one that must be alone.
func (d *desk) serve(ctx context.Context, batch []*request) error {
	if last := batch[len(batch)-1]; len(batch) > 1 && last.alone {
		if err := d.serve(ctx, batch[:len(batch)-1]); err != nil {
			last.done(code.From(err))
			return err
		}
		return d.serve(ctx, batch[len(batch)-1:])
	}
	s := &step{Append: Append{Expect: AnySeq}, at: d.lib.now()}
	results, fatal := d.stage(ctx, s, batch)
	if fatal == nil {
		fatal = d.commit(ctx, s)
	}
	for i, err := range results {
		if fatal != nil && !isRefused(err) {
			results[i] = code.From(fatal)
		}
	}
	d.answer(batch, results, fatal == nil && s.changed && s.Deletion == nil)
	if fatal != nil {
		return fatal
	}
	if s.Deletion != nil {
		return errDeleted
	}
	if s.changed {
		d.wrote = true
		if err := d.feed(ctx, s); err != nil {
			return err
		}
		d.stepped = d.lib.now()
		d.lib.weigh(d)
		if d.compactable(compactFrom) {
			return d.compact(ctx)
		}
	}
	return nil
}

// stage has requests stage what they do and gives what became of each. An error ends the desk.
func (d *desk) stage(ctx context.Context, s *step, batch []*request) (results []error, err error) {
	results = make([]error, len(batch))
	for i := 0; i < len(batch); {
		r, n, had := batch[i], 1, d.graph.Len()
		if why := r.dropped(); why != nil {
			results[i] = why
			i++
			continue
		}
		if r.brought != nil {
			all := d.together(s, batch[i:])
			n, err = len(all), d.merge(ctx, s, all...)
		} else {
			err = r.stage(s)
		}
		if err != nil && (!isRefused(err) || d.graph.Len() > had) { // what was merged and not staged cannot be taken back
			return results, err
		}
		for range n {
			results[i] = err
			i++
		}
	}
	return results, nil
}

// answer tells the peers what they lack, those who wrote first and each once of all that came of the batch, and then the
// callers what became of their requests: what a caller says next comes to no peer before what it had done.
func (d *desk) answer(batch []*request, results []error, changed bool) {
	for i, r := range batch {
		if results[i] == nil && r.brought != nil {
			r.brought.from.session.Receive(d.graph, r.brought.message)
		}
	}
	for i, r := range batch {
		if results[i] == nil && r.brought != nil {
			d.tell(r.brought.from)
		}
	}
	if changed {
		d.tellPeers()
	}
	for i, r := range batch {
		r.done(results[i])
	}
}

func isRefused(err error) bool {
	var refusal *code.Error
	return errors.As(err, &refusal)
}

// commit stores a step.
func (d *desk) commit(ctx context.Context, s *step) error {
	if s.empty() {
		return nil
	}
	if s.create != nil {
		if _, err := d.lib.store.Create(ctx, *s.create, s.Append); err != nil {
			if errors.Is(err, ErrSlugTaken) {
				return slugTaken(s.create.Slug)
			}
			return fmt.Errorf("create document: %w", err)
		}
		d.exists = true
		d.lib.announce(*s.create)
	} else if _, err := d.lib.store.Append(ctx, d.id, s.Append); err != nil {
		return fmt.Errorf("append to document: %w", err)
	}
	d.kept += len(s.Changes)
	d.tail.trim(0)
	return nil
}

// current brings the content up to date with the engine and returns it.
func (d *desk) current(ctx context.Context) (*content, error) {
	if len(d.stale) == 0 && !d.reread {
		return &d.content, nil
	}
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	if d.reread {
		root, err := doc.Read(ctx, nil, nil)
		if err != nil {
			return nil, unavailable("read document", err)
		}
		d.content = readContent(root, d.lib.limits.TitleBytes)
		d.reread = false
		clear(d.stale)
	}
	for sid := range d.stale {
		v, err := doc.Read(ctx, nil, sectionPath(sid))
		if err != nil {
			return nil, unavailable("read section", err)
		}
		if !d.content.readSection(string(sid), v) || slices.Contains(d.content.ignored, strings.Join(sectionPath(sid), "/")) {
			d.reread = true // to name what does not fit, and no more than that
			clear(d.stale)
			return d.current(ctx)
		}
	}
	clear(d.stale)
	return &d.content, nil
}

func (d *desk) version() crdt.Version { return crdt.VersionOf(d.graph.Heads()) }

// edit has the engine make one change of operations typed on base (nil: now) and stages it.
func (d *desk) edit(ctx context.Context, s *step, author Agent, base []crdt.Hash, ops []engine.Op) (*crdt.Change, error) {
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	c, err := doc.Edit(ctx, base, s.at, ops)
	if err != nil {
		return nil, unavailable("edit document", err)
	}
	d.stageEdit(s, c, author)
	return c, nil
}

// stageEdit stages a change that the engine made; nil is none.
func (d *desk) stageEdit(s *step, c *crdt.Change, author Agent) {
	if c == nil {
		return
	}
	t := d.remember(*c, author)
	s.changed = true
	s.Changes = append(s.Changes, d.row(*c, author, t, s.at))
}

// row is how the change that was just remembered is stored: logged with this step.
func (d *desk) row(c crdt.Change, author Agent, t touched, at time.Time) ChangeRow {
	return ChangeRow{Number: int64(d.graph.Len()), Hash: c.Hash, Author: author, Sections: t.sectionIDs(), Logged: true, At: at, Raw: c.Raw}
}

// event stages an event.
func (d *desk) event(s *step, t EventType, actor Agent, payload any) error {
	id, err := d.lib.ids.event()
	if err != nil {
		return err
	}
	e, err := MakeEvent(id, t, actor, s.at, payload)
	if err != nil {
		return err
	}
	s.Events = append(s.Events, e)
	return nil
}
