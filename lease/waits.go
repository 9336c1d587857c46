package lease

import "slices"

// Wait is an edge of the graph of who waits for whom: From waits for Over, which To holds or is ahead for.
type Wait struct {
	From Agent
	To   Agent
	Over Resource
}

// Waits is the graph of who waits for whom, in the order of the statuses, with as few edges as lead from everybody
// to everybody they wait for. A waiter waits for every conflicting holder and for every conflicting waiter ahead of
// it. The graph of statuses that were taken at one instant has no circle.
func Waits(statuses []Status) []Wait {
	return reduce(allWaits(statuses))
}

func allWaits(statuses []Status) []Wait {
	var out []Wait
	seen := map[Wait]bool{}
	add := func(e Wait) {
		if e.From != e.To && !seen[e] { // a reader that waits to write is both holder and ahead
			seen[e] = true
			out = append(out, e)
		}
	}
	for _, s := range statuses {
		for i, q := range s.Queue {
			for _, l := range s.Holders {
				if conflict(l.Mode, q.Mode) {
					add(Wait{q.Agent, l.Holder, s.Resource})
				}
			}
			for _, ahead := range s.Queue[:i] {
				if conflict(ahead.Mode, q.Mode) {
					add(Wait{q.Agent, ahead.Agent, s.Resource})
				}
			}
		}
	}
	return out
}

// reduce leaves out the edges that others make plain. Without a circle, what is left is the smallest graph in which
// everybody still leads to everybody they wait for (A. V. Aho, M. R. Garey, J. D. Ullman, "The Transitive Reduction
// of a Directed Graph", 1972).
func reduce(edges []Wait) []Wait {
	next := map[Agent][]Agent{}
	number := map[Agent]int{}
	for _, e := range edges {
		for _, a := range []Agent{e.From, e.To} {
			if _, known := number[a]; !known {
				number[a] = len(number)
			}
		}
		if !slices.Contains(next[e.From], e.To) {
			next[e.From] = append(next[e.From], e.To)
		}
	}
	beyond := make([]bitset, len(number)) // to whom each agent leads
	var leads func(Agent) bitset
	leads = func(from Agent) bitset {
		at := number[from]
		if beyond[at] == nil {
			beyond[at] = make(bitset, (len(number)+63)/64)
			for _, to := range next[from] {
				beyond[at].add(number[to])
				beyond[at].addAll(leads(to))
			}
		}
		return beyond[at]
	}
	return slices.DeleteFunc(edges, func(e Wait) bool {
		return slices.ContainsFunc(next[e.From], func(n Agent) bool { return n != e.To && leads(n).has(number[e.To]) })
	})
}

// bitset is a set of numbers below its length times 64.
type bitset []uint64

func (b bitset) add(n int)      { b[n/64] |= 1 << (n % 64) }
func (b bitset) has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }

func (b bitset) addAll(other bitset) {
	for i, word := range other {
		b[i] |= word
	}
}
