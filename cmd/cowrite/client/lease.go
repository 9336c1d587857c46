package client

import (
	"context"
	"net/http"
)

// Lease is a live lease of a section.
type Lease struct {
	LeaseID     string `json:"leaseId"`
	SectionID   string `json:"sectionId"`
	Holder      string `json:"holder"`
	ExpiresAt   string `json:"expiresAt"`
	ExpiresInMs int64  `json:"expiresInMs"`
	Fence       uint64 `json:"fence"`
	Reason      string `json:"reason,omitempty"`
}

func leasePath(ref, sid string) []string {
	return []string{"documents", ref, "sections", sid, "lease"}
}

type leaseRequest struct {
	Seconds int    `json:"leaseDurationSeconds"`
	Reason  string `json:"reason,omitempty"`
}

// AcquireLease takes the lease of a section, for 1 to 300 seconds. SECTION_LEASED when somebody else holds it.
func (c *Client) AcquireLease(ctx context.Context, ref, sid string, seconds int, reason string) (Lease, error) {
	var l Lease
	err := c.json(ctx, Call{Method: http.MethodPost, Path: leasePath(ref, sid), Body: leaseRequest{seconds, reason}}, &l)
	return l, err
}

// RenewLease sets the end of the caller's lease to now and that many seconds.
func (c *Client) RenewLease(ctx context.Context, ref, sid string, seconds int) (Lease, error) {
	var l Lease
	err := c.json(ctx, Call{Method: http.MethodPatch, Path: leasePath(ref, sid), Body: leaseRequest{Seconds: seconds}}, &l)
	return l, err
}

// ReleaseLease ends the caller's lease.
func (c *Client) ReleaseLease(ctx context.Context, ref, sid string) error {
	return c.json(ctx, Call{Method: http.MethodDelete, Path: leasePath(ref, sid)}, nil)
}

// Leases are the live leases and the queues of a document.
type Leases struct {
	Leases []Lease `json:"leases"`
	Queues []struct {
		SectionID string `json:"sectionId"`
		Waiters   []struct {
			Agent    string `json:"agent"`
			Position int    `json:"position"`
			Since    string `json:"since"`
		} `json:"waiters"`
	} `json:"queues"`
}

// Leases lists the live leases of a document.
func (c *Client) Leases(ctx context.Context, ref string) ([]Lease, error) {
	var answer Leases
	err := c.json(ctx, Call{Method: http.MethodGet, Path: []string{"documents", ref, "leases"}}, &answer)
	return answer.Leases, err
}
