package crdt

import "slices"

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
	if g.Len() == 0 || slices.Equal(base, g.heads) {
		return nil
	}
	w := walk{top: uint32(g.Len() - 1), marks: g.walked}
	defer func() { g.keepMarks(w.marks) }()
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
		n, old := w.next()
		if !old {
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
	w := walk{top: numbers[len(numbers)-1], marks: g.walked}
	defer func() { g.keepMarks(w.marks) }()
	for _, n := range numbers {
		w.visit(n, false)
	}
	var top []Hash
	for w.young > 0 {
		n, old := w.next()
		if !old {
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
	top   uint32 // no change to be visited is younger
	marks []met  // of the changes, from top down
	at    int    // the first mark that was not looked at
	young int    // how many changes that were not looked at are marked so

	scratch step
}

// met is what is known of a change.
type met byte

const (
	unmet met = iota
	fresh     // to be visited
	known     // the same, and known to be an ancestor of the base
)

func (w *walk) visit(n uint32, isOld bool) {
	i := int(w.top - n)
	if i >= len(w.marks) {
		w.marks = append(w.marks, make([]met, i+1-len(w.marks))...)
	}
	switch m := &w.marks[i]; {
	case *m == unmet && isOld:
		*m = known
	case *m == unmet:
		*m = fresh
		w.young++
	case *m == fresh && isOld:
		*m = known
		w.young--
	}
}

// next gives the youngest change that is left. There has to be one.
func (w *walk) next() (n uint32, isOld bool) {
	for w.marks[w.at] == unmet {
		w.at++
	}
	n, isOld = w.top-uint32(w.at), w.marks[w.at] == known
	if !isOld {
		w.young--
	}
	w.at++
	return n, isOld
}

// maxMarks bounds the marks that a graph keeps for the next walk: peers that keep up need few.
const maxMarks = 1 << 12

func (g *Graph) keepMarks(marks []met) {
	if cap(marks) <= maxMarks {
		clear(marks)
		g.walked = marks[:0]
	}
}
