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

// Wait is an edge of the graph of who waits for whom, as [lease.Waits] gives it, or of a refused circle.
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
	v.Waits = withCircle(lease.Waits(statuses), w.circle)
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

// withCircle adds and marks the edges of a circle that was refused; its first is the one that was not let in.
func withCircle(waits []lease.Wait, circle []lease.Edge) []Wait {
	edges := make([]Wait, 0, len(waits)+len(circle))
	for _, e := range waits {
		edges = append(edges, Wait{From: e.From, To: e.To, Over: e.Over})
	}
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
