package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
	"cowrite/sync/client"
)

// agentTask is the environment variable with the task of a process that is an agent and no test.
const agentTask = "COWRITE_E2E_AGENT"

func TestMain(m *testing.M) {
	if task := os.Getenv(agentTask); task != "" {
		if err := beAgent(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// task is what an agent process is to do.
type task struct {
	URL, Key, Name string
	Document       agent.Document
	For            time.Duration
	Seed           uint64
}

// report is what an agent process did, as far as it was told.
type report struct {
	Tokens    []string // what it wrote, in the order of its writing
	Cut       int      // requests whose line was cut before the answer
	Stale     int      // edits on a base that was out of date
	Repeated  int      // edits that turned out to have been done before
	Overrides []overridden
	Overlaps  []crdt.Version // of edits of words that others had changed as well
}

// overridden is an edit made under another's lease.
type overridden struct {
	Version crdt.Version
	LeaseID lease.ID
}

// state is a section at a version: what an edit may be based on.
type state struct {
	text string
	at   crdt.Version
}

// writer is an agent at work.
type writer struct {
	task
	report
	chance *rand.Rand
	line   *knife
	d      *client.Document
	former map[agent.SectionID][]state
}

// cutShare of the requests lose their line before the answer.
const cutShare = 0.3

// leastWork is how often an agent writes at the least, so that on a slow machine too there is something to look at.
const leastWork = 40

// beAgent writes into the document for as long as the task says, or longer, and prints its report; then it reads a version
// on its standard input, waits until its mirror is there, and prints the text.
func beAgent(encoded string) error {
	w := &writer{line: &knife{}, former: map[agent.SectionID][]state{}}
	if err := json.Unmarshal([]byte(encoded), &w.task); err != nil {
		return err
	}
	w.chance = rand.New(rand.NewPCG(w.Seed, 0))
	ctx, cancel := context.WithTimeout(context.Background(), w.For+2*time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{URL: w.URL, Key: w.Key, HTTP: w.line.client()})
	if err != nil {
		return err
	}
	defer c.Close()
	if w.d, err = c.Open(ctx, w.Document, client.Open{}); err != nil {
		return err
	}
	end := time.Now().Add(w.For)
	for n := 0; n < leastWork || time.Now().Before(end); n++ {
		if err := w.work(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		time.Sleep(time.Duration(w.chance.IntN(100)) * time.Millisecond) // agents think
	}
	if err := json.NewEncoder(os.Stdout).Encode(w.report); err != nil {
		return err
	}
	final, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	for v := w.d.Version(); v != crdt.Version(strings.TrimSpace(final)); v = w.d.Version() {
		if err := w.d.WaitVersion(ctx, v); err != nil {
			return fmt.Errorf("%s: the mirror stays at %s: %w", w.Name, v, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(w.d.Markdown())
}

// work is one edit, or a few under a lease.
func (w *writer) work(ctx context.Context) error {
	sections := w.d.Sections()
	sid := sections[w.chance.IntN(len(sections))].ID
	if w.chance.IntN(5) > 0 {
		return w.edit(ctx, sid)
	}
	held, err := w.d.Lease(ctx, sid, client.Ask{Duration: 2 * time.Second, Reason: w.Name, Wait: w.chance.IntN(4) == 0})
	switch {
	case code.Is(err, code.SectionLeased), code.Is(err, code.QueueFull), code.Is(err, code.Deadlock), code.Is(err, code.LeaseEnded):
		return w.edit(ctx, sid)
	case err != nil:
		return err
	}
	for range 1 + w.chance.IntN(3) {
		if err := w.edit(ctx, sid); err != nil {
			return err
		}
	}
	err = held.Release(ctx)
	if code.Is(err, code.NoActiveLease) || code.Is(err, code.NotHolder) || code.Is(err, code.StaleLease) {
		return nil // it had run out
	}
	return err
}

// motto begins the line whose word all agents fight for.
const motto = "Motto: "

// words are those that agents write there, which name their author.
var words = regexp.MustCompile(`(agent\d+)x\d+`)

// mark is a passage that nobody changes, behind which agents insert.
const mark = "<!-- here -->\n"

// edit writes a token of its own into a section, or its word into the motto.
func (w *writer) edit(ctx context.Context, sid agent.SectionID) error {
	s, at, ok := w.d.Section(sid)
	if !ok {
		return fmt.Errorf("there is no section %s", sid)
	}
	now := state{s.Text, at}
	base := now
	if old := w.former[sid]; len(old) > 0 && w.chance.IntN(3) == 0 {
		base = old[w.chance.IntN(len(old))]
	}
	if base.at != now.at {
		w.Stale++
	}
	w.former[sid] = append(w.former[sid], now)
	if n := len(w.former[sid]); n > 8 {
		w.former[sid] = w.former[sid][n-8:]
	}
	if w.chance.Float64() < cutShare {
		w.line.arm()
		w.Cut++
	}
	if w.chance.IntN(8) == 0 {
		return w.fight(ctx, sid, base)
	}
	token := fmt.Sprintf("[%s %d]\n", w.Name, len(w.Tokens)+1)
	var e client.Edit
	switch at := w.someLine(base.text); w.chance.IntN(3) {
	case 0:
		e = client.Text(base.text[:at] + token + base.text[at:]).On(base.at)
	case 1:
		e = client.Ops(agent.TextOp{At: at, Insert: token}).On(base.at) // the text is ASCII
	default:
		e = client.Replace(agent.Replacement{Find: mark, With: mark + token}).On(base.at)
	}
	ack, err := w.d.Edit(ctx, sid, e)
	if err != nil {
		return err
	}
	w.Tokens = append(w.Tokens, token)
	w.note(ack)
	return nil
}

// someLine is where a line of a text begins, behind its mark, or its end.
func (w *writer) someLine(text string) int {
	starts := []int{len(text)}
	for i := strings.Index(text, mark) + len(mark); i < len(text); i++ {
		if text[i-1] == '\n' {
			starts = append(starts, i)
		}
	}
	return starts[w.chance.IntN(len(starts))]
}

// fight writes another word into the motto.
func (w *writer) fight(ctx context.Context, sid agent.SectionID, base state) error {
	begin := strings.Index(base.text, motto) + len(motto)
	end := begin + strings.IndexByte(base.text[begin:], '\n')
	mine := fmt.Sprintf("%sx%d", w.Name, w.chance.IntN(1_000_000))
	ack, err := w.d.Edit(ctx, sid, client.Text(base.text[:begin]+mine+base.text[end:]).On(base.at))
	if err != nil {
		return err
	}
	w.note(ack)
	if ack.Repeated || ack.MergedFrom == nil || len(ack.MergedFrom.Agents) == 0 || ack.Section.Text == nil {
		return nil
	}
	_, line, _ := strings.Cut(*ack.Section.Text, motto)
	line, _, _ = strings.Cut(line, "\n")
	for _, word := range words.FindAllStringSubmatch(line, -1) {
		if word[1] != w.Name {
			w.Overlaps = append(w.Overlaps, ack.Version)
			break
		}
	}
	return nil
}

func (w *writer) note(ack *agent.Ack) {
	if ack.Repeated {
		w.Repeated++
		return // what it says is of now and not of then
	}
	if a := ack.Advisory; a != nil && a.Holder != "" {
		w.Overrides = append(w.Overrides, overridden{ack.Version, a.LeaseID})
	}
}

// knife cuts an agent's line right behind the next frame that is sent on it.
type knife struct{ armed atomic.Bool }

func (k *knife) arm() { k.armed.Store(true) }

func (k *knife) client() *http.Client {
	var dialer net.Dialer
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		line, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &cutLine{Conn: line, knife: k}, nil
	}}}
}

type cutLine struct {
	net.Conn
	*knife
}

// smallFrame is more than a pong and less than any request.
const smallFrame = 60

func (l *cutLine) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if err == nil && len(p) > smallFrame && !strings.HasPrefix(string(p), "GET ") && l.armed.CompareAndSwap(true, false) {
		if tcp, ok := l.Conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // what was sent arrives; the answer finds nobody
		}
		_ = l.Conn.SetReadDeadline(time.Now())
	}
	return n, err
}
