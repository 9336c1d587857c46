package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
	"cowrite/doc/code"
)

// What was acknowledged is on disk: the server is killed at random moments while four clients write, lease
// and post, and after each restart all that it ever acknowledged must be there.
func TestKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	crash(t, 20, syscall.SIGKILL, -1)
}

// A server that is asked to stop right after it answered loses nothing either, and says so with exit code 0.
func TestStoppedServerKeepsWhatItAcknowledged(t *testing.T) {
	crash(t, 5, syscall.SIGTERM, 0)
}

// crashClient is one client of the crash tests: it remembers what was acknowledged to it.
type crashClient interface {
	// step does one thing and returns when it is acknowledged, or an error when the server has gone.
	step(ctx context.Context, r *rand.Rand) error
	// connect tells the client where the server is now.
	connect(ctx context.Context, p *process) error
	// check says what the server, started again, misses of all that was acknowledged to the client so far.
	check(ctx context.Context, server *client.Client, log []doc.Event) error
	// acknowledged counts what was.
	acknowledged() int
	// disconnect ends what connect began.
	disconnect()
}

const crashDocument = "crash"

// crash runs rounds of work and sudden ends by a signal, which must give the exit code.
func crash(t *testing.T, rounds int, signal syscall.Signal, exit int) {
	r := random(t)
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	made, err := p.client(t).CreateDocument(t.Context(), client.NewDocument{
		Slug: crashDocument, Markdown: "# Shared\n# Replica\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	shared, own := made.Sections[0].ID, made.Sections[1].ID
	clients := []crashClient{
		&writer{keyed: newAgent(t, data, "writer-a"), document: crashDocument, section: shared},
		&writer{keyed: newAgent(t, data, "writer-b"), document: crashDocument, section: shared},
		&poster{keyed: newAgent(t, data, "poster"), seen: map[doc.Seq]doc.EventHash{}},
		newReplica(newAgent(t, data, "replica"), made.DocumentID, own),
		newRemover(t, p, newAgent(t, data, "remover")),
	}
	for round := range rounds {
		life := time.Duration(50+r.IntN(500)) * time.Millisecond
		steps := work(t, p, clients, r, life, func() {
			if got, err := p.end(signal); err != nil || got != exit {
				t.Errorf("round %d: exit code %d, want %d, %v", round, got, exit, err)
			}
		})
		p = start(t, data)
		server, log := p.client(t), verifiedLog(t, p, crashDocument)
		for _, c := range clients {
			if err := c.check(t.Context(), server, log); err != nil {
				t.Errorf("round %d, %T: %v", round, c, err)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("round %d: %d acknowledged steps in %s, %d events in the log", round, steps, life, len(log))
	}
	for _, c := range clients {
		if c.acknowledged() == 0 {
			t.Errorf("%T got nothing acknowledged in %d rounds", c, rounds)
		}
	}
}

// work lets all clients work at once until end, called after the given time, has ended the server, and
// returns how many steps were acknowledged.
func work(t *testing.T, p *process, clients []crashClient, r *rand.Rand, life time.Duration, end func()) int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ending atomic.Bool
	var steps atomic.Int64
	var wg sync.WaitGroup
	for _, c := range clients {
		if err := c.connect(ctx, p); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		chances := rand.New(rand.NewPCG(r.Uint64(), 0))
		wg.Go(func() {
			defer c.disconnect()
			for {
				err := c.step(ctx, chances)
				if err == nil {
					steps.Add(1)
					continue
				}
				var refused *code.Error
				if !ending.Load() || (errors.As(err, &refused) && refused.Entry().HTTP < http.StatusInternalServerError) {
					t.Errorf("%T: %v", c, err)
				}
				return
			}
		})
	}
	time.Sleep(life) // the random moment
	ending.Store(true)
	end()
	cancel()
	wg.Wait()
	return steps.Load()
}

// verifiedLog reads a document's whole log, of which events verify must think well.
func verifiedLog(t *testing.T, p *process, ref string) []doc.Event {
	t.Helper()
	if _, stderr, exit := p.exec(t, "", "events", "verify", ref); exit != 0 {
		t.Fatalf("events verify: exit code %d: %s", exit, stderr)
	}
	c := p.client(t)
	var log []doc.Event
	for more := true; more; {
		var page []doc.Event
		var err error
		page, more, err = c.Events(t.Context(), ref, doc.Seq(len(log)))
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, page...)
	}
	return log
}

// newAgent makes a key on the command line.
func newAgent(t *testing.T, data, name string) keyed {
	t.Helper()
	stdout, stderr, exit := new(process).exec(t, "", "keys", "create", "--data", data, "--agent", name, "--role", "editor")
	if exit != 0 {
		t.Fatalf("keys create: exit code %d: %s", exit, stderr)
	}
	return keyed{agent: doc.Agent(name), key: doc.Secret(strings.TrimSpace(stdout))}
}

// keyed is the REST connection of a client.
type keyed struct {
	agent doc.Agent
	key   doc.Secret
	*client.Client
}

func (k *keyed) connect(_ context.Context, p *process) error {
	c, err := client.New(p.address, k.key)
	k.Client = c
	return err
}

func (k *keyed) disconnect() { k.Close() }

// lines is text that a client appended line by line.
type lines struct {
	attempted    int
	acknowledged []string
}

// next is a line that was never written before.
func (l *lines) next(a doc.Agent) string {
	l.attempted++
	return fmt.Sprintf("%s %d;\n", a, l.attempted)
}

// check says whether each acknowledged line is in the text once.
func (l *lines) check(text string) error {
	for _, line := range l.acknowledged {
		if n := strings.Count(text, line); n != 1 {
			return fmt.Errorf("the acknowledged line %q is %d times in the text", line, n)
		}
	}
	return nil
}

// writer appends lines over REST to a section that another writes as well, each on the version it read.
type writer struct {
	keyed
	document string
	section  string
	lines    lines
}

func (w *writer) acknowledged() int { return len(w.lines.acknowledged) }

func (w *writer) step(ctx context.Context, _ *rand.Rand) error {
	now, err := w.Section(ctx, w.document, w.section)
	if err != nil {
		return err
	}
	line := w.lines.next(w.agent)
	if _, err := w.PutSection(ctx, w.document, w.section, now.Text+line, now.Version); err != nil {
		return err
	}
	w.lines.acknowledged = append(w.lines.acknowledged, line)
	return nil
}

func (w *writer) check(ctx context.Context, server *client.Client, log []doc.Event) error {
	now, err := server.Section(ctx, w.document, w.section)
	if err != nil {
		return err
	}
	logged := 0
	for _, e := range log {
		if e.Type == doc.SectionEdited && e.Actor == w.agent {
			logged++
		}
	}
	if acknowledged := len(w.lines.acknowledged); logged < acknowledged || logged > w.lines.attempted {
		return fmt.Errorf("the log has %d edits, of which %d were acknowledged and %d asked for", logged, acknowledged, w.lines.attempted)
	}
	return w.lines.check(now.Text)
}

// poster posts events and takes, renews and gives back a lease.
type poster struct {
	keyed
	posted int
	seen   map[doc.Seq]doc.EventHash // of the acknowledged posts
	leases []string                  // ids of all acknowledged grants
	held   client.Lease              // the last acknowledged, empty after a release
	doubt  bool                      // a lease call got no answer
}

const (
	leasedSection = "leased"
	leaseSeconds  = 300 // longer than the test
)

func (p *poster) acknowledged() int { return min(len(p.seen), len(p.leases)) }

func (p *poster) step(ctx context.Context, r *rand.Rand) error {
	held := p.held.LeaseID != ""
	switch chance := r.IntN(4); {
	case chance == 0:
		return p.lease(func() (client.Lease, error) {
			return p.AcquireLease(ctx, crashDocument, leasedSection, leaseSeconds, "crash")
		})
	case chance == 1 && held:
		return p.lease(func() (client.Lease, error) { return p.RenewLease(ctx, crashDocument, leasedSection, leaseSeconds) })
	case chance == 2 && held:
		return p.lease(func() (client.Lease, error) {
			return client.Lease{}, p.ReleaseLease(ctx, crashDocument, leasedSection)
		})
	}
	p.posted++
	e, err := p.Post(ctx, crashDocument, json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"<a & b>\u2028"}`, p.posted)))
	if err == nil {
		p.seen[e.Seq] = e.Hash
	}
	return err
}

// lease makes a call that may leave the lease in doubt.
func (p *poster) lease(call func() (client.Lease, error)) error {
	l, err := call()
	if err != nil {
		p.doubt = true
		return err
	}
	if l.LeaseID != "" && l.LeaseID != p.held.LeaseID {
		p.leases = append(p.leases, l.LeaseID)
	}
	p.held = l
	return nil
}

func (p *poster) check(ctx context.Context, server *client.Client, log []doc.Event) error {
	for seq, hash := range p.seen {
		if int(seq) > len(log) || log[seq-1].Hash != hash {
			return fmt.Errorf("the acknowledged event %s is not in the log", seq)
		}
	}
	grants := map[string]int{}
	for _, e := range log {
		var payload struct {
			LeaseID string `json:"leaseId"`
		}
		if err := json.Unmarshal(e.Payload, &payload); err != nil {
			return err
		}
		if e.Type == doc.SectionLeased {
			grants[payload.LeaseID]++
		}
	}
	for _, id := range p.leases {
		if grants[id] != 1 {
			return fmt.Errorf("the acknowledged grant %s is %d times in the log", id, grants[id])
		}
	}
	return p.checkHeld(ctx, server)
}

func (p *poster) checkHeld(ctx context.Context, server *client.Client) error {
	live, err := server.Leases(ctx, crashDocument)
	if err != nil {
		return err
	}
	now := client.Lease{}
	if len(live) > 0 {
		now = live[0]
	}
	switch {
	case p.doubt: // what it came to is known from here on
		if now.LeaseID != "" && now.LeaseID != p.held.LeaseID {
			p.leases = append(p.leases, now.LeaseID)
		}
		p.held, p.doubt = now, false
	case now.LeaseID != p.held.LeaseID || now.ExpiresAt < p.held.ExpiresAt || now.Fence != p.held.Fence:
		return fmt.Errorf("the lease is %+v, acknowledged was %+v", now, p.held)
	}
	return nil
}

// remover deletes a document of its own and restores it.
type remover struct {
	keyed
	log     []doc.EventType // of what was acknowledged
	deleted bool            // as last acknowledged
	doubt   bool            // a call got no answer
}

const removedDocument = "removed"

var restoreRemoved = client.Call{Method: http.MethodPost, Path: []string{"documents", removedDocument, "restore"}}

func newRemover(t *testing.T, p *process, k keyed) *remover {
	t.Helper()
	if _, err := p.client(t).CreateDocument(t.Context(), client.NewDocument{Slug: removedDocument, Markdown: "# Still here\n"}); err != nil {
		t.Fatal(err)
	}
	return &remover{keyed: k, log: []doc.EventType{doc.DocumentCreated}}
}

func (r *remover) acknowledged() int { return len(r.log) - 1 }

func (r *remover) step(ctx context.Context, _ *rand.Rand) error {
	if r.deleted {
		return r.turn(ctx, r.Client, doc.DocumentRestored, restoreRemoved)
	}
	return r.turn(ctx, r.Client, doc.DocumentDeleted, client.Call{Method: http.MethodDelete, Path: []string{"documents", removedDocument}})
}

func (r *remover) turn(ctx context.Context, server *client.Client, t doc.EventType, call client.Call) error {
	if _, err := server.Do(ctx, call); err != nil {
		r.doubt = true
		return err
	}
	r.log, r.deleted = append(r.log, t), t == doc.DocumentDeleted
	return nil
}

func (r *remover) check(ctx context.Context, server *client.Client, _ []doc.Event) error {
	d, err := server.Document(ctx, removedDocument, "")
	deleted := code.Is(err, code.DocumentDeleted)
	switch {
	case err != nil && !deleted:
		return err
	case deleted != r.deleted && !r.doubt:
		return fmt.Errorf("it is deleted: %v, acknowledged was %v", deleted, r.deleted)
	case deleted != r.deleted: // what the call without an answer came to is known from here on
		r.log, r.deleted = append(r.log, map[bool]doc.EventType{true: doc.DocumentDeleted, false: doc.DocumentRestored}[deleted]), deleted
	}
	r.doubt = false
	if deleted {
		if err := r.turn(ctx, server, doc.DocumentRestored, restoreRemoved); err != nil {
			return err
		}
		if d, err = server.Document(ctx, removedDocument, ""); err != nil {
			return err
		}
	}
	if len(d.Sections) != 1 || d.Sections[0].Text != "# Still here\n" {
		return fmt.Errorf("its sections are %+v", d.Sections)
	}
	var all []doc.EventType
	for more := true; more; {
		var page []doc.Event
		if page, more, err = server.Events(ctx, removedDocument, doc.Seq(len(all))); err != nil {
			return err
		}
		for _, e := range page {
			all = append(all, e.Type)
		}
	}
	if !slices.Equal(all, r.log) {
		return fmt.Errorf("its log is %v, acknowledged was %v", all, r.log)
	}
	return nil
}
