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

	mu     sync.Mutex // of who acquires, too
	client *Client
	held   *Lease
}

// ErrNoLease is the error of what needs a lease when none was acquired.
var ErrNoLease = errors.New("no lease was acquired")

// releaseTime is how long a lease may take to be given back by Close.
const releaseTime = 5 * time.Second

// NewLeaseManager makes a manager of leases on a server. [Options.LeaseLost] is told what was lost.
func NewLeaseManager(opts Options) *LeaseManager { return &LeaseManager{opts: opts} }

// Acquire acquires a section's lease for 1 s to 5 min. A *LeaseConflictError says who has it and until when. A lease
// that was acquired before is renewed no longer.
func (m *LeaseManager) Acquire(ctx context.Context, slug, sectionID string, duration time.Duration, reason string) (*Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil {
		c, err := Connect(ctx, m.opts)
		if err != nil {
			return nil, err
		}
		m.client = c
	}
	if m.held != nil {
		m.held.StopAutoRenew()
	}
	l, err := m.client.lease(ctx, agent.Document(slug), agent.SectionID(sectionID), Ask{Duration: duration, Reason: reason}, true)
	if err != nil {
		return nil, err
	}
	m.held = l
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
	m.mu.Lock()
	l := m.held
	m.held = nil
	m.mu.Unlock()
	if l == nil {
		return ErrNoLease
	}
	return l.Release(ctx)
}

// Close gives a lease back that is still held, if the server is there, and ends the connection.
func (m *LeaseManager) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client == nil {
		return nil
	}
	var err error
	if m.held != nil && m.held.Held() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		err = m.held.Release(ctx)
	}
	m.client.Close()
	m.client, m.held = nil, nil
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
