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

// codesOfRefusals is what the keeper's refusals are called at this door.
var codesOfRefusals = map[lease.Why]code.Code{
	lease.Held:          code.SectionLeased,
	lease.NotQueued:     code.SectionLeased, // of a long poll whose place was given up meanwhile
	lease.QueueFull:     code.QueueFull,
	lease.Deadlock:      code.Deadlock,
	lease.NotHolder:     code.NotHolder,
	lease.NoActiveLease: code.NoActiveLease,
	lease.StaleLease:    code.StaleLease,
	lease.TooMany:       code.TooManyLeases,
}

// leaseRefusal says a keeper's refusal with all that an agent needs to decide what to do.
func (s *Server) leaseRefusal(ctx context.Context, err error) error {
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
	c := codesOfRefusals[r.Why]
	switch r.Why {
	case lease.NoActiveLease:
		return noActiveLease(r.Status)
	case lease.TooMany:
		return code.New(c, "this agent holds %d leases, which is the most that one may hold", r.Limit).With("limit", r.Limit)
	case lease.NotHolder:
		return s.withHolder(code.New(c, "somebody else holds this lease"), r.Status)
	case lease.StaleLease:
		return s.withHolder(code.New(c, "the present lease is another one"), r.Status)
	}
	var refused *code.Error
	switch r.Why {
	case lease.QueueFull:
		refused = code.New(c, "another agent is editing here right now, and the queue of %d is full; leases are advisory", r.Limit).With("limit", r.Limit)
	case lease.Deadlock:
		refused = code.New(c, "waiting here would close a circle of agents that wait for each other").
			With("waitingOn", s.resourceName(ctx, r.WaitingOn)).With("cycle", s.cycle(ctx, r.Cycle))
	default:
		refused = code.New(c, "another agent is editing here right now; leases are advisory")
	}
	refused = s.withHolder(refused, r.Status).With("waiters", len(r.Status.Queue)).With("waitMs", r.Wait.Milliseconds())
	back := s.timeLeft(r.Status)
	if r.Position > 0 {
		refused = refused.With("position", r.Position)
		if r.Position <= len(r.Status.Queue) {
			back = min(back, r.Status.Queue[r.Position-1].Place/2)
		}
	}
	return retryAfter(refused, back)
}

// withHolder adds who is in the way: whoever holds the lease, the last to end if there are several, or
// for whom it is reserved.
func (s *Server) withHolder(e *code.Error, status lease.Status) *code.Error {
	switch {
	case len(status.Holders) > 0:
		l := status.Holders[0]
		e = e.With("holder", l.Holder).With("expiresAt", doc.FormatTime(l.ExpiresAt)).With("expiresInMs", s.remaining(l.ExpiresAt).Milliseconds())
		if l.Reason != "" {
			e = e.With("reason", l.Reason)
		}
		if names := several(status.Holders); names != nil {
			e = e.With("holders", names)
		}
	case isReserved(status):
		w := status.Queue[0]
		e = e.With("holder", w.Agent).With("expiresAt", doc.FormatTime(w.Reserved)).With("expiresInMs", s.remaining(w.Reserved).Milliseconds()).With("reserved", true)
	}
	return e
}

// timeLeft is when what is in the way ends by itself.
func (s *Server) timeLeft(status lease.Status) time.Duration {
	switch {
	case len(status.Holders) > 0:
		return s.remaining(status.Holders[0].ExpiresAt)
	case isReserved(status):
		return s.remaining(status.Queue[0].Reserved)
	}
	return 0
}

func isReserved(status lease.Status) bool {
	return len(status.Queue) > 0 && !status.Queue[0].Reserved.IsZero()
}

func noActiveLease(status lease.Status) error {
	err := code.New(code.NoActiveLease, "nobody holds this section's lease")
	if isReserved(status) {
		err = err.With("reservedFor", status.Queue[0].Agent)
	}
	return err
}

// several names the holders where there is more than one.
func several(holders []lease.Lease) []doc.Agent {
	if len(holders) < 2 {
		return nil
	}
	names := make([]doc.Agent, 0, len(holders))
	for _, l := range holders {
		names = append(names, l.Holder)
	}
	return names
}

// edge is one step of a circle of waiting.
type edge struct {
	Agent    doc.Agent `json:"agent"`
	Resource string    `json:"resource"`
}

func (s *Server) cycle(ctx context.Context, edges []lease.Edge) []edge {
	out := make([]edge, 0, len(edges))
	for _, e := range edges {
		out = append(out, edge{e.Agent, s.resourceName(ctx, e.Resource)})
	}
	return out
}

// resourceName is what a caller calls a resource: a section is section:<slug>/<sid>. The slug of a document
// that the caller may not read is not told.
func (s *Server) resourceName(ctx context.Context, r lease.Resource) string {
	id, sid, ok := doc.ParseSectionResource(r)
	if !ok {
		return string(r)
	}
	ref := id.String()
	if meta, err := s.library.Find(ctx, keyOf(ctx), ref); err == nil {
		ref = meta.Ref()
	}
	return "section:" + ref + "/" + string(sid)
}
