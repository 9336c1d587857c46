package web

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"cowrite/doc"
	"cowrite/lease"
	"cowrite/lease/wire"
)

const (
	resourcesMost = 1000 // how many resources one answer tells of
	agentsMost    = 1000 // how many agents
)

type listResourcesOutput struct{ Body wire.Standing }

func (s *Server) listResources(ctx context.Context, _ *struct{}) (*listResourcesOutput, error) {
	sight := s.library.Sight(keyOf(ctx))
	now := s.leases.Now()
	names := map[lease.Resource]string{}
	var statuses []lease.Status
	for _, status := range s.leases.List("") {
		name, mine, err := sight.Name(ctx, status.Resource)
		if err != nil {
			return nil, err
		}
		if mine {
			names[status.Resource] = name
			statuses = append(statuses, status)
		}
	}
	slices.SortFunc(statuses, func(a, b lease.Status) int {
		return cmp.Or(cmp.Compare(min(len(b.Queue), 1), min(len(a.Queue), 1)), cmp.Compare(names[a.Resource], names[b.Resource]))
	})
	out := &listResourcesOutput{wire.Standing{OK: true, Total: len(statuses), Resources: []wire.ResourceStanding{}, Waits: []wire.ResourceWait{}, Agents: []wire.AgentTrust{}}}
	statuses = statuses[:min(len(statuses), resourcesMost)]
	agents := map[lease.Agent]bool{}
	for _, status := range statuses {
		out.Body.Resources = append(out.Body.Resources, wire.ResourceStandingOf(names[status.Resource], status, now))
		for _, l := range status.Holders {
			agents[l.Holder] = true
		}
		for _, w := range status.Queue {
			agents[w.Agent] = true
		}
	}
	for _, e := range lease.Waits(statuses) {
		out.Body.Waits = append(out.Body.Waits, wire.ResourceWait{ActorDID: wire.DIDOf(e.From), For: wire.DIDOf(e.To), Resource: names[e.Over]})
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		record, _, _ := s.leases.Agent(name)
		out.Body.Agents = append(out.Body.Agents, wire.AgentTrust{ActorDID: wire.DIDOf(name), Trust: wire.Trust(record.Trust)})
	}
	return out, nil
}

type listAgentsOutput struct{ Body wire.AgentList }

func (s *Server) listAgents(ctx context.Context, _ *struct{}) (*listAgentsOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	records := s.leases.Agents()
	out := &listAgentsOutput{wire.AgentList{OK: true, Agents: []wire.AgentSummary{}, Total: len(records)}}
	for _, r := range records[:min(len(records), agentsMost)] {
		_, leases, waiters := s.leases.Agent(r.Agent)
		last, err := s.library.Ledger(ctx, doc.LedgerQuery{Agent: r.Agent, Newest: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		entry := wire.AgentSummary{
			ActorDID: wire.DIDOf(r.Agent), Agent: r.Agent, Trust: wire.Trust(r.Trust),
			Grants: r.Grants, Releases: r.Releases, Expiries: r.Expiries, Refusals: r.Refusals,
			Holds: len(leases), WaitsFor: len(waiters),
		}
		for _, e := range last {
			entry.LastAt = wire.Time(e.At)
		}
		out.Body.Agents = append(out.Body.Agents, entry)
	}
	return out, nil
}
