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
// Automerge's: a format byte, then LEB128 numbers and raw hashes. A saved graph takes about 33 bytes a change.

const (
	savedFormat = 1 // of objects
	firstGraph  = 1 // of graphs, once: change by change
	secondGraph = 2 // the same as now, without the count of operations
	savedGraph  = 3
)

// ErrSaved says that bytes are no saved graph, objects or document.
var ErrSaved = errors.New("not a saved index")

// AppendBinary writes the graph as it lies in memory: the count of operations, for each author which numbers are its own, the
// hashes by number, and the steps.
func (g *Graph) AppendBinary(b []byte) ([]byte, error) {
	g.pack()
	actors := slices.Sorted(maps.Keys(g.actors))
	b = append(b, savedGraph)
	b = binary.AppendUvarint(b, g.ops)
	b = appendActors(b, actors)
	for _, actor := range actors {
		own, next := g.actors[actor], uint32(0)
		b = binary.AppendUvarint(b, uint64(len(own.runs)))
		for i := range own.runs {
			first, length := own.run(i)
			b = binary.AppendUvarint(b, uint64(first-next))
			b = binary.AppendUvarint(b, uint64(length))
			next = first + length
		}
	}
	b = binary.AppendUvarint(b, uint64(g.old.len()))
	b = append(b, g.old.hashes...)
	b = binary.AppendUvarint(b, uint64(len(g.old.steps)))
	return append(b, g.old.steps...), nil
}

// UnmarshalBinary reads what AppendBinary wrote into an empty graph, which keeps data. Errors are ErrSaved, wrapped.
func (g *Graph) UnmarshalBinary(data []byte) error {
	r, out := reader{rest: data}, NewGraph()
	switch r.byte() {
	case savedGraph:
		out.ops = r.uint()
	case secondGraph:
	case firstGraph:
		return g.readFirst(&r)
	default:
		return fmt.Errorf("%w: unknown format", ErrSaved)
	}
	authored := 0
	for _, actor := range readActors(&r) {
		authored += out.readOwn(&r, actor)
	}
	total := r.count(hashLength)
	out.old.hashes = r.bytes(uint64(total * hashLength))
	out.old.steps = r.prefixed()
	if r.err != nil || !r.empty() || authored != total {
		return fmt.Errorf("%w: cut short, or more behind it", ErrSaved)
	}
	if err := out.checkOwn(total); err != nil {
		return err
	}
	if err := out.readSteps(); err != nil {
		return err
	}
	out.old.index()
	*g = *out
	return nil
}

// readFirst reads the form that graphs were saved in at first: change by change, each with its hash, its author by position in
// the table, its maxOp and how far its dependencies lie back.
func (g *Graph) readFirst(r *reader) error {
	actors, out := readActors(r), NewGraph()
	for n := range uint32(r.count(hashLength + 3)) {
		h, author, maxOp := r.hash(), r.uint(), r.uint()
		var deps []uint32
		for range r.count(1) {
			back := r.uint()
			if back == 0 || back > uint64(n) {
				return fmt.Errorf("%w: a change that depends on none before it", ErrSaved)
			}
			deps = append(deps, n-uint32(back))
		}
		if r.err != nil || author >= uint64(len(actors)) || maxOp > math.MaxUint32 {
			break
		}
		out.own(actors[author]).add(n)
		out.young.add(h, deps, uint32(maxOp))
	}
	if r.err != nil || !r.empty() {
		return fmt.Errorf("%w: cut short, or more behind it", ErrSaved)
	}
	out.pack()
	if err := out.readSteps(); err != nil {
		return err
	}
	*g = *out
	return nil
}

// readOwn reads which changes are an author's, and returns how many.
func (g *Graph) readOwn(r *reader, actor ActorID) int {
	own, next := g.own(actor), uint64(0)
	for range r.count(2) {
		first, length := next+r.uint(), r.uint()
		if first > math.MaxUint32 || length == 0 || length > math.MaxUint32 || first+length > math.MaxUint32 {
			r.fail("a run of changes that there cannot be")
			return 0
		}
		own.runs = append(own.runs, numberRun{own.size, uint32(first)})
		own.size += uint32(length)
		next = first + length
	}
	return int(own.size)
}

// checkOwn checks that each of so many changes is one author's.
func (g *Graph) checkOwn(total int) error {
	owned := make([]bool, total)
	for _, own := range g.actors {
		for i := range own.runs {
			first, length := own.run(i)
			if int(first+length) > total || slices.Contains(owned[first:first+length], true) {
				return fmt.Errorf("%w: a change of two authors", ErrSaved)
			}
			for n := range length {
				owned[first+n] = true
			}
		}
	}
	return nil
}

// readSteps goes over all steps once, for the marks, the heads and the operations.
func (g *Graph) readSteps() error {
	total := g.old.len()
	headless := make([]bool, total)
	g.old.marks = make([]mark, 0, total/markEvery+1)
	r, s, greatest := reader{rest: g.old.steps}, step{}, uint32(0)
	for n := range uint32(total) {
		if n%markEvery == 0 {
			g.old.marks = append(g.old.marks, mark{uint32(len(g.old.steps) - len(r.rest)), s.maxOp})
		}
		readStep(&r, n, &s, s.maxOp)
		greatest = max(greatest, s.maxOp)
		for _, d := range s.deps {
			headless[d] = true
		}
	}
	if r.err != nil || !r.empty() {
		return fmt.Errorf("%w: %w", ErrSaved, cmp.Or(r.err, &ParseError{What: "more steps than changes"}))
	}
	for n, not := range headless {
		if !not {
			g.heads = append(g.heads, g.hash(uint32(n)))
		}
	}
	SortHashes(g.heads)
	if g.ops == 0 { // of a form that does not say
		g.ops = uint64(greatest)
	}
	g.count(0, greatest)
	return nil
}

// From gives the changes from the nth on, counted from 0, in the order in which they were added.
func (g *Graph) From(n int) []Hash {
	var hs []Hash
	for n := uint32(min(n, g.Len())); n < uint32(g.Len()); n++ {
		hs = append(hs, g.hash(n))
	}
	return hs
}

// Hash is the change with the given number, which must be one of the graph's: counted from 0, as Number does.
func (g *Graph) Hash(n int) Hash { return g.hash(uint32(n)) }

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
			m.at.made++
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
