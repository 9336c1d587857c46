package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Retriable is the header of a call that counts once, however often it is sent.
type Retriable struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"A name for this call, up to 255 visible ASCII characters, remembered for 24 hours. The same name and body again is answered with the lease that the first call came to, as it stands now; LEASE_ENDED when that is over. Refusals are not remembered."`
}

// leaseCall is a call to the keeper on behalf of a request.
type leaseCall struct {
	name     string // operationId
	resource lease.Resource
	asked    any  // what was asked for, to tell a retry from another request
	release  bool // it ends a lease
	wait     time.Duration
	command  func(id lease.ID) lease.Command // id: of the grant, if there is one
}

// callLease has the keeper do a call, once for its Idempotency-Key. A long poll ends with its caller, or with the caller's
// key. It also ends when the server is about to, and then its place stays, as over any restart.
func (s *Server) callLease(ctx context.Context, in Retriable, c leaseCall) (lease.Answer, error) {
	key, err := doc.ParseIdempotencyKey(in.IdempotencyKey)
	if err != nil {
		return lease.Answer{}, err
	}
	if c.wait > 0 || key != "" { // for the lease, or for a call with the same key to be over
		polling, end, err := s.whileKeyLives(ctx)
		if err != nil {
			return lease.Answer{}, err
		}
		defer end()
		ctx = polling
	}
	answer, err := s.callLeaseOnce(ctx, key, c)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

func (s *Server) callLeaseOnce(ctx context.Context, key doc.IdempotencyKey, c leaseCall) (lease.Answer, error) {
	do := func(id lease.ID) (lease.Answer, error) {
		if acquire, ok := c.command(id).(lease.Acquire); ok && c.wait > 0 {
			answer, err := s.leases.WaitUntil(ctx, acquire, c.wait, s.opts.Stop.Done())
			if err != nil && ctx.Err() == nil && s.opts.Stop.Err() != nil {
				place := "the place in the queue stays"
				if !acquire.Queue {
					place = "no place in the queue is left"
				}
				err = code.New(code.ShuttingDown, "the server is shutting down; %s", place)
			}
			return answer, err
		}
		return s.leases.Do(ctx, c.command(id))
	}
	if key == "" {
		return do("")
	}
	asked, err := json.Marshal([]any{c.name, []byte(c.resource), c.asked})
	if err != nil {
		return lease.Answer{}, fmt.Errorf("marshal lease call: %w", err)
	}
	waiting := ctx
	if c.wait == 0 {
		ctx = context.WithoutCancel(ctx) // it is over soon, and whether it was done has to be known
	}
	return s.opts.Idempotency.Do(waiting, s.leases, doc.Call{
		Agent: keyOf(ctx).Agent, Key: key, Request: sha256.Sum256(asked), Resource: c.resource, Release: c.release, Do: do,
	})
}
