package crdt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// The saved forms of Graph and Objects let a document be opened without reading its changes. They are our own, not
// Automerge's: a format byte, then LEB128 numbers and raw hashes. A saved graph takes about 38 bytes a change.

const savedFormat = 1

// ErrSaved says that bytes are no saved graph, objects or document.
var ErrSaved = errors.New("not a saved index")

// AppendBinary writes the graph. Changes stand in the order in which they were added; each names its author by
// position in a table and its dependencies by how far they lie back.
func (g *Graph) AppendBinary(b []byte) ([]byte, error) {
	actors := slices.Sorted(maps.Keys(g.actors))
	authors := make([]uint32, len(g.hashes))
	for i, actor := range actors {
		for _, n := range g.actors[actor] {
			authors[n] = uint32(i)
		}
	}
	b = append(b, savedFormat)
	b = appendActors(b, actors)
	b = binary.AppendUvarint(b, uint64(len(g.hashes)))
	for i, h := range g.hashes {
		n := uint32(i)
		b = append(b, h[:]...)
		b = binary.AppendUvarint(b, uint64(authors[i]))
		b = binary.AppendUvarint(b, uint64(g.maxOps[i]))
		deps := g.depsOf(n)
		b = binary.AppendUvarint(b, uint64(len(deps)))
		for _, d := range deps {
			b = binary.AppendUvarint(b, uint64(n-d))
		}
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote into an empty graph. Errors are ErrSaved, wrapped.
func (g *Graph) UnmarshalBinary(data []byte) error {
	r := reader{rest: data}
	if r.byte() != savedFormat {
		return fmt.Errorf("%w: unknown format", ErrSaved)
	}
	actors := readActors(&r)
	total := r.count(len(Hash{}) + 3)
	out := NewGraph()
	out.hashes = make([]Hash, 0, total)
	out.deps = make([]uint32, 0, total)
	out.ends = make([]uint32, 0, total)
	out.maxOps = make([]uint32, 0, total)
	childless := make([]bool, total)
	for n := range uint32(total) {
		h, author, maxOp := r.hash(), r.uint(), r.uint()
		for range r.count(1) {
			back := r.uint()
			if back == 0 || back > uint64(n) {
				return fmt.Errorf("%w: a change that depends on none before it", ErrSaved)
			}
			dep := n - uint32(back)
			out.deps = append(out.deps, dep)
			childless[dep] = false
		}
		if r.err != nil || author >= uint64(len(actors)) || maxOp > math.MaxUint32 {
			return fmt.Errorf("%w: cut short", ErrSaved)
		}
		childless[n] = true
		out.hashes = append(out.hashes, h)
		out.ends = append(out.ends, uint32(len(out.deps)))
		out.maxOps = append(out.maxOps, uint32(maxOp))
		out.actors[actors[author]] = append(out.actors[actors[author]], n)
	}
	if r.err != nil || !r.empty() {
		return fmt.Errorf("%w: cut short, or more behind it", ErrSaved)
	}
	out.index()
	for n, head := range childless {
		if head {
			out.heads = append(out.heads, out.hashes[n])
		}
	}
	SortHashes(out.heads)
	*g = *out
	return nil
}

// From gives the changes from the nth on, counted from 0, in the order in which they were added.
func (g *Graph) From(n int) []Hash { return slices.Clone(g.hashes[min(n, len(g.hashes)):]) }

// Hash is the change with the given number, which must be one of the graph's: counted from 0, as Number does.
func (g *Graph) Hash(n int) Hash { return g.hashes[n] }

// Number gives the place of a change in the order in which they were added, counted from 0.
func (g *Graph) Number(h Hash) (n int, ok bool) {
	number, ok := g.number(h)
	return int(number), ok
}

// SavedHeads gives the heads that a saved document (one chunk of type 0) names, sorted, after checking that the
// chunk is whole. What it holds besides is not looked at.
func SavedHeads(chunk []byte) ([]Hash, error) {
	r := reader{rest: chunk}
	magic, checksum, kind, body := r.bytes(uint64(len(chunkMagic))), r.bytes(checksumLength), r.byte(), r.prefixed()
	if r.err != nil || !r.empty() || !bytes.Equal(magic, chunkMagic[:]) || kind != chunkDocument {
		return nil, fmt.Errorf("%w: not one saved document", ErrSaved)
	}
	if hash := hashChunk(chunkDocument, body); !bytes.Equal(hash[:checksumLength], checksum) {
		return nil, fmt.Errorf("%w: wrong checksum", ErrSaved)
	}
	r = reader{rest: body}
	readActors(&r)
	heads := r.hashes()
	if r.err != nil {
		return nil, fmt.Errorf("%w: cut short", ErrSaved)
	}
	return SortHashes(heads), nil
}

// index fills the table of a graph whose hashes are all there.
func (g *Graph) index() {
	size := len(g.slots)
	for 4*len(g.hashes) > 3*size {
		size *= 2
	}
	g.slots = make([]uint32, size)
	for n := range uint32(len(g.hashes)) {
		g.fill(n)
	}
}

// AppendBinary writes the objects: the tree of places, depth first, then who made what there.
func (o *Objects) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, savedFormat)
	numbers := make(map[*place]uint64)
	b = o.root.appendTo(b, numbers)
	actors := slices.Sorted(maps.Keys(o.made))
	b = appendActors(b, actors)
	for _, actor := range actors {
		b = binary.AppendUvarint(b, uint64(len(o.made[actor])))
		for _, m := range o.made[actor] {
			keyed := byte(0)
			if m.keyed {
				keyed = 1
			}
			b = binary.AppendUvarint(b, m.first)
			b = binary.AppendUvarint(b, m.items)
			b = binary.AppendUvarint(b, numbers[m.at])
			b = append(b, keyed)
		}
	}
	return b, nil
}

func (p *place) appendTo(b []byte, numbers map[*place]uint64) []byte {
	numbers[p] = uint64(len(numbers))
	b = binary.AppendUvarint(b, uint64(len(p.below)))
	for _, name := range slices.Sorted(maps.Keys(p.below)) {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		b = p.below[name].appendTo(b, numbers)
	}
	return b
}

// UnmarshalBinary reads what AppendBinary wrote. Errors are ErrSaved, wrapped.
func (o *Objects) UnmarshalBinary(data []byte) error {
	r := reader{rest: data}
	if r.byte() != savedFormat {
		return fmt.Errorf("%w: unknown format", ErrSaved)
	}
	out := NewObjects()
	var places []*place
	readPlace(&r, &out.root, &places)
	for _, actor := range readActors(&r) {
		list := make([]madeObjects, r.count(4))
		for i := range list {
			m := madeObjects{first: r.uint(), items: r.uint()}
			at := r.uint()
			m.keyed = r.byte() == 1
			if at >= uint64(len(places)) {
				return fmt.Errorf("%w: an object at no place", ErrSaved)
			}
			m.at = places[at]
			list[i] = m
		}
		if !slices.IsSortedFunc(list, func(a, b madeObjects) int { return cmp.Compare(a.first, b.first) }) {
			return fmt.Errorf("%w: objects out of order", ErrSaved)
		}
		out.made[actor] = list
	}
	if r.err != nil || !r.empty() {
		return fmt.Errorf("%w: cut short, or more behind it", ErrSaved)
	}
	// The places point at one another, so that the root has to stay where it was read.
	*o = Objects{root: out.root, made: out.made}
	for _, list := range o.made {
		for i := range list {
			if list[i].at == &out.root {
				list[i].at = &o.root
			}
		}
	}
	return nil
}

// readPlace reads a place and what is below it. Its depth is bounded, as child bounds it.
func readPlace(r *reader, p *place, places *[]*place) {
	*places = append(*places, p)
	for range r.count(2) {
		name := r.text()
		below := p.child(name)
		if r.err != nil || below == p {
			r.fail("places too deep")
			return
		}
		readPlace(r, below, places)
	}
}

func appendActors(b []byte, actors []ActorID) []byte {
	b = binary.AppendUvarint(b, uint64(len(actors)))
	for _, a := range actors {
		b = binary.AppendUvarint(b, uint64(len(a)))
		b = append(b, a...)
	}
	return b
}

func readActors(r *reader) []ActorID {
	actors := make([]ActorID, r.count(1))
	for i := range actors {
		actors[i] = ActorID(r.prefixed())
	}
	return actors
}
