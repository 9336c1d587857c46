package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease"
	"cowrite/lease/wire"
)

type leaseCommand struct {
	Acquire leaseAcquire `cmd:"" help:"Take the lease of a section or of any other resource. Exit code 1 says who holds it and until when."`
	Renew   leaseRenew   `cmd:"" help:"Set the end of the key's own lease to now and the duration."`
	Release leaseRelease `cmd:"" help:"Give the key's own lease back."`
	List    leaseList    `cmd:"" help:"List the live leases of a document's sections."`
	Wait    leaseWait    `cmd:"" help:"Show who waits for what, or who holds and waits for one resource."`
	Run     leaseRun     `cmd:"" help:"Hold a lease while a command runs. Exit code: the command's own (128 and the signal that killed it); 124 the lease was lost and the command ended; 125 there was no lease and the command was not started; 126 the command cannot be run; 127 there is no such command."`
}

// leaseTarget is what a lease is of.
type leaseTarget struct {
	remote
	Resource string `arg:"" help:"Any name, such as lock:deploy/production or section:plan/goals; or the document of the section."`
	Section  string `arg:"" optional:"" help:"Section id, behind a document."`
}

// name is what the target is called at the server's door.
func (t leaseTarget) name() string {
	if t.Section == "" {
		return t.Resource
	}
	return "section:" + t.Resource + "/" + t.Section
}

// leaseAsk is what is asked for with a lease.
type leaseAsk struct {
	For       time.Duration   `default:"60s" help:"How long, from 1s to 300s."`
	Operation lease.Operation `default:"write" enum:"read,write,delete" help:"What for: reads share, but of locks; a write or delete excludes everything."`
	Reason    string          `help:"What for, in words; others see it."`
	Wait      time.Duration   `default:"0s" help:"Wait in the queue for at most this long; without it a lease that is held is refused at once."`
}

// acquire takes a lease for the key's agent. Without waiting, it takes no place in the queue either: whoever asked
// is gone the next moment.
func (a leaseAsk) acquire(ctx context.Context, server *client.Client, resource string) (wire.ResourceLease, error) {
	agent, err := server.Agent(ctx)
	if err != nil {
		return wire.ResourceLease{}, err
	}
	ask := wire.ResourceLeaseRequest{
		Resource: resource, ActorDID: string(wire.DIDOf(agent)), TTLMs: a.For.Milliseconds(), Operation: a.Operation, Reason: a.Reason,
	}
	if a.Wait > 0 {
		return server.AwaitResource(ctx, ask, a.Wait)
	}
	ask.Queue = new(bool)
	return server.AcquireResource(ctx, ask)
}

type leaseAcquire struct {
	leaseTarget
	leaseAsk
}

func (c leaseAcquire) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := c.acquire(ctx, server, c.name())
	if err != nil {
		return err
	}
	return p.printLease(l)
}

type leaseRenew struct {
	leaseTarget
	For time.Duration `default:"60s" help:"How long from now, from 1s to 300s."`
}

func (c leaseRenew) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	agent, err := server.Agent(ctx)
	if err != nil {
		return err
	}
	l, err := server.RenewResource(ctx, wire.DIDOf(agent), c.name(), c.For)
	if err != nil {
		return err
	}
	return p.printLease(l)
}

// printLease tells a lease in one line: id, holder, end, fence.
func (p *Program) printLease(l wire.ResourceLease) error {
	_, err := fmt.Fprintf(p.Stdout, "%s\t%s\t%s\t%d\n", l.LeaseID, wire.AgentOf(string(l.Holder)), l.ExpiresAt, l.Fence)
	return err
}

type leaseRelease struct {
	leaseTarget
	ID lease.ID `name:"id" help:"Only if the lease is this grant."`
}

func (c leaseRelease) Run(ctx context.Context) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	agent, err := server.Agent(ctx)
	if err != nil {
		return err
	}
	return server.ReleaseResource(ctx, wire.DIDOf(agent), c.name(), c.ID)
}

type leaseList struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
}

func (c leaseList) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	leases, err := server.Leases(ctx, c.Document)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	for _, l := range leases {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.SectionID, l.Holder, l.ExpiresAt, l.Reason)
	}
	return table.Flush()
}

type leaseWait struct {
	remote
	Resource string `arg:"" optional:"" help:"One resource's holders and queue; without it every queue."`
	Section  string `arg:"" optional:"" help:"Section id, behind a document."`
}

func (c leaseWait) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	out, err := server.Queues(ctx, leaseTarget{Resource: c.Resource, Section: c.Section}.name())
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	for _, q := range out.Queues {
		for _, holder := range q.Holders {
			fmt.Fprintf(table, "%s\tholds\t%s\t\n", q.Resource, wire.AgentOf(string(holder)))
		}
		for _, w := range q.Waiters {
			fmt.Fprintf(table, "%s\twaits\t%s\t%d, since %s\n", q.Resource, wire.AgentOf(string(w.ActorDID)), w.Position, w.Since)
		}
	}
	for _, d := range out.Deadlocks {
		var steps []string
		for i, actor := range d.Actors {
			steps = append(steps, fmt.Sprintf("%s for %s", wire.AgentOf(string(actor)), d.Resources[i]))
		}
		fmt.Fprintf(table, "%s\tdeadlock\t%s\trefused at %s\n", d.Resources[0], strings.Join(steps, ", "), d.At)
	}
	return table.Flush()
}
