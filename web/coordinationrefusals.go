package web

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

// stampede tells the refused how to come back without trampling each other.
type stampede struct {
	Admitted int   `json:"admitted" doc:"How many wait in the queue."`
	WaitMs   int64 `json:"waitMs" doc:"How long to back off: min(800, 25 doubled for each waiter before the caller)."`
}

// coordinationRefusal says a keeper's refusal as this door does.
func (s *Server) coordinationRefusal(ctx context.Context, err error) error {
	r, ok := errors.AsType[*lease.Refusal](err)
	if !ok {
		return s.leaseRefusal(ctx, err)
	}
	sight := s.library.Sight(keyOf(ctx))
	c := codesOfRefusals[r.Why]
	var refused *code.Error
	switch r.Why {
	case lease.NoActiveLease:
		refused = code.New(c, "nobody holds a lease on this resource")
		if isReserved(r.Status) {
			refused = refused.With("reservedFor", didOf(r.Status.Queue[0].Agent))
		}
		return refused
	case lease.TooMany:
		return code.New(c, "this agent has %d leases and places, which is the most that one may have", r.Limit).With("limit", r.Limit)
	case lease.NotHolder:
		return s.withHolders(code.New(c, "somebody else holds the lease on this resource"), r.Status)
	case lease.StaleLease:
		return s.withHolders(code.New(c, "the present lease is another one"), r.Status)
	case lease.Deadlock:
		on, _, err := sight.Name(ctx, r.WaitingOn)
		if err != nil {
			return err
		}
		cycle, err := circle(ctx, sight, r.Cycle)
		if err != nil {
			return err
		}
		refused = code.New(c, "waiting here would close a circle of agents that wait for each other").With("waitingOn", on).With("cycle", cycle)
		return s.withHolders(refused, r.Status)
	case lease.QueueFull:
		refused = code.New(c, "another agent holds this resource, and the queue of %d is full", r.Limit).With("limit", r.Limit)
	default:
		refused = code.New(code.LeaseHeld, "another agent holds this resource, or comes before")
	}
	refused = s.withHolders(refused, r.Status).
		With("stampede", stampede{len(r.Status.Queue), r.Wait.Milliseconds()}).With("waiters", len(r.Status.Queue))
	back := s.timeLeft(r.Status)
	if r.Position > 0 {
		refused = refused.With("position", r.Position)
		if r.Position <= len(r.Status.Queue) {
			back = min(back, r.Status.Queue[r.Position-1].Place/2)
		}
	}
	return retryAfter(refused, back)
}

// withHolders adds who is in the way: all holders, with the one whose lease ends last before them, or for
// whom the resource is reserved.
func (s *Server) withHolders(e *code.Error, status lease.Status) *code.Error {
	holders := make([]doc.Agent, 0, len(status.Holders))
	for _, l := range status.Holders {
		holders = append(holders, l.Holder)
	}
	e = e.With("holders", didsOf(holders))
	var holder doc.Agent
	var end time.Time
	switch {
	case len(status.Holders) > 0:
		l := status.Holders[0]
		holder, end = l.Holder, l.ExpiresAt
		if l.Reason != "" {
			e = e.With("reason", l.Reason)
		}
	case isReserved(status):
		holder, end = status.Queue[0].Agent, status.Queue[0].Reserved
		e = e.With("reserved", true)
	default:
		return e
	}
	return e.With("holder", didOf(holder)).With("expiresAt", doc.FormatTime(end)).With("expiresInMs", s.remaining(end).Milliseconds())
}

// circleStep is one step of a circle of waiting: the actor waits for the resource, which the next one holds or is
// ahead for.
type circleStep struct {
	ActorDID did    `json:"actorDid"`
	Resource string `json:"resource"`
}

func circle(ctx context.Context, sight *doc.Sight, edges []lease.Edge) ([]circleStep, error) {
	steps := make([]circleStep, 0, len(edges))
	for _, e := range edges {
		name, _, err := sight.Name(ctx, e.Resource)
		if err != nil {
			return nil, fmt.Errorf("name resource of circle: %w", err)
		}
		steps = append(steps, circleStep{didOf(e.Agent), name})
	}
	return steps, nil
}
