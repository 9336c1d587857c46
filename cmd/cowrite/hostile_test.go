package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/crdt"
	"cowrite/crdt/crdttest"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
)

var (
	hostileChanges   = flag.Int("hostile.changes", 200, "damaged changes that TestHostilePeers sends")
	hostileMessages  = flag.Int("hostile.messages", 200, "damaged sync messages that TestHostilePeers sends")
	hostileDocuments = flag.Int("hostile.documents", 50, "damaged saved documents that TestHostilePeers sends")
	hostileCalm      = flag.Int("hostile.calm", 5, "writes of each bystander before TestHostilePeers attacks, to compare with; at least 1")
	hostileP99       = flag.Duration("hostile.p99", 0, "how long a bystander's write may take, in 99 of 100; 0: only tell")
	keepCrashers     = flag.Bool("keep-crashers", false, "write what ended workers to crdt/engine/testdata/crashers")
)

const (
	hostileWorkers = 2
	underAttack    = 0 // the worker of the documents that are attacked
	elsewhere      = 1 // the other

	lanes = 2 // attacks of each kind that go on at the same time

	// A document under attack is left for a fresh one when it has got so many damaged changes or messages: each is a
	// branch of its own, and with many heads everything costs more.
	maxBranches = 50
	maxAttempts = 1000
)

// A server that is sent damaged changes, sync messages and saved documents lives on as the same process. Every refusal has
// its word. A document on another worker notices nothing, one on the same worker loses nothing, and neither do peers
// who have the very documents open. What was taken in can be read, also by a server that is started again.
func TestHostilePeers(t *testing.T) {
	r := random(t)
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data, "--workers", fmt.Sprint(hostileWorkers), "--log-level", "debug")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	near, own, far := documentAt(t, p, underAttack), documentAt(t, p, underAttack), documentAt(t, p, elsewhere)
	bystanders := []*bystander{
		{name: "on another worker", document: far.DocumentID, client: &pager{writer: writer{keyed: newAgent(t, data, "far"), document: far.DocumentID}}, p99: *hostileP99},
		{name: "on the same worker", document: near.DocumentID, client: &pager{writer: writer{keyed: newAgent(t, data, "near"), document: near.DocumentID}}},
		{name: "on the same worker, a replica", document: own.DocumentID, client: newReplica(newAgent(t, data, "replica"), own.DocumentID, own.Sections[0].ID)},
	}
	stop := make(chan struct{})
	var standing sync.WaitGroup
	for _, b := range bystanders {
		if err := b.client.connect(ctx, p); err != nil {
			t.Fatalf("%s: %v", b.name, err)
		}
		b.calm = make(chan struct{})
		standing.Go(func() { b.stand(ctx, t, stop) })
	}
	for _, b := range bystanders {
		<-b.calm
	}

	mallory := newAgent(t, data, "mallory").key
	base := newBase(t)
	kinds := []attack{
		{what: "changes", tries: *hostileChanges, make: base.damagedChange},
		{what: "sync messages", tries: *hostileMessages, make: base.damagedMessage},
		{what: "saved documents", tries: *hostileDocuments},
	}
	var attacks []*attack
	var attacking sync.WaitGroup
	for _, kind := range kinds {
		for lane := range lanes {
			a := &attack{
				what: kind.what, tries: (kind.tries + lane) / lanes, make: kind.make,
				process: p, key: mallory, base: base, lane: lane, random: rand.New(rand.NewPCG(r.Uint64(), 0)),
				refused: map[code.Code]int{}, bad: map[string][]byte{},
			}
			attacks = append(attacks, a)
			attacking.Go(func() {
				if err := a.run(ctx); err != nil {
					t.Errorf("%s: after %d: %v", a.what, a.tried, err)
				}
			})
		}
	}
	attacking.Wait()
	close(stop)
	standing.Wait()

	select {
	case <-p.exited:
		t.Fatal("the server's process has ended")
	default:
		t.Logf("the server is process %d, as it was in the beginning", p.cmd.Process.Pid)
	}
	log := p.stderr.String()
	var sums []*attack // one of each kind
	for kind := range slices.Chunk(attacks, lanes) {
		for _, a := range kind[1:] {
			kind[0].add(a)
		}
		kind[0].tell(t, log)
		sums = append(sums, kind[0])
	}
	t.Logf("%d workers ended", strings.Count(log, `msg="engine worker ended"`))
	for _, b := range bystanders {
		b.tell(t)
	}
	check := func() {
		server := p.client(t)
		for _, b := range bystanders {
			if err := b.client.check(ctx, server, verifiedLog(t, p, b.document)); err != nil {
				t.Errorf("%s: %v", b.name, err)
			}
		}
		for _, a := range sums {
			for _, id := range a.taken {
				status, _, raw, err := p.call(ctx, mallory, http.MethodGet, "/documents/"+id, nil)
				if err != nil || status != http.StatusOK {
					t.Errorf("%s: document %s cannot be read: %d %s, %v", a.what, id, status, raw, err)
				}
			}
		}
	}
	check()
	for _, b := range bystanders {
		b.client.disconnect()
	}
	if exit, err := p.end(syscall.SIGTERM); exit != 0 || err != nil {
		t.Fatalf("exit code %d, %v", exit, err)
	}
	p = start(t, data)
	check()
}

// documentAt makes documents until one is on the worker.
func documentAt(t *testing.T, p *process, seat int) client.Document {
	t.Helper()
	for {
		d, err := p.client(t).CreateDocument(t.Context(), client.NewDocument{Markdown: "# One\n# Two\n"})
		if err != nil {
			t.Fatal(err)
		}
		id, err := crdt.ParseDocumentID(d.DocumentID)
		if err != nil {
			t.Fatal(err)
		}
		if engine.Seat(id, hostileWorkers) == seat {
			return d
		}
	}
}

// bystander works on a document that nobody attacks.
type bystander struct {
	name     string
	document string
	client   crashClient
	p99      time.Duration // that is asked; 0: none
	calm     chan struct{} // closed after hostileCalm writes, or when something went wrong
	took     []time.Duration
}

// bystanderPause is between the starts of two writes.
const bystanderPause = 100 * time.Millisecond

// stand writes until stop is closed, and nothing may go wrong.
func (b *bystander) stand(ctx context.Context, t *testing.T, stop <-chan struct{}) {
	pace := time.NewTicker(bystanderPause)
	defer pace.Stop()
	calm := sync.OnceFunc(func() { close(b.calm) })
	defer calm()
	for {
		began := time.Now()
		if err := b.client.step(ctx, nil); err != nil {
			t.Errorf("%s: %v", b.name, err)
			return
		}
		b.took = append(b.took, time.Since(began))
		if len(b.took) == *hostileCalm {
			calm()
		}
		select {
		case <-stop:
			return
		case <-pace.C:
		}
	}
}

// tell says how long writes took.
func (b *bystander) tell(t *testing.T) {
	t.Helper()
	if len(b.took) <= *hostileCalm {
		t.Errorf("bystander %s: %d writes", b.name, len(b.took))
		return
	}
	at := func(took []time.Duration, percent int) time.Duration {
		return slices.Sorted(slices.Values(took))[(len(took)-1)*percent/100].Round(100 * time.Microsecond)
	}
	before, during := b.took[:*hostileCalm], b.took[*hostileCalm:]
	t.Logf("bystander %s: %d writes, p50 %v, p99 %v, longest %v; before the attack %d, p50 %v, p99 %v", b.name,
		len(during), at(during, 50), at(during, 99), at(during, 100), len(before), at(before, 50), at(before, 99))
	if p99 := at(during, 99); b.p99 > 0 && p99 > b.p99 {
		t.Errorf("bystander %s: p99 is %v, at most %v", b.name, p99, b.p99)
	}
}

// pager is a writer that goes on in another section after pageLines lines, so that a write costs the same all the time.
type pager struct {
	writer
	pages []string
}

const pageLines = 100

func (p *pager) step(ctx context.Context, r *rand.Rand) error {
	if len(p.lines.acknowledged) < pageLines*len(p.pages) {
		return p.writer.step(ctx, r)
	}
	p.section = fmt.Sprintf("%s-%d", p.agent, len(p.pages))
	line := p.lines.next(p.agent)
	if _, err := p.PutSection(ctx, p.document, p.section, line, ""); err != nil {
		return err
	}
	p.pages = append(p.pages, p.section)
	p.lines.acknowledged = append(p.lines.acknowledged, line)
	return nil
}

func (p *pager) check(ctx context.Context, server *client.Client, log []doc.Event) error {
	var text strings.Builder
	for _, page := range p.pages {
		now, err := server.Section(ctx, p.document, page)
		if err != nil {
			return err
		}
		text.WriteString(now.Text)
	}
	logged := 0
	for _, e := range log {
		if e.Actor == p.agent && (e.Type == doc.SectionCreated || e.Type == doc.SectionEdited) {
			logged++
		}
	}
	if acknowledged := len(p.lines.acknowledged); logged != acknowledged {
		return fmt.Errorf("the log has %d edits, of which %d were acknowledged", logged, acknowledged)
	}
	return p.lines.check(text.String())
}

// attack sends damaged things of one kind, one after the other.
type attack struct {
	what    string
	tries   int
	make    func(*rand.Rand) (message, chunk []byte, err error) // nil: saved documents, over REST
	process *process
	key     doc.Secret
	base    *base
	lane    int // of lanes
	random  *rand.Rand

	tried   int
	passed  int // were not refused
	merged  int // changes of them that became part of a document
	refused map[code.Code]int
	bad     map[string][]byte // those refused with BAD_CHANGE, by the name that the server's log has for them
	taken   []string          // documents made
}

func (a *attack) run(ctx context.Context) error {
	if a.make == nil {
		return a.overREST(ctx)
	}
	return a.overSocket(ctx)
}

// add adds how another attack went.
func (a *attack) add(b *attack) {
	a.tries += b.tries
	a.tried += b.tried
	a.passed += b.passed
	a.merged += b.merged
	a.taken = append(a.taken, b.taken...)
	for word, n := range b.refused {
		a.refused[word] += n
	}
	maps.Copy(a.bad, b.bad)
}

func (a *attack) overSocket(ctx context.Context) error {
	peer := &attacker{process: a.process, key: a.key, name: fmt.Sprintf("attacker-%s-%d", strings.ReplaceAll(a.what, " ", "-"), a.lane)}
	defer peer.close()
	var on *victim
	attempts := 0
	leave := func() error {
		a.merged += on.merged
		return on.witness.close()
	}
	for ; a.tried < a.tries; a.tried++ {
		if on == nil || on.merged >= maxBranches || attempts >= maxAttempts {
			if on != nil {
				_ = leave() // whatever it says, what it was told counts
			}
			var err error
			if on, err = newVictim(ctx, a.process, a.key, underAttack, a.random, a.base.changes, a.base.heads); err != nil {
				return err
			}
			a.taken = append(a.taken, on.id.String())
			attempts = 0
			runtime.GC() // it frees the binding's documents, and does not see how much they weigh
		}
		attempts++
		message, chunk, err := a.make(a.random)
		if err != nil {
			return err
		}
		word, err := peer.send(ctx, on, message)
		if err != nil {
			return fmt.Errorf("%w\n%x", err, message)
		}
		if word == "" {
			a.passed++
			continue
		}
		a.refused[word]++
		if word == code.BadChange {
			a.bad[fmt.Sprintf("peer=%s-%d", peer.name, peer.joined)] = chunk
		}
	}
	if on != nil {
		_ = leave()
	}
	return nil
}

func (a *attack) overREST(ctx context.Context) error {
	for ; a.tried < a.tries; a.tried++ {
		chunk := crdttest.Mutate(a.random, a.base.saved)
		status, header, raw, err := a.process.call(ctx, a.key, http.MethodPost, "/documents", chunk)
		if err != nil {
			return fmt.Errorf("%w\n%x", err, chunk)
		}
		var answer struct {
			Error      code.Code
			DocumentID string
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("read the answer: %w\n%x", err, chunk)
		}
		if status == http.StatusCreated {
			a.passed++
			a.taken = append(a.taken, answer.DocumentID)
			continue
		}
		if entry, known := code.Table[answer.Error]; !known || entry.HTTP != status || entry.HTTP >= http.StatusInternalServerError {
			return fmt.Errorf("%d: %s\n%x", status, raw, chunk)
		}
		a.refused[answer.Error]++
		if answer.Error == code.BadChange {
			a.bad["request="+header.Get("X-Request-Id")] = chunk
		}
	}
	return nil
}

// call sends a saved document, or nothing, to an address under /api/v1.
func (p *process) call(ctx context.Context, key doc.Secret, method, path string, saved []byte) (status int, header http.Header, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, p.address+"/api/v1"+path, bytes.NewReader(saved))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Content-Type", client.SavedType)
	req.Header.Set("Authorization", "Bearer "+string(key))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, answer, err
}

// A refusal's line in the log names the connection or request, and where in the core a worker panicked.
var (
	refusedWho = regexp.MustCompile(`(?:peer|request)=\S+`)
	panicked   = regexp.MustCompile(`[\w/.-]+\.rs:\d+`)
)

// tell says how the attack went, and keeps what ended workers: one for each place in the core.
func (a *attack) tell(t *testing.T, log string) {
	t.Helper()
	var words []string
	for _, word := range slices.Sorted(maps.Keys(a.refused)) {
		words = append(words, fmt.Sprintf("%s %d", word, a.refused[word]))
	}
	crashed := 0
	places := map[string]bool{}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "bad change: worker ended") {
			continue
		}
		chunk, mine := a.bad[refusedWho.FindString(line)]
		if !mine {
			continue
		}
		crashed++
		if place := panicked.FindString(line); !places[place] {
			places[place] = true
			if err := a.base.keep(chunk); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d damaged %s: %d passed, %d changes of them merged in %d documents; refused: %s, of them %d for ending a worker, in %d places",
		a.tried, a.what, a.passed, a.merged, len(a.taken), strings.Join(words, ", "), crashed, len(places))
	if a.tried != a.tries || len(words) == 0 {
		t.Errorf("%d of %d %s were sent, %d refused", a.tried, a.tries, a.what, len(words))
	}
}
