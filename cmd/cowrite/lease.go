package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease"
	"cowrite/lease/wire"
)

type leaseCommand struct {
	Acquire  leaseAcquire  `cmd:"" help:"Take the lease of a section or of any other resource: lease id, holder, end, fence. Refused, it says who holds it and until when."`
	Renew    leaseRenew    `cmd:"" help:"Set the end of the key's own lease to now and the duration."`
	Release  leaseRelease  `cmd:"" help:"Give the key's own lease back; an administrator ends anybody's with --force."`
	Transfer leaseTransfer `cmd:"" help:"Hand the key's own lease of a section to another agent, with no instant in between."`
	Leave    leaseLeave    `cmd:"" help:"Give up the key's place in a queue."`
	Status   leaseStatus   `cmd:"" help:"Who holds one resource and who waits for it; without one, all that is held or waited for."`
	Wait     leaseWait     `cmd:"" help:"Show every queue, and the waits that were refused as deadlocks in the last hour."`
	List     leaseList     `cmd:"" help:"List the live leases and queues of a document: section, agent, end or place, reason."`
	Ledger   leaseLedger   `cmd:"" help:"Read what became of every lease, in order: number, time, agent, action, resource, fence."`
	Check    leaseCheck    `cmd:"" help:"Say whether a fence is the present one, or stale. Exit code 3 says that it is not the present one."`
	Run      leaseRun      `cmd:"" help:"Hold a lease while a command runs."`
}

func (leaseCommand) Help() string {
	return "A lease is advisory: it asks others to keep off, and never stops a write. It ends by itself, after 1 to 300 seconds."
}

// leaseTarget is what a lease is of.
type leaseTarget struct {
	Resource string `arg:"" help:"Any name, such as lock:deploy/production or section:plan/goals; or the document of the section." complete:"document"`
	Section  string `arg:"" optional:"" help:"Section id, behind a document." complete:"section"`
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
	For       time.Duration   `default:"60s" help:"How long, from 1s to 300s (5m)."`
	Operation lease.Operation `default:"write" enum:"read,write,delete" help:"What for: reads share, but of locks; a write or delete excludes everything."`
	Reason    string          `help:"What for, in words; others see it."`
	Wait      time.Duration   `default:"0s" help:"Wait in the queue for at most this long; without it a lease that is held is refused at once."`
}

// acquire takes a lease for the key's agent. Without waiting it takes no place in the queue either, unless queue says
// so: whoever asked is gone the next moment.
func (a leaseAsk) acquire(ctx context.Context, server *client.Client, resource string, queue bool) (client.Grant, error) {
	agent, err := server.Agent(ctx)
	if err != nil {
		return client.Grant{}, err
	}
	ask := wire.ResourceLeaseRequest{
		Resource: resource, ActorDID: string(wire.DIDOf(agent)), TTLMs: a.For.Milliseconds(), Operation: a.Operation, Reason: a.Reason,
	}
	if a.Wait > 0 {
		return server.AwaitResource(ctx, ask, a.Wait)
	}
	ask.Queue = &queue
	return server.AcquireResource(ctx, ask)
}

type leaseAcquire struct {
	asking
	leaseTarget
	leaseAsk
	Queue bool `help:"Refused, take a place in the queue for half a minute, in which to ask again."`
}

func (leaseAcquire) Help() string {
	return `Examples:

    cowrite lease acquire plan goals --for 5m --reason 'rewriting the goals'
    cowrite lease acquire lock:deploy/production --wait 2m
    cowrite lease acquire lock:deploy/production --json | jq .lease.fence`
}

func (c leaseAcquire) Run(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	g, err := c.acquire(ctx, server, c.name(), c.Queue)
	if err != nil {
		return err
	}
	return p.printGrant(c.asking, g)
}

// printGrant prints a lease that was granted or renewed.
func (p *Program) printGrant(a asking, g client.Grant) error {
	if a.JSON {
		return p.printJSON(g.Raw)
	}
	l := g.Lease
	return p.print(func(out *printer) { out.row(l.LeaseID, wire.AgentOf(string(l.Holder)), out.time(l.ExpiresAt), l.Fence) })
}

type leaseRenew struct {
	asking
	leaseTarget
	For time.Duration `default:"60s" help:"How long from now, from 1s to 300s (5m)."`
}

func (c leaseRenew) Run(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	agent, err := server.Agent(ctx)
	if err != nil {
		return err
	}
	g, err := server.RenewResource(ctx, wire.DIDOf(agent), c.name(), c.For)
	if err != nil {
		return err
	}
	return p.printGrant(c.asking, g)
}

type leaseRelease struct {
	asking
	leaseTarget
	ID     lease.ID `name:"id" help:"Only if the lease is this grant." placeholder:"LEASE"`
	Force  bool     `help:"End anybody's lease of a section, with --id that grant alone; the key is an administrator's."`
	Reason string   `help:"With --force: why, for the log and the former holder." placeholder:"TEXT"`
}

func (leaseRelease) Help() string {
	return `Examples:

    cowrite lease release plan goals
    cowrite lease release plan goals --force --reason 'the agent hangs'`
}

func (c leaseRelease) Run(ctx context.Context, p *Program) error {
	if c.Reason != "" && !c.Force {
		return &exitError{exitUsage, errors.New("--reason goes with --force: one's own lease is given back without one")}
	}
	if c.Force {
		call, err := c.sectionCall(http.MethodDelete)
		if err != nil {
			return err
		}
		call.Query = url.Values{"force": {"true"}, "reason": {c.Reason}}
		if c.ID != "" {
			call.Header = map[string]string{"If-Match": strconv.Quote(string(c.ID))}
		}
		return ask(ctx, p, c.asking, call, func(*printer, struct{}) {})
	}
	server, err := c.client(p)
	if err != nil {
		return err
	}
	agent, err := server.Agent(ctx)
	server.Close()
	if err != nil {
		return err
	}
	call := client.Coordination(http.MethodPost, "release")
	call.Body = wire.ResourceLeaseRelease{Resource: c.name(), ActorDID: string(wire.DIDOf(agent)), LeaseID: string(c.ID)}
	return ask(ctx, p, c.asking, call, func(*printer, struct{}) {})
}

// sectionCall is a call about the lease of a section, for what there is at no other resource.
func (t leaseTarget) sectionCall(method string, more ...string) (client.Call, error) {
	if t.Section == "" {
		return client.Call{}, &exitError{exitUsage, errors.New("this is for sections alone: say the document and the section")}
	}
	s := sectionArg{docArg{t.Resource}, t.Section}
	return client.Call{Method: method, Path: s.path(append([]string{"lease"}, more...)...)}, nil
}

type leaseTransfer struct {
	asking
	sectionArg
	To string `arg:"" help:"Agent that may write to the document."`
}

func (c leaseTransfer) Run(ctx context.Context, p *Program) error {
	call := client.Call{Method: http.MethodPost, Path: c.path("lease", "transfer"), Body: map[string]string{"to": c.To}}
	return ask(ctx, p, c.asking, call, func(out *printer, l client.Lease) { out.row(l.LeaseID, l.Holder, out.time(l.ExpiresAt), l.Fence) })
}

type leaseLeave struct {
	asking
	leaseTarget
}

func (c leaseLeave) Run(ctx context.Context, p *Program) error {
	call := client.Coordination(http.MethodDelete, "wait")
	call.Query = url.Values{"resource": {c.name()}}
	return ask(ctx, p, c.asking, call, func(out *printer, left wire.LeftResourceQueue) {
		if !left.Left {
			out.row("there was no place to give up")
		}
	})
}
