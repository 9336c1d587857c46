package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// Coordination is a call of the coordination door.
func Coordination(method string, route ...string) Call {
	return Call{Method: method, Path: append([]string{"acp", "coordination"}, route...)}
}

func (c *Client) coordinate(ctx context.Context, method, route string, query url.Values, body, out any) error {
	in := Coordination(method, route)
	in.Query, in.Body = query, body
	return c.json(ctx, in, out)
}

// Session is what a key may do, and for whom.
type Session struct {
	Agent     lease.Agent `json:"agent"`
	Role      string      `json:"role"`
	Documents string      `json:"documents"`
	Share     string      `json:"share"`
}

// Agent tells whom the key acts for.
func (c *Client) Agent(ctx context.Context) (lease.Agent, error) {
	var session Session
	err := c.json(ctx, Call{Method: http.MethodGet, Path: []string{"session"}}, &session)
	return session.Agent, err
}

// Grant is a lease that was granted, extended or renewed.
type Grant struct {
	wire.ResourceLeaseGrant
	Raw json.RawMessage // the answer as it came
}

// grant makes a call that is answered by a grant.
func (c *Client) grant(ctx context.Context, route string, body any) (Grant, error) {
	in := Coordination(http.MethodPost, route)
	in.Body = body
	raw, err := c.Do(ctx, in)
	if err != nil {
		return Grant{}, err
	}
	g := Grant{Raw: raw}
	if err := json.Unmarshal(raw, &g.ResourceLeaseGrant); err != nil {
		return Grant{}, fmt.Errorf("read the grant: %w", err)
	}
	return g, nil
}

// AcquireResource asks once for the lease of any resource. LEASE_HELD when it is not to be had now; DEADLOCK when
// waiting for it would close a circle.
func (c *Client) AcquireResource(ctx context.Context, ask wire.ResourceLeaseRequest) (Grant, error) {
	return c.grant(ctx, "lease", ask)
}

// AwaitResource asks for a lease and waits for it in the queue, for longer than a single request may. When the time
// is up the place is given up too, and the error is the last refusal.
func (c *Client) AwaitResource(ctx context.Context, ask wire.ResourceLeaseRequest, wait time.Duration) (Grant, error) {
	end := time.Now().Add(wait)
	for {
		ask.WaitMs = min(wire.MaxWait, max(time.Until(end), time.Millisecond)).Milliseconds()
		granted, err := c.AcquireResource(ctx, ask)
		if !code.Is(err, code.LeaseHeld) {
			return granted, err
		}
		if time.Now().Before(end) {
			continue
		}
		return Grant{}, errors.Join(err, c.LeaveQueue(ctx, ask.Resource))
	}
}

// LeaveQueue gives the caller's place in the queue of a resource up; having none is no error.
func (c *Client) LeaveQueue(ctx context.Context, resource string) error {
	return c.coordinate(ctx, http.MethodDelete, "wait", url.Values{"resource": {resource}}, nil, nil)
}

// RenewResource sets the end of the caller's lease to now and ttl.
func (c *Client) RenewResource(ctx context.Context, actor wire.DID, resource string, ttl time.Duration) (Grant, error) {
	return c.grant(ctx, "renew", wire.ResourceLeaseRenewal{Resource: resource, ActorDID: string(actor), TTLMs: ttl.Milliseconds()})
}

// ReleaseResource ends the caller's lease; with an id only if it is that grant.
func (c *Client) ReleaseResource(ctx context.Context, actor wire.DID, resource string, id lease.ID) error {
	return c.coordinate(ctx, http.MethodPost, "release", nil,
		wire.ResourceLeaseRelease{Resource: resource, ActorDID: string(actor), LeaseID: string(id)}, nil)
}
