package lease

import (
	"fmt"
	"slices"
	"time"
)

// ledger replays events, and finds in them what must never happen.
type ledger struct {
	fence   Fence
	records map[Resource]*Record
	trust   map[Agent]TrustHalves
	ids     map[ID]bool
}

func newLedger() *ledger {
	return &ledger{records: make(map[Resource]*Record), trust: make(map[Agent]TrustHalves), ids: make(map[ID]bool)}
}

func (l *ledger) record(r Resource) *Record {
	rec := l.records[r]
	if rec == nil {
		rec = &Record{Resource: r}
		l.records[r] = rec
	}
	return rec
}

func (l *ledger) trustOf(a Agent) TrustHalves {
	if t, ok := l.trust[a]; ok {
		return t
	}
	return StartTrust
}

func leaseOf(rec *Record, a Agent) int {
	return slices.IndexFunc(rec.Leases, func(x Lease) bool { return x.Holder == a })
}

func placeOf(rec *Record, a Agent) int {
	return slices.IndexFunc(rec.Queue, func(x Waiter) bool { return x.Agent == a })
}

// add replays one event. free says that what expires now costs nothing.
func (l *ledger) add(e Event, free bool) error {
	rec := l.record(e.Resource)
	switch e.Kind {
	case Granted:
		return l.grant(rec, e)
	case Handed:
		i := slices.Index(rec.Leases, e.Previous)
		if i < 0 {
			return fmt.Errorf("%v was handed on, and is not there", e.Previous)
		}
		if err := l.fresh(e.Lease); err != nil {
			return err
		}
		if e.Lease.ExpiresAt != e.Previous.ExpiresAt || e.Lease.Mode != e.Previous.Mode {
			return fmt.Errorf("handing %v on made it %v", e.Previous, e.Lease)
		}
		if leaseOf(rec, e.Lease.Holder) >= 0 {
			return fmt.Errorf("%s holds %s twice", e.Lease.Holder, e.Resource)
		}
		rec.Leases[i] = e.Lease
		if at := placeOf(rec, e.Lease.Holder); at >= 0 {
			rec.Queue = slices.Delete(rec.Queue, at, at+1)
		}
	case Renewed:
		i := leaseOf(rec, e.Lease.Holder)
		if i < 0 || rec.Leases[i].ID != e.Lease.ID || rec.Leases[i].Fence != e.Lease.Fence {
			return fmt.Errorf("%v was renewed, and is not there", e.Lease)
		}
		if !rec.Leases[i].ExpiresAt.After(e.At) && e.Actor != System {
			return fmt.Errorf("%v was renewed after its end", rec.Leases[i])
		}
		rec.Leases[i] = e.Lease
	case Released, Expired, Broken, Ended:
		i := slices.Index(rec.Leases, e.Lease)
		if i < 0 {
			return fmt.Errorf("%v ended (%s), and is not there", e.Lease, e.Kind)
		}
		rec.Leases = slices.Delete(rec.Leases, i, i+1)
		return l.ended(e, free)
	case Queued:
		if placeOf(rec, e.Waiter.Agent) >= 0 {
			return fmt.Errorf("%s has two places at %s", e.Waiter.Agent, e.Resource)
		}
		at := len(rec.Queue)
		if leaseOf(rec, e.Waiter.Agent) >= 0 {
			if i := slices.IndexFunc(rec.Queue, func(w Waiter) bool { return w.Reserved.IsZero() }); i >= 0 {
				at = i
			}
		}
		rec.Queue = slices.Insert(rec.Queue, at, e.Waiter)
	case Unqueued, Lapsed:
		at := placeOf(rec, e.Waiter.Agent)
		if at < 0 {
			return fmt.Errorf("%s left a place at %s that is not there", e.Waiter.Agent, e.Resource)
		}
		rec.Queue = slices.Delete(rec.Queue, at, at+1)
	case Reserved:
		at := placeOf(rec, e.Waiter.Agent)
		if at < 0 || passes(rec, e.Waiter.Agent, e.Waiter.Mode, rec.Queue[:at]) != nil {
			return fmt.Errorf("%s is kept for %s, which could not have it", e.Resource, e.Waiter.Agent)
		}
		rec.Queue[at].Reserved = e.Waiter.Reserved
	case Deadlocked:
	default:
		return fmt.Errorf("unknown kind of event %q", e.Kind)
	}
	return nil
}

func (l *ledger) grant(rec *Record, e Event) error {
	a := e.Lease.Holder
	if e.Previous.ID != "" { // an upgrade
		i := leaseOf(rec, a)
		if i < 0 || rec.Leases[i] != e.Previous || e.Lease.ID != e.Previous.ID || e.Lease.Fence <= l.fence {
			return fmt.Errorf("%v was upgraded to %v, and is not there", e.Previous, e.Lease)
		}
		l.fence = e.Lease.Fence
		rec.Leases[i] = e.Lease
	} else {
		if err := l.fresh(e.Lease); err != nil {
			return err
		}
		rec.Leases = append(rec.Leases, e.Lease)
	}
	at, ahead := placeOf(rec, a), rec.Queue
	switch {
	case at >= 0:
		ahead = rec.Queue[:at]
	case e.Previous.ID != "":
		ahead = slices.DeleteFunc(slices.Clone(ahead), func(w Waiter) bool { return w.Reserved.IsZero() })
	}
	if err := passes(rec, a, e.Lease.Mode, ahead); err != nil {
		return err
	}
	if at >= 0 {
		rec.Queue = slices.Delete(rec.Queue, at, at+1)
	}
	return nil
}

// passes says who in the way of a grant or reservation was ignored.
func passes(rec *Record, a Agent, m Mode, ahead []Waiter) error {
	for _, h := range rec.Leases {
		if h.Holder != a && (h.Mode == Exclusive || m == Exclusive) {
			return fmt.Errorf("%s got %s while %s holds it", a, rec.Resource, h.Holder)
		}
	}
	for _, w := range ahead {
		if w.Agent != a && (w.Mode == Exclusive || m == Exclusive) {
			return fmt.Errorf("%s got %s before %s, which came first", a, rec.Resource, w.Agent)
		}
	}
	return nil
}

// fresh checks and takes down a new lease's id and fence.
func (l *ledger) fresh(x Lease) error {
	if x.Fence <= l.fence {
		return fmt.Errorf("the fence of %v is not above %d", x, l.fence)
	}
	if l.ids[x.ID] {
		return fmt.Errorf("the id of %v was used before", x)
	}
	l.fence, l.ids[x.ID] = x.Fence, true
	return nil
}

// ended does the sums of trust.
func (l *ledger) ended(e Event, free bool) error {
	a := e.Lease.Holder
	trust := l.trustOf(a)
	switch e.Kind {
	case Released:
		if e.At.Sub(e.Lease.AcquiredAt) >= time.Second {
			trust = min(200, trust+1)
		}
	case Expired:
		if e.Lease.ExpiresAt.After(e.At) {
			return fmt.Errorf("%v expired before its end, at %v", e.Lease, e.At)
		}
		if !free {
			trust = max(0, trust-10)
		}
	default:
		return nil
	}
	l.trust[a] = trust
	if e.Trust != trust {
		return fmt.Errorf("trust of %s is %d, the sum of what it did is %d", a, e.Trust, trust)
	}
	return nil
}

// compare finds where a state differs from what was replayed.
func (l *ledger) compare(s State) error {
	if s.Fence != l.fence {
		return fmt.Errorf("the fence is %d, replayed %d", s.Fence, l.fence)
	}
	live := 0
	for _, rec := range l.records {
		if len(rec.Leases)+len(rec.Queue) > 0 {
			live++
		}
	}
	if live != len(s.Records) {
		return fmt.Errorf("%d resources are held or waited for, replayed %d", len(s.Records), live)
	}
	same := func(a, b Waiter) bool {
		return a.Agent == b.Agent && a.Mode == b.Mode && a.Since.Equal(b.Since) && a.Reserved.Equal(b.Reserved)
	}
	for _, rec := range s.Records {
		if r := l.record(rec.Resource); !slices.Equal(r.Leases, rec.Leases) || !slices.EqualFunc(r.Queue, rec.Queue, same) {
			return fmt.Errorf("the record is %+v, replayed %+v", rec, *r)
		}
	}
	for _, a := range s.Agents {
		if a.Trust != l.trustOf(a.Agent) {
			return fmt.Errorf("trust of %s is %d, replayed %d", a.Agent, a.Trust, l.trustOf(a.Agent))
		}
	}
	return nil
}

// invariants finds what must not be in any state after a command at now.
func invariants(s State, now time.Time) error {
	type edge struct{ from, to Agent }
	waits := make(map[edge]bool)
	for _, rec := range s.Records {
		writers := 0
		for _, x := range rec.Leases {
			if x.Mode == Exclusive {
				writers++
			}
			if !x.ExpiresAt.After(now) {
				return fmt.Errorf("%v is there at %v", x, now)
			}
			if x.ExpiresAt.After(now.Add(MaxDuration)) {
				return fmt.Errorf("%v ends later than any lease can, at %v", x, now)
			}
		}
		if writers > 1 || writers == 1 && len(rec.Leases) > 1 {
			return fmt.Errorf("%d writers among %d holders of %s", writers, len(rec.Leases), rec.Resource)
		}
		if len(rec.Queue) > 8 {
			return fmt.Errorf("%d wait for %s", len(rec.Queue), rec.Resource)
		}
		prefix := true
		for i, w := range rec.Queue {
			if !w.Reserved.IsZero() && (!prefix || !w.Reserved.After(now)) {
				return fmt.Errorf("reservation of %s for %s at %v, place %d", rec.Resource, w.Agent, now, i+1)
			}
			prefix = !w.Reserved.IsZero()
			if could := passes(&rec, w.Agent, w.Mode, rec.Queue[:i]) == nil; could != prefix {
				return fmt.Errorf("%s could have %s: %v; it is offered it: %v", w.Agent, rec.Resource, could, prefix)
			}
			if !w.Until.IsZero() && w.Reserved.IsZero() && !w.Until.After(now) {
				return fmt.Errorf("lapsed place of %s at %s", w.Agent, rec.Resource)
			}
			for _, h := range rec.Leases {
				if h.Holder != w.Agent && (h.Mode == Exclusive || w.Mode == Exclusive) {
					waits[edge{w.Agent, h.Holder}] = true
				}
			}
			for _, v := range rec.Queue[:i] {
				if v.Mode == Exclusive || w.Mode == Exclusive {
					waits[edge{w.Agent, v.Agent}] = true
				}
			}
		}
	}
	// Taking away whoever waits for nobody empties a graph without a cycle.
	for len(waits) > 0 {
		before := len(waits)
		for e := range waits {
			idle := true
			for f := range waits {
				idle = idle && f.from != e.to
			}
			if idle {
				delete(waits, e)
			}
		}
		if len(waits) == before {
			return fmt.Errorf("a cycle of waiting: %v", waits)
		}
	}
	return nil
}
