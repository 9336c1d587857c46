package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"cowrite/cmd/cowrite/syncbench"
	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/sync/agent"
	"cowrite/sync/client"
	"cowrite/web"
)

// benchAgent measures edits that agents have acknowledged as durable, at each door of a server of its own: everybody
// inserts one character at the beginning of a section on the version that they know, and waits for the answer before the
// next. Who has a socket follows the document meanwhile, with replicas as with agents. The doors are measured in turns, each time
// on documents of their own, so that none has the longer history.
type benchAgent struct {
	Agents    int           `default:"32" help:"How many write at once."`
	Documents int           `default:"8" help:"How many documents they share."`
	For       time.Duration `default:"2s" help:"How long each door is measured, in each round."`
	Rounds    int           `default:"5" help:"How many times the doors are measured, in turns."`
	Passages  int           `default:"200" help:"How many passages of a section of 100 KB are replaced, one after the other."`
	AtLeast   float64       `help:"Fail if the socket takes less than this part of what the automerge-repo door takes, such as 0.7."`
	AtMost    time.Duration `help:"Fail if replacing a passage takes this much longer than a commit, such as 5ms."`
}

func (c benchAgent) Run(ctx context.Context, p *Program) error {
	if c.Agents < 1 || c.Documents < 1 || c.Agents%c.Documents != 0 || c.Agents/c.Documents < 2 || c.Rounds < 1 || c.For <= 0 || c.Passages < 1 {
		return errors.New("agents, documents, rounds, passages and time have to be positive, and each document needs as many agents as the others, at least two")
	}
	server, err := startOwn(ctx, c.Agents)
	if err != nil {
		return err
	}
	defer server.stop()
	fmt.Fprintf(p.Stdout, "%d agents on %d documents, SQLite with durable commits, %d rounds of %v\n", c.Agents, c.Documents, c.Rounds, c.For)
	doors := []*door{{name: "automerge-repo", run: c.replicas}, {name: "agent socket", run: c.sockets}, {name: "REST", run: c.rest}}
	for range c.Rounds {
		for _, d := range doors {
			if err := d.measure(ctx, server); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
	}
	t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "door\tedits/s\tp50 ms\tp99 ms\tCPU µs/edit\t")
	for _, d := range doors {
		fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%d\t\n", d.name, d.perSecond(), milliseconds(d.percentile(50)), milliseconds(d.percentile(99)),
			d.cpu.Microseconds()/int64(max(1, len(d.requests))))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	ratio := doors[1].perSecond() / doors[0].perSecond()
	fmt.Fprintf(p.Stdout, "the agent socket takes %.2f times what the automerge-repo door takes\n", ratio)
	beyond, err := c.replace(ctx, p, server)
	if err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	if ratio < c.AtLeast {
		err = fmt.Errorf("the agent socket takes %.2f of what the automerge-repo door takes, less than %.2f", ratio, c.AtLeast)
	}
	if c.AtMost > 0 && beyond > c.AtMost {
		err = errors.Join(err, fmt.Errorf("replacing a passage takes %v longer than a commit, more than %v", beyond, c.AtMost))
	}
	return err
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d.Microseconds())/1000) }

// door is a way to edit, and what was measured of it.
type door struct {
	name string
	run  func(context.Context, *measured) (figures, time.Duration, error)
	figures
	cpu time.Duration // of the server
}

func (d *door) measure(ctx context.Context, server *measured) error {
	f, cpu, err := d.run(ctx, server)
	d.add(f)
	d.cpu += cpu
	return err
}

// replicas edit as stock clients do.
func (c benchAgent) replicas(ctx context.Context, server *measured) (figures, time.Duration, error) {
	r, err := syncbench.Run(ctx, server.Target, syncbench.Load{
		Documents: c.Documents, Clients: c.Agents / c.Documents, Writers: c.Agents / c.Documents, For: c.For,
	})
	return figures{took: r.Wrote, requests: r.Acked}, r.CPU, err
}

// benchText is what a document has before.
const benchText = "# Bench\n"

// sockets edit by cowrite.agent.v1.
func (c benchAgent) sockets(ctx context.Context, server *measured) (figures, time.Duration, error) {
	names := make([]agent.Document, c.Documents)
	var writers []func() error
	for i, key := range server.keys {
		connection, err := client.Connect(ctx, client.Options{URL: server.url, Key: key})
		if err != nil {
			return figures{}, 0, err
		}
		defer connection.Close()
		name := &names[i%c.Documents]
		if *name == "" {
			if *name, err = connection.CreateDocument(ctx, client.NewDocument{Markdown: benchText}); err != nil {
				return figures{}, 0, err
			}
		}
		d, err := connection.Open(ctx, *name, client.Open{})
		if err != nil {
			return figures{}, 0, err
		}
		section := d.Sections()[0].ID
		writers = append(writers, func() error {
			_, err := d.Edit(ctx, section, client.Ops(agent.TextOp{Insert: "y"}).On(d.Version()))
			return err
		})
	}
	return driveMeasured(server, c.For, writers)
}

// rest edits by PATCH, on the version of the writer's last answer.
func (c benchAgent) rest(ctx context.Context, server *measured) (figures, time.Duration, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: c.Agents}
	defer transport.CloseIdleConnections()
	type made struct {
		DocumentID string       `json:"documentId"`
		Version    crdt.Version `json:"version"`
		Sections   []struct {
			ID string `json:"id"`
		} `json:"sections"`
	}
	documents := make([]made, c.Documents)
	var writers []func() error
	for i, key := range server.keys {
		caller := &benchClient{http: &http.Client{Transport: transport}, secret: doc.Secret(key)}
		d := &documents[i%c.Documents]
		if d.DocumentID == "" {
			if err := caller.call(ctx, http.MethodPost, server.url+web.Prefix+"/documents", map[string]any{"markdown": benchText}, d); err != nil {
				return figures{}, 0, err
			}
		}
		base := d.Version
		path := server.url + web.Prefix + "/documents/" + d.DocumentID + "/sections/" + d.Sections[0].ID
		writers = append(writers, func() error {
			edit := map[string]any{"base": base, "ops": []doc.TextOp{{Insert: "y"}}}
			var answer struct {
				Version crdt.Version `json:"version"`
			}
			if err := caller.call(ctx, http.MethodPatch, path, edit, &answer); err != nil {
				return err
			}
			base = answer.Version
			return nil
		})
	}
	return driveMeasured(server, c.For, writers)
}

// driveMeasured has writers write for some time, and tells what CPU time the server used.
func driveMeasured(server *measured, d time.Duration, writers []func() error) (figures, time.Duration, error) {
	before, err := syncbench.Usage(server.PID)
	if err != nil {
		return figures{}, 0, err
	}
	f, err := drive(d, writers)
	if err != nil {
		return f, 0, err
	}
	after, err := syncbench.Usage(server.PID)
	return f, after.CPU - before.CPU, err
}

// largeBytes is the size of the section in which passages are replaced.
const largeBytes = 100_000

// replace replaces passages of a large section by the agent socket, and posts messages, which cost a commit and nothing beside:
// in turns. It returns how much longer the former takes.
func (c benchAgent) replace(ctx context.Context, p *Program, server *measured) (time.Duration, error) {
	connection, err := client.Connect(ctx, client.Options{URL: server.url, Key: server.keys[0]})
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	var text strings.Builder
	text.WriteString(benchText)
	for n := 0; text.Len() < largeBytes; n++ {
		fmt.Fprintf(&text, "Passage %d of the section reads as it was written. ", n)
	}
	name, err := connection.CreateDocument(ctx, client.NewDocument{Markdown: text.String()})
	if err != nil {
		return 0, err
	}
	d, err := connection.Open(ctx, name, client.Open{})
	if err != nil {
		return 0, err
	}
	section := d.Sections()[0].ID
	var replaced, committed figures
	timed := func(into *figures, do func() error) error {
		sent := time.Now()
		err := do()
		into.requests = append(into.requests, time.Since(sent))
		return err
	}
	for n := range c.Passages {
		find, with := fmt.Sprintf("Passage %d of", n), fmt.Sprintf("Passage %d, revised, of", n)
		err := errors.Join(
			timed(&committed, func() error {
				_, err := d.Post(ctx, map[string]int{"passage": n})
				return err
			}),
			timed(&replaced, func() error {
				_, err := d.Edit(ctx, section, client.Replace(agent.Replacement{Find: find, With: with}))
				return err
			}))
		if err != nil {
			return 0, err
		}
	}
	beyond := replaced.percentile(50) - committed.percentile(50)
	_, err = fmt.Fprintf(p.Stdout, "replacing a passage of %d KB: p50 %s ms, p99 %s ms; a commit alone: p50 %s ms, p99 %s ms; beyond the commit: %s ms\n",
		largeBytes/1000, milliseconds(replaced.percentile(50)), milliseconds(replaced.percentile(99)),
		milliseconds(committed.percentile(50)), milliseconds(committed.percentile(99)), milliseconds(beyond))
	return beyond, err
}
