package crdt

import (
	"encoding/binary"
	"slices"
)

// Graph is the changes of one document by their dependencies. Not safe for concurrent use.
//
// Changes are numbered in the order in which they were added, which is one in which each stands behind its
// dependencies. All that is kept of a change is its hash, its dependencies' numbers and its place in its
// author's sequence and the number of its last operation: about 60 bytes.
type Graph struct {
	hashes []Hash
	deps   []uint32 // of all changes one behind the other
	ends   []uint32 // where each change's deps end
	maxOps []uint32 // the greatest number of an operation in each change and all that it builds on
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
		if g.Has(c.Hash) {
			continue
		}
		maxOp, deps, ok := g.fits(c)
		if !ok {
			continue
		}
		n := uint32(len(g.hashes))
		g.deps = append(g.deps, deps...)
		g.hashes = append(g.hashes, c.Hash)
		g.ends = append(g.ends, uint32(len(g.deps)))
		g.maxOps = append(g.maxOps, maxOp)
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
	breaks     // the sequence of its author, or the order of operations
)

// fits says whether a change can be added. An author's changes are numbered without gaps: a second one with
// the same number is by somebody who uses the same actor id, or by an author who lost what was written. And a
// change's operations are numbered above all that it builds on.
func (g *Graph) fits(c *Change) (maxOp uint32, deps []uint32, ok bool) {
	own := g.actors[c.Actor]
	if c.Seq != uint64(len(own))+1 {
		return 0, nil, false
	}
	if len(own) > 0 {
		maxOp = g.maxOps[own[len(own)-1]]
	}
	for _, d := range c.Deps {
		n, known := g.number(d)
		if !known {
			return 0, nil, false
		}
		deps = append(deps, n)
		maxOp = max(maxOp, g.maxOps[n])
	}
	if c.StartOp <= uint64(maxOp) {
		return 0, nil, false
	}
	return max(maxOp, uint32(c.StartOp+c.NumOps-1)), deps, true
}

// Sort splits changes into those that can be added now, in an order in which each stands behind its
// dependencies, and those that wait for others. Known ones and repetitions are dropped. A change that
// reuses an actor's sequence number with another hash, leaves out a number, or numbers its operations like those that
// it builds on, is in neither: it is in refused, and what depends on it waits.
func (g *Graph) Sort(changes []Change) (ready, orphans, refused []Change) {
	s := sorter{
		graph: g, changes: changes,
		fit: make([]fit, len(changes)), found: make([]int, len(changes)),
		placed: make(map[Hash]uint64), waiting: make(map[Hash][]int), last: make(map[ActorID]authored),
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
	placed  map[Hash]uint64 // with the greatest number of an operation, as in the graph
	waiting map[Hash][]int  // by the first dependency that is missing
	last    map[ActorID]authored
}

// authored is an author's last change, in the graph or placed.
type authored struct{ seq, maxOp uint64 }

func (s *sorter) lastOf(actor ActorID) authored {
	if a, ok := s.last[actor]; ok {
		return a
	}
	own := s.graph.actors[actor]
	if len(own) == 0 {
		return authored{}
	}
	return authored{uint64(len(own)), uint64(s.graph.maxOps[own[len(own)-1]])}
}

func (s *sorter) maxOp(h Hash) uint64 {
	if n, ok := s.graph.number(h); ok {
		return uint64(s.graph.maxOps[n])
	}
	return s.placed[h]
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
		last := s.lastOf(c.Actor)
		maxOp := last.maxOp
		for _, d := range c.Deps {
			maxOp = max(maxOp, s.maxOp(d))
		}
		if c.Seq != last.seq+1 || c.StartOp <= maxOp {
			s.fit[i] = breaks
			continue
		}
		maxOp = max(maxOp, c.StartOp+c.NumOps-1)
		s.last[c.Actor] = authored{c.Seq, maxOp}
		s.fit[i] = fits
		s.ready = append(s.ready, *c)
		s.placed[c.Hash] = maxOp
		woken := s.waiting[c.Hash]
		delete(s.waiting, c.Hash)
		slices.Reverse(woken) // the stack turns them round again
		stack = append(stack, woken...)
	}
}

// missing names a dependency that is neither in the graph nor placed.
func (s *sorter) missing(i int) (Hash, bool) {
	for deps := s.changes[i].Deps; s.found[i] < len(deps); s.found[i]++ {
		d := deps[s.found[i]]
		if _, placed := s.placed[d]; !placed && !s.graph.Has(d) {
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
