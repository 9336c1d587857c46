package lease

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// twin is the kernel written the slow and obvious way: flat lists that are searched from end to end, a graph
// that is built anew for every question.
type twin struct {
	now      time.Time
	perAgent int
	fence    Fence
	leases   []Lease
	places   []Waiter // of all queues; those of one resource are in order
	agents   map[Agent]*AgentRecord
}

func (tw *twin) agent(a Agent) *AgentRecord {
	if tw.agents[a] == nil {
		tw.agents[a] = &AgentRecord{Agent: a, Trust: 100}
	}
	return tw.agents[a]
}

func filter[T any](list []T, keep func(T) bool) []T {
	var kept []T
	for _, x := range list {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

func (tw *twin) holders(r Resource) []Lease {
	return filter(tw.leases, func(l Lease) bool { return l.Resource == r })
}

func (tw *twin) queue(r Resource) []Waiter {
	return filter(tw.places, func(w Waiter) bool { return w.Resource == r })
}

func (tw *twin) lease(r Resource, a Agent) *Lease {
	for i := range tw.leases {
		if tw.leases[i].Resource == r && tw.leases[i].Holder == a {
			return &tw.leases[i]
		}
	}
	return nil
}

func (tw *twin) place(r Resource, a Agent) *Waiter {
	for i := range tw.places {
		if tw.places[i].Resource == r && tw.places[i].Agent == a {
			return &tw.places[i]
		}
	}
	return nil
}

func (tw *twin) endLeases(ended func(Lease) bool) []Lease {
	gone := filter(tw.leases, ended)
	tw.leases = filter(tw.leases, func(l Lease) bool { return !ended(l) })
	return gone
}

func (tw *twin) endPlaces(ended func(Waiter) bool) {
	tw.places = filter(tw.places, func(w Waiter) bool { return !ended(w) })
}

// inTheWay lists who keeps a from r: conflicting holders, and conflicting waiters among those ahead.
func (tw *twin) inTheWay(r Resource, a Agent, m Mode, ahead []Waiter) []Agent {
	var names []Agent
	for _, l := range tw.holders(r) {
		if l.Holder != a && (l.Mode == Exclusive || m == Exclusive) {
			names = append(names, l.Holder)
		}
	}
	for _, w := range ahead {
		if w.Agent != a && (w.Mode == Exclusive || m == Exclusive) {
			names = append(names, w.Agent)
		}
	}
	return names
}

func (tw *twin) ahead(r Resource, a Agent) []Waiter {
	q := tw.queue(r)
	return q[:slices.IndexFunc(q, func(w Waiter) bool { return w.Agent == a })]
}

// graph is who waits for whom, over which resource.
func (tw *twin) graph() map[Agent]map[Agent][]Resource {
	g := make(map[Agent]map[Agent][]Resource)
	for _, w := range tw.places {
		for _, b := range tw.inTheWay(w.Resource, w.Agent, w.Mode, tw.ahead(w.Resource, w.Agent)) {
			if g[w.Agent] == nil {
				g[w.Agent] = make(map[Agent][]Resource)
			}
			g[w.Agent][b] = append(g[w.Agent][b], w.Resource)
		}
	}
	return g
}

// onCycle says whether a waits, over whatever steps, for itself.
func (tw *twin) onCycle(a Agent) bool {
	g, reached := tw.graph(), map[Agent]bool{}
	for grown := true; grown; {
		grown = false
		for from, tos := range g {
			if from != a && !reached[from] {
				continue
			}
			for to := range tos {
				grown = grown || !reached[to]
				reached[to] = true
			}
		}
	}
	return reached[a]
}

// settle ends what has ended and offers what is free.
func (tw *twin) settle() {
	for _, l := range tw.endLeases(func(l Lease) bool { return !l.ExpiresAt.After(tw.now) }) {
		a := tw.agent(l.Holder)
		a.Expiries++
		a.Trust = max(0, a.Trust-10)
	}
	tw.endPlaces(func(w Waiter) bool {
		if !w.Reserved.IsZero() {
			return !w.Reserved.After(tw.now)
		}
		return !w.Until.IsZero() && !w.Until.After(tw.now)
	})
	tw.offer()
}

func (tw *twin) offer() {
	for i := range tw.places {
		w := &tw.places[i]
		if w.Reserved.IsZero() && len(tw.inTheWay(w.Resource, w.Agent, w.Mode, tw.ahead(w.Resource, w.Agent))) == 0 {
			w.Reserved = tw.now.Add(w.Keep)
		}
	}
}

func (tw *twin) footprint(a Agent) int {
	return len(filter(tw.leases, func(l Lease) bool { return l.Holder == a })) +
		len(filter(tw.places, func(w Waiter) bool { return w.Agent == a }))
}

// do answers with a lease, a reason why not, and the position in the queue.
func (tw *twin) do(cmd Command) (lease Lease, why Why, position int) {
	tw.settle()
	defer tw.offer()
	defer func() {
		if why != "" {
			tw.agent(actor(cmd)).Refusals++
		}
	}()
	switch c := cmd.(type) {
	case Acquire:
		return tw.acquire(c)
	case Renew:
		l, why := tw.mine(c.Resource, c.Agent)
		if why != "" {
			return Lease{}, why, 0
		}
		l.ExpiresAt, l.Duration = tw.now.Add(c.Duration), c.Duration
		return *l, "", 0
	case Act:
		l := tw.lease(c.Resource, c.Agent)
		if l == nil {
			return Lease{}, "", 0
		}
		if 3*l.ExpiresAt.Sub(tw.now) <= 2*l.Duration {
			l.ExpiresAt = tw.now.Add(l.Duration)
		}
		return *l, "", 0
	case Release:
		l, why := tw.mine(c.Resource, c.Agent)
		if why == "" && c.IfID != "" && c.IfID != l.ID {
			why = StaleLease
		}
		if why != "" {
			return Lease{}, why, 0
		}
		was := *l
		tw.endLeases(func(l Lease) bool { return l.ID == was.ID })
		a := tw.agent(c.Agent)
		a.Releases++
		if !tw.now.Before(was.AcquiredAt.Add(time.Second)) {
			a.Trust = min(200, a.Trust+1)
		}
		return was, "", 0
	case Break:
		meant := filter(tw.holders(c.Resource), func(l Lease) bool { return c.Holder == "" || c.Holder == l.Holder })
		gone := filter(meant, func(l Lease) bool { return c.IfID == "" || c.IfID == l.ID })
		switch {
		case len(meant) == 0:
			return Lease{}, NoActiveLease, 0
		case len(gone) == 0:
			return Lease{}, StaleLease, 0
		}
		tw.endLeases(func(l Lease) bool { return slices.Contains(gone, l) })
		return gone[0], "", 0
	case Transfer:
		return tw.transfer(c)
	case Leave:
		if tw.place(c.Resource, c.Agent) == nil {
			return Lease{}, NotQueued, 0
		}
		tw.endPlaces(func(w Waiter) bool { return w.Resource == c.Resource && w.Agent == c.Agent })
	case Detach:
		switch w := tw.place(c.Resource, c.Agent); {
		case w == nil || !w.Until.IsZero():
		case w.Stays:
			w.Until = tw.now.Add(w.Place)
		default:
			tw.endPlaces(func(w Waiter) bool { return w.Resource == c.Resource && w.Agent == c.Agent })
		}
	case Retire:
		tw.endLeases(func(l Lease) bool { return l.Holder == c.Agent })
		tw.endPlaces(func(w Waiter) bool { return w.Agent == c.Agent })
	case Clear:
		tw.endLeases(func(l Lease) bool { return l.Resource == c.Resource })
		tw.endPlaces(func(w Waiter) bool { return w.Resource == c.Resource })
	}
	return Lease{}, "", 0
}

// actor is who is refused.
func actor(cmd Command) Agent {
	switch c := cmd.(type) {
	case Acquire:
		return c.Agent
	case Renew:
		return c.Agent
	case Release:
		return c.Agent
	case Break:
		return c.By
	case Transfer:
		return c.Agent
	case Leave:
		return c.Agent
	}
	return ""
}

func (tw *twin) mine(r Resource, a Agent) (*Lease, Why) {
	if l := tw.lease(r, a); l != nil {
		return l, ""
	}
	if len(tw.holders(r)) > 0 {
		return nil, NotHolder
	}
	return nil, NoActiveLease
}

func (tw *twin) acquire(c Acquire) (Lease, Why, int) {
	op := cmp.Or(c.Operation, Write)
	mode := Exclusive
	if op == Read && c.Resource != "lock:deploy" {
		mode = Shared
	}
	held, mine := tw.lease(c.Resource, c.Agent), tw.place(c.Resource, c.Agent)
	if held != nil && (held.Mode == Exclusive || mode == Shared) {
		if tw.now.Add(c.Duration).After(held.ExpiresAt) {
			held.ExpiresAt, held.Duration = tw.now.Add(c.Duration), c.Duration
		}
		if mode == held.Mode {
			held.Operation = op
		}
		return *held, "", 0
	}
	ahead := tw.queue(c.Resource)
	switch {
	case mine != nil && mine.Mode == mode:
		ahead = tw.ahead(c.Resource, c.Agent)
	case held != nil:
		ahead = filter(ahead, func(w Waiter) bool { return !w.Reserved.IsZero() })
	}
	tooMany := held == nil && mine == nil && tw.footprint(c.Agent) >= tw.perAgent
	if len(tw.inTheWay(c.Resource, c.Agent, mode, ahead)) == 0 {
		if tooMany {
			return Lease{}, TooMany, 0
		}
		return tw.grant(c, op, mode), "", 0
	}
	if mine != nil && mine.Mode == mode {
		mine.Operation, mine.Duration = op, c.Duration
		if c.Place != 0 {
			mine.Place, mine.Keep = c.Place, max(c.Place, 5*time.Second)
		}
		if c.Queue {
			mine.Stays = true
		}
		if c.Waiting {
			mine.Until = time.Time{}
		} else if !mine.Until.IsZero() {
			mine.Until = tw.now.Add(mine.Place)
		}
		return Lease{}, Held, len(ahead) + 1
	}

	if mine == nil && !c.Queue && !c.Waiting {
		return Lease{}, Held, 0
	}
	stays := c.Queue || mine != nil && mine.Stays
	before := slices.Clone(tw.places)
	tw.endPlaces(func(w Waiter) bool { return w.Resource == c.Resource && w.Agent == c.Agent })
	w := Waiter{Resource: c.Resource, Agent: c.Agent, Mode: mode, Operation: op, Duration: c.Duration, Since: tw.now,
		Place: cmp.Or(c.Place, 30*time.Second), Keep: max(c.Place, 5*time.Second), Stays: stays}
	if !c.Waiting {
		w.Until = tw.now.Add(w.Place)
	}
	if held != nil {
		kept := filter(tw.queue(c.Resource), func(w Waiter) bool { return !w.Reserved.IsZero() })
		rest := filter(tw.places, func(w Waiter) bool { return w.Resource != c.Resource || w.Reserved.IsZero() })
		tw.places = slices.Concat(kept, []Waiter{w}, rest)
	} else {
		tw.places = append(tw.places, w)
	}
	refused := Held
	switch {
	case tw.onCycle(c.Agent):
		refused = Deadlock
	case mine != nil:
		return Lease{}, Held, len(tw.ahead(c.Resource, c.Agent)) + 1
	case len(tw.queue(c.Resource)) > 8:
		refused = QueueFull
	case tooMany:
		refused = TooMany
	default:
		return Lease{}, Held, len(tw.ahead(c.Resource, c.Agent)) + 1
	}
	tw.places = before
	if refused == Deadlock && tw.place(c.Resource, c.Agent) != nil {
		return Lease{}, Deadlock, len(tw.ahead(c.Resource, c.Agent)) + 1
	}
	return Lease{}, refused, 0
}

func (tw *twin) grant(c Acquire, op Operation, mode Mode) Lease {
	tw.endPlaces(func(w Waiter) bool { return w.Resource == c.Resource && w.Agent == c.Agent })
	tw.fence++
	l := Lease{ID: c.NewID, Resource: c.Resource, Holder: c.Agent, Mode: mode, Operation: op, Fence: tw.fence,
		AcquiredAt: tw.now, ExpiresAt: tw.now.Add(c.Duration), Duration: c.Duration}
	if held := tw.lease(c.Resource, c.Agent); held != nil {
		l.ID, l.AcquiredAt = held.ID, held.AcquiredAt
		l.ExpiresAt = slices.MaxFunc([]time.Time{held.ExpiresAt, l.ExpiresAt}, time.Time.Compare)
		*held = l
		return l
	}
	tw.leases = append(tw.leases, l)
	tw.agent(c.Agent).Grants++
	return l
}

func (tw *twin) transfer(c Transfer) (Lease, Why, int) {
	l, why := tw.mine(c.Resource, c.Agent)
	switch {
	case why != "":
		return Lease{}, why, 0
	case tw.lease(c.Resource, c.To) != nil:
		return Lease{}, Held, tw.position(c.Resource, c.Agent)
	case tw.place(c.Resource, c.To) == nil && tw.footprint(c.To) >= tw.perAgent:
		return Lease{}, TooMany, 0
	}
	was, places := *l, slices.Clone(tw.places)
	l.Holder = c.To
	tw.endPlaces(func(w Waiter) bool { return w.Resource == c.Resource && (w.Agent == c.To || w.Agent == c.Agent) })
	if tw.onCycle(c.To) {
		*l, tw.places = was, places
		return Lease{}, Deadlock, tw.position(c.Resource, c.Agent)
	}
	tw.fence++
	l.ID, l.Fence, l.AcquiredAt = c.NewID, tw.fence, tw.now
	tw.agent(c.To).Grants++
	return *l, "", 0
}

func (tw *twin) position(r Resource, a Agent) int {
	if tw.place(r, a) == nil {
		return 0
	}
	return len(tw.ahead(r, a)) + 1
}

// state is the twin's in the kernel's shape.
func (tw *twin) state() State {
	s := State{Fence: tw.fence}
	for _, r := range slices.Sorted(slices.Values(historyResources)) {
		if rec := (Record{Resource: r, Leases: tw.holders(r), Queue: tw.queue(r)}); len(rec.Leases)+len(rec.Queue) > 0 {
			s.Records = append(s.Records, rec)
		}
	}
	for _, a := range sortedKeys(tw.agents) {
		s.Agents = append(s.Agents, *tw.agents[a])
	}
	return s
}

// TestTwin holds the kernel to the twin on random histories.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		throw := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "throw") }
		h := &history{throw: throw, crowded: throw(3) == 0}
		k := NewKernel(KernelOptions{PerAgent: 4})
		tw := &twin{now: epoch, perAgent: 4, agents: make(map[Agent]*AgentRecord)}
		for range 60 {
			tw.now = tw.now.Add(h.pause())
			cmd := h.command()
			answer, _, err := k.Do(tw.now, cmd)
			held := slices.Clone(tw.leases)
			lease, why, position := tw.do(cmd)
			made := lease.ID != "" && !slices.ContainsFunc(held, func(l Lease) bool { return l.ID == lease.ID })
			if answer.Granted != made {
				rt.Fatalf("%#v at %v: %+v was made by it: %t, says the kernel", cmd, tw.now.Sub(epoch), lease, answer.Granted)
			}
			if err := agree(tw, k, answer, err, lease, why, position); err != nil {
				rt.Fatalf("%#v at %v: %v", cmd, tw.now.Sub(epoch), err)
			}
		}
	})
}

func agree(tw *twin, k *Kernel, answer Answer, err error, lease Lease, why Why, position int) error {
	got, refused := errors.AsType[*Refusal](err)
	switch {
	case err != nil && !refused:
		return err
	case refused && (got.Why != why || got.Position != position && (why == Held || why == Deadlock)):
		return fmt.Errorf("the kernel says %s, position %d; the twin %q, %d", got.Why, got.Position, why, position)
	case !refused && (why != "" || answer.Lease != lease):
		return fmt.Errorf("the kernel answers %+v; the twin %+v %q", answer.Lease, lease, why)
	}
	for _, s := range tw.state().Records {
		if st := k.Status(tw.now, s.Resource); len(st.Holders) != len(s.Leases) || !slices.Equal(st.Queue, s.Queue) {
			return fmt.Errorf("the kernel's status is %+v; the twin's %+v", st, s)
		}
	}
	want := tw.state()
	want.Agents = nil
	is := k.State()
	var unknown []AgentRecord
	for _, a := range is.Agents {
		if tw.agents[a.Agent] == nil {
			unknown = append(unknown, a)
		} else if a != *tw.agents[a.Agent] {
			return fmt.Errorf("the kernel has %+v; the twin %+v", a, *tw.agents[a.Agent])
		}
	}
	for _, a := range unknown {
		if a != (AgentRecord{Agent: a.Agent, Trust: StartTrust}) {
			return fmt.Errorf("the twin does not know %+v", a)
		}
	}
	is.Agents = nil
	if !reflect.DeepEqual(is, want) {
		return fmt.Errorf("the kernel has %+v; the twin %+v", is, want)
	}
	return nil
}
