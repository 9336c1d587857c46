package lease

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"
)

// Status says who holds and waits for a resource at an instant.
func (k *Kernel) Status(now time.Time, name Resource) Status {
	return k.resource(name).status(now)
}

// List gives the status of every resource whose name begins with prefix and that is held or waited for, by name.
func (k *Kernel) List(now time.Time, prefix string) []Status {
	var list []Status
	for name, r := range k.resources {
		if !strings.HasPrefix(string(name), prefix) {
			continue
		}
		if s := r.status(now); len(s.Holders) > 0 || len(s.Queue) > 0 {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Resource, b.Resource) })
	return list
}

// Agent gives what is remembered of an agent, what it holds and what it waits for at an instant, by resource.
func (k *Kernel) Agent(now time.Time, name Agent) (AgentRecord, []Lease, []Waiter) {
	p := k.parties[name]
	if p == nil {
		return AgentRecord{Agent: name, Trust: StartTrust}, nil, nil
	}
	var leases []Lease
	for _, r := range p.holds {
		if l := r.holders[r.holderIndex(p)].Lease; now.Before(l.ExpiresAt) {
			leases = append(leases, l)
		}
	}
	var waiters []Waiter
	for _, r := range p.waits {
		if w := r.queue[r.placeIndex(p)]; w.live(now) {
			waiters = append(waiters, w.Waiter)
		}
	}
	slices.SortFunc(leases, func(a, b Lease) int { return cmp.Compare(a.Resource, b.Resource) })
	slices.SortFunc(waiters, func(a, b Waiter) int { return cmp.Compare(a.Resource, b.Resource) })
	return p.AgentRecord, leases, waiters
}

// Agents gives what is remembered of every agent that ever asked for a lease, by name.
func (k *Kernel) Agents() []AgentRecord {
	var records []AgentRecord
	for _, name := range sortedKeys(k.parties) {
		records = append(records, k.parties[name].AgentRecord)
	}
	return records
}

// State gives everything, sorted by name.
func (k *Kernel) State() State {
	s := State{Fence: k.fence, Agents: k.Agents()}
	for _, name := range sortedKeys(k.resources) {
		s.Records = append(s.Records, k.resources[name].record())
	}
	return s
}

// Load replaces everything. After a time in which nobody could be served, [Resume] is to follow.
func (k *Kernel) Load(s State) {
	k.fence = s.Fence
	k.resources = make(map[Resource]*resource, len(s.Records))
	k.parties = make(map[Agent]*party, len(s.Agents))
	k.ends = nil
	for _, a := range s.Agents {
		k.party(a.Agent).AgentRecord = a
	}
	for _, rec := range s.Records {
		k.put(rec)
	}
}

// Apply takes over what another kernel's command changed.
func (k *Kernel) Apply(c Commit) {
	k.fence = c.Fence
	for _, a := range c.Agents {
		k.party(a.Agent).AgentRecord = a
	}
	if c.Record.Resource != "" {
		k.put(c.Record)
	}
}

// stands says how an agent stands at a resource: whether it holds it, and whether it waits for it, with or
// without a reservation.
func (k *Kernel) stands(name Resource, a Agent) (holds, waits, reserved bool) {
	r, p := k.resources[name], k.parties[a]
	if r == nil || p == nil {
		return false, false, false
	}
	at := r.placeIndex(p)
	return r.holderIndex(p) >= 0, at >= 0, at >= 0 && !r.queue[at].Reserved.IsZero()
}

// holds says whether a lease is still exactly what it was.
func (k *Kernel) holds(l Lease) bool {
	return slices.ContainsFunc(k.resource(l.Resource).holders, func(h holding) bool { return h.Lease == l })
}

// put makes a record the state of its resource.
func (k *Kernel) put(rec Record) {
	r := k.resource(rec.Resource)
	for len(r.holders) > 0 {
		k.dropHolder(r, 0)
	}
	for len(r.queue) > 0 {
		k.removePlace(r, 0)
	}
	for _, l := range rec.Leases {
		l.AcquiredAt, l.ExpiresAt = instant(l.AcquiredAt), instant(l.ExpiresAt)
		k.addHolder(r, holding{k.party(l.Holder), l})
	}
	for i, w := range rec.Queue {
		w.Since, w.Until, w.Reserved = instant(w.Since), instant(w.Until), instant(w.Reserved)
		k.insertPlace(r, i, place{k.party(w.Agent), w})
	}
	k.track(r)
}

// instant is a time as the kernel keeps it: in whole milliseconds, UTC, without a monotonic reading.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (r *resource) record() Record {
	rec := Record{Resource: r.name}
	for _, h := range r.holders {
		rec.Leases = append(rec.Leases, h.Lease)
	}
	for _, p := range r.queue {
		rec.Queue = append(rec.Queue, p.Waiter)
	}
	return rec
}

func (r *resource) status(now time.Time) Status {
	s := Status{Resource: r.name}
	for _, h := range r.holders {
		if now.Before(h.ExpiresAt) {
			s.Holders = append(s.Holders, h.Lease)
		}
	}
	slices.SortStableFunc(s.Holders, func(a, b Lease) int { return b.ExpiresAt.Compare(a.ExpiresAt) })
	for _, p := range r.queue {
		if p.live(now) {
			s.Queue = append(s.Queue, p.Waiter)
		}
	}
	return s
}

// end is when the place ends by itself; zero: it does not.
func (p place) end() time.Time {
	if !p.Reserved.IsZero() {
		return p.Reserved
	}
	return p.Until
}

func (p place) live(now time.Time) bool {
	end := p.end()
	return end.IsZero() || now.Before(end)
}

// firstEnd is when the first lease, place or reservation of r ends; zero: none does.
func (r *resource) firstEnd() time.Time {
	var first time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, h := range r.holders {
		sooner(h.ExpiresAt)
	}
	for _, p := range r.queue {
		sooner(p.end())
	}
	return first
}

// endHeap orders resources by when they next need attention.
type endHeap []*resource

var _ heap.Interface = (*endHeap)(nil)

func (h endHeap) Len() int { return len(h) }
func (h endHeap) Less(i, j int) bool {
	if c := h[i].next.Compare(h[j].next); c != 0 {
		return c < 0
	}
	return h[i].name < h[j].name
}
func (h endHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *endHeap) Push(x any) {
	r := x.(*resource)
	r.index = len(*h)
	*h = append(*h, r)
}
func (h *endHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	*h = (*h)[:last]
	r.index = -1
	return r
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
