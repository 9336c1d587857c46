package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/cmd/cowrite/syncbench"
	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/sync/repo"
	"github.com/coder/websocket"
)

// benchMemory measures what a server of its own holds in memory: after documents were opened once and left, for each
// document that is open and idle, and for each idle socket. The heap is read after two collections, because what is pooled
// outlives one; resident memory is that of the server and its workers.
type benchMemory struct {
	Documents int    `default:"10000" help:"How many documents are opened and left, and then held open."`
	Sockets   int    `default:"1000" help:"How many sockets are held open."`
	Profiles  string `help:"Folder into which the heap's profile is written each time that it is measured."`
	Check     bool   `help:"Fail if it is more than it should be: a heap 20 % larger than at the start or resident memory twice as large after documents were left, 20 KB of heap for an open document, 48 KB for a socket."`
}

// The bounds of --check.
const (
	maxLeftHeap      = 1.2
	maxLeftResident  = 2.0
	maxDocumentBytes = 20_000
	maxSocketBytes   = 48_000
)

const (
	benchMakers  = 16  // who make documents at once
	socketKey    = 200 // sockets of one key
	socketOpens  = 500 // documents of one socket
	warmingUp    = 200 // documents that are opened and left before the start
	putAwayAfter = 5 * time.Minute
)

func (c benchMemory) Run(ctx context.Context, p *Program) error {
	if c.Documents < 1 || c.Sockets < 1 {
		return errors.New("documents and sockets have to be positive")
	}
	b, err := c.start(ctx, p)
	if err != nil {
		return err
	}
	defer b.server.stop()
	begin, left, open, sockets, err := b.run(ctx)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\theap KB\tstacks KB\tresident MB\tof workers MB\t")
	for _, h := range []held{begin, left, open, sockets} {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t\n", h.when, h.heap/1000, h.stacks/1000, h.resident/1_000_000, h.workers/1_000_000)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	heap, resident := float64(left.heap)/float64(begin.heap), float64(left.resident)/float64(begin.resident)
	document, socket := (open.heap-left.heap)/c.Documents, (sockets.heap-left.heap)/c.Sockets
	fmt.Fprintf(p.Stdout, "left behind: heap %.2f times, resident memory %.2f times the start\nan idle open document: %d bytes of heap\nan idle socket: %d bytes of heap, %d of stacks\n",
		heap, resident, document, socket, (sockets.stacks-left.stacks)/c.Sockets)
	if c.Check && (heap > maxLeftHeap || resident > maxLeftResident || document > maxDocumentBytes || socket > maxSocketBytes) {
		return errors.New("this is more than it should be")
	}
	return nil
}

// memoryBench is a run under way.
type memoryBench struct {
	benchMemory
	server *measured
	admin  *client.Client
	url    string
	key    string
	keys   []string // for sockets, since one may have only so many
}

func (c benchMemory) start(ctx context.Context, p *Program) (*memoryBench, error) {
	dir, err := os.MkdirTemp("", "cowrite-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data folder: %w", err)
	}
	b := &memoryBench{benchMemory: c, key: "cw_bench-0123456789abcdef"}
	cmd := exec.CommandContext(ctx, self(), "serve", "--addr", "127.0.0.1:0", "--data", dir)
	cmd.Env = append(os.Environ(), "COWRITE_ADMIN_KEY="+b.key)
	if b.server, err = startServer(ctx, "cowrite", cmd); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := b.server.stop
	b.server.stop = func() {
		stop()
		_ = os.RemoveAll(dir)
	}
	b.url = strings.Replace(b.server.Addresses[0], "ws", "http", 1)
	if b.admin, err = client.New(b.url, doc.Secret(b.key)); err == nil {
		err = b.makeKeys(ctx)
	}
	if err != nil {
		b.server.stop()
		return nil, err
	}
	return b, nil
}

func (b *memoryBench) makeKeys(ctx context.Context) error {
	for n := range 1 + max(b.Sockets, (b.Documents+socketOpens-1)/socketOpens)/socketKey {
		answer, err := b.ask(ctx, http.MethodPost, "/api/v1/keys", fmt.Sprintf(`{"agent":"bench-%d","role":"editor"}`, n))
		if err != nil {
			return err
		}
		var made struct{ Key string }
		if err := json.Unmarshal([]byte(answer), &made); err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		b.keys = append(b.keys, made.Key)
	}
	return nil
}

// run measures the server at the start, with all documents left, with all open, and with all sockets open.
func (b *memoryBench) run(ctx context.Context) (begin, left, open, sockets held, err error) {
	fail := func(err error) (_, _, _, _ held, _ error) { return begin, left, open, sockets, err }
	if _, err = b.visit(ctx, warmingUp); err != nil {
		return fail(err)
	}
	if begin, err = b.measure(ctx, "at the start"); err != nil {
		return fail(err)
	}
	ids, err := b.visit(ctx, b.Documents)
	if err != nil {
		return fail(err)
	}
	if left, err = b.measure(ctx, fmt.Sprintf("%d documents opened and left", b.Documents)); err != nil {
		return fail(err)
	}
	err = b.hold(ctx, (len(ids)+socketOpens-1)/socketOpens, ids, func() (err error) {
		if err = b.until(ctx, "cowrite_documents_loaded", 0); err == nil {
			open, err = b.measure(ctx, fmt.Sprintf("%d documents open", b.Documents))
		}
		return err
	})
	if err == nil {
		err = b.until(ctx, "cowrite_documents_open", 0)
	}
	if err != nil {
		return fail(err)
	}
	return fail(b.hold(ctx, b.Sockets, nil, func() (err error) {
		sockets, err = b.measure(ctx, fmt.Sprintf("%d sockets", b.Sockets))
		return err
	}))
}

// visit makes documents over REST, opens each on a socket, leaves them all, and waits until the server has put them away.
func (b *memoryBench) visit(ctx context.Context, documents int) ([]crdt.DocumentID, error) {
	made := make([]crdt.DocumentID, documents)
	errs := make(chan error, benchMakers)
	for maker := range benchMakers {
		go func() {
			var err error
			for i := maker; i < documents && err == nil; i += benchMakers {
				var d client.Document
				if d, err = b.admin.CreateDocument(ctx, client.NewDocument{Markdown: "# A document\n\nIt says little.\n"}); err == nil {
					made[i], err = crdt.ParseDocumentID(d.DocumentID)
				}
			}
			errs <- err
		}()
	}
	var err error
	for range benchMakers {
		err = errors.Join(err, <-errs)
	}
	b.admin.Close()
	if err != nil {
		return nil, fmt.Errorf("make documents: %w", err)
	}
	for some := range slices.Chunk(made, socketOpens) {
		if err := b.hold(ctx, 1, some, func() error { return nil }); err != nil {
			return nil, err
		}
	}
	return made, b.until(ctx, "cowrite_documents_open", 0)
}

// hold opens documents on as many sockets, does something, and closes the sockets.
func (b *memoryBench) hold(ctx context.Context, sockets int, ids []crdt.DocumentID, do func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wait sync.WaitGroup
	opened := make(chan error, sockets)
	for i := range sockets {
		mine := ids[min(len(ids), i*socketOpens):min(len(ids), (i+1)*socketOpens)]
		wait.Go(func() { b.openOn(ctx, i, mine, opened) })
	}
	var err error
	for range sockets {
		err = errors.Join(err, <-opened)
	}
	if err == nil {
		err = do()
	}
	stop()
	wait.Wait()
	return err
}

// openOn opens documents on a socket of its own, says so, and reads, so that pings are answered, until ctx ends.
func (b *memoryBench) openOn(ctx context.Context, n int, ids []crdt.DocumentID, opened chan<- error) {
	ws, err := b.join(ctx, n, ids)
	if err != nil {
		opened <- err
		return
	}
	defer ws.CloseNow() //nolint:errcheck // nothing is left to be said
	for missing := len(ids); ; missing-- {
		if missing == 0 {
			opened <- nil
		}
		if _, _, err := ws.Read(ctx); err != nil {
			if missing > 0 {
				opened <- fmt.Errorf("read from the socket: %w", err)
			}
			return
		}
	}
}

// join connects, and asks for documents as a replica that has nothing of them.
func (b *memoryBench) join(ctx context.Context, n int, ids []crdt.DocumentID) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(ctx, b.server.Addresses[0]+"/api/v1/sync?token="+b.keys[n/socketKey], nil)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	ws.SetReadLimit(-1)
	me := repo.PeerID(fmt.Sprint("bench-", n))
	frames := []repo.Frame{repo.Join{SenderID: me, Versions: []string{repo.Version}}}
	question, _, err := crdt.NewSession(false).Generate(crdt.NewGraph(), nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a sync message: %w", err), ws.CloseNow())
	}
	for _, id := range ids {
		frames = append(frames, repo.Request{SenderID: me, Document: repo.NameOf(id), Data: question})
	}
	for _, f := range frames {
		data, err := repo.Encode(f)
		if err == nil {
			err = ws.Write(ctx, websocket.MessageBinary, data)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("write to the socket: %w", err), ws.CloseNow())
		}
	}
	if _, _, err := ws.Read(ctx); err != nil { // the greeting
		return nil, errors.Join(fmt.Errorf("join: %w", err), ws.CloseNow())
	}
	return ws, nil
}

// held is what the server holds, in bytes.
type held struct {
	when              string
	heap, stacks      int
	resident, workers int // of the server and its workers together, and of those alone
}

// maxCollections bounds those before a measurement. Each halves the stack of a goroutine that uses little of it, so that one does not show what
// an idle server has.
const maxCollections = 8

// measure has the server collect, twice at least and until its stacks shrink no more.
func (b *memoryBench) measure(ctx context.Context, when string) (held, error) {
	h := held{when: when}
	for n, stacks := 0, math.MaxInt; n < 2 || n < maxCollections && h.stacks < stacks-stacks/20; n++ {
		stacks = cmp.Or(h.stacks, stacks)
		text, err := b.ask(ctx, http.MethodGet, "/debug/pprof/heap?gc=1&debug=1", "")
		if err != nil {
			return h, err
		}
		// What the runtime knew right after the collection; what it took since to say so is not counted.
		for name, into := range map[string]*int{"# HeapAlloc = ": &h.heap, "# Stack = ": &h.stacks} {
			_, rest, _ := strings.Cut(text, name)
			if _, err := fmt.Sscan(rest, into); err != nil {
				return h, fmt.Errorf("read %q of the heap's profile: %w", name, err)
			}
		}
	}
	figures, err := b.figures(ctx)
	if err != nil {
		return h, err
	}
	used, err := syncbench.Usage(b.server.PID)
	if err != nil {
		return h, err
	}
	h.resident = int(used.RSS)
	h.workers = h.resident - int(figures["process_resident_memory_bytes"])
	return h, b.keepProfile(ctx, when)
}

// keepProfile writes the heap's profile to the chosen folder, if there is one.
func (b *memoryBench) keepProfile(ctx context.Context, when string) error {
	if b.Profiles == "" {
		return nil
	}
	profile, err := b.ask(ctx, http.MethodGet, "/debug/pprof/heap?gc=1", "")
	if err != nil {
		return err
	}
	name := filepath.Join(b.Profiles, strings.ReplaceAll(when, " ", "-")+".pb.gz")
	if err := os.WriteFile(name, []byte(profile), 0o600); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

// until waits for a figure of the server's.
func (b *memoryBench) until(ctx context.Context, name string, want float64) error {
	ctx, cancel := context.WithTimeout(ctx, putAwayAfter)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		figures, err := b.figures(ctx)
		if err != nil {
			return err
		}
		if figures[name] == want {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is %g, not %g: %w", name, figures[name], want, ctx.Err())
		}
	}
}

// figures gives the server's metrics that have no labels.
func (b *memoryBench) figures(ctx context.Context) (map[string]float64, error) {
	text, err := b.ask(ctx, http.MethodGet, "/metrics", "")
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = f
		}
	}
	return figures, nil
}

// ask sends a request as an administrator and returns the body of its answer.
func (b *memoryBench) ask(ctx context.Context, method, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+b.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("ask for %s: %w", path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s", resp.Status, answer)
	}
	if err != nil {
		return "", fmt.Errorf("ask for %s: %w", path, err)
	}
	return string(answer), nil
}
