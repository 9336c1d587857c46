package lease

import "slices"

// step is how a search came to an agent: from waits for over, and the agent is in its way there.
type step struct {
	from *party
	over *resource
}

// cycle finds the shortest cycle of waiting through start, nil if there is none. It begins with what start
// waits for; its last edge leads back to start.
//
// An agent waits for every conflicting holder of a resource in whose queue it stands, and for everybody in
// conflict ahead of it there. The graph has no cycle before a command, and all edges that a command adds
// begin or end at one agent (who queues, or who is handed a lease), so a search from there finds any cycle.
func (k *Kernel) cycle(start *party) []Edge {
	k.search++
	unvisited := []*party{start}
	for len(unvisited) > 0 {
		p := unvisited[0]
		unvisited = unvisited[1:]
		for _, r := range p.waits {
			at := r.placeIndex(p)
			mode := r.queue[at].Mode
			for i := range r.holders {
				if h := &r.holders[i]; conflict(h.Mode, mode) && k.reach(h.by, start, step{p, r}, &unvisited) {
					return path(start, step{p, r})
				}
			}
			for i := range r.queue[:at] {
				if w := &r.queue[i]; conflict(w.Mode, mode) && k.reach(w.by, start, step{p, r}, &unvisited) {
					return path(start, step{p, r})
				}
			}
		}
	}
	return nil
}

// reach visits p; true says that the way there closed a cycle.
func (k *Kernel) reach(p, start *party, via step, unvisited *[]*party) bool {
	switch {
	case p == via.from:
		return false
	case p == start:
		return true
	case p.seen != k.search:
		p.seen, p.via = k.search, via
		*unvisited = append(*unvisited, p)
	}
	return false
}

// path spells out the cycle whose last step is known.
func path(start *party, last step) []Edge {
	var edges []Edge
	for s := last; ; s = s.from.via {
		edges = append(edges, Edge{s.from.Agent, s.over.name})
		if s.from == start {
			slices.Reverse(edges)
			return edges
		}
	}
}
