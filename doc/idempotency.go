package doc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"cowrite/doc/code"
	"cowrite/lease"
)

// How long and how many lease calls are remembered.
const (
	LeaseCallsKept     = 24 * time.Hour
	LeaseCallsPerAgent = 10_000 // the oldest are forgotten first

	maxIdempotencyKey = 255 // bytes
)

// IdempotencyKey is the name that a caller gives a call, so that the call and its retries count once.
type IdempotencyKey string

// ParseIdempotencyKey checks a key: up to 255 visible ASCII characters. "" is none.
func ParseIdempotencyKey(s string) (IdempotencyKey, error) {
	outside := func(c byte) bool { return c <= ' ' || c > '~' }
	if len(s) > maxIdempotencyKey || slices.ContainsFunc([]byte(s), outside) {
		return "", code.New(code.BadRequest, "an Idempotency-Key is 1 to %d visible ASCII characters", maxIdempotencyKey)
	}
	return IdempotencyKey(s), nil
}

// RequestDigest is the SHA-256 of what was asked, to tell a retry from another request.
type RequestDigest [sha256.Size]byte

// LeaseCall is a lease call that succeeded, as it is remembered for its retries.
type LeaseCall struct {
	Agent    Agent
	Key      IdempotencyKey
	Request  RequestDigest
	Resource lease.Resource
	Lease    lease.ID // granted, extended, renewed, handed or released
	Granted  bool     // the call made the lease
	Released bool     // the call ended the lease
	At       time.Time
}

// Idempotency makes lease calls count once, however often they are sent. It is safe for concurrent use.
//
// A grant is remembered in the transaction that makes it, if the keeper stands on [Idempotency.LeaseStore]: a
// retry after a crash finds both or neither. Other calls are remembered right after; what a crash in between
// forgets is done again and comes to the same (a lease extended twice is one lease).
type Idempotency struct {
	store Store
	now   func() time.Time

	turns turns

	mu       sync.Mutex
	granting map[lease.ID]*granting // by the id that the grant will have
}

// granting is a call whose grant is on its way to the store.
type granting struct {
	LeaseCall
	saved bool
}

// NewIdempotency makes one over a store. now nil is time.Now.
func NewIdempotency(s Store, now func() time.Time) *Idempotency {
	if now == nil {
		now = time.Now
	}
	return &Idempotency{store: s, now: now, granting: map[lease.ID]*granting{}}
}

// Call is one lease call: what identifies it, and how it is done. Do is given the id that a grant has to have.
// It must not return before it is known whether there is a grant; when it returns the error of its context nothing
// was granted.
type Call struct {
	Agent    Agent
	Key      IdempotencyKey // "": the call is simply done
	Request  RequestDigest
	Resource lease.Resource
	Release  bool // it ends a lease
	Do       func(id lease.ID) (lease.Answer, error)
}

// Do does a call, or answers it again with the lease as it stands now. LEASE_ENDED when the lease that the first
// call came to is over, IDEMPOTENCY_MISMATCH when the key was used for another request. Refusals are not
// remembered. Of calls with the same key that come at once, one is done and the others wait for it.
func (i *Idempotency) Do(ctx context.Context, keeper *lease.Keeper, c Call) (lease.Answer, error) {
	if c.Key == "" {
		return c.Do("")
	}
	over, err := i.turns.enter(ctx, callName{c.Agent, c.Key})
	if err != nil {
		return lease.Answer{}, err
	}
	defer over()
	former, err := i.store.LeaseCall(ctx, c.Agent, c.Key)
	switch {
	case err == nil && i.now().Sub(former.At) < LeaseCallsKept:
		return again(keeper, former, c)
	case err != nil && !errors.Is(err, ErrNotFound):
		return lease.Answer{}, fmt.Errorf("recall lease call: %w", err)
	}
	return i.first(ctx, c)
}

// first does a call that is not remembered.
func (i *Idempotency) first(ctx context.Context, c Call) (lease.Answer, error) {
	u, err := uuid.NewRandom()
	if err != nil {
		return lease.Answer{}, fmt.Errorf("name lease: %w", err)
	}
	id := lease.ID(u.String())
	g := &granting{LeaseCall: LeaseCall{
		Agent: c.Agent, Key: c.Key, Request: c.Request, Resource: c.Resource, Lease: id, Released: c.Release, At: i.now(),
	}}
	i.mu.Lock()
	i.granting[id] = g
	i.mu.Unlock()
	answer, err := c.Do(id)
	i.mu.Lock()
	saved := g.saved
	delete(i.granting, id)
	i.mu.Unlock()

	after := context.WithoutCancel(ctx) // what was done is remembered, whether or not its caller still listens
	switch {
	case err != nil && saved: // granted, and taken back from a caller who was gone
		if err := i.store.ForgetLeaseCall(after, c.Agent, c.Key); err != nil {
			return lease.Answer{}, fmt.Errorf("forget lease call: %w", err)
		}
		return lease.Answer{}, err
	case err != nil:
		return lease.Answer{}, err
	case saved:
		return answer, nil
	}
	g.Lease = answer.Lease.ID
	if err := i.store.SaveLeases(after, []LeaseCommit{{Calls: []LeaseCall{g.LeaseCall}}}); err != nil {
		return lease.Answer{}, fmt.Errorf("remember lease call: %w", err)
	}
	return answer, nil
}

// again answers a retry.
func again(keeper *lease.Keeper, former LeaseCall, c Call) (lease.Answer, error) {
	if former.Request != c.Request {
		return lease.Answer{}, idempotencyMismatch()
	}
	if former.Released {
		record, _, _ := keeper.Agent(c.Agent)
		return lease.Answer{Lease: lease.Lease{ID: former.Lease, Resource: former.Resource, Holder: c.Agent}, Trust: record.Trust}, nil
	}
	for _, held := range keeper.Status(former.Resource).Holders {
		if held.ID == former.Lease {
			record, _, _ := keeper.Agent(held.Holder)
			return lease.Answer{Lease: held, Granted: former.Granted, Trust: record.Trust}, nil
		}
	}
	return lease.Answer{}, code.New(code.LeaseEnded, "the lease that this request came to is over").With("leaseId", former.Lease)
}

// riding gives the calls whose grants are among the events, to be saved with them.
func (i *Idempotency) riding(events []lease.Event) []LeaseCall {
	i.mu.Lock()
	defer i.mu.Unlock()
	var calls []LeaseCall
	for _, e := range events {
		if g := i.granting[e.Lease.ID]; g != nil && (e.Kind == lease.Granted || e.Kind == lease.Handed) {
			call := g.LeaseCall
			call.Granted = true
			calls = append(calls, call)
		}
	}
	return calls
}

// landed says that calls are durable.
func (i *Idempotency) landed(calls []LeaseCall) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range calls {
		if g := i.granting[c.Lease]; g != nil {
			g.saved = true
		}
	}
}
