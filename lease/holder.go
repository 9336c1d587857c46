package lease

import (
	"cmp"
	"slices"
)

// holding finds p's lease of r, or the refusal that says why there is none.
func (d *doing) holding(r *resource, p *party) (int, *Refusal) {
	if i := r.holderIndex(p); i >= 0 {
		return i, nil
	}
	why := NotHolder
	if len(r.holders) == 0 {
		why = NoActiveLease
	}
	_, refusal := d.refuse(r, p, why, 0)
	return -1, refusal
}

func (d *doing) renew(c Renew) (Answer, *Refusal) {
	r := d.resource(c.Resource)
	i, refusal := d.holding(r, d.party(c.Agent))
	if refusal != nil {
		return Answer{}, refusal
	}
	h := &r.holders[i]
	h.ExpiresAt, h.Duration = instant(d.now.Add(c.Duration)), c.Duration
	d.note(r, Event{Kind: Renewed, Actor: c.Agent, Lease: h.Lease})
	return h.answer(), nil
}

func (d *doing) act(c Act) Answer {
	r := d.resource(c.Resource)
	i := r.holderIndex(d.party(c.Agent))
	if i < 0 {
		return Answer{}
	}
	h := &r.holders[i]
	if left := h.ExpiresAt.Sub(d.now); left <= h.Duration*2/3 {
		h.ExpiresAt = instant(d.now.Add(h.Duration))
		d.note(r, Event{Kind: Renewed, Actor: c.Agent, Lease: h.Lease})
	}
	return h.answer()
}

func (d *doing) release(c Release) (Answer, *Refusal) {
	r, p := d.resource(c.Resource), d.party(c.Agent)
	i, refusal := d.holding(r, p)
	if refusal != nil {
		return Answer{}, refusal
	}
	h := r.holders[i]
	if c.IfID != "" && c.IfID != h.ID {
		return d.refuse(r, p, StaleLease, 0)
	}
	d.dropHolder(r, i)
	p.Releases++
	if d.now.Sub(h.AcquiredAt) >= gainAfter {
		p.Trust = min(MaxTrust, p.Trust+releaseGain)
	}
	d.moved(r, p)
	d.note(r, Event{Kind: Released, Actor: c.Agent, Lease: h.Lease, Trust: p.Trust})
	d.promote(r)
	return h.answer(), nil
}

func (d *doing) breakLeases(c Break) (Answer, *Refusal) {
	r := d.resource(c.Resource)
	var ended []holding
	why := NoActiveLease
	for i := 0; i < len(r.holders); {
		h := r.holders[i]
		switch {
		case c.Holder != "" && c.Holder != h.Holder:
			i++
			continue
		case c.IfID != "" && c.IfID != h.ID:
			why = StaleLease
			i++
			continue
		}
		d.dropHolder(r, i)
		d.note(r, Event{Kind: Broken, Actor: c.By, Lease: h.Lease, Reason: c.Reason})
		ended = append(ended, h)
	}
	if len(ended) == 0 {
		return d.refuse(r, d.party(c.By), why, 0)
	}
	d.promote(r)
	return ended[0].answer(), nil
}

// transfer hands a lease on. The graph is searched as it would be afterwards: who waits for the lease then
// waits for the new holder. Both agents' places at the resource go: the one has what it waited for, and the
// other waited to write as a reader, which it is no more.
func (d *doing) transfer(c Transfer) (Answer, *Refusal) {
	r, p, to := d.resource(c.Resource), d.party(c.Agent), d.party(c.To)
	i, refusal := d.holding(r, p)
	if refusal != nil {
		return Answer{}, refusal
	}
	if r.holderIndex(to) >= 0 {
		return d.refuse(r, p, Held, 0)
	}
	if r.placeIndex(to) < 0 && len(to.holds)+len(to.waits) >= d.perAgent {
		return d.refuse(r, p, TooMany, 0)
	}
	was, queue := r.holders[i], slices.Clone(r.queue)
	h := was
	h.by, h.Holder = to, to.Agent
	r.holders[i] = h
	d.unhold(r, p)
	to.holds = append(to.holds, r)
	var gone []place
	for _, q := range []*party{to, p} {
		if at := r.placeIndex(q); at >= 0 {
			gone = append(gone, r.queue[at])
			d.removePlace(r, at)
		}
	}
	if cycle := d.cycle(to); cycle != nil {
		r.holders[i], r.queue = was, queue
		d.unhold(r, to)
		p.holds = append(p.holds, r)
		for _, w := range gone {
			w.by.waits = append(w.by.waits, r)
		}
		d.note(r, Event{Kind: Deadlocked, Actor: c.Agent, Cycle: cycle})
		_, refusal := d.refuse(r, p, Deadlock, 0)
		refusal.Cycle, refusal.WaitingOn = cycle, cycle[0].Resource
		return Answer{}, refusal
	}
	d.fence++
	h.ID, h.Fence, h.AcquiredAt = c.NewID, d.fence, d.now
	r.holders[i] = h
	to.Grants++
	d.moved(r, to)
	for _, w := range gone {
		if w.by == p {
			d.note(r, Event{Kind: Unqueued, Actor: c.Agent, Waiter: w.Waiter, Reason: "it handed its lease on"})
		}
	}
	d.note(r, Event{Kind: Handed, Actor: c.Agent, Lease: h.Lease, Previous: was.Lease})
	d.promote(r)
	answer := h.answer()
	answer.Granted = true
	return answer, nil
}

func (d *doing) leave(c Leave) (Answer, *Refusal) {
	r, p := d.resource(c.Resource), d.party(c.Agent)
	at := r.placeIndex(p)
	if at < 0 {
		return d.refuse(r, p, NotQueued, 0)
	}
	d.dropPlace(r, at, Unqueued, c.Agent, "")
	d.promote(r)
	return Answer{}, nil
}

func (d *doing) detach(c Detach) {
	r := d.resource(c.Resource)
	at := r.placeIndex(d.party(c.Agent))
	if at < 0 || !r.queue[at].Until.IsZero() {
		return
	}
	if !r.queue[at].Stays {
		d.dropPlace(r, at, Unqueued, c.Agent, "")
		d.promote(r)
		return
	}
	r.queue[at].Until = d.now.Add(r.queue[at].Place)
	d.touch(r)
}

func (d *doing) retire(c Retire) {
	p := d.party(c.Agent)
	rs := append(slices.Clone(p.holds), p.waits...)
	slices.SortFunc(rs, func(a, b *resource) int { return cmp.Compare(a.name, b.name) })
	for _, r := range slices.Compact(rs) {
		if i := r.holderIndex(p); i >= 0 {
			d.endLease(r, i, System, c.Reason)
		}
		if at := r.placeIndex(p); at >= 0 {
			d.dropPlace(r, at, Unqueued, System, c.Reason)
		}
		d.promote(r)
	}
}

func (d *doing) clear(c Clear) {
	r := d.resource(c.Resource)
	for len(r.queue) > 0 {
		d.dropPlace(r, 0, Unqueued, c.By, c.Reason)
	}
	for len(r.holders) > 0 {
		d.endLease(r, 0, c.By, c.Reason)
	}
}

// endLease ends a lease at no cost.
func (d *doing) endLease(r *resource, i int, actor Agent, reason string) {
	l := r.holders[i].Lease
	d.dropHolder(r, i)
	d.note(r, Event{Kind: Ended, Actor: actor, Lease: l, Reason: reason})
}
