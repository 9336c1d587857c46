package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease"
	"cowrite/lease/wire"
)

type leaseStatus struct {
	asking
	Resource string `arg:"" optional:"" help:"Any name, or the document of the section." complete:"document"`
	Section  string `arg:"" optional:"" help:"Section id, behind a document." complete:"section"`
}

func (c leaseStatus) Run(ctx context.Context, p *Program) error {
	if c.Resource == "" {
		return ask(ctx, p, c.asking, client.Coordination(http.MethodGet, "resources"), func(out *printer, all wire.Standing) {
			for _, r := range all.Resources {
				for _, l := range r.Leases {
					out.row(r.Resource, "holds", wire.AgentOf(string(l.Holder)), "until "+out.time(l.ExpiresAt), l.Reason)
				}
				out.queue(wire.ResourceQueue{Resource: r.Resource, ReservedFor: r.ReservedFor, Waiters: r.Waiters})
			}
		})
	}
	call := client.Coordination(http.MethodGet, "wait")
	call.Query = url.Values{"resource": {leaseTarget{c.Resource, c.Section}.name()}}
	return ask(ctx, p, c.asking, call, func(out *printer, all wire.ResourceQueues) {
		for _, q := range all.Queues {
			out.queue(q)
		}
	})
}

// queue is who holds a resource, and who waits for it.
func (o *printer) queue(q wire.ResourceQueue) {
	for _, holder := range q.Holders {
		o.row(q.Resource, "holds", wire.AgentOf(string(holder)))
	}
	for _, agent := range q.ReservedFor {
		o.row(q.Resource, "reserved", wire.AgentOf(string(agent)))
	}
	for _, w := range q.Waiters {
		o.row(q.Resource, "waits", wire.AgentOf(string(w.ActorDID)), fmt.Sprintf("%d, since %s", w.Position, o.time(w.Since)))
	}
}

type leaseWait struct {
	asking
}

func (c leaseWait) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Coordination(http.MethodGet, "wait"), func(out *printer, all wire.ResourceQueues) {
		for _, q := range all.Queues {
			out.queue(q)
		}
		for _, d := range all.Deadlocks {
			var steps []string
			for i, actor := range d.Actors {
				steps = append(steps, fmt.Sprintf("%s for %s", wire.AgentOf(string(actor)), d.Resources[i]))
			}
			out.row(d.Resources[0], "deadlock", strings.Join(steps, ", "), "refused at "+out.time(d.At))
		}
	})
}

type leaseList struct {
	asking
	docArg
}

func (c leaseList) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodGet, Path: c.path("leases")}, func(out *printer, all client.Leases) {
		for _, l := range all.Leases {
			out.row(l.SectionID, l.Holder, "until "+out.time(l.ExpiresAt), l.Reason)
		}
		for _, q := range all.Queues {
			for _, w := range q.Waiters {
				out.row(q.SectionID, w.Agent, fmt.Sprintf("waits, %d since %s", w.Position, out.time(w.Since)))
			}
		}
	})
}

type leaseLedger struct {
	asking
	After    int64  `default:"0" help:"Begin behind the entry with this number."`
	Resource string `help:"Of this resource alone." placeholder:"NAME"`
	Agent    string `help:"Of what this agent did alone." placeholder:"NAME"`
	Limit    int    `default:"100" help:"How many at most, from 1 to 1000."`
}

func (c leaseLedger) Run(ctx context.Context, p *Program) error {
	call := client.Coordination(http.MethodGet, "ledger")
	call.Query = url.Values{"after": {strconv.FormatInt(c.After, 10)}, "limit": {strconv.Itoa(c.Limit)}}
	if c.Resource != "" {
		call.Query.Set("resource", c.Resource)
	}
	if c.Agent != "" {
		call.Query.Set("actor", c.Agent)
	}
	return ask(ctx, p, c.asking, call, func(out *printer, page wire.LedgerPage) {
		for _, e := range page.Entries {
			fence := ""
			if e.Fence != 0 {
				fence = fmt.Sprint(e.Fence)
			}
			out.row(e.Seq, out.time(e.At), wire.AgentOf(string(e.ActorDID)), e.Action, e.Resource, fence, e.Reason)
		}
	})
}

type leaseCheck struct {
	asking
	Resource string      `arg:"" help:"The resource, such as lock:deploy/production or section:plan/goals."`
	Fence    lease.Fence `arg:"" help:"Fence that a grant of it told."`
}

func (c leaseCheck) Run(ctx context.Context, p *Program) error {
	call := client.Coordination(http.MethodPost, "check")
	call.Body = map[string]any{"resource": c.Resource, "fence": c.Fence}
	raw, err := c.fetch(ctx, p, call)
	if err != nil {
		return err
	}
	state, err := decode[struct {
		Current      bool        `json:"current"`
		Stale        bool        `json:"stale"`
		SupersededBy lease.Fence `json:"supersededBy"`
	}](raw)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		err = p.printJSON(raw)
	case state.Current:
		_, err = fmt.Fprintln(p.Stdout, "current")
	case state.Stale:
		_, err = fmt.Fprintf(p.Stdout, "stale, superseded by %d\n", state.SupersededBy)
	default:
		_, err = fmt.Fprintln(p.Stdout, "ended")
	}
	if err == nil && !state.Current {
		err = &exitError{code: exitConflict}
	}
	return err
}
