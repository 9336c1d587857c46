package crdt

import (
	"container/heap"
	"slices"
)

// Since gives the changes that are not among the ancestors of base (base itself counted in), each behind its
// dependencies. Hashes that are not in the graph are passed over. The cost is that of the part of the graph
// that is younger than the oldest change given, whatever lies before.
func (g *Graph) Since(base []Hash) []Hash {
	return g.names(g.since(base))
}

func (g *Graph) names(numbers []uint32) []Hash {
	if len(numbers) == 0 {
		return nil
	}
	hs := make([]Hash, len(numbers))
	for i, n := range numbers {
		hs[i] = g.hash(n)
	}
	return hs
}

// since walks back from the heads and from base at once, the youngest change first, until all that is left to
// visit is known to be an ancestor of base.
func (g *Graph) since(base []Hash) []uint32 {
	w := walk{graph: g, old: make(map[uint32]bool)}
	for _, h := range base {
		if n, ok := g.number(h); ok {
			w.visit(n, true)
		}
	}
	for _, h := range g.heads {
		n, _ := g.number(h)
		w.visit(n, false)
	}
	var young []uint32
	for w.young > 0 {
		n := heap.Pop(&w.queue).(uint32)
		old := w.old[n]
		delete(w.old, n)
		if !old {
			w.young--
			young = append(young, n)
		}
		for _, d := range g.depsOf(n, &w.scratch) {
			w.visit(d, old)
		}
	}
	slices.Reverse(young)
	return young
}

// Maximal drops from hs what is an ancestor of another in hs, what is not in the graph, and repetitions. The
// result is sorted.
func (g *Graph) Maximal(hs []Hash) []Hash {
	var numbers []uint32
	for _, h := range hs {
		if n, ok := g.number(h); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) <= 1 {
		return g.names(numbers)
	}
	// Walk back from all of them down to the oldest: what is met on the way from a younger one goes.
	w := walk{graph: g, old: make(map[uint32]bool)}
	for _, n := range numbers {
		w.visit(n, false)
	}
	var top []Hash
	for w.young > 0 {
		n := heap.Pop(&w.queue).(uint32)
		old := w.old[n]
		delete(w.old, n)
		if !old {
			w.young--
			top = append(top, g.hash(n))
		}
		for _, d := range g.depsOf(n, &w.scratch) {
			if d >= numbers[0] {
				w.visit(d, true)
			}
		}
	}
	return SortHashes(top)
}

// walk is a visit of changes from the youngest to the oldest, each once.
type walk struct {
	graph *Graph
	queue numberHeap
	old   map[uint32]bool // of those in the queue: known to be an ancestor of the base
	young int             // how many of those in the queue are not

	scratch step
}

func (w *walk) visit(n uint32, old bool) {
	was, queued := w.old[n]
	switch {
	case !queued:
		w.old[n] = old
		heap.Push(&w.queue, n)
		if !old {
			w.young++
		}
	case old && !was:
		w.old[n] = true
		w.young--
	}
}

// numberHeap gives the greatest number first.
type numberHeap []uint32

func (h numberHeap) Len() int           { return len(h) }
func (h numberHeap) Less(i, j int) bool { return h[i] > h[j] }
func (h numberHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *numberHeap) Push(n any)        { *h = append(*h, n.(uint32)) }
func (h *numberHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	*h = old[:len(old)-1]
	return n
}
