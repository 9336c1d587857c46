package doc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cowrite/doc/code"
	"cowrite/lease"
)

// leaseCodes is what the keeper's refusals are called where sections are leased.
var leaseCodes = map[lease.Why]code.Code{
	lease.Held:          code.SectionLeased,
	lease.NotQueued:     code.SectionLeased, // of a wait whose place was given up meanwhile
	lease.QueueFull:     code.QueueFull,
	lease.Deadlock:      code.Deadlock,
	lease.NotHolder:     code.NotHolder,
	lease.NoActiveLease: code.NoActiveLease,
	lease.StaleLease:    code.StaleLease,
	lease.TooMany:       code.TooManyLeases,
}

// LeaseRefusal says what the keeper answered about a section's lease as every door does: a *code.Error with all that an
// agent needs to decide what to do. again is when to ask again; 0 where that is of no use.
func (l *Library) LeaseRefusal(ctx context.Context, k Key, err error) (again time.Duration, refused error) {
	switch {
	case errors.Is(err, lease.ErrInvalid):
		return 0, code.New(code.BadRequest, "%v", err)
	case errors.Is(err, lease.ErrClosed):
		return 0, code.New(code.ShuttingDown, "the server is shutting down").Because(err)
	}
	r, ok := errors.AsType[*lease.Refusal](err)
	if !ok {
		return 0, fmt.Errorf("ask lease keeper: %w", err)
	}
	c := leaseCodes[r.Why]
	switch r.Why {
	case lease.NoActiveLease:
		return 0, NoActiveLease(r.Status)
	case lease.TooMany:
		return 0, code.New(c, "this agent holds %d leases, which is the most that one may hold", r.Limit).With("limit", r.Limit)
	case lease.NotHolder:
		return 0, l.withHolder(code.New(c, "somebody else holds this lease"), r.Status)
	case lease.StaleLease:
		return 0, l.withHolder(code.New(c, "the present lease is another one"), r.Status)
	}
	var e *code.Error
	switch r.Why {
	case lease.QueueFull:
		e = code.New(c, "another agent is editing here right now, and the queue of %d is full; leases are advisory", r.Limit).With("limit", r.Limit)
	case lease.Deadlock:
		if e, err = l.deadlock(ctx, k, r); err != nil {
			return 0, err
		}
	default:
		e = code.New(c, "another agent is editing here right now; leases are advisory")
	}
	e = l.withHolder(e, r.Status).With("waiters", len(r.Status.Queue)).With("waitMs", r.Wait.Milliseconds())
	again = max(l.timeLeft(r.Status), time.Second)
	if r.Position > 0 {
		e = e.With("position", r.Position)
		if r.Position <= len(r.Status.Queue) {
			again = min(again, max(r.Status.Queue[r.Position-1].Place/2, time.Second))
		}
	}
	return again, e
}

// withHolder adds who is in the way: whoever holds the lease, the last to end if there are several, or for whom it is
// reserved.
func (l *Library) withHolder(e *code.Error, status lease.Status) *code.Error {
	until := func(end time.Time) {
		e = e.With("expiresAt", FormatTime(end)).With("expiresInMs", l.Remaining(end).Milliseconds())
	}
	switch {
	case len(status.Holders) > 0:
		held := status.Holders[0]
		e = e.With("holder", held.Holder)
		until(held.ExpiresAt)
		if held.Reason != "" {
			e = e.With("reason", held.Reason)
		}
		if names := SeveralHolders(status); names != nil {
			e = e.With("holders", names)
		}
	case isReserved(status):
		w := status.Queue[0]
		e = e.With("holder", w.Agent).With("reserved", true)
		until(w.Reserved)
	}
	return e
}

// timeLeft is when what is in the way ends by itself.
func (l *Library) timeLeft(status lease.Status) time.Duration {
	switch {
	case len(status.Holders) > 0:
		return l.Remaining(status.Holders[0].ExpiresAt)
	case isReserved(status):
		return l.Remaining(status.Queue[0].Reserved)
	}
	return 0
}

func isReserved(status lease.Status) bool {
	return len(status.Queue) > 0 && !status.Queue[0].Reserved.IsZero()
}

// NoActiveLease is NO_ACTIVE_LEASE, with the waiter for whom the free lease is kept.
func NoActiveLease(status lease.Status) error {
	err := code.New(code.NoActiveLease, "nobody holds this section's lease")
	if isReserved(status) {
		err = err.With("reservedFor", status.Queue[0].Agent)
	}
	return err
}

// SeveralHolders names the holders where there is more than one.
func SeveralHolders(status lease.Status) []Agent {
	if len(status.Holders) < 2 {
		return nil
	}
	names := make([]Agent, 0, len(status.Holders))
	for _, l := range status.Holders {
		names = append(names, l.Holder)
	}
	return names
}

// edge is one step of a circle of waiting.
type edge struct {
	Agent    Agent  `json:"agent"`
	Resource string `json:"resource"`
}

// deadlock names the circle that waiting would close, as the key's owner calls what is in it.
func (l *Library) deadlock(ctx context.Context, k Key, r *lease.Refusal) (*code.Error, error) {
	sight := l.Sight(k)
	waitingOn, _, err := sight.Name(ctx, r.WaitingOn)
	if err != nil {
		return nil, err
	}
	cycle := make([]edge, 0, len(r.Cycle))
	for _, step := range r.Cycle {
		name, _, err := sight.Name(ctx, step.Resource)
		if err != nil {
			return nil, err
		}
		cycle = append(cycle, edge{step.Agent, name})
	}
	return code.New(code.Deadlock, "waiting here would close a circle of agents that wait for each other").
		With("waitingOn", waitingOn).With("cycle", cycle), nil
}
