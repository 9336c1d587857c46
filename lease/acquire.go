package lease

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// DefaultClass lets reads share everything but locks, whose names begin with "lock:".
func DefaultClass(r Resource) bool { return !strings.HasPrefix(string(r), "lock:") }

// acquire grants, extends, or refuses and maybe queues. The order of decisions:
//  1. A holder that asks for no more than it has is extended.
//  2. Who is blocked neither by a holder nor by somebody ahead is granted. Ahead of a waiter are those before it,
//     ahead of a lone reader that wants to write only those with a reservation, ahead of others the whole queue.
//  3. A place that is there is kept and refreshed; one in another mode is given up for a new one at the end.
//  4. Who has no place and will not wait is refused and changes nothing: it stands in nobody's way.
//  5. Who would close a cycle by waiting is refused and changes nothing, not even a place it had.
//  6. Else a place is taken if there is room.
func (d *doing) acquire(c Acquire) (Answer, *Refusal) {
	r, p := d.resource(c.Resource), d.party(c.Agent)
	c.Operation = cmp.Or(c.Operation, Write)
	mode := Exclusive
	if c.Operation == Read && d.shareable(c.Resource) {
		mode = Shared
	}
	held := r.holderIndex(p)
	if held >= 0 && (r.holders[held].Mode == Exclusive || mode == Shared) {
		return d.extend(r, held, c, mode), nil
	}
	at := r.placeIndex(p)
	stays := at >= 0 && r.queue[at].Mode == mode
	ahead := len(r.queue)
	switch {
	case stays:
		ahead = at
	case held >= 0:
		ahead = r.reserved()
	}
	over := held < 0 && at < 0 && len(p.holds)+len(p.waits) >= d.perAgent

	if !r.blocked(p, mode, r.queue[:ahead]) {
		if over {
			return d.refuse(r, p, TooMany, 0)
		}
		return d.grant(r, p, c, mode), nil
	}
	if stays {
		d.refresh(r, at, c)
		return d.refuse(r, p, Held, at)
	}

	if at < 0 && !c.Queue && !c.Waiting {
		return d.refuse(r, p, Held, ahead)
	}

	had, stood := slices.Clone(r.queue), false
	if at >= 0 {
		stood = had[at].Stays
		d.removePlace(r, at)
		if at < ahead {
			ahead--
		}
	}
	w := Waiter{
		Resource: r.name, Agent: p.Agent, Mode: mode, Operation: c.Operation, Reason: c.Reason,
		Duration: c.Duration, Since: d.now, Place: cmp.Or(c.Place, DefaultPlace), Keep: max(c.Place, Reservation),
		Stays: c.Queue || stood,
	}
	if !c.Waiting {
		w.Until = d.now.Add(w.Place)
	}
	d.insertPlace(r, ahead, place{p, w})
	undo := func() {
		d.removePlace(r, ahead)
		if at >= 0 {
			d.insertPlace(r, at, had[at])
		}
	}
	if cycle := d.cycle(p); cycle != nil {
		undo()
		d.note(r, Event{Kind: Deadlocked, Actor: p.Agent, Waiter: w, Cycle: cycle})
		_, refusal := d.refuse(r, p, Deadlock, ahead)
		refusal.Cycle, refusal.WaitingOn = cycle, cycle[1].Resource
		return Answer{}, refusal
	}
	why := Held
	switch {
	case at >= 0:
		d.note(r, Event{Kind: Unqueued, Actor: p.Agent, Waiter: had[at].Waiter, Reason: "it asks for another mode"})
	case len(r.queue) > MaxWaiters:
		why = QueueFull
	case over:
		why = TooMany
	}
	if why != Held {
		undo()
		return d.refuse(r, p, why, ahead)
	}
	d.note(r, Event{Kind: Queued, Actor: p.Agent, Waiter: w})
	d.promote(r)
	return d.refuse(r, p, Held, ahead)
}

// refuse counts the refusal of p, before whom there are so many waiters, and says what it needs to know.
func (d *doing) refuse(r *resource, p *party, why Why, before int) (Answer, *Refusal) {
	d.refused = p
	refusal := &Refusal{Why: why, Status: r.status(d.now), Position: r.placeIndex(p) + 1}
	switch why {
	case Held:
		refusal.Wait = backoff(before)
	case QueueFull:
		refusal.Wait, refusal.Limit = backoff(before), MaxWaiters
	case TooMany:
		refusal.Limit = d.perAgent
	}
	return Answer{}, refusal
}

// backoff doubles from 25 ms with each waiter before the caller, up to 800 ms.
func backoff(before int) time.Duration {
	return min(MaxBackoff, firstBackoff<<min(before, 10))
}

// extend gives a holder that asks again the later of both ends.
func (d *doing) extend(r *resource, held int, c Acquire, mode Mode) Answer {
	h := &r.holders[held]
	was := h.Lease
	if end := instant(d.now.Add(c.Duration)); end.After(h.ExpiresAt) {
		h.ExpiresAt, h.Duration = end, c.Duration
	}
	h.Reason = cmp.Or(c.Reason, h.Reason)
	if mode == h.Mode {
		h.Operation = c.Operation
	}
	if h.Lease != was {
		d.note(r, Event{Kind: Renewed, Actor: h.Holder, Lease: h.Lease})
	}
	return h.answer()
}

// refresh lets a waiter that asks again keep its place. An ask does not end the life of a place behind which
// a long poll stands.
func (d *doing) refresh(r *resource, at int, c Acquire) {
	w := &r.queue[at]
	w.Operation, w.Duration, w.Reason = c.Operation, c.Duration, cmp.Or(c.Reason, w.Reason)
	if c.Place != 0 {
		w.Place, w.Keep = c.Place, max(c.Place, Reservation)
	}
	w.Stays = w.Stays || c.Queue
	switch {
	case c.Waiting:
		w.Until = time.Time{}
	case !w.Until.IsZero():
		w.Until = d.now.Add(w.Place)
	}
	d.touch(r)
}

// grant makes p a holder, or the lone reader p a writer. Its place in the queue ends with it.
func (d *doing) grant(r *resource, p *party, c Acquire, mode Mode) Answer {
	if at := r.placeIndex(p); at >= 0 {
		d.removePlace(r, at)
	}
	d.fence++
	h := holding{by: p, Lease: Lease{
		ID: c.NewID, Resource: r.name, Holder: p.Agent, Mode: mode, Operation: c.Operation, Reason: c.Reason,
		Fence: d.fence, AcquiredAt: d.now, ExpiresAt: instant(d.now.Add(c.Duration)), Duration: c.Duration,
	}}
	var previous Lease
	if held := r.holderIndex(p); held >= 0 {
		previous = r.holders[held].Lease
		h.ID, h.AcquiredAt, h.Reason = previous.ID, previous.AcquiredAt, cmp.Or(h.Reason, previous.Reason)
		if previous.ExpiresAt.After(h.ExpiresAt) {
			h.ExpiresAt = previous.ExpiresAt
		}
		r.holders[held] = h
	} else {
		d.addHolder(r, h)
		p.Grants++
	}
	d.moved(r, p)
	d.note(r, Event{Kind: Granted, Actor: p.Agent, Lease: h.Lease, Previous: previous})
	d.promote(r)
	answer := h.answer()
	answer.Granted = previous.ID == ""
	return answer
}

func (h holding) answer() Answer { return Answer{Lease: h.Lease, Trust: h.by.Trust} }
