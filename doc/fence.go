package doc

import (
	"context"

	"cowrite/lease"
)

// WriteOption is what a write may say beside its content.
type WriteOption func(*writeOptions)

type writeOptions struct {
	fence   lease.Fence // 0: none
	via     string      // the door it came by, as it is logged
	key     IdempotencyKey
	request RequestDigest
}

func options(opts []WriteOption) writeOptions {
	o := writeOptions{via: viaREST}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Via names the door that a write came by, for the log: "rest" unless said otherwise.
func Via(door string) WriteOption { return func(o *writeOptions) { o.via = door } }

// Once makes a write and its retries count once: those that the same agent makes with the same key within 24 h. The
// digest of what was asked tells a retry from another request, which is IDEMPOTENCY_MISMATCH.
func Once(key IdempotencyKey, request RequestDigest) WriteOption {
	return func(o *writeOptions) { o.key, o.request = key, request }
}

// Fenced says with which grant's fence the writer believes to hold the section. A stale one is reported and logged,
// and the write counts all the same: leases are advisory.
func Fenced(f lease.Fence) WriteOption { return func(o *writeOptions) { o.fence = f } }

// StaleFence is a fence that is no longer the newest one that conflicts with it.
type StaleFence struct {
	Fence        lease.Fence
	SupersededBy lease.Fence
}

// staleFencePayload is the payload of section.fence_stale.
type staleFencePayload struct {
	SectionID    SectionID   `json:"sectionId"`
	By           Agent       `json:"by"`
	Fence        lease.Fence `json:"fence"`
	SupersededBy lease.Fence `json:"supersededBy"`
	Hash         string      `json:"hash"` // of the change
	Via          string      `json:"via"`
}

// staleFence judges the fence of a write; nil: it has none, or a good one.
func (l *Library) staleFence(ctx context.Context, r lease.Resource, f lease.Fence) (*StaleFence, error) {
	if f == 0 {
		return nil, nil
	}
	status, err := l.Fence(ctx, r, f)
	if err != nil || status.SupersededBy == 0 {
		return nil, err
	}
	return &StaleFence{f, status.SupersededBy}, nil
}

// FenceStatus is what is to be said of a fence at a resource.
type FenceStatus struct {
	Live         *lease.Lease // the lease that carries it, nil when that has ended or never was
	SupersededBy lease.Fence  // of the newest later grant that conflicts with it; 0: it is not stale
}

// Fence says whether a fence of a resource lives, and whether it is stale: a later grant that conflicts with it
// was made, be it over or not. Readers together are never stale. A fence that the resource never had is stale
// once any later grant was made.
func (l *Library) Fence(ctx context.Context, r lease.Resource, f lease.Fence) (FenceStatus, error) {
	for _, held := range l.leases.Status(r).Holders {
		if held.Fence == f {
			return FenceStatus{Live: &held}, nil
		}
	}
	own, err := l.Ledger(ctx, LedgerQuery{Resource: r, MinFence: f, MaxFence: f, Limit: 1})
	if err != nil {
		return FenceStatus{}, err
	}
	shared := len(own) > 0 && own[0].Lease.Mode == lease.Shared
	const page = 64
	for q := (LedgerQuery{Resource: r, MinFence: f + 1, Newest: true, Limit: page}); ; {
		later, err := l.Ledger(ctx, q)
		if err != nil {
			return FenceStatus{}, err
		}
		for _, e := range later {
			if !shared || e.Lease.Mode == lease.Exclusive {
				return FenceStatus{SupersededBy: e.Lease.Fence}, nil
			}
		}
		if len(later) < page {
			return FenceStatus{}, nil
		}
		q.MaxFence = later[page-1].Lease.Fence - 1
	}
}
