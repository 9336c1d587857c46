package wire

import (
	"fmt"
	"time"

	"cowrite/lease"
)

// Refusal is a refusal as this door says it: a word, a sentence for a person, and what the caller needs to act.
type Refusal struct {
	Word       string // the error, such as lease_held
	Message    string
	Facts      map[string]any
	RetryAfter time.Duration // when to ask again; 0: nothing is said of it
}

// Namer gives what a reader calls a resource.
type Namer func(lease.Resource) (string, error)

// Stampede tells the refused how to come back without trampling each other.
type Stampede struct {
	Admitted int   `json:"admitted" doc:"How many wait in the queue."`
	WaitMs   int64 `json:"waitMs" doc:"How long to back off: min(800, 25 doubled for each waiter before the caller)."`
}

// CircleStep is one step of a circle of waiting: the actor waits for the resource, which the next one holds or is
// ahead for.
type CircleStep struct {
	ActorDID DID    `json:"actorDid"`
	Resource string `json:"resource" doc:"Empty to a reader of the ledger who may not see it."`
}

// Circle says a circle of waiting; nil is none.
func Circle(edges []lease.Edge, name Namer) ([]CircleStep, error) {
	var steps []CircleStep
	for _, e := range edges {
		called, err := name(e.Resource)
		if err != nil {
			return nil, fmt.Errorf("name resource of circle: %w", err)
		}
		steps = append(steps, CircleStep{DIDOf(e.Agent), called})
	}
	return steps, nil
}

// RefusalOf says a refusal of the kernel at an instant. An error is one of name's.
func RefusalOf(r *lease.Refusal, now time.Time, name Namer) (Refusal, error) {
	out := Refusal{Facts: map[string]any{}}
	switch r.Why {
	case lease.NoActiveLease:
		out.Word, out.Message = "no_active_lease", "nobody holds a lease on this resource"
		if reserved(r.Status) {
			out.Facts["reservedFor"] = DIDOf(r.Status.Queue[0].Agent)
		}
		return out, nil
	case lease.TooMany:
		out.Word = "too_many_leases"
		out.Message = fmt.Sprintf("this agent has %d leases and places, which is the most that one may have", r.Limit)
		out.Facts["limit"] = r.Limit
		return out, nil
	case lease.NotHolder:
		out.Word, out.Message = "not_holder", "somebody else holds the lease on this resource"
		out.inTheWay(r.Status, now)
		return out, nil
	case lease.StaleLease:
		out.Word, out.Message = "stale_lease", "the present lease is another one"
		out.inTheWay(r.Status, now)
		return out, nil
	case lease.Deadlock:
		on, err := name(r.WaitingOn)
		if err != nil {
			return Refusal{}, fmt.Errorf("name resource that is waited for: %w", err)
		}
		cycle, err := Circle(r.Cycle, name)
		if err != nil {
			return Refusal{}, err
		}
		out.Word, out.Message = "deadlock", "waiting here would close a circle of agents that wait for each other"
		out.Facts["waitingOn"], out.Facts["cycle"] = on, cycle
		out.inTheWay(r.Status, now)
		return out, nil
	case lease.QueueFull:
		out.Word, out.Message = "queue_full", fmt.Sprintf("another agent holds this resource, and the queue of %d is full", r.Limit)
		out.Facts["limit"] = r.Limit
	default: // held, or a place that was given up while a long poll stood behind it
		out.Word, out.Message = "lease_held", "another agent holds this resource, or comes before"
	}
	queue := r.Status.Queue
	out.inTheWay(r.Status, now)
	out.Facts["stampede"], out.Facts["waiters"] = Stampede{len(queue), r.Wait.Milliseconds()}, len(queue)
	out.RetryAfter = timeLeft(r.Status, now)
	if r.Position > 0 {
		out.Facts["position"] = r.Position
		if r.Position <= len(queue) {
			out.RetryAfter = min(out.RetryAfter, queue[r.Position-1].Place/2)
		}
	}
	out.RetryAfter = max(out.RetryAfter, time.Second)
	return out, nil
}

// inTheWay adds who is: all holders, with the one whose lease ends last before them, or for whom the resource is
// reserved.
func (out *Refusal) inTheWay(status lease.Status, now time.Time) {
	holders := make([]DID, 0, len(status.Holders))
	for _, l := range status.Holders {
		holders = append(holders, DIDOf(l.Holder))
	}
	out.Facts["holders"] = holders
	var holder lease.Agent
	var end time.Time
	switch {
	case len(status.Holders) > 0:
		l := status.Holders[0]
		holder, end = l.Holder, l.ExpiresAt
		if l.Reason != "" {
			out.Facts["reason"] = l.Reason
		}
	case reserved(status):
		holder, end = status.Queue[0].Agent, status.Queue[0].Reserved
		out.Facts["reserved"] = true
	default:
		return
	}
	out.Facts["holder"], out.Facts["expiresAt"], out.Facts["expiresInMs"] = DIDOf(holder), Time(end), Remaining(end, now).Milliseconds()
}

func reserved(status lease.Status) bool {
	return len(status.Queue) > 0 && !status.Queue[0].Reserved.IsZero()
}

// timeLeft is when what is in the way ends by itself.
func timeLeft(status lease.Status, now time.Time) time.Duration {
	switch {
	case len(status.Holders) > 0:
		return Remaining(status.Holders[0].ExpiresAt, now)
	case reserved(status):
		return Remaining(status.Queue[0].Reserved, now)
	}
	return 0
}
