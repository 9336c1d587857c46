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
	err := c.json(ctx, call{method: http.MethodPost, path: leasePath(ref, sid), body: leaseRequest{seconds, reason}}, &l)
	return l, err
}

// RenewLease sets the end of the caller's lease to now and that many seconds.
func (c *Client) RenewLease(ctx context.Context, ref, sid string, seconds int) (Lease, error) {
	var l Lease
	err := c.json(ctx, call{method: http.MethodPatch, path: leasePath(ref, sid), body: leaseRequest{Seconds: seconds}}, &l)
	return l, err
}

// ReleaseLease ends the caller's lease.
func (c *Client) ReleaseLease(ctx context.Context, ref, sid string) error {
	return c.json(ctx, call{method: http.MethodDelete, path: leasePath(ref, sid)}, nil)
}

// Leases lists the live leases of a document.
func (c *Client) Leases(ctx context.Context, ref string) ([]Lease, error) {
	var answer struct {
		Leases []Lease `json:"leases"`
	}
	err := c.json(ctx, call{method: http.MethodGet, path: []string{"documents", ref, "leases"}}, &answer)
	return answer.Leases, err
}
