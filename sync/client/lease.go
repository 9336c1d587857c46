package client

import (
	"context"
	"errors"
	"fmt"
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
	Wait     bool          // in the queue, until the context ends; else SECTION_LEASED at once
}

// Lease is a section's lease: it asks others to keep off. It renews itself after each third of the time that it has
// left, by this process's own time and not by the server's clock, until it is released or lost.
type Lease struct {
	Section agent.SectionID
	ID      lease.ID
	Fence   lease.Fence // for Edit.Under

	d        *Document
	duration time.Duration
	end      context.CancelFunc // of the renewing
	ended    context.Context
	lost     chan struct{}
	once     sync.Once
}

// ErrLeaseLapsed is why a lease is lost whose renewals did not get through in time.
var ErrLeaseLapsed = errors.New("the lease ran out before it could be renewed")

// Lease acquires a section's lease. Refusals say who holds it and for how long: SECTION_LEASED, DEADLOCK, QUEUE_FULL.
func (d *Document) Lease(ctx context.Context, sid agent.SectionID, ask Ask) (*Lease, error) {
	if ask.Duration == 0 {
		ask.Duration = time.Minute
	}
	id := newID()
	ack, err := d.c.ack(ctx, id, &agent.LeaseRequest{
		Header: agent.Header{ID: id}, Document: d.name, Section: sid, Action: agent.Acquire,
		LeaseDurationSeconds: ask.Duration.Seconds(), Reason: ask.Reason, Queue: ask.Wait,
	})
	if err != nil {
		if ask.Wait && ctx.Err() != nil {
			d.leaveQueue(sid)
		}
		return nil, fmt.Errorf("lease section %s: %w", sid, err)
	}
	l := &Lease{Section: sid, ID: ack.Lease.LeaseID, Fence: ack.Lease.Fence, d: d, duration: ask.Duration, lost: make(chan struct{})}
	l.ended, l.end = context.WithCancel(d.c.ctx)
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	if d.c.fatal != nil {
		return nil, fmt.Errorf("lease section %s: %w", sid, d.c.fatal)
	}
	d.c.leases[l] = struct{}{}
	d.c.all.Go(func() { l.keep(time.Duration(ack.Lease.ExpiresInMs) * time.Millisecond) })
	return l, nil
}

// leaveQueue gives up the place of a caller who waits no longer. What was granted at that very moment runs out.
func (d *Document) leaveQueue(sid agent.SectionID) {
	if b, err := agent.Encode(&agent.LeaseRequest{Document: d.name, Section: sid, Action: agent.Leave}); err == nil {
		d.c.sendNow(b)
	}
}

// Lost is closed when the lease has ended without its being released.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release ends the lease.
func (l *Lease) Release(ctx context.Context) error {
	l.forget()
	id := newID()
	_, err := l.d.c.ack(ctx, id, &agent.LeaseRequest{
		Header: agent.Header{ID: id}, Document: l.d.name, Section: l.Section, Action: agent.Release, LeaseID: l.ID,
	})
	if err != nil {
		return fmt.Errorf("release section %s: %w", l.Section, err)
	}
	return nil
}

// forget ends the renewing.
func (l *Lease) forget() {
	l.end()
	l.d.c.mu.Lock()
	defer l.d.c.mu.Unlock()
	delete(l.d.c.leases, l)
}

// keep renews the lease after each third of the time that is left. A renewal that does not get through is tried again
// after a third of what is left then.
func (l *Lease) keep(left time.Duration) {
	end := time.Now().Add(left)
	for {
		wait := max(time.Until(end)/3, minRenewal)
		select {
		case <-l.ended.Done():
			return
		case <-l.d.c.opts.After(wait):
		}
		if time.Until(end) <= 0 {
			l.lose(ErrLeaseLapsed)
			return
		}
		asked := time.Now()
		answer, err := l.renew(time.Until(end))
		var refusal *code.Error
		switch {
		case err == nil:
			end = asked.Add(answer)
		case l.ended.Err() != nil:
			return
		case errors.As(err, &refusal) && !comesBack(err):
			l.lose(err)
			return
		}
	}
}

// minRenewal keeps the renewals of a lease that is about to end apart.
const minRenewal = 50 * time.Millisecond

// renew asks once, for a third of the time left at most.
func (l *Lease) renew(left time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(l.ended, max(left/3, minRenewal))
	defer cancel()
	id := newID()
	ack, err := l.d.c.ack(ctx, id, &agent.LeaseRequest{
		Header: agent.Header{ID: id}, Document: l.d.name, Section: l.Section, Action: agent.Renew, LeaseDurationSeconds: l.duration.Seconds(),
	})
	if err != nil {
		return 0, err
	}
	if ack.Lease.LeaseID != l.ID {
		return 0, code.New(code.StaleLease, "the present lease is another one")
	}
	return time.Duration(ack.Lease.ExpiresInMs) * time.Millisecond, nil
}

// lose says, once, that the lease has ended.
func (l *Lease) lose(why error) {
	l.once.Do(func() {
		l.forget()
		close(l.lost)
		l.d.c.opts.Log.Warn("lease lost", "section", l.Section, "lease", l.ID, "err", why)
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
