package crdt

import (
	"encoding/binary"
	"slices"
)

// Graph is the changes of one document by their dependencies. Not safe for concurrent use.
//
// Changes are numbered in the order in which they were added, which is one in which each stands behind its
// dependencies. All that is kept of a change is its hash, its dependencies' numbers and its place in its
// author's sequence and the number of its last operation: about 60 bytes for a young one, 37 for one that was packed.
type Graph struct {
	old   packed
	young young
	heads []Hash
	ops   uint64 // operations of all changes, see maxLead

	actors map[ActorID]*numbers

	shared  []Hash            // the heads, once they were asked for; not to be changed
	walked  []met             // all unmet, for the next walk
	key     []byte            // of what is looked for in encoded
	encoded map[string][]byte // messages for peers that are where all others are, see Session
}

// young is the changes behind the packed ones, by their numbers less those.
type young struct {
	hashes []Hash
	deps   []uint32 // of all changes one behind the other
	ends   []uint32 // where each change's deps end
	maxOps []uint32 // the greatest number of an operation in each change and all that it builds on
	slots  []uint32 // open addressing by the first bytes of the hash; place in hashes + 1, 0 is free
}

func newYoung() young { return young{slots: make([]uint32, 8)} }

// The young are packed when there are so many, and so large a part of all: that makes a constant for each change.
const (
	packFrom = 4096
	packPart = 4
)

// maxLead is by how much the operations of a new change may be numbered above what there is. An author numbers them from one
// above the greatest that it knows (transaction_args in rust/automerge/src/automerge.rs), so that where all that it knows is there
// no number is greater than there are operations. Only a change that was typed on older heads can come before what else
// its author knew: it does not depend on that. A lead is not given away, since numbers end at 32 bits, after which nobody could write,
// and since @automerge/automerge makes room for each number that was left out when it loads a saved document.
const maxLead = 1 << 16

// count notes operations that are in. What was taken in whatever its lead, in an earlier time, is not held against what
// comes after it.
func (g *Graph) count(ops uint64, maxOp uint32) {
	g.ops = max(g.ops+ops, uint64(max(maxOp, maxLead))-maxLead)
}

// MaxOp is the greatest number of an operation; 0 is none.
func (g *Graph) MaxOp() uint32 {
	var greatest uint32
	for _, h := range g.heads {
		n, _ := g.number(h)
		greatest = max(greatest, g.maxOp(n))
	}
	return greatest
}

// NewGraph is the graph of the empty document.
func NewGraph() *Graph { return &Graph{young: newYoung(), actors: make(map[ActorID]*numbers)} }

// Add puts in changes whose dependencies are all there or stand earlier in the slice, as Sort gives them.
// Others, and those that are known, are left out.
func (g *Graph) Add(changes ...Change) {
	clear(g.encoded)
	g.shared = nil
	for i := range changes {
		c := &changes[i]
		if g.Has(c.Hash) {
			continue
		}
		maxOp, deps, ok := g.fits(c)
		if !ok {
			continue
		}
		g.own(c.Actor).add(uint32(g.Len()))
		g.young.add(c.Hash, deps, maxOp)
		g.count(c.NumOps, maxOp)
		for _, d := range c.Deps {
			if at, ok := slices.BinarySearchFunc(g.heads, d, CompareHashes); ok {
				g.heads = slices.Delete(g.heads, at, at+1)
			}
		}
		at, _ := slices.BinarySearchFunc(g.heads, c.Hash, CompareHashes)
		g.heads = slices.Insert(g.heads, at, c.Hash)
		if n := len(g.young.hashes); n >= packFrom && n >= g.old.len()/packPart {
			g.pack()
		}
	}
}

// own gives an author's changes, to be added to.
func (g *Graph) own(actor ActorID) *numbers {
	own := g.actors[actor]
	if own == nil {
		own = new(numbers)
		g.actors[actor] = own
	}
	return own
}

// pack makes all changes old.
func (g *Graph) pack() {
	if len(g.young.hashes) == 0 {
		return
	}
	first, total := uint32(g.old.len()), g.Len()
	all := packed{
		hashes: append(make([]byte, 0, total*hashLength), g.old.hashes...),
		steps:  append(make([]byte, 0, len(g.old.steps)+2*len(g.young.hashes)), g.old.steps...),
		marks:  append(make([]mark, 0, total/markEvery+1), g.old.marks...),
	}
	var before uint32
	if first > 0 {
		before = g.maxOp(first - 1)
	}
	for i, h := range g.young.hashes {
		all.add(h, step{g.young.depsOf(i), g.young.maxOps[i]}, before)
		before = g.young.maxOps[i]
	}
	all.index()
	g.old, g.young = all, newYoung()
}

// Heads are the changes that no other depends on, sorted.
func (g *Graph) Heads() []Hash { return slices.Clone(g.heads) }

// sharedHeads are the heads, for those who do not change them.
func (g *Graph) sharedHeads() []Hash {
	if g.shared == nil {
		g.shared = g.Heads()
	}
	return g.shared
}

// Has says whether the change is in the graph.
func (g *Graph) Has(h Hash) bool {
	_, ok := g.number(h)
	return ok
}

// Len is the number of changes.
func (g *Graph) Len() int { return g.old.len() + len(g.young.hashes) }

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
	last := g.lastOf(c.Actor)
	if c.Seq != last.seq+1 {
		return 0, nil, false
	}
	maxOp = uint32(last.maxOp)
	for _, d := range c.Deps {
		n, known := g.number(d)
		if !known {
			return 0, nil, false
		}
		deps = append(deps, n)
		maxOp = max(maxOp, g.maxOp(n))
	}
	if c.StartOp <= uint64(maxOp) {
		return 0, nil, false
	}
	return max(maxOp, uint32(c.StartOp+c.NumOps-1)), deps, true
}

// Sort splits changes into those that can be added now, in an order in which each stands behind its
// dependencies, and those that wait for others. Known ones and repetitions are dropped. A change that
// reuses an actor's sequence number with another hash, leaves out a number, or numbers its operations like those that
// it builds on or far above all that there are, is in neither: it is in refused, and what depends on it waits.
func (g *Graph) Sort(changes []Change) (ready, orphans, refused []Change) {
	s := sorter{
		graph: g, changes: changes,
		fit: make([]fit, len(changes)), found: make([]int, len(changes)), ready: make([]Change, 0, len(changes)),
		placed: make(map[Hash]uint64), waiting: make(map[Hash][]int), last: make(map[ActorID]authored), ops: g.ops,
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
	ops     uint64 // in the graph and placed
}

// authored is an author's last change, in the graph or placed.
type authored struct{ seq, maxOp uint64 }

func (s *sorter) lastOf(actor ActorID) authored {
	if a, ok := s.last[actor]; ok {
		return a
	}
	return s.graph.lastOf(actor)
}

// lastOf is an author's last change in the graph.
func (g *Graph) lastOf(actor ActorID) authored {
	own := g.actors[actor]
	if own == nil {
		return authored{}
	}
	return authored{uint64(own.size), uint64(g.maxOp(own.at(own.size - 1)))}
}

func (s *sorter) maxOp(h Hash) uint64 {
	if n, ok := s.graph.number(h); ok {
		return uint64(s.graph.maxOp(n))
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
		if c.Seq != last.seq+1 || c.StartOp <= maxOp || c.StartOp > s.ops+1+maxLead {
			s.fit[i] = breaks
			continue
		}
		maxOp = max(maxOp, c.StartOp+c.NumOps-1)
		s.last[c.Actor] = authored{c.Seq, maxOp}
		s.ops += c.NumOps
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

func (g *Graph) number(h Hash) (uint32, bool) {
	if i, ok := g.young.find(h); ok {
		return uint32(g.old.len()) + i, true
	}
	return g.old.number(h)
}

func (g *Graph) hash(n uint32) Hash {
	if first := uint32(g.old.len()); n >= first {
		return g.young.hashes[n-first]
	}
	return g.old.hash(n)
}

func (g *Graph) maxOp(n uint32) uint32 {
	if first := uint32(g.old.len()); n >= first {
		return g.young.maxOps[n-first]
	}
	var s step
	g.old.step(n, &s)
	return s.maxOp
}

// depsOf gives the numbers of a change's dependencies. What it gives is good until scratch is used again.
func (g *Graph) depsOf(n uint32, scratch *step) []uint32 {
	if first := uint32(g.old.len()); n >= first {
		return g.young.depsOf(int(n - first))
	}
	g.old.step(n, scratch)
	return scratch.deps
}

func (y *young) add(h Hash, deps []uint32, maxOp uint32) {
	y.hashes = append(y.hashes, h)
	y.deps = append(y.deps, deps...)
	y.ends = append(y.ends, uint32(len(y.deps)))
	y.maxOps = append(y.maxOps, maxOp)
	y.enter(uint32(len(y.hashes)) - 1)
}

func (y *young) slot(h Hash) int {
	return int(binary.LittleEndian.Uint64(h[:]) & uint64(len(y.slots)-1))
}

func (y *young) find(h Hash) (uint32, bool) {
	for i := y.slot(h); y.slots[i] != 0; i = (i + 1) & (len(y.slots) - 1) {
		if n := y.slots[i] - 1; y.hashes[n] == h {
			return n, true
		}
	}
	return 0, false
}

// enter puts a change into the table, which is kept at most three quarters full.
func (y *young) enter(i uint32) {
	if 4*len(y.hashes) > 3*len(y.slots) {
		y.slots = make([]uint32, 2*len(y.slots))
		for j := range i {
			y.fill(j)
		}
	}
	y.fill(i)
}

func (y *young) fill(i uint32) {
	at := y.slot(y.hashes[i])
	for y.slots[at] != 0 {
		at = (at + 1) & (len(y.slots) - 1)
	}
	y.slots[at] = i + 1
}

func (y *young) depsOf(i int) []uint32 {
	var start uint32
	if i > 0 {
		start = y.ends[i-1]
	}
	return y.deps[start:y.ends[i]]
}
