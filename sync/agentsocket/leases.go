package agentsocket

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// maxWaits is how many requests of one socket may wait for leases: as many as one agent may have places.
const maxWaits = lease.DefaultPerAgent

// waits are the requests of a socket that wait for leases. Each has a goroutine, which end waits for.
type waits struct {
	mu      sync.Mutex
	running int
	over    bool
	all     sync.WaitGroup
}

// begin has a goroutine wait. ok is false when there are too many.
func (w *waits) begin(wait func()) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.running == maxWaits {
		return false
	}
	w.running++
	w.all.Go(func() {
		wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running--
	})
	return true
}

func (w *waits) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.all.Wait()
}

// leaseCall is a call to the keeper on behalf of a request.
type leaseCall struct {
	request  *agent.LeaseRequest
	resource lease.Resource
	release  bool
	do       func(ctx context.Context, id lease.ID) (lease.Answer, error) // id: of the grant, if there is one
}

// leaseRequest asks the keeper about a section's lease.
func (s *socket) leaseRequest(r *agent.LeaseRequest) (agent.Frame, error) {
	meta, sid, err := s.find(r.Document, r.Section)
	if err != nil {
		return nil, err
	}
	if !s.key.CanWrite(meta) {
		return nil, code.New(code.Forbidden, "viewers hold no leases")
	}
	c := leaseCall{request: r, resource: doc.SectionResource(meta.ID, sid)}
	by, leases := s.key.Agent, s.Library.Leases()
	switch r.Action {
	case agent.Acquire:
		ask := lease.Acquire{
			Resource: c.resource, Agent: by, Operation: lease.Write, Duration: doc.Seconds(r.LeaseDurationSeconds), Reason: r.Reason, Place: doc.Seconds(r.PlaceSeconds),
		}
		if r.Queue || r.WaitSeconds > 0 {
			return nil, s.wait(c, ask)
		}
		c.do = func(ctx context.Context, id lease.ID) (lease.Answer, error) {
			ask.NewID = id
			return leases.Do(ctx, ask)
		}
	case agent.Renew:
		c.do = func(ctx context.Context, _ lease.ID) (lease.Answer, error) {
			return leases.Do(ctx, lease.Renew{Resource: c.resource, Agent: by, Duration: doc.Seconds(r.LeaseDurationSeconds)})
		}
	case agent.Release:
		c.release = true
		c.do = func(ctx context.Context, _ lease.ID) (lease.Answer, error) {
			return leases.Do(ctx, lease.Release{Resource: c.resource, Agent: by, IfID: r.LeaseID})
		}
	case agent.Transfer:
		to, err := s.Library.Writer(s.work, meta, r.To)
		if err != nil {
			return nil, err
		}
		c.do = func(ctx context.Context, id lease.ID) (lease.Answer, error) {
			return leases.Do(ctx, lease.Transfer{Resource: c.resource, Agent: by, To: to, NewID: id})
		}
	case agent.Leave:
		return s.leaveQueue(c)
	}
	// It is over soon, and whether it was done has to be known.
	return s.callLease(s.work, context.WithoutCancel(s.work), c)
}

// callLease does a call, once for the request's id, and answers it.
func (s *socket) callLease(waiting, ctx context.Context, c leaseCall) (agent.Frame, error) {
	r := c.request
	key, err := doc.ParseIdempotencyKey(string(r.ID))
	if err != nil {
		return nil, err
	}
	asked := *r
	asked.Header, asked.Document = agent.Header{}, ""
	digest, err := digestOf(agent.TypeLease, []byte(c.resource), asked)
	if err != nil {
		return nil, err
	}
	answer, err := s.Idempotency.Do(waiting, s.Library.Leases(), doc.Call{
		Agent: s.key.Agent, Key: key, Request: digest, Resource: c.resource, Release: c.release,
		Do: func(id lease.ID) (lease.Answer, error) { return c.do(ctx, id) },
	})
	if err != nil {
		return nil, s.leaseRefusal(err)
	}
	ack := &agent.Ack{Header: agent.Header{ID: r.ID}, Document: r.Document, Released: c.release}
	if !c.release {
		ack.Lease = s.leaseOf(answer)
	}
	return ack, nil
}

// wait begins to wait for a lease, and tells the client so where somebody is in the way. The place is given up when
// the socket ends.
func (s *socket) wait(c leaseCall, ask lease.Acquire) error {
	ask.Queue = true
	limit := time.Duration(math.MaxInt64)
	if w := c.request.WaitSeconds; w > 0 {
		limit = doc.Seconds(w)
	}
	c.do = func(ctx context.Context, id lease.ID) (lease.Answer, error) {
		ask.NewID = id
		for began := time.Now(); ; {
			answer, err := s.Library.Leases().Wait(ctx, ask, min(lease.MaxWait, max(limit-time.Since(began), 0)))
			r, refused := errors.AsType[*lease.Refusal](err)
			if !refused || r.Why != lease.Held || r.Position == 0 || time.Since(began) >= limit {
				return answer, err
			}
		}
	}
	s.tellQueued(c)
	ok := s.waits.begin(func() {
		answer, err := s.callLease(s.life, s.life, c)
		if err != nil {
			s.fail(c.request.ID, c.request.Document, err)
			return
		}
		s.say(answer)
	})
	if !ok {
		return code.New(code.TooManyLeases, "a socket may wait for %d leases", maxWaits).With("limit", maxWaits)
	}
	return nil
}

// tellQueued says who is in the way, as far as can be seen before the client takes its place.
func (s *socket) tellQueued(c leaseCall) {
	status := s.Library.Leases().Status(c.resource)
	q := &agent.Queued{Header: agent.Header{ID: c.request.ID}, Document: c.request.Document, SectionID: c.request.Section, Position: len(status.Queue) + 1}
	for i, w := range status.Queue {
		if w.Agent == s.key.Agent {
			q.Position = i + 1
		}
	}
	switch {
	case len(status.Holders) > 0:
		l := status.Holders[0]
		if l.Holder == s.key.Agent {
			return
		}
		q.Holder, q.ExpiresAt, q.ExpiresInMs, q.Reason = l.Holder, doc.FormatTime(l.ExpiresAt), s.Library.Remaining(l.ExpiresAt).Milliseconds(), l.Reason
	case len(status.Queue) == 0:
		return
	}
	s.say(q)
}

func (s *socket) leaveQueue(c leaseCall) (agent.Frame, error) {
	_, err := s.Library.Leases().Do(s.work, lease.Leave{Resource: c.resource, Agent: s.key.Agent})
	r, refused := errors.AsType[*lease.Refusal](err)
	left := err == nil
	if err != nil && !(refused && r.Why == lease.NotQueued) {
		return nil, s.leaseRefusal(err)
	}
	return &agent.Ack{Header: agent.Header{ID: c.request.ID}, Document: c.request.Document, Left: &left}, nil
}

func (s *socket) leaseOf(answer lease.Answer) *agent.Lease {
	a := s.Library.LeaseAnswer(answer)
	return &agent.Lease{
		LeaseID: a.LeaseID, Granted: a.Granted, Holder: a.Holder, ExpiresAt: a.ExpiresAt, ExpiresInMs: a.ExpiresInMs, AcquiredAt: a.AcquiredAt,
		Fence: a.Fence, Reason: a.Reason, Mode: a.Mode, SectionID: agent.SectionID(a.SectionID), Advisory: a.Advisory,
	}
}
