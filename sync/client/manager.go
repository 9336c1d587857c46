package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"cowrite/lease"
	"cowrite/sync/agent"
)

// LeaseManager holds one lease at a time, for programs that do nothing else: under the names of the LeaseManager of the
// TypeScript SDK, which are those of the npm package llmtxt. It connects with the first lease. Others take
// [Document.Lease], which renews itself from the beginning. It may be used concurrently.
type LeaseManager struct {
	opts Options

	turn   chan struct{} // holds one while somebody acquires or closes
	client *Client       // of whose turn it is; nil before the first lease

	mu   sync.Mutex // never held over I/O
	held *Lease
}

// ErrNoLease is the error of what needs a lease when none was acquired.
var ErrNoLease = errors.New("no lease was acquired")

// releaseTime is how long a lease may take to be given back by Close.
const releaseTime = 5 * time.Second

// NewLeaseManager makes a manager of leases on a server. [Options.LeaseLost] is told what was lost.
func NewLeaseManager(opts Options) *LeaseManager {
	return &LeaseManager{opts: opts, turn: make(chan struct{}, 1)}
}

// Acquire acquires a section's lease for 1 s to 5 min. A *LeaseConflictError says who has it and until when. A lease
// that was acquired before is renewed no longer.
func (m *LeaseManager) Acquire(ctx context.Context, slug, sectionID string, duration time.Duration, reason string) (*Lease, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-m.turn }()
	if m.client == nil {
		c, err := Connect(ctx, m.opts)
		if err != nil {
			return nil, err
		}
		m.client = c
	}
	m.StopAutoRenew()
	l, err := m.client.lease(ctx, agent.Document(slug), agent.SectionID(sectionID), Ask{Duration: duration, Reason: reason}, true)
	if err != nil {
		return nil, err
	}
	m.hold(l)
	return l, nil
}

// LeaseID names the lease; "" if none is held.
func (m *LeaseManager) LeaseID() lease.ID {
	if l, err := m.present(); err == nil && l.Held() {
		return l.ID
	}
	return ""
}

// Renew lets the lease last for so long from now on.
func (m *LeaseManager) Renew(ctx context.Context, duration time.Duration) error {
	l, err := m.present()
	if err != nil {
		return err
	}
	return l.Renew(ctx, duration)
}

// StartAutoRenew renews the lease whenever only so much of its time is left, and never sooner than after a third of it.
func (m *LeaseManager) StartAutoRenew(threshold time.Duration) error {
	l, err := m.present()
	if err != nil {
		return err
	}
	l.StartAutoRenew(threshold)
	return nil
}

// StopAutoRenew lets the lease run out, unless it is renewed.
func (m *LeaseManager) StopAutoRenew() {
	if l, err := m.present(); err == nil {
		l.StopAutoRenew()
	}
}

// Release gives the lease back.
func (m *LeaseManager) Release(ctx context.Context) error {
	l := m.hold(nil)
	if l == nil {
		return ErrNoLease
	}
	return l.Release(ctx)
}

// hold says which lease is held now, and gives the former.
func (m *LeaseManager) hold(l *Lease) (former *Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	former, m.held = m.held, l
	return former
}

// Close gives a lease back that is still held, if the server is there, and ends the connection.
func (m *LeaseManager) Close() error {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.client == nil {
		return nil
	}
	var err error
	if l := m.hold(nil); l != nil && l.Held() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		err = l.Release(ctx)
	}
	m.client.Close()
	m.client = nil
	return err
}

func (m *LeaseManager) present() (*Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		return nil, ErrNoLease
	}
	return m.held, nil
}
