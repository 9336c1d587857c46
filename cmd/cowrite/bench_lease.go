package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"cowrite/doc"
	"cowrite/lease"
	"cowrite/web"
)

type benchCommand struct {
	Lease  benchLease  `cmd:"" help:"How many lease requests a second this machine serves, beside what it can serve at most."`
	Sync   benchSync   `cmd:"" help:"What it costs a server to sync documents, and how long changes take."`
	Agent  benchAgent  `cmd:"" help:"How many edits a second agents have acknowledged, by socket and by REST, beside the same ones by replicas."`
	Memory benchMemory `cmd:"" help:"What this server holds in memory for documents that were left, documents that are open, and sockets."`
	Relay  benchRelay  `cmd:"" hidden:""`
}

// benchLease measures lease requests over HTTP against a server of its own: each client leases a resource of
// its own and releases it, again and again, so that every request changes the state and is answered once that is
// durable. The floor is what the same machine does at most: the same clients, connections, keys and store, and for
// each request one row inserted, committed together in the same way. Both are measured in turns.
type benchLease struct {
	Clients int           `default:"64" help:"How many ask at once."`
	For     time.Duration `default:"1s" help:"How long each is measured, in each round."`
	Rounds  int           `default:"10" help:"How many times the floor and the leases are measured, in turns."`
	AtLeast float64       `help:"Fail if the leases come to less than this part of the floor, such as 0.5."`
}

func (c benchLease) Run(ctx context.Context, p *Program) error {
	if c.Clients < 1 || c.Rounds < 1 || c.For <= 0 {
		return errors.New("clients, rounds and time have to be positive")
	}
	dir, err := os.MkdirTemp("", "cowrite-bench-")
	if err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	defer os.RemoveAll(dir)
	b, err := startBench(ctx, settings{data: dir, worker: p.Worker}, c.Clients)
	if err != nil {
		return err
	}
	floor, leases, err := b.measure(ctx, c)
	if err := errors.Join(err, b.stop()); err != nil {
		return err
	}
	ratio := leases.perSecond() / floor.perSecond()
	_, err = fmt.Fprintf(p.Stdout, "%d clients over HTTP, SQLite with durable commits, %d rounds of %v\n%-26s%s\n%-26s%s\nratio                     %.2f\n",
		c.Clients, c.Rounds, c.For, "floor (one row inserted)", floor, "leases (lease, release)", leases, ratio)
	if err == nil && ratio < c.AtLeast {
		err = fmt.Errorf("the leases come to %.2f of the floor, less than %.2f", ratio, c.AtLeast)
	}
	return err
}

// benchServer is the server that is measured, with its clients.
type benchServer struct {
	url     string
	clients []*benchClient
	stop    func() error
}

// floorPath is the route of the floor. No other server has it.
const floorPath = "/bench/insert"

func startBench(ctx context.Context, chosen settings, clients int) (*benchServer, error) {
	s, err := open(ctx, chosen, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), s.close(ctx))
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+floorPath, insertHandler(s.store, web.Authenticate(s.keys)))
	mux.Handle("/", s.http.Handler)
	s.http.Handler = mux

	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- s.serve(serving, listener) }()
	b := &benchServer{url: "http://" + listener.Addr().String()}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	b.stop = func() error {
		transport.CloseIdleConnections()
		end()
		return <-served
	}
	for i := range clients {
		agent := doc.Agent(fmt.Sprintf("client-%d", i))
		_, secret, err := s.keys.Create(ctx, doc.Key{Agent: agent, Role: doc.Editor, Pattern: "*"})
		if err != nil {
			return nil, errors.Join(err, b.stop())
		}
		b.clients = append(b.clients, &benchClient{http: &http.Client{Transport: transport}, secret: secret, agent: agent})
	}
	return b, nil
}

// insertHandler answers a request with JSON once one row is durable: an event in the ledger.
func insertHandler(store doc.Store, authenticate func(*http.Request) (doc.Key, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := authenticate(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		var asked struct {
			Resource lease.Resource `json:"resource"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		event := lease.Event{Kind: lease.Lapsed, Resource: asked.Resource, Actor: key.Agent, At: time.Now(),
			Waiter: lease.Waiter{Resource: asked.Resource, Agent: key.Agent, Mode: lease.Exclusive, Operation: lease.Write}}
		err = store.SaveLeases(r.Context(), []doc.LeaseCommit{{Commit: lease.Commit{Events: []lease.Event{event}}}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "resource": asked.Resource}) // a client that is gone counts nothing
	})
}

// benchClient sends one request after the other.
type benchClient struct {
	http   *http.Client
	secret doc.Secret
	agent  doc.Agent
	holds  bool
}

// insert is one request of the floor.
func (c *benchClient) insert(ctx context.Context, url string) error {
	return c.post(ctx, url+floorPath, map[string]any{"resource": "bench:" + string(c.agent), "actorDid": c.agent})
}

// lease leases the client's resource, or releases it if it holds it.
func (c *benchClient) lease(ctx context.Context, url string) error {
	call := "lease"
	if c.holds {
		call = "release"
	}
	c.holds = !c.holds
	return c.post(ctx, url+web.Prefix+"/acp/coordination/"+call, map[string]any{"resource": "bench:" + string(c.agent), "actorDid": c.agent})
}

func (c *benchClient) post(ctx context.Context, url string, body any) error {
	return c.call(ctx, http.MethodPost, url, body, nil)
}

// call sends JSON and reads the answer into out, unless that is nil.
func (c *benchClient) call(ctx context.Context, method, url string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+string(c.secret))
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("answered %s: %s", resp.Status, bytes.TrimSpace(answer))
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

// figures are what was measured.
type figures struct {
	took     time.Duration
	requests []time.Duration
}

func (f *figures) add(more figures) {
	f.took += more.took
	f.requests = append(f.requests, more.requests...)
}

func (f figures) perSecond() float64 { return float64(len(f.requests)) / f.took.Seconds() }

// percentile is the time within which so many in a hundred requests were answered.
func (f figures) percentile(p int) time.Duration {
	if len(f.requests) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f.requests))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func (f figures) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%8.0f requests/s   p50 %6.2f ms   p99 %6.2f ms", f.perSecond(), ms(f.percentile(50)), ms(f.percentile(99)))
}

func (b *benchServer) measure(ctx context.Context, c benchLease) (floor, leases figures, err error) {
	insert, call := (*benchClient).insert, (*benchClient).lease
	warmUp := min(c.For, time.Second)
	for round := range c.Rounds {
		for _, kind := range []struct {
			into *figures
			do   func(*benchClient, context.Context, string) error
		}{{&floor, insert}, {&leases, call}} {
			if round == 0 {
				if _, err := b.run(ctx, warmUp, kind.do); err != nil {
					return floor, leases, err
				}
			}
			f, err := b.run(ctx, c.For, kind.do)
			if err != nil {
				return floor, leases, err
			}
			kind.into.add(f)
		}
	}
	return floor, leases, nil
}

// run has every client send requests for some time.
func (b *benchServer) run(ctx context.Context, d time.Duration, do func(*benchClient, context.Context, string) error) (figures, error) {
	var senders []func() error
	for _, client := range b.clients {
		senders = append(senders, func() error { return do(client, ctx, b.url) })
	}
	return drive(d, senders)
}

// drive has every sender send one request after the other for some time.
func drive(d time.Duration, senders []func() error) (figures, error) {
	of := make([]figures, len(senders))
	errs := make([]error, len(senders))
	began := time.Now()
	var all sync.WaitGroup
	for i, send := range senders {
		all.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				sent := time.Now()
				if errs[i] = send(); errs[i] == nil {
					of[i].requests = append(of[i].requests, time.Since(sent))
				}
			}
		})
	}
	all.Wait()
	sum := figures{took: time.Since(began)}
	for _, f := range of {
		sum.requests = append(sum.requests, f.requests...)
	}
	return sum, cmp.Or(errs...)
}
