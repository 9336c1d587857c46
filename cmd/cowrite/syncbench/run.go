package syncbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/automerge/automerge-go"
	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/sync/repo"
)

// Load is what the clients of a run do.
type Load struct {
	Documents int           // each with clients of its own
	Clients   int           // of each document
	Writers   int           // of them, the first ones
	Rate      float64       // edits a second of each writer; 0: each edit waits for the acknowledgement of the one before
	History   int           // one-character changes that each document has before
	For       time.Duration // how long the writers write
}

// Target is a server to be measured.
type Target struct {
	Addresses []string // ws://..., with their tokens; the clients take turns
	PID       int      // of the server's process, whose children count too; 0 if it is not known
	Relayed   bool     // it is the bare relay
}

// Result is what came of a run.
type Result struct {
	Edits, Deliveries, Acks int
	Lost                    int // deliveries that should have been and were not, settleTime after the last edit
	Diverged                int // clients with another text than the first of their document
	P50, P95, P99           time.Duration
	Acked                   []time.Duration // how long each acknowledgement took
	Wrote                   time.Duration   // how long the writers wrote
	CPU                     time.Duration   // of the server, while the writers wrote and what they wrote was delivered
	RSS                     int64           // bytes, at the end
}

// PerDelivery is the server's CPU time for each change delivered to each client.
func (r Result) PerDelivery() time.Duration { return r.CPU / time.Duration(max(1, r.Deliveries)) }

// PerEdit is the server's CPU time for each edit.
func (r Result) PerEdit() time.Duration { return r.CPU / time.Duration(max(1, r.Edits)) }

const (
	sectionName = "s"
	settleTime  = 20 * time.Second // within which all that was written has to arrive
)

// Run drives a load against a server. An error is one of a client, such as a socket that was closed.
func Run(ctx context.Context, t Target, l Load) (Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{target: t, load: l, notes: newNotes(), failed: make(chan error, 1)}
	defer r.wait.Wait()
	defer stop()
	for range l.Documents {
		if err := r.open(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := r.rest(ctx); err != nil {
		return Result{}, err
	}
	r.notes.start()
	before, err := Usage(t.PID)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	if err := r.writeAll(ctx); err != nil {
		return Result{}, err
	}
	wrote := time.Since(began)
	edits, deliveries, acks := r.settle(ctx)
	after, err := Usage(t.PID)
	if err != nil {
		return Result{}, err
	}
	res := Result{
		Edits: edits, Deliveries: deliveries, Acks: acks, Acked: r.notes.acknowledgements(), Wrote: wrote,
		CPU: after.CPU - before.CPU, RSS: after.RSS,
	}
	res.Lost = edits*(l.Clients-1) - deliveries
	res.P50, res.P95, res.P99 = r.notes.quantiles()
	if res.Diverged, err = r.diverged(); err != nil {
		return Result{}, err
	}
	select {
	case err := <-r.failed:
		return res, err
	default:
		return res, nil
	}
}

const (
	restLook = 250 * time.Millisecond // how long the server must have done next to nothing to be at rest
	restTime = 20 * time.Second       // how long it is waited for
)

// rest waits until the server is done with the documents and histories that it was brought, which are no part of the load.
func (r *run) rest(ctx context.Context) error {
	tick := time.NewTicker(restLook)
	defer tick.Stop()
	last := Used{CPU: -restTime}
	for range restTime / restLook {
		now, err := Usage(r.target.PID)
		if err != nil || now.CPU-last.CPU <= clockTick {
			return err
		}
		last = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// run is one under way.
type run struct {
	target  Target
	load    Load
	notes   *notes
	clients [][]*client // by document
	wait    sync.WaitGroup
	failed  chan error // the first failure of a client
}

func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// open makes a document with its history and has its clients join.
func (r *run) open(ctx context.Context) error {
	document := repo.NameOf(crdt.DocumentID(uuid.New()))
	var clients []*client
	for i := range r.load.Clients {
		name := repo.PeerID(fmt.Sprintf("bench-%s-%d", document[:8], i))
		c, err := connect(ctx, r.target.Addresses[i%len(r.target.Addresses)], name, document, r.notes, r.target.Relayed, i < r.load.Writers)
		if err != nil {
			return err
		}
		r.wait.Go(func() { <-ctx.Done(); _ = c.socket.CloseNow() })
		if r.target.Relayed {
			if err := c.send(ctx, repo.Request{SenderID: name, TargetID: c.server, Document: document, Data: []byte{1}}); err != nil {
				return err
			}
			if _, err := c.receive(ctx); err != nil { // from now on it is sent what others write
				return err
			}
		}
		if i == 0 {
			if err := r.fill(c); err != nil {
				return err
			}
		} else if r.target.Relayed { // the relay has nothing to give
			first := clients[0]
			all, err := first.Whole()
			if err != nil {
				return err
			}
			if err := c.take(ctx, all); err != nil {
				return err
			}
		}
		r.serve(ctx, c)
		if err := c.begin(ctx); err != nil {
			return err
		}
		if i == 0 && !r.target.Relayed {
			if err := r.until(ctx, func() bool { return c.spoken() }); err != nil {
				return fmt.Errorf("bring in the document: %w", err)
			}
		}
		clients = append(clients, c)
	}
	want := clients[0].size()
	err := r.until(ctx, func() bool {
		for _, c := range clients {
			if c.size() != want {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("hand out the document: %w", err)
	}
	r.clients = append(r.clients, clients)
	return nil
}

// fill makes the document and its history.
func (r *run) fill(c *client) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.make(func(d *automerge.Doc) error {
		return errors.Join(d.Path("schema").Set(1), d.Path("title").Set(automerge.NewText("Bench")),
			d.Path("sections", sectionName).Set(map[string]any{"body": automerge.NewText(""), "position": "P"}))
	})
	for n := 0; err == nil && n < r.load.History; n++ {
		_, err = c.make(func(d *automerge.Doc) error { return typeAt(d, n, "x") })
	}
	return err
}

func typeAt(d *automerge.Doc, at int, s string) error {
	return d.Path("sections", sectionName, "body").Text().Insert(at, s)
}

func (c *client) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.graph.Len()
}

// spoken says whether the server has all that the client has.
func (c *client) spoken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	heads := c.session.PeerHeads()
	return len(heads) > 0 && len(c.graph.Since(heads)) == 0
}

// serve runs a client's reading and answering.
func (r *run) serve(ctx context.Context, c *client) {
	for _, work := range []func(context.Context) error{c.read, c.answer} {
		r.wait.Go(func() {
			if err := work(ctx); err != nil && ctx.Err() == nil {
				r.fail(fmt.Errorf("client %s: %w", c.name, err))
			}
		})
	}
}

// until waits for something to be so.
func (r *run) until(ctx context.Context, so func() bool) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return errors.New("it takes too long")
		case <-tick.C:
		}
	}
	return nil
}

// writeAll has every writer type at its rate. The writers start evenly spread over one pause.
func (r *run) writeAll(ctx context.Context) error {
	var pause time.Duration // 0: until the acknowledgement
	if r.load.Rate > 0 {
		pause = time.Duration(float64(time.Second) / r.load.Rate)
	}
	end := time.Now().Add(r.load.For)
	var writers sync.WaitGroup
	total := r.load.Documents * r.load.Writers
	n := 0
	for _, clients := range r.clients {
		for _, c := range clients[:r.load.Writers] {
			offset := pause * time.Duration(n) / time.Duration(total)
			n++
			writers.Go(func() {
				if err := c.typeUntil(ctx, offset, pause, end); err != nil && ctx.Err() == nil {
					r.fail(fmt.Errorf("writer %s: %w", c.name, err))
				}
			})
		}
	}
	writers.Wait()
	return ctx.Err()
}

func (c *client) typeUntil(ctx context.Context, offset, pause time.Duration, end time.Time) error {
	wait := time.NewTimer(offset)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	var tick <-chan time.Time
	next := c.acked
	if pause > 0 {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		tick, next = ticker.C, nil
	}
	for time.Now().Before(end) {
		if err := c.write(ctx, func(d *automerge.Doc) error { return typeAt(d, 0, "y") }); err != nil {
			return err
		}
		select {
		case <-tick:
		case <-next:
		case <-c.ended: // nothing is acknowledged any more, and why is known
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// settle waits until all that was written has arrived, or for settleTime.
func (r *run) settle(ctx context.Context) (edits, deliveries, acks int) {
	ctx, stop := context.WithTimeout(ctx, settleTime)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		edits, deliveries, acks = r.notes.count()
		if deliveries >= edits*(r.load.Clients-1) && acks >= edits {
			return edits, deliveries, acks
		}
		select {
		case <-ctx.Done():
			return edits, deliveries, acks
		case <-tick.C:
		}
	}
}

// diverged counts the clients whose text is not that of the first of their document.
func (r *run) diverged() (int, error) {
	n := 0
	for _, clients := range r.clients {
		want, err := clients[0].content()
		if err != nil {
			return 0, fmt.Errorf("read a client's text: %w", err)
		}
		for _, c := range clients[1:] {
			text, err := c.content()
			if err != nil {
				return 0, fmt.Errorf("read a client's text: %w", err)
			}
			if text != want {
				n++
			}
		}
	}
	return n, nil
}
