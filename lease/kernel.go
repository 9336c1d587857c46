package lease

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// KernelOptions of a kernel. The zero value is safe.
type KernelOptions struct {
	Class    func(Resource) bool // may two reads of it share? nil: DefaultClass
	PerAgent int                 // leases and places of one agent; 0 is DefaultPerAgent
}

// Kernel is who holds what and who waits for what: a pure state machine. The same state, time and command
// give the same answer. It is not safe for concurrent use; [Keeper] is.
//
// Instants are taken down to the millisecond, as the wire has them, in UTC and without a monotonic reading.
// Time must not run backwards from one Do to the next.
//
// After every Do:
//  1. A resource has one exclusive holder, or shared holders, or none; an agent holds it at most once.
//  2. Nothing that has ended is left: each lease, place and reservation ends after the command's instant.
//  3. A queue has at most MaxWaiters places, one an agent. Reservations are its beginning, and those who could be
//     granted the resource have one, and only those: so nobody who comes later is ever served before them.
//  4. The graph of who waits for whom has no cycle.
//  5. The fence of a grant is above those of all earlier grants.
type Kernel struct {
	shareable func(Resource) bool
	perAgent  int

	fence     Fence
	resources map[Resource]*resource // held or waited for
	parties   map[Agent]*party
	ends      endHeap
	search    uint64 // number of the last search of the graph
}

// resource is a Record with its agents resolved.
type resource struct {
	name    Resource
	holders []holding
	queue   []place

	next  time.Time // when its first lease, place or reservation ends; zero: none does
	index int       // in Kernel.ends, -1: not there
}

type holding struct {
	by *party
	Lease
}

type place struct {
	by *party
	Waiter
}

// party is an agent with where it is to be found.
type party struct {
	AgentRecord
	holds []*resource
	waits []*resource
	seen  uint64 // the last search that came by
	via   step   // how it came there
}

// NewKernel makes a kernel in which nothing is held.
func NewKernel(opts KernelOptions) *Kernel {
	k := &Kernel{
		shareable: opts.Class,
		perAgent:  opts.PerAgent,
		resources: make(map[Resource]*resource),
		parties:   make(map[Agent]*party),
	}
	if k.shareable == nil {
		k.shareable = DefaultClass
	}
	if k.perAgent == 0 {
		k.perAgent = DefaultPerAgent
	}
	return k
}

// Do runs a command at an instant. The commits say what it changed, also when it was refused (a refused
// caller may have taken a place). An error is a [*Refusal], or in ErrInvalid's chain.
func (k *Kernel) Do(now time.Time, cmd Command) (Answer, []Commit, error) {
	if err := validate(cmd); err != nil {
		return Answer{}, nil, err
	}
	d := &doing{Kernel: k, now: instant(now)}
	if _, resume := cmd.(Resume); resume {
		d.resume()
		return Answer{}, d.flush(), nil
	}
	d.settle()
	commits := d.flush()
	answer, refusal := d.run(cmd)
	commits = append(commits, d.flush()...)
	if refusal != nil {
		return Answer{}, commits, refusal
	}
	return answer, commits, nil
}

// Next is when the first lease, place or reservation ends; ok is false when none does.
func (k *Kernel) Next() (end time.Time, ok bool) {
	if len(k.ends) == 0 {
		return time.Time{}, false
	}
	return k.ends[0].next, true
}

// doing is one command under way.
type doing struct {
	*Kernel
	now     time.Time
	changes []change
	refused *party // to be counted
}

// change is what a command does to one resource.
type change struct {
	*resource
	events  []Event
	parties []*party // whose records moved
}

func (d *doing) run(cmd Command) (Answer, *Refusal) {
	switch c := cmd.(type) {
	case Acquire:
		return d.acquire(c)
	case Renew:
		return d.renew(c)
	case Act:
		return d.act(c), nil
	case Release:
		return d.release(c)
	case Break:
		return d.breakLeases(c)
	case Transfer:
		return d.transfer(c)
	case Leave:
		return d.leave(c)
	case Detach:
		d.detach(c)
	case Retire:
		d.retire(c)
	case Clear:
		d.clear(c)
	case Sweep:
	default:
		panic(fmt.Sprintf("lease: unknown command %T", cmd))
	}
	return Answer{}, nil
}

// settle ends what has ended, the earliest first.
func (d *doing) settle() {
	for len(d.ends) > 0 && !d.now.Before(d.ends[0].next) {
		r := d.ends[0]
		d.endHolders(r, true)
		for i := 0; i < len(r.queue); {
			if r.queue[i].live(d.now) {
				i++
				continue
			}
			d.dropPlace(r, i, Lapsed, System, "")
		}
		d.promote(r)
	}
}

// endHolders expires the leases of r that have run out.
func (d *doing) endHolders(r *resource, atCost bool) {
	for i := 0; i < len(r.holders); {
		h := r.holders[i]
		if d.now.Before(h.ExpiresAt) {
			i++
			continue
		}
		d.dropHolder(r, i)
		h.by.Expiries++
		reason := ""
		if atCost {
			h.by.Trust = max(0, h.by.Trust-expiryCost)
		} else {
			reason = "it ran out while nobody could be served"
		}
		d.moved(r, h.by)
		d.note(r, Event{Kind: Expired, Actor: System, Lease: h.Lease, Reason: reason, Trust: h.by.Trust})
	}
}

func (d *doing) resume() {
	for _, name := range sortedKeys(d.resources) {
		r := d.resources[name]
		d.endHolders(r, false)
		for i := range r.holders {
			h := &r.holders[i]
			if latest := d.now.Add(MaxDuration); h.ExpiresAt.After(latest) {
				h.ExpiresAt = latest
				d.note(r, Event{Kind: Renewed, Actor: System, Lease: h.Lease, Reason: "the clock was set back"})
			}
		}
		for i := range r.queue {
			p := &r.queue[i]
			p.Until = d.now.Add(p.Place)
			d.touch(r)
			if !p.Reserved.IsZero() {
				p.Reserved = d.now.Add(p.Keep)
				d.note(r, Event{Kind: Reserved, Actor: System, Waiter: p.Waiter})
			}
		}
		d.promote(r)
	}
}

// promote keeps the resource for those at the head of the queue who could have it now: one writer, or all
// readers that stand together.
func (d *doing) promote(r *resource) {
	for i := range r.queue {
		p := &r.queue[i]
		if r.blocked(p.by, p.Mode, r.queue[:i]) {
			break
		}
		if p.Reserved.IsZero() {
			p.Reserved = d.now.Add(p.Keep)
			d.note(r, Event{Kind: Reserved, Actor: System, Waiter: p.Waiter})
		}
	}
	d.touch(r)
}

func conflict(a, b Mode) bool { return a == Exclusive || b == Exclusive }

// blocked says whether another holder, or another one of those ahead, keeps p from having r in mode m.
func (r *resource) blocked(p *party, m Mode, ahead []place) bool {
	return slices.ContainsFunc(r.holders, func(h holding) bool { return h.by != p && conflict(h.Mode, m) }) ||
		slices.ContainsFunc(ahead, func(w place) bool { return w.by != p && conflict(w.Mode, m) })
}

// reserved is how many places at the queue's head the resource is kept for.
func (r *resource) reserved() int {
	i := slices.IndexFunc(r.queue, func(p place) bool { return p.Reserved.IsZero() })
	if i < 0 {
		return len(r.queue)
	}
	return i
}

// holderIndex is where p stands among the holders, -1: nowhere. It and placeIndex are most of a search of the
// graph, so they copy nothing.
func (r *resource) holderIndex(p *party) int {
	for i := range r.holders {
		if r.holders[i].by == p {
			return i
		}
	}
	return -1
}

func (r *resource) placeIndex(p *party) int {
	for i := range r.queue {
		if r.queue[i].by == p {
			return i
		}
	}
	return -1
}

// resource finds a resource, or makes one that track will remember.
func (k *Kernel) resource(name Resource) *resource {
	if r := k.resources[name]; r != nil {
		return r
	}
	return &resource{name: name, index: -1}
}

// track remembers a resource that somebody holds or waits for, and when it next needs attention.
func (k *Kernel) track(r *resource) {
	if len(r.holders) == 0 && len(r.queue) == 0 {
		delete(k.resources, r.name)
	} else {
		k.resources[r.name] = r
	}
	r.next = r.firstEnd()
	switch {
	case r.index < 0 && !r.next.IsZero():
		heap.Push(&k.ends, r)
	case r.index >= 0 && r.next.IsZero():
		heap.Remove(&k.ends, r.index)
	case r.index >= 0:
		heap.Fix(&k.ends, r.index)
	}
}

// party finds or makes one.
func (k *Kernel) party(name Agent) *party {
	p := k.parties[name]
	if p == nil {
		p = &party{AgentRecord: AgentRecord{Agent: name, Trust: StartTrust}}
		k.parties[name] = p
	}
	return p
}

func (k *Kernel) addHolder(r *resource, h holding) {
	r.holders = append(r.holders, h)
	h.by.holds = append(h.by.holds, r)
}

func (k *Kernel) dropHolder(r *resource, i int) {
	k.unhold(r, r.holders[i].by)
	r.holders = slices.Delete(r.holders, i, i+1)
}

func (k *Kernel) unhold(r *resource, p *party) {
	i := slices.Index(p.holds, r)
	p.holds = slices.Delete(p.holds, i, i+1)
}

func (k *Kernel) insertPlace(r *resource, i int, p place) {
	r.queue = slices.Insert(r.queue, i, p)
	p.by.waits = append(p.by.waits, r)
}

func (k *Kernel) removePlace(r *resource, i int) {
	p := r.queue[i].by
	j := slices.Index(p.waits, r)
	p.waits = slices.Delete(p.waits, j, j+1)
	r.queue = slices.Delete(r.queue, i, i+1)
}

// dropPlace removes a place and notes it.
func (d *doing) dropPlace(r *resource, i int, kind Kind, actor Agent, reason string) {
	w := r.queue[i].Waiter
	d.removePlace(r, i)
	d.note(r, Event{Kind: kind, Actor: actor, Waiter: w, Reason: reason})
}

// touch says that the resource's record changed. A command is done with one resource before it comes to the
// next, so only the last change can be r's.
func (d *doing) touch(r *resource) *change {
	d.track(r)
	if n := len(d.changes); n == 0 || d.changes[n-1].resource != r {
		d.changes = append(d.changes, change{resource: r})
	}
	return &d.changes[len(d.changes)-1]
}

// note records a transition.
func (d *doing) note(r *resource, e Event) {
	e.Resource, e.At = r.name, d.now
	c := d.touch(r)
	c.events = append(c.events, e)
}

// moved says that an agent's record changed with what happened at r.
func (d *doing) moved(r *resource, p *party) {
	c := d.touch(r)
	if !slices.Contains(c.parties, p) {
		c.parties = append(c.parties, p)
	}
}

// flush gives what was changed since the last one. What has ended goes before the command that follows it, so
// that events are in the order in which they happened.
func (d *doing) flush() []Commit {
	if d.refused != nil {
		d.refused.Refusals++
		if len(d.changes) == 0 {
			return []Commit{{Fence: d.fence, Agents: []AgentRecord{d.refused.AgentRecord}}}
		}
		d.moved(d.changes[len(d.changes)-1].resource, d.refused)
	}
	var commits []Commit
	for _, c := range d.changes {
		commit := Commit{Fence: d.fence, Record: c.record(), Events: c.events}
		for _, p := range c.parties {
			commit.Agents = append(commit.Agents, p.AgentRecord)
		}
		commits = append(commits, commit)
	}
	d.changes = nil
	return commits
}
