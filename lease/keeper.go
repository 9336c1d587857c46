package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Store is where a keeper's state lives.
type Store interface {
	// LoadLeases returns what was last saved.
	LoadLeases(ctx context.Context) (State, error)
	// SaveLeases makes commits durable, records and events, all of them or none. On an error it is unknown
	// whether they were.
	SaveLeases(ctx context.Context, commits []Commit) error
}

// Options of a keeper. The zero value is safe.
type Options struct {
	Now      func() time.Time    // must not run backwards; nil: the monotonic clock
	NewID    func() ID           // nil: random UUIDs
	Class    func(Resource) bool // may two reads of it share? nil: DefaultClass
	PerAgent int                 // leases and places of one agent; 0: DefaultPerAgent
	Observe  func(Commit)        // told of each commit once it is durable, in order; must not block
	Log      *slog.Logger        // nil: discards
}

// Limits of a keeper.
const (
	SweepEvery  = 15 * time.Second // the longest that what has ended stays unnoticed, were a timer to fail
	MaxWait     = 60 * time.Second // of a long poll
	SaveTimeout = 30 * time.Second // of one call to the store

	queueLength = 256 // commands that wait, and commands saved together
	retryAfter  = time.Second
)

// ErrClosed is the error of what was asked of a keeper that is closed.
var ErrClosed = errors.New("lease keeper is closed")

// Keeper keeps leases for concurrent callers: what it answers is durable.
//
// One goroutine owns the kernel. It takes the commands that have come in, runs them, saves what they changed in
// one call and only then answers. When saving fails all of them fail, and nothing is answered any more before the
// state was read anew: an unknown state never grants.
//
// The reads (Status, List, Agent, TakeLost) show what is durable, do no I/O and never wait for any. A read that
// begins after a command was answered shows its effect.
type Keeper struct {
	store   Store
	now     func() time.Time
	newID   func() ID
	observe func(Commit)
	log     *slog.Logger

	requests chan *request
	closing  chan struct{}
	close    sync.Once
	done     chan struct{} // closed when the loop has ended

	// The loop's own.
	kernel  *Kernel
	polls   polls
	last    time.Time // of the last batch
	unknown bool      // whether the kernel may differ from the store

	mu      sync.RWMutex // guards what follows; held for no I/O
	durable *Kernel      // what the store has
	lost    lostLeases
}

// Open loads the state, ends what ran out since it was saved, and starts the loop.
func Open(ctx context.Context, store Store, opts Options) (*Keeper, error) {
	k := &Keeper{
		store: store, now: opts.Now, newID: opts.NewID, observe: opts.Observe, log: opts.Log,
		requests: make(chan *request, queueLength),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
		kernel:   NewKernel(KernelOptions{Class: opts.Class, PerAgent: opts.PerAgent}),
		durable:  NewKernel(KernelOptions{Class: opts.Class, PerAgent: opts.PerAgent}),
		polls:    make(polls),
		lost:     lostLeases{byAgent: make(map[Agent][]Event)},
	}
	if k.now == nil {
		k.now = newClock(time.Now, monotonic())
	}
	if k.newID == nil {
		k.newID = func() ID { return ID(uuid.NewString()) }
	}
	if k.observe == nil {
		k.observe = func(Commit) {}
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	b := k.newBatch()
	if err := k.reload(ctx, b); err != nil {
		return nil, err
	}
	if err := k.save(ctx, b); err != nil {
		return nil, err
	}
	go k.loop()
	return k, nil
}

// Now is the keeper's clock: it follows the monotonic clock from the wall time at which the keeper was opened.
func (k *Keeper) Now() time.Time { return k.now() }

// Do runs one command and returns when what it changed is durable. An empty NewID is filled in. Errors are
// *Refusal, ErrInvalid's, the store's, ErrClosed, or the context's: then the command may have been run or not.
func (k *Keeper) Do(ctx context.Context, cmd Command) (Answer, error) {
	req := &request{ctx: ctx, cmd: k.named(cmd), reply: make(chan outcome, 1)}
	if err := k.send(ctx, req); err != nil {
		return Answer{}, err
	}
	select {
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case o := <-req.reply:
		return o.Answer, o.err
	case <-k.done:
		o := k.outcome(req.reply)
		return o.Answer, o.err
	}
}

// named gives commands that may make a grant an id for it.
func (k *Keeper) named(cmd Command) Command {
	switch c := cmd.(type) {
	case Acquire:
		if c.NewID == "" {
			c.NewID = k.newID()
		}
		return c
	case Transfer:
		if c.NewID == "" {
			c.NewID = k.newID()
		}
		return c
	}
	return cmd
}

// Status says who holds and waits for a resource now.
func (k *Keeper) Status(r Resource) Status {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.durable.Status(k.now(), r)
}

// List gives the status of every resource whose name begins with prefix and that is held or waited for, by name.
func (k *Keeper) List(prefix string) []Status {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.durable.List(k.now(), prefix)
}

// Agent gives what is remembered of an agent, what it holds and what it waits for.
func (k *Keeper) Agent(a Agent) (AgentRecord, []Lease, []Waiter) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.durable.Agent(k.now(), a)
}

// Agents gives what is remembered of every agent that ever asked for a lease, by name.
func (k *Keeper) Agents() []AgentRecord {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.durable.Agents()
}

// TakeLost gives, once, how the agent's leases ended without its doing since it last asked: Expired, Broken
// and Ended. At most 16 an agent are remembered, for an hour, and not over a restart.
func (k *Keeper) TakeLost(a Agent) []Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost.take(a)
}

// Close answers ErrClosed to all who wait, and waits for what is under way. Places in queues stay, as over a restart.
func (k *Keeper) Close() error {
	k.close.Do(func() { close(k.closing) })
	<-k.done
	return nil
}

// loop owns the kernel until Close.
func (k *Keeper) loop() {
	defer close(k.done)
	timer := time.NewTimer(k.pause())
	defer timer.Stop()
	for {
		var requests []*request
		select {
		case <-k.closing:
			k.shut()
			return
		case <-timer.C:
		case req := <-k.requests:
			requests = k.drain([]*request{req})
		}
		k.serve(requests)
		timer.Reset(k.pause())
	}
}

// pause is how long the loop may sleep: until the next lease, place or reservation ends.
func (k *Keeper) pause() time.Duration {
	if k.unknown {
		return retryAfter
	}
	pause := SweepEvery
	if end, ok := k.kernel.Next(); ok {
		pause = max(0, min(pause, end.Sub(k.now())))
	}
	return pause
}

// drain adds the requests that are there already.
func (k *Keeper) drain(requests []*request) []*request {
	for len(requests) < queueLength {
		select {
		case req := <-k.requests:
			requests = append(requests, req)
		default:
			return requests
		}
	}
	return requests
}

// serve runs requests as one batch. Without any it takes back what has ended.
func (k *Keeper) serve(requests []*request) {
	ctx := context.Background()
	b := k.newBatch()
	if k.unknown {
		if err := k.reload(ctx, b); err != nil {
			k.log.Error("lease state is unknown", "err", err)
			for _, req := range requests {
				k.fail(b, req, err)
			}
			b.answer()
			return
		}
	} else {
		_, _ = k.do(b, Sweep{})
	}
	for _, req := range requests {
		k.run(b, req)
	}
	if err := k.save(ctx, b); err != nil {
		k.unknown = true
		k.log.Error("leases were not saved", "err", err)
		b.fail(err)
		for _, p := range b.begun {
			k.finish(b, p, Answer{}, err)
		}
	}
	b.answer()
}

// reload makes the kernel what the store has. The long polls that still stand ask again.
func (k *Keeper) reload(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, SaveTimeout)
	defer cancel()
	state, err := k.store.LoadLeases(ctx)
	if err != nil {
		return fmt.Errorf("load leases: %w", err)
	}
	k.unknown = false
	k.kernel.Load(state)
	k.mu.Lock()
	k.durable.Load(state)
	k.mu.Unlock()
	_, _ = k.do(b, Resume{})
	for _, p := range k.polls.inOrder() {
		if !p.replied {
			k.ask(b, p)
		}
	}
	return nil
}

// save makes the batch's commits durable, then visible.
func (k *Keeper) save(ctx context.Context, b *batch) error {
	var changed []Commit
	for _, c := range b.commits {
		if c.Record.Resource != "" {
			changed = append(changed, c)
		}
	}
	if len(changed) > 0 {
		ctx, cancel := context.WithTimeout(ctx, SaveTimeout)
		defer cancel()
		if err := k.store.SaveLeases(ctx, changed); err != nil {
			return fmt.Errorf("save leases: %w", err)
		}
	}
	k.mu.Lock()
	for _, c := range b.commits {
		k.durable.Apply(c)
		k.lost.add(c.Events)
	}
	k.lost.prune(b.now)
	k.mu.Unlock()
	for _, c := range changed {
		k.observe(c)
	}
	return nil
}
