package agentsocket

import (
	"errors"
	"fmt"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// codesOfRefusals is what the keeper's refusals are called at this door, as at REST's.
var codesOfRefusals = map[lease.Why]code.Code{
	lease.Held:          code.SectionLeased,
	lease.NotQueued:     code.SectionLeased, // of a wait whose place was given up meanwhile
	lease.QueueFull:     code.QueueFull,
	lease.Deadlock:      code.Deadlock,
	lease.NotHolder:     code.NotHolder,
	lease.NoActiveLease: code.NoActiveLease,
	lease.StaleLease:    code.StaleLease,
	lease.TooMany:       code.TooManyLeases,
}

// messagesOfRefusals is what they say.
var messagesOfRefusals = map[lease.Why]string{
	lease.Held:          "another agent is editing here right now; leases are advisory",
	lease.NotQueued:     "the place in the queue was given up; leases are advisory",
	lease.QueueFull:     "another agent is editing here right now, and the queue is full; leases are advisory",
	lease.Deadlock:      "waiting here would close a circle of agents that wait for each other",
	lease.NotHolder:     "somebody else holds this lease",
	lease.NoActiveLease: "nobody holds this section's lease",
	lease.StaleLease:    "the present lease is another one",
	lease.TooMany:       "this agent holds as many leases as one may hold",
}

// leaseRefusal says a keeper's refusal with all that an agent needs to decide what to do.
func (s *socket) leaseRefusal(err error) error {
	switch {
	case errors.Is(err, lease.ErrInvalid):
		return code.New(code.BadRequest, "%v", err)
	case errors.Is(err, lease.ErrClosed):
		return code.New(code.ShuttingDown, "the server is shutting down").Because(err)
	}
	r, ok := errors.AsType[*lease.Refusal](err)
	if !ok {
		return fmt.Errorf("ask lease keeper: %w", err)
	}
	e := s.withHolder(code.New(codesOfRefusals[r.Why], "%s", messagesOfRefusals[r.Why]), r.Status)
	switch r.Why {
	case lease.TooMany:
		return e.With("limit", r.Limit)
	case lease.NotHolder, lease.NoActiveLease, lease.StaleLease:
		return e
	case lease.QueueFull:
		e = e.With("limit", r.Limit)
	case lease.Deadlock:
		e = s.withCycle(e, r)
	}
	if r.Position > 0 {
		e = e.With("position", r.Position)
	}
	return e.With("waiters", len(r.Status.Queue)).With("waitMs", r.Wait.Milliseconds())
}

// withHolder adds who is in the way: whoever holds the lease, the last to end if there are several, or for whom it is
// reserved.
func (s *socket) withHolder(e *code.Error, status lease.Status) *code.Error {
	switch {
	case len(status.Holders) > 0:
		l := status.Holders[0]
		e = e.With("holder", l.Holder).With("expiresAt", doc.FormatTime(l.ExpiresAt)).With("expiresInMs", s.remaining(l.ExpiresAt).Milliseconds())
		if l.Reason != "" {
			e = e.With("reason", l.Reason)
		}
	case len(status.Queue) > 0 && !status.Queue[0].Reserved.IsZero():
		w := status.Queue[0]
		e = e.With("reservedFor", w.Agent).With("expiresAt", doc.FormatTime(w.Reserved)).With("expiresInMs", s.remaining(w.Reserved).Milliseconds())
	}
	return e
}

// edge is one step of a circle of waiting.
type edge struct {
	Agent    doc.Agent `json:"agent"`
	Resource string    `json:"resource"`
}

func (s *socket) withCycle(e *code.Error, r *lease.Refusal) *code.Error {
	sight := s.Library.Sight(s.key)
	cycle := make([]edge, 0, len(r.Cycle))
	for _, step := range r.Cycle {
		cycle = append(cycle, edge{step.Agent, s.resourceName(sight, step.Resource)})
	}
	return e.With("waitingOn", s.resourceName(sight, r.WaitingOn)).With("cycle", cycle)
}

// resourceName is what the key's owner calls a resource; what cannot be looked up goes by its inner name.
func (s *socket) resourceName(sight *doc.Sight, r lease.Resource) string {
	name, _, err := sight.Name(s.work, r)
	if err != nil {
		return string(r)
	}
	return name
}

// lostOf says what leases ended without their holder's doing.
func (s *socket) lostOf(events []lease.Event) *agent.LeaseLost {
	sight := s.Library.Sight(s.key)
	out := new(agent.LeaseLost)
	for _, e := range events {
		_, sid, _ := doc.ParseSectionResource(e.Resource)
		l := agent.LostLease{
			LeaseID: e.Lease.ID, Resource: s.resourceName(sight, e.Resource), SectionID: agent.SectionID(sid), Fence: e.Lease.Fence,
			Action: e.Kind, Reason: e.Reason, At: doc.FormatTime(e.At),
		}
		if e.Actor != doc.System {
			l.By = string(e.Actor)
		}
		out.LeaseLost = append(out.LeaseLost, l)
	}
	return out
}
