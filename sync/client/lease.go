package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// Ask says how a lease is wanted.
type Ask struct {
	Duration time.Duration // 1 s to 5 min; 0 is 60 s. It is renewed until it is released
	Reason   string        // told to others who ask
	Wait     bool          // in the queue, until the context ends; else a LeaseConflictError at once
}

// Lease is a section's lease: it asks others to keep off. It renews itself after each third of the time that it has left,
// by this process's own time and not by the server's clock (web/docs/leases.md), until it is released or lost.
type Lease struct {
	Document agent.Document
	Section  agent.SectionID
	ID       lease.ID
	Fence    lease.Fence // for Edit.Under
	Granted  bool        // by this request; else the agent had it already, in another process perhaps

	c       *Client
	end     context.CancelFunc // of the renewing
	ended   context.Context
	changed chan struct{} // what renewing goes by is another; holds one
	lost    chan struct{}
	once    sync.Once

	mu       sync.Mutex
	duration time.Duration // of each renewal
	endsAt   time.Time     // by the monotonic clock
	manual   bool          // it does not renew itself
	before   time.Duration // its end it renews itself; 0: after a third of the time left
}

// ErrLeaseLapsed is why a lease is lost whose renewals did not get through in time.
var ErrLeaseLapsed = errors.New("the lease ran out before it could be renewed")

// LeaseConflictError says that somebody else has the lease, or comes before: SECTION_LEASED, DEADLOCK, QUEUE_FULL. It
// wraps the refusal, a *code.Error with all facts. Nothing is blocked by it: a write is merged all the same.
type LeaseConflictError struct {
	Holder    string        // who has it, or for whom it is reserved
	ExpiresAt string        // when it ends by the server's clock, ISO 8601
	ExpiresIn time.Duration // how long that is, which needs no right clock

	refusal *code.Error
}

func (e *LeaseConflictError) Error() string {
	return fmt.Sprintf("%v (held by %s until %s)", e.refusal, e.Holder, e.ExpiresAt)
}

// Unwrap gives the refusal.
func (e *LeaseConflictError) Unwrap() error { return e.refusal }

// conflict is err as a LeaseConflictError, where it says who is in the way.
func conflict(err error) error {
	refusal, ok := errors.AsType[*code.Error](err)
	if !ok || refusal.Code != code.SectionLeased && refusal.Code != code.Deadlock && refusal.Code != code.QueueFull {
		return err
	}
	holder, _ := refusal.Facts["holder"].(string)
	expiresAt, _ := refusal.Facts["expiresAt"].(string)
	ms, _ := refusal.Facts["expiresInMs"].(float64)
	return &LeaseConflictError{Holder: holder, ExpiresAt: expiresAt, ExpiresIn: time.Duration(ms) * time.Millisecond, refusal: refusal}
}

// Lease acquires a section's lease. A *LeaseConflictError says who holds it and for how long.
func (d *Document) Lease(ctx context.Context, sid agent.SectionID, ask Ask) (*Lease, error) {
	return d.c.Lease(ctx, d.name, sid, ask)
}

// Lease acquires the lease of a section of a document, which need not be open. A *LeaseConflictError says who holds it
// and for how long.
func (c *Client) Lease(ctx context.Context, name agent.Document, sid agent.SectionID, ask Ask) (*Lease, error) {
	return c.lease(ctx, name, sid, ask, false)
}

func (c *Client) lease(ctx context.Context, name agent.Document, sid agent.SectionID, ask Ask, manual bool) (*Lease, error) {
	if ask.Duration == 0 {
		ask.Duration = time.Minute
	}
	id := newID()
	asked := time.Now()
	ack, err := c.ack(ctx, id, &agent.LeaseRequest{
		Header: agent.Header{ID: id}, Document: name, Section: sid, Action: agent.Acquire,
		LeaseDurationSeconds: ask.Duration.Seconds(), Reason: ask.Reason, Queue: ask.Wait,
	})
	if err != nil {
		if ask.Wait && ctx.Err() != nil {
			c.leaveQueue(name, sid)
		}
		return nil, fmt.Errorf("lease section %s: %w", sid, conflict(err))
	}
	if ask.Wait {
		asked = time.Now() // it was granted just before it was answered
	}
	l := &Lease{
		Document: name, Section: sid, ID: ack.Lease.LeaseID, Fence: ack.Lease.Fence, Granted: ack.Lease.Granted, c: c,
		changed: make(chan struct{}, 1), lost: make(chan struct{}), duration: ask.Duration, endsAt: asked.Add(lasts(ack)), manual: manual,
	}
	l.ended, l.end = context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal != nil {
		return nil, fmt.Errorf("lease section %s: %w", sid, c.fatal)
	}
	c.leases[l] = struct{}{}
	c.all.Go(l.keep)
	return l, nil
}

// lasts is how long the lease in an answer lasts.
func lasts(ack *agent.Ack) time.Duration {
	return time.Duration(ack.Lease.ExpiresInMs) * time.Millisecond
}

// leaveQueue gives up the place of a caller who waits no longer. What was granted at that very moment runs out.
func (c *Client) leaveQueue(name agent.Document, sid agent.SectionID) {
	if b, err := agent.Encode(&agent.LeaseRequest{Document: name, Section: sid, Action: agent.Leave}); err == nil {
		c.sendNow(b)
	}
}

// Lost is closed when the lease has ended without its being released.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Held says whether the lease is held, as far as is known here.
func (l *Lease) Held() bool { return l.ended.Err() == nil && l.Left() > 0 }

// Left is for how long the lease lasts without a renewal; a write into the section lets it last longer at the server,
// which is not counted.
func (l *Lease) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.endsAt))
}

// StartAutoRenew has the lease renew itself when so much of its time is left, and never sooner than after a third of it;
// 0 is after a third.
func (l *Lease) StartAutoRenew(before time.Duration) { l.renewBy(false, before) }

// StopAutoRenew lets the lease run out, unless it is renewed.
func (l *Lease) StopAutoRenew() { l.renewBy(true, 0) }

func (l *Lease) renewBy(manual bool, before time.Duration) {
	l.mu.Lock()
	l.manual, l.before = manual, before
	l.mu.Unlock()
	l.tellKeep()
}

// tellKeep has keep look again at what it goes by.
func (l *Lease) tellKeep() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Renew lets the lease last for so long from now on, 1 s to 5 min, and renew itself for as long each time.
func (l *Lease) Renew(ctx context.Context, duration time.Duration) error {
	l.mu.Lock()
	l.duration = duration
	l.mu.Unlock()
	if err := l.renew(ctx); err != nil {
		return fmt.Errorf("renew section %s: %w", l.Section, err)
	}
	l.tellKeep()
	return nil
}

// Release ends the lease.
func (l *Lease) Release(ctx context.Context) error {
	l.forget()
	id := newID()
	_, err := l.c.ack(ctx, id, &agent.LeaseRequest{
		Header: agent.Header{ID: id}, Document: l.Document, Section: l.Section, Action: agent.Release, LeaseID: l.ID,
	})
	if err != nil {
		return fmt.Errorf("release section %s: %w", l.Section, err)
	}
	return nil
}

// forget ends the renewing.
func (l *Lease) forget() {
	l.end()
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	delete(l.c.leases, l)
}

// keep renews the lease until it ends. A renewal that does not get through is tried again after a third of what is left
// then.
func (l *Lease) keep() {
	for {
		wait, renew := l.next()
		select {
		case <-l.ended.Done():
			return
		case <-l.changed:
			continue
		case <-l.c.opts.After(wait):
		}
		left := l.Left()
		switch {
		case left == 0:
			l.lose(ErrLeaseLapsed)
			return
		case !renew:
			continue
		}
		ctx, cancel := context.WithTimeout(l.ended, third(left))
		err := l.renew(ctx)
		cancel()
		var refusal *code.Error
		switch {
		case l.ended.Err() != nil:
			return
		case errors.As(err, &refusal) && !passes(refusal):
			l.lose(err)
			return
		}
	}
}

// passes says whether a refusal is no reason to give a lease up: it is the server's failure, or it was asked too much. A
// renewal has times of its own to be tried again at, so it goes further than comesBack.
func passes(refusal *code.Error) bool {
	status := refusal.Entry().HTTP
	return comesBack(refusal) || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// minRenewal keeps the renewals of a lease that is about to end apart.
const minRenewal = 50 * time.Millisecond

// third is a third of the time left, or somewhat more, and no more than all of it.
func third(left time.Duration) time.Duration { return min(left, max(left/3, minRenewal)) }

// next says after how long something is to be done, and whether that is to renew the lease: else it is over then.
func (l *Lease) next() (wait time.Duration, renew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := time.Until(l.endsAt)
	switch {
	case l.manual:
		return left, false
	case l.before > 0:
		return max(left-l.before, third(left)), true
	}
	return third(left), true
}

// renew asks once.
func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	duration := l.duration
	l.mu.Unlock()
	id, asked := newID(), time.Now()
	ack, err := l.c.ack(ctx, id, &agent.LeaseRequest{
		Header: agent.Header{ID: id}, Document: l.Document, Section: l.Section, Action: agent.Renew, LeaseDurationSeconds: duration.Seconds(),
	})
	if err != nil {
		return err
	}
	if ack.Lease.LeaseID != l.ID {
		return code.New(code.StaleLease, "the present lease is another one")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endsAt = asked.Add(lasts(ack))
	return nil
}

// lose says, once, that the lease has ended.
func (l *Lease) lose(why error) {
	l.once.Do(func() {
		l.forget()
		close(l.lost)
		l.c.opts.Log.Warn("lease lost", "section", l.Section, "lease", l.ID, "err", why)
	})
}

// lose tells of a lost lease.
func (c *Client) lose(lost agent.LostLease) {
	c.mu.Lock()
	var held *Lease
	for l := range c.leases {
		if l.ID == lost.LeaseID {
			held = l
		}
	}
	c.mu.Unlock()
	if held != nil {
		held.lose(fmt.Errorf("it ended: %s %s", lost.Action, lost.Reason))
	}
	c.opts.LeaseLost(lost)
}
