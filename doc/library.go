package doc

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Library is the door to all documents. Its methods check what the key may do; refusals are *code.Error.
// It may be used concurrently.
type Library struct {
	store  Store
	engine engine.Engine
	leases *lease.Keeper
	limits Limits
	now    func() time.Time
	random io.Reader
	ids    ids
	log    *slog.Logger

	ctx  context.Context // of the desks; ends after they have
	stop context.CancelFunc
	wg   sync.WaitGroup // the desks

	saving chan struct{} // holds one while a compaction is at saveStored

	calls turns // of writes with an Idempotency-Key that are no edits

	mu      sync.Mutex // guards the fields below, and users and idle of each desk; never held over I/O
	desks   map[crdt.DocumentID]*desk
	weights map[*desk]weight // of the documents in the engine, and those that were unpacked
	weight  int              // the sum
	unused  list.List        // of desks without users, the one that was left first at the front
	faults  map[crdt.DocumentID]Fault
	closed  bool
	created func(Meta)

	standings uint64 // changes of any document's standing, see restand
}

// Options of a library. Store, Engine and Leases are required.
type Options struct {
	Store  Store
	Engine engine.Engine
	Leases *lease.Keeper
	Limits Limits
	Now    func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
	Log    *slog.Logger     // nil: discards
}

// Limits, named once. A zero field takes its default.
type Limits struct {
	MarkdownBytes int // of a document brought in at once; 4 MiB
	SavedBytes    int // of a saved document brought in at once; 32 MiB
	SectionBytes  int // of one section's text written through the server; 1 MiB
	Sections      int // of a document brought in or grown through the server; 2,000
	TitleBytes    int // 512
	MessageBytes  int // of a posted event's payload; 64 KiB
	PostedBytes   int // of the payloads of all that is posted to a document (Meta.Posted), before it takes in no more; 64 MiB
	ChangeBytes   int // of one change that is brought in, after inflation; 16 MiB
	Shares        int // live share links of a document; 100
	DocumentBytes int // that a document may take in the store before it takes in no more changes (Meta.Bytes); 64 MiB
	EngineBytes   int // of all documents that the engine holds, as estimated; 2 GiB
	Unused        int // documents that nobody has open and that are kept for who comes back; 1,024
	Queue         int // requests that wait at one desk; 256
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.MarkdownBytes, 4 << 20}, {&l.SavedBytes, 32 << 20}, {&l.SectionBytes, 1 << 20}, {&l.Sections, 2000}, {&l.TitleBytes, 512},
		{&l.MessageBytes, 64 << 10}, {&l.PostedBytes, 64 << 20}, {&l.ChangeBytes, 16 << 20}, {&l.DocumentBytes, 64 << 20},
		{&l.Shares, 100}, {&l.EngineBytes, 2 << 30}, {&l.Unused, 1024}, {&l.Queue, 256},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

func (l Limits) change() crdt.Limits { return crdt.Limits{ChangeBytes: l.ChangeBytes} }

// Open starts a library. Close ends it.
func Open(opts Options) (*Library, error) {
	if opts.Store == nil || opts.Engine == nil || opts.Leases == nil {
		return nil, errors.New("open library: store, engine and leases are required")
	}
	l := &Library{
		store: opts.Store, engine: opts.Engine, leases: opts.Leases, limits: opts.Limits.withDefaults(),
		now: opts.Now, random: opts.Random, log: opts.Log, desks: map[crdt.DocumentID]*desk{}, weights: map[*desk]weight{},
		faults: map[crdt.DocumentID]Fault{}, saving: make(chan struct{}, 1),
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.random == nil {
		l.random = rand.Reader
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.ids = newIDs(l.random)
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Close completes the logs, tells every replica to come back (SHUTTING_DOWN), and ends all desks. When ctx ends
// first it returns with ctx's error, and whatever is not in the logs yet is logged when its document is next opened.
func (l *Library) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		for _, d := range l.desks {
			d.end(errClosing)
		}
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	defer l.stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close library: %w", ctx.Err())
	}
}

// Leases is the lease keeper.
func (l *Library) Leases() *lease.Keeper { return l.leases }

// Limits are those in force.
func (l *Library) Limits() Limits { return l.limits }

// OnCreated has fn called whenever a document came to be, or came to be called something else: more keys may cover it
// now. fn must not block. It is set once, before the library is used.
func (l *Library) OnCreated(fn func(Meta)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created = fn
}

func (l *Library) announce(m Meta) {
	l.mu.Lock()
	fn := l.created
	l.mu.Unlock()
	if fn != nil {
		fn(m)
	}
}

// open gives the document's desk, opening it if need be. The caller releases it.
func (l *Library) open(ctx context.Context, id crdt.DocumentID) (*desk, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, errClosing
		}
		d, ok := l.desks[id]
		if !ok {
			d = l.newDesk(id)
			l.desks[id] = d
			l.wg.Go(func() { d.run(l.ctx) })
		}
		if !d.leaving {
			d.users++
			l.isUsed(d)
			l.mu.Unlock()
			return d, nil
		}
		l.mu.Unlock()
		select { // the former desk still holds the engine's document
		case <-d.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *Library) newDesk(id crdt.DocumentID) *desk {
	return &desk{
		lib: l, id: id, requests: make(chan *request, l.limits.Queue),
		ending: make(chan *code.Error, 1), ended: make(chan struct{}),
		wake: make(chan struct{}, 1), unload: make(chan struct{}, 1), unneeded: make(chan struct{}, 1), compaction: compaction{done: make(chan compactionEnd, 1)},
		graph: crdt.NewGraph(), objects: crdt.NewObjects(), tail: newTail(),
		stale: map[SectionID]bool{}, peers: map[*Attachment]struct{}{},
	}
}

// release ends a use. When it was the last, and too many desks are unused, the one that was left first has to go.
func (l *Library) release(d *desk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.users--
	d.idle = l.now()
	if d.users > 0 || d.leaving {
		return
	}
	d.unused = l.unused.PushBack(d)
	if l.unused.Len() > l.limits.Unused {
		first := l.unused.Front().Value.(*desk)
		l.isUsed(first)
		select {
		case first.unneeded <- struct{}{}:
		default:
		}
	}
}

// isUsed takes a desk off the list of unused ones. The caller holds the lock.
func (l *Library) isUsed(d *desk) {
	if d.unused != nil {
		l.unused.Remove(d.unused)
		d.unused = nil
	}
}

// retire says whether nobody has used the desk for so long, in which case it is now leaving: no more users find it.
func (l *Library) retire(d *desk, after time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.users > 0 || l.now().Sub(d.idle) < after {
		return false
	}
	d.leaving = true
	l.isUsed(d)
	return true
}

// forget takes an ended desk out.
func (l *Library) forget(d *desk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.desks, d.id)
}

// leave keeps new users from a desk that is ending.
func (l *Library) leave(d *desk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.leaving = true
	l.isUsed(d)
}

// at runs a request at a document's desk. When the desk ends before it came to it, another one is tried, once.
func (l *Library) at(ctx context.Context, id crdt.DocumentID, r func(*desk) *request) error {
	for tried := false; ; tried = true {
		d, err := l.open(ctx, id)
		if err != nil {
			return err
		}
		q := r(d)
		q.ctx = ctx
		err = d.do(q)
		l.release(d)
		if err == errUnserved && tried {
			return d.err
		}
		if err != errUnserved {
			return err
		}
	}
}

// act says to the keeper that an agent acted in sections: its own leases there are extended, because a
// language model has no timer.
func (l *Library) act(ctx context.Context, agent Agent, id crdt.DocumentID, sections []SectionID) {
	for _, sid := range sections {
		r := SectionResource(id, sid)
		for _, held := range l.leases.Status(r).Holders {
			if held.Holder != agent {
				continue
			}
			// The write stands whatever becomes of the lease.
			if _, err := l.leases.Do(ctx, lease.Act{Resource: r, Agent: agent}); err != nil && ctx.Err() == nil {
				l.log.Error("renew lease by acting", "resource", r, "agent", agent, "err", err)
			}
		}
	}
}

// holdsAny says whether the agent has a lease on any of the sections.
func (l *Library) holdsAny(agent Agent, id crdt.DocumentID, sections []SectionID) bool {
	return slices.ContainsFunc(sections, func(sid SectionID) bool {
		holders := l.leases.Status(SectionResource(id, sid)).Holders
		return slices.ContainsFunc(holders, func(held lease.Lease) bool { return held.Holder == agent })
	})
}

// heldByOthers is the leases of others on a section, the one that ends last first.
func (l *Library) heldByOthers(agent Agent, id crdt.DocumentID, sid SectionID) []lease.Lease {
	holders := l.leases.Status(SectionResource(id, sid)).Holders
	return slices.DeleteFunc(slices.Clone(holders), func(held lease.Lease) bool { return held.Holder == agent })
}

func documentNotFound(ref string) *code.Error {
	return code.New(code.DocumentNotFound, "there is no document %q", ref)
}

func forbidden(why string) *code.Error { return code.New(code.Forbidden, "%s", why) }

func slugTaken(s Slug) *code.Error {
	return code.New(code.SlugTaken, "the slug %q is taken, or was once", s).With("slug", s)
}

// OpenDocuments is how many documents have a desk.
func (l *Library) OpenDocuments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.desks)
}

// EngineDocuments is how many documents are loaded in the engine.
func (l *Library) EngineDocuments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, w := range l.weights {
		if w.loaded {
			n++
		}
	}
	return n
}
