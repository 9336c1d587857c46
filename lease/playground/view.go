package playground

import (
	"maps"
	"slices"
	"time"

	"cowrite/lease"
	"cowrite/lease/wire"
)

// View is the world after a move, to be drawn.
type View struct {
	ClockMs   int64          `json:"clockMs"` // since the scene began
	Now       string         `json:"now"`
	Resources []ResourceView `json:"resources"` // held or waited for, by name
	Agents    []AgentView    `json:"agents"`    // those who hold, wait, or would have, by name
	Waits     []Wait         `json:"waits"`
}

// ResourceView is who holds a resource and who waits for it.
type ResourceView struct {
	Resource string       `json:"resource"`
	Holders  []HolderView `json:"holders"`
	Queue    []PlaceView  `json:"queue"` // first come, first served
}

// HolderView is one lease.
type HolderView struct {
	Agent  lease.Agent `json:"agent"`
	Mode   lease.Mode  `json:"mode"`
	Fence  lease.Fence `json:"fence"`
	LeftMs int64       `json:"leftMs"`
	TTLMs  int64       `json:"ttlMs"`
}

// PlaceView is one place in a queue.
type PlaceView struct {
	Agent    lease.Agent `json:"agent"`
	Mode     lease.Mode  `json:"mode"`
	Reserved bool        `json:"reserved"` // the resource is free, and kept for it
	LeftMs   int64       `json:"leftMs"`   // how long the place or the reservation lives; -1: as long as its long poll
}

// AgentView is one agent.
type AgentView struct {
	Agent lease.Agent `json:"agent"`
	Trust float64     `json:"trust"`
	Holds int         `json:"holds"`
	Waits int         `json:"waits"`
}

// Wait is an edge of the graph of who waits for whom: From waits for Over, which To holds or is ahead for. The graph
// is drawn with as few edges as lead from everybody to everybody they wait for; those that a refused circle has are
// there in any case.
type Wait struct {
	From    lease.Agent    `json:"from"`
	To      lease.Agent    `json:"to"`
	Over    lease.Resource `json:"over"`
	Circle  bool           `json:"circle,omitempty"`  // part of the circle that the move would have closed
	Refused bool           `json:"refused,omitempty"` // the wait that was not let in
}

func (w *world) view() View {
	v := View{ClockMs: w.now.Sub(began).Milliseconds(), Now: wire.Time(w.now), Resources: []ResourceView{}, Agents: []AgentView{}}
	statuses := w.kernel.List(w.now, "")
	shown := map[lease.Agent]bool{}
	for _, s := range statuses {
		r := ResourceView{Resource: string(s.Resource), Holders: []HolderView{}, Queue: []PlaceView{}}
		for _, l := range s.Holders {
			r.Holders = append(r.Holders, HolderView{l.Holder, l.Mode, l.Fence, l.ExpiresAt.Sub(w.now).Milliseconds(), l.Duration.Milliseconds()})
			shown[l.Holder] = true
		}
		for _, q := range s.Queue {
			r.Queue = append(r.Queue, PlaceView{q.Agent, q.Mode, !q.Reserved.IsZero(), placeLeft(q, w.now)})
			shown[q.Agent] = true
		}
		v.Resources = append(v.Resources, r)
	}
	v.Waits = withCircle(reduce(waits(statuses)), w.circle)
	for _, e := range w.circle {
		shown[e.Agent] = true
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		record, holds, places := w.kernel.Agent(w.now, name)
		v.Agents = append(v.Agents, AgentView{name, wire.Trust(record.Trust), len(holds), len(places)})
	}
	return v
}

func placeLeft(q lease.Waiter, now time.Time) int64 {
	switch {
	case !q.Reserved.IsZero():
		return q.Reserved.Sub(now).Milliseconds()
	case q.Until.IsZero():
		return -1
	}
	return q.Until.Sub(now).Milliseconds()
}

// waits are all edges of the graph: a waiter waits for every conflicting holder and for every conflicting waiter
// ahead of it. Whom a resource is kept for waits no more.
func waits(statuses []lease.Status) []Wait {
	conflict := func(a, b lease.Mode) bool { return a == lease.Exclusive || b == lease.Exclusive }
	out := []Wait{}
	add := func(e Wait) {
		if e.From != e.To && !slices.Contains(out, e) { // a reader that waits to write is both holder and ahead
			out = append(out, e)
		}
	}
	for _, s := range statuses {
		for i, q := range s.Queue {
			for _, l := range s.Holders {
				if conflict(l.Mode, q.Mode) {
					add(Wait{From: q.Agent, To: l.Holder, Over: s.Resource})
				}
			}
			for _, ahead := range s.Queue[:i] {
				if conflict(ahead.Mode, q.Mode) {
					add(Wait{From: q.Agent, To: ahead.Agent, Over: s.Resource})
				}
			}
		}
	}
	return out
}

// reduce leaves out the edges that others make plain: the graph has no circle, so what is left is the smallest one
// in which everybody still leads to everybody they wait for.
func reduce(edges []Wait) []Wait {
	next := map[lease.Agent][]lease.Agent{}
	for _, e := range edges {
		next[e.From] = append(next[e.From], e.To)
	}
	var leads func(from, to lease.Agent, seen map[lease.Agent]bool) bool
	leads = func(from, to lease.Agent, seen map[lease.Agent]bool) bool {
		for _, n := range next[from] {
			if n == to {
				return true
			}
			if !seen[n] {
				seen[n] = true
				if leads(n, to, seen) {
					return true
				}
			}
		}
		return false
	}
	return slices.DeleteFunc(edges, func(e Wait) bool {
		return slices.ContainsFunc(next[e.From], func(n lease.Agent) bool {
			return n != e.To && leads(n, e.To, map[lease.Agent]bool{})
		})
	})
}

// withCircle adds and marks the edges of a circle that was refused; its first is the one that was not let in.
func withCircle(edges []Wait, circle []lease.Edge) []Wait {
	for i, step := range circle {
		e := Wait{From: step.Agent, To: circle[(i+1)%len(circle)].Agent, Over: step.Resource, Circle: true, Refused: i == 0}
		at := slices.IndexFunc(edges, func(other Wait) bool {
			return other.From == e.From && other.To == e.To && other.Over == e.Over
		})
		if at >= 0 {
			edges[at] = e
		} else {
			edges = append(edges, e)
		}
	}
	return edges
}
