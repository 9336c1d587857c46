package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"cowrite/cmd/cowrite/syncbench"
)

// benchSync drives Automerge clients against a server of the automerge-repo protocol, or, with --compare, the
// chosen loads against this server, a bare relay and the reference server, each a process of its own.
type benchSync struct {
	URL       string        `help:"The server, such as ws://127.0.0.1:8080/api/v1/sync?token=..."`
	PID       int           `help:"The server's process, to measure its CPU time and memory."`
	Relay     bool          `help:"The server is one of bench relay."`
	Documents int           `default:"5" help:"How many documents."`
	Clients   int           `default:"10" help:"How many clients of each."`
	Writers   int           `default:"10" help:"How many of them write."`
	Rate      float64       `default:"10" help:"Edits a second of each writer."`
	History   int           `help:"One-character changes that each document has before."`
	For       time.Duration `default:"10s" help:"How long they write."`
	Compare   bool          `help:"Run the standard loads against this server, a bare relay and the reference server, and print the ratios."`
	Reference string        `help:"With --compare: a script for node that runs the reference server and prints its address; without it the reference is left out."`
}

func (c benchSync) load() syncbench.Load {
	return syncbench.Load{Documents: c.Documents, Clients: c.Clients, Writers: c.Writers, Rate: c.Rate, History: c.History, For: c.For}
}

func (c benchSync) Run(ctx context.Context, p *Program) error {
	l := c.load()
	if l.Documents < 1 || l.Clients < 2 || l.Writers < 1 || l.Writers > l.Clients || l.Rate <= 0 || l.For <= 0 || l.History < 0 {
		return errors.New("a load needs documents, at least two clients of each, of which some write, a rate and a time")
	}
	if c.Compare {
		return c.compare(ctx, p)
	}
	if c.URL == "" {
		return errors.New("say which server by --url, or --compare")
	}
	r, err := syncbench.Run(ctx, syncbench.Target{Addresses: []string{c.URL}, PID: c.PID, Relayed: c.Relay}, l)
	if err != nil {
		return err
	}
	return report(p.Stdout, []row{{"server", l, r}})
}

// row is one measured run.
type row struct {
	server string
	load   syncbench.Load
	syncbench.Result
}

func report(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "server\tedits\tdeliveries\tlost\tdiverged\tp50 ms\tp95 ms\tp99 ms\tCPU µs/delivery\tCPU µs/edit\tRSS MB\t")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t\n", r.server, r.Edits, r.Deliveries, r.Lost, r.Diverged,
			ms(r.P50), ms(r.P95), ms(r.P99), r.PerDelivery().Microseconds(), r.PerEdit().Microseconds(), r.RSS>>20)
	}
	return t.Flush()
}

// measured is a server that a comparison started.
type measured struct {
	name string
	syncbench.Target
	url  string   // http://..., of this server
	keys []string // of this server
	stop func()
}

// The loads of a comparison.
func (c benchSync) loads() (fanOut, crowd, young, old, viewers syncbench.Load) {
	fanOut = syncbench.Load{Documents: 5, Clients: 10, Writers: 10, Rate: 10, For: c.For}
	crowd = syncbench.Load{Documents: 1, Clients: 50, Writers: 50, Rate: 10, For: c.For}
	young = syncbench.Load{Documents: 1, Clients: 2, Writers: 1, Rate: 50, For: c.For}
	old = young
	old.History = 20_000
	viewers = syncbench.Load{Documents: 1, Clients: 500, Writers: 1, Rate: 5, For: c.For}
	return fanOut, crowd, young, old, viewers
}

func (c benchSync) compare(ctx context.Context, p *Program) error {
	own, err := startOwn(ctx, benchKeys)
	if err != nil {
		return err
	}
	defer own.stop()
	relay, err := startServer(ctx, "relay", exec.CommandContext(ctx, self(), "bench", "relay"))
	if err != nil {
		return err
	}
	defer relay.stop()
	relay.Relayed = true
	fanOut, crowd, young, old, viewers := c.loads()
	run := func(title string, l syncbench.Load, servers ...*measured) ([]row, error) {
		fmt.Fprintf(p.Stdout, "\n%s: %d documents, %d clients each, %d of them write %g edits/s, history %d, %v\n", title, l.Documents, l.Clients, l.Writers, l.Rate, l.History, l.For)
		var rows []row
		for _, s := range servers {
			r, err := syncbench.Run(ctx, s.Target, l)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", title, s.name, err)
			}
			rows = append(rows, row{s.name, l, r})
		}
		return rows, report(p.Stdout, rows)
	}
	rows, err := run("fan-out", fanOut, own, relay)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "CPU per delivery: %.2f times the relay's\n", ratio(rows[0].PerDelivery(), rows[1].PerDelivery()))
	if c.Reference != "" {
		if err := c.reference(ctx, p, fanOut, own, relay, run); err != nil {
			return err
		}
	}
	if rows, err = run("a crowd", crowd, own, relay); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "p99: %.2f times the relay's\n", ratio(rows[0].P99, rows[1].P99))
	if rows, err = run("no history", young, own); err != nil {
		return err
	}
	aged, err := run("a long history", old, own)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "CPU per edit: %.2f times that without history\n", ratio(aged[0].PerEdit(), rows[0].PerEdit()))
	if rows, err = run("viewers", viewers, own, relay); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "p99: %.2f times the relay's\n", ratio(rows[0].P99, rows[1].P99))
	return nil
}

// referenceRuns is how often the highest rate that the reference server bears is looked for, between none and that of the load.
const referenceRuns = 4

// reference runs the fan-out against the reference server at the highest rate that it bears: that of the load, or what
// halving the interval finds. The relay says what can be had there at most.
func (c benchSync) reference(ctx context.Context, p *Program, l syncbench.Load, own, relay *measured,
	run func(string, syncbench.Load, ...*measured) ([]row, error)) error {
	full := l.Rate
	borne, notBorne := 0.0, 2*full
	var less, least float64 // at the highest rate that was borne
	for range referenceRuns {
		l.Rate = (borne + notBorne) / 2
		reference, err := startServer(ctx, "reference", exec.CommandContext(ctx, "node", c.Reference))
		if err != nil {
			return err
		}
		rows, err := run("fan-out beside the reference server", l, own, relay, reference)
		reference.stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // it cuts clients off when it cannot keep up
			fmt.Fprintf(p.Stdout, "not borne: %v\n", err)
			notBorne = l.Rate
			continue
		}
		times, floor := ratio(rows[2].PerDelivery(), rows[0].PerDelivery()), ratio(rows[2].PerDelivery(), rows[1].PerDelivery())
		fmt.Fprintf(p.Stdout, "CPU per delivery: %.1f times less than the reference server's, the relay %.1f times\n", times, floor)
		if rows[2].Lost > 0 || rows[2].Diverged > 0 {
			notBorne = l.Rate
			continue
		}
		borne, less, least = l.Rate, times, floor
		if borne == full {
			break
		}
	}
	if borne > 0 {
		fmt.Fprintf(p.Stdout, "at %g edits/s, the highest rate found that it bears: %.1f times less, the relay %.1f times\n", borne, less, least)
	}
	return nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(1, b)) }

func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// benchKeys is how many keys share the clients of a comparison.
const benchKeys = 4

// startOwn starts this server on a temporary folder, and makes keys of as many editors.
func startOwn(ctx context.Context, keys int) (*measured, error) {
	dir, err := os.MkdirTemp("", "cowrite-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data folder: %w", err)
	}
	const key = "cw_bench-0123456789abcdef"
	cmd := exec.CommandContext(ctx, self(), "serve", "--addr", "127.0.0.1:0", "--data", dir)
	cmd.Env = append(os.Environ(), "COWRITE_ADMIN_KEY="+key)
	m, err := startServer(ctx, "cowrite", cmd)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	base := m.Addresses[0]
	m.Addresses, m.url = nil, strings.Replace(base, "ws", "http", 1)
	for n := range keys { // a key may have only so many sockets
		create := exec.CommandContext(ctx, self(), "keys", "create", "--data", dir, "--agent", fmt.Sprint("bench-", n), "--role", "editor")
		token, err := create.Output()
		if err != nil {
			m.stop()
			return nil, errors.Join(fmt.Errorf("create key: %w", err), os.RemoveAll(dir))
		}
		m.keys = append(m.keys, strings.TrimSpace(string(token)))
		m.Addresses = append(m.Addresses, base+"/api/v1/sync?token="+m.keys[n])
	}
	stop := m.stop
	m.stop = func() {
		stop()
		_ = os.RemoveAll(dir)
	}
	return m, nil
}

// startServer starts a process that prints, in its first lines on stdout or stderr, the address at which it listens as
// addr=HOST:PORT.
func startServer(ctx context.Context, name string, cmd *exec.Cmd) (*measured, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), read.Close(), write.Close())
	}
	_ = write.Close()
	found := make(chan string, 1)
	go func() { // ends with the process, whose output it reads
		defer read.Close()
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), "addr="); ok {
				address, _, _ := strings.Cut(rest, " ")
				select {
				case found <- address:
				default:
				}
			}
		}
		close(found)
	}()
	m := &measured{name: name, Target: syncbench.Target{PID: cmd.Process.Pid}}
	m.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // how it ended says nothing here
	}
	address, ok := <-found
	if !ok {
		m.stop()
		return nil, fmt.Errorf("start %s: it ended before it listened", name)
	}
	m.Addresses = []string{"ws://" + address}
	return m, nil
}

// benchRelay serves the bare relay until it is told to stop.
type benchRelay struct{}

func (benchRelay) Run(ctx context.Context, p *Program) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	slog.New(slog.NewTextHandler(p.Stderr, nil)).Info("relaying", "addr", listener.Addr())
	server := &http.Server{Handler: &syncbench.Relay{}, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve relay: %w", err)
	}
	return nil
}
