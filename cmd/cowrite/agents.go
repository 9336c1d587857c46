package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease/wire"
)

type whoamiCommand struct {
	asking
}

func (c whoamiCommand) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodGet, Path: []string{"session"}}, func(out *printer, s client.Session) {
		out.row(s.Agent, s.Role, cmp.Or(s.Share, s.Documents))
	})
}

type agentCommand struct {
	Show agentShow `cmd:"" help:"Show an agent's trust, what it holds and what it waits for; without a name, of the key's own agent."`
	List agentList `cmd:"" help:"List all agents, for an administrator: name, trust, leases and places that it has, grants, when it last did something about leases."`

	People agentPeople `cmd:"" help:"Print those of some authors who are people; the others are programs."`
}

type agentPeople struct {
	asking
	Names []string `arg:"" name:"name" help:"Authors, as they stand in logs."`
}

func (c agentPeople) Run(ctx context.Context, p *Program) error {
	type found struct {
		People []string `json:"people"`
	}
	call := client.Call{Method: http.MethodGet, Path: []string{"people"}, Query: url.Values{"name": c.Names}}
	return ask(ctx, p, c.asking, call, func(out *printer, f found) {
		for _, name := range f.People {
			out.row(name)
		}
	})
}

type agentShow struct {
	asking
	Name string `arg:"" optional:"" help:"The agent; without it the key's own."`
}

func (c agentShow) Run(ctx context.Context, p *Program) error {
	name := c.Name
	if name == "" {
		server, err := c.client(p)
		if err != nil {
			return err
		}
		own, err := server.Agent(ctx)
		server.Close()
		if err != nil {
			return err
		}
		name = string(own)
	}
	return ask(ctx, p, c.asking, client.Coordination(http.MethodGet, "agents", name), func(out *printer, a wire.AgentStanding) {
		out.row("agent", a.Agent)
		out.row("trust", fmt.Sprintf("%g of 100", a.Trust))
		out.row("leases", fmt.Sprintf("%d granted, %d given back, %d ran out, %d refused", a.Grants, a.Releases, a.Expiries, a.Refusals))
		for _, l := range a.Holds {
			out.row("holds", l.Resource, "until "+out.time(l.ExpiresAt), l.Reason)
		}
		for _, w := range a.WaitsFor {
			out.row("waits for", w.Resource, fmt.Sprintf("%d, since %s", w.Position, out.time(w.Since)))
		}
	})
}

type agentList struct {
	asking
}

func (c agentList) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Coordination(http.MethodGet, "agents"), func(out *printer, all wire.AgentList) {
		for _, a := range all.Agents {
			out.row(a.Agent, a.Trust, a.Holds, a.WaitsFor, a.Grants, out.time(a.LastAt))
		}
	})
}
