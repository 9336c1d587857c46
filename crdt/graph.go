package crdt

import (
	"encoding/binary"
	"slices"
)

// Graph is the changes of one document by their dependencies. Not safe for concurrent use.
//
// Changes are numbered in the order in which they were added, which is one in which each stands behind its
// dependencies. All that is kept of a change is its hash, its dependencies' numbers and its place in its
// author's sequence: about 60 bytes.
type Graph struct {
	hashes []Hash
	deps   []uint32 // of all changes one behind the other
	ends   []uint32 // where each change's deps end
	slots  []uint32 // open addressing by the first bytes of the hash; number + 1, 0 is free
	heads  []Hash
	actors map[ActorID][]uint32 // numbers by seq, from 1

	encoded map[string][]byte // messages for peers that are where all others are, see Session
}

// NewGraph is the graph of the empty document.
func NewGraph() *Graph {
	return &Graph{slots: make([]uint32, 8), actors: make(map[ActorID][]uint32)}
}

// Add puts in changes whose dependencies are all there or stand earlier in the slice, as Sort gives them.
// Others, and those that are known, are left out.
func (g *Graph) Add(changes ...Change) {
	clear(g.encoded)
	for i := range changes {
		c := &changes[i]
		if g.Has(c.Hash) || !g.fits(c) {
			continue
		}
		n := uint32(len(g.hashes))
		for _, d := range c.Deps {
			dep, _ := g.number(d)
			g.deps = append(g.deps, dep)
		}
		g.hashes = append(g.hashes, c.Hash)
		g.ends = append(g.ends, uint32(len(g.deps)))
		g.actors[c.Actor] = append(g.actors[c.Actor], n)
		g.enter(n)
		for _, d := range c.Deps {
			if at, ok := slices.BinarySearchFunc(g.heads, d, CompareHashes); ok {
				g.heads = slices.Delete(g.heads, at, at+1)
			}
		}
		at, _ := slices.BinarySearchFunc(g.heads, c.Hash, CompareHashes)
		g.heads = slices.Insert(g.heads, at, c.Hash)
	}
}

// Heads are the changes that no other depends on, sorted.
func (g *Graph) Heads() []Hash { return slices.Clone(g.heads) }

// Has says whether the change is in the graph.
func (g *Graph) Has(h Hash) bool {
	_, ok := g.number(h)
	return ok
}

// Len is the number of changes.
func (g *Graph) Len() int { return len(g.hashes) }

// fit is whether a change can be added.
type fit int

const (
	fits   fit = iota
	waits      // for its dependencies
	breaks     // the sequence of its author
)

// fits says whether a change can be added. An author's changes are numbered without gaps: a second one with
// the same number is by somebody who uses the same actor id, or by an author who lost what was written.
func (g *Graph) fits(c *Change) bool {
	if c.Seq != uint64(len(g.actors[c.Actor]))+1 {
		return false
	}
	for _, d := range c.Deps {
		if !g.Has(d) {
			return false
		}
	}
	return true
}

// Sort splits changes into those that can be added now, in an order in which each stands behind its
// dependencies, and those that wait for others. Known ones and repetitions are dropped. A change that
// reuses an actor's sequence number with another hash, or leaves out a number, is in neither: it is in
// refused, and what depends on it waits.
func (g *Graph) Sort(changes []Change) (ready, orphans, refused []Change) {
	s := sorter{
		graph: g, changes: changes,
		fit: make([]fit, len(changes)), found: make([]int, len(changes)),
		placed: make(map[Hash]bool), waiting: make(map[Hash][]int), seqs: make(map[ActorID]uint64),
	}
	var order []int // without the known and the repeated
	seen := make(map[Hash]bool, len(changes))
	for i := range changes {
		if h := changes[i].Hash; !seen[h] && !g.Has(h) {
			seen[h] = true
			order = append(order, i)
		}
	}
	for _, i := range order {
		s.place(i)
	}
	for _, i := range order {
		switch s.fit[i] {
		case waits:
			orphans = append(orphans, changes[i])
		case breaks:
			refused = append(refused, changes[i])
		}
	}
	return s.ready, orphans, refused
}

// sorter is the work of one Sort: each change is placed when the last of its dependencies was.
type sorter struct {
	graph   *Graph
	changes []Change
	fit     []fit
	found   []int // how many of a change's dependencies, from the first on, are known to be there
	ready   []Change
	placed  map[Hash]bool
	waiting map[Hash][]int     // by the first dependency that is missing
	seqs    map[ActorID]uint64 // of the last change placed
}

// place places a change if it can be, and then those that waited for it.
func (s *sorter) place(i int) {
	for stack := []int{i}; len(stack) > 0; {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c := &s.changes[i]
		if missing, ok := s.missing(i); ok {
			s.fit[i] = waits
			s.waiting[missing] = append(s.waiting[missing], i)
			continue
		}
		seq, ok := s.seqs[c.Actor]
		if !ok {
			seq = uint64(len(s.graph.actors[c.Actor]))
		}
		if c.Seq != seq+1 {
			s.fit[i] = breaks
			continue
		}
		s.seqs[c.Actor] = c.Seq
		s.fit[i] = fits
		s.ready = append(s.ready, *c)
		s.placed[c.Hash] = true
		woken := s.waiting[c.Hash]
		delete(s.waiting, c.Hash)
		slices.Reverse(woken) // the stack turns them round again
		stack = append(stack, woken...)
	}
}

// missing names a dependency that is neither in the graph nor placed.
func (s *sorter) missing(i int) (Hash, bool) {
	for deps := s.changes[i].Deps; s.found[i] < len(deps); s.found[i]++ {
		if d := deps[s.found[i]]; !s.placed[d] && !s.graph.Has(d) {
			return d, true
		}
	}
	return Hash{}, false
}

func (g *Graph) slot(h Hash) int {
	return int(binary.LittleEndian.Uint64(h[:]) & uint64(len(g.slots)-1))
}

func (g *Graph) number(h Hash) (uint32, bool) {
	for i := g.slot(h); g.slots[i] != 0; i = (i + 1) & (len(g.slots) - 1) {
		if n := g.slots[i] - 1; g.hashes[n] == h {
			return n, true
		}
	}
	return 0, false
}

// enter puts the change's number into the table, which is kept at most three quarters full.
func (g *Graph) enter(n uint32) {
	if 4*len(g.hashes) > 3*len(g.slots) {
		g.slots = make([]uint32, 2*len(g.slots))
		for m := range n {
			g.fill(m)
		}
	}
	g.fill(n)
}

func (g *Graph) fill(n uint32) {
	i := g.slot(g.hashes[n])
	for g.slots[i] != 0 {
		i = (i + 1) & (len(g.slots) - 1)
	}
	g.slots[i] = n + 1
}

func (g *Graph) depsOf(n uint32) []uint32 {
	var start uint32
	if n > 0 {
		start = g.ends[n-1]
	}
	return g.deps[start:g.ends[n]]
}
