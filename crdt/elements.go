package crdt

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// opRef names an operation as opID does, its author by number. Operations are numbered with 32 bits.
type opRef struct{ counter, actor uint32 }

// elements are all that were ever inserted into one Text, deleted or not, in the order in which Automerge has them:
// behind the element that each was inserted behind, the younger before the older.
type elements struct {
	order
	byActor  map[uint32]*runIndex
	removals map[uint32][]removal // by who removed, each list by rising counter

	// unread: something was written that this cannot show, as a value in the place of another or one that is no
	// single character.
	unread bool

	bytes   int // of text
	removed int // removals
}

// removal is one deletion of elements of one author with consecutive numbers.
type removal struct {
	counter uint32 // of one of the operations
	first   opRef
	length  uint32
}

func newElements() *elements {
	return &elements{byActor: make(map[uint32]*runIndex), removals: make(map[uint32][]removal)}
}

func (e *elements) find(id opRef) *run {
	if x := e.byActor[id.actor]; x != nil {
		return x.find(id.counter)
	}
	return nil
}

// insert puts in a new run behind an element; the zero opRef is the beginning. older orders the operations.
func (e *elements) insert(behind opRef, r *run, older func(a, b opRef) bool) {
	var at *run
	if behind != (opRef{}) {
		if at = e.find(behind); at == nil {
			e.unread = true
			return
		}
		offset := behind.counter - at.first.counter
		if inner := (opRef{behind.counter + 1, behind.actor}); offset+1 < at.length && older(inner, r.first) {
			e.split(at, offset+1)
		}
	}
	before := e.nextBelow(at, r.first.counter+1)
	for before != nil && !older(before.first, r.first) {
		before = e.nextBelow(before, r.first.counter+1)
	}
	e.bytes += len(r.text)
	if at != nil && at.continues(r) && e.next(at) == before {
		at.length += r.length
		at.text = append(at.text, r.text...)
		at.changed()
		return
	}
	e.insertBefore(before, r)
	e.index(r)
}

// continues says whether another run may become part of this one.
func (r *run) continues(s *run) bool {
	return r.mark == s.mark && len(r.deleters) == 0 && s.first == opRef{r.first.counter + r.length, r.first.actor}
}

func (e *elements) index(r *run) {
	x := e.byActor[r.first.actor]
	if x == nil {
		x = &runIndex{}
		e.byActor[r.first.actor] = x
	}
	x.insert(r)
}

// split cuts a run before the element at offset, and the rest of it becomes a run of its own.
func (e *elements) split(r *run, offset uint32) {
	cut := byteOffset(r.text, r.length, offset)
	rest := &run{
		first: opRef{r.first.counter + offset, r.first.actor}, length: r.length - offset, mark: r.mark,
		text: r.text[cut:], deleters: slices.Clone(r.deleters),
	}
	next := e.next(r)
	r.length, r.text = offset, r.text[:cut:cut]
	r.changed()
	e.insertBefore(next, rest)
	e.index(rest)
}

// byteOffset is where the element at offset begins.
func byteOffset(text []byte, length, offset uint32) int {
	switch len(text) {
	case 0: // of marks
		return 0
	case int(length):
		return int(offset)
	}
	at := 0
	for ; offset > 0; offset-- {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at
}

// remove notes that an operation, or several of one change, deleted elements of one author with consecutive numbers.
// since is the first operation of that change.
func (e *elements) remove(by opRef, since uint32, first opRef, length uint32) {
	x := e.byActor[first.actor]
	if x == nil {
		e.unread = true
		return
	}
	for at, end := first.counter, first.counter+length; at < end; {
		r := x.find(at)
		if r == nil {
			e.unread = true
			return
		}
		if at > r.first.counter {
			e.split(r, at-r.first.counter)
			continue
		}
		if end-at < r.length {
			e.split(r, end-at)
		}
		at += r.length
		known := slices.ContainsFunc(r.deleters, func(d opRef) bool { return d.actor == by.actor && d.counter >= since })
		if !known {
			r.deleters = append(r.deleters, by)
			r.changed()
		}
	}
	e.removed++
	e.removals[by.actor] = append(e.removals[by.actor], removal{by.counter, first, length})
}

// removedSince are the deletions by an author from an operation on.
func (e *elements) removedSince(from opRef) []removal {
	all := e.removals[from.actor]
	at, _ := slices.BinarySearchFunc(all, from.counter, func(r removal, c uint32) int { return cmp.Compare(r.counter, c) })
	return all[at:]
}

// indexChunk bounds how many runs are moved to make room for another.
const indexChunk = 256

// runIndex is one author's runs by their numbers.
type runIndex struct{ chunks [][]*run } // none is empty

func byCounter(r *run, counter uint32) int { return cmp.Compare(r.first.counter, counter) }

// locate is the chunk that holds the last run that begins at or before an element, and how many up to it.
func (x *runIndex) locate(counter uint32) (chunk, count int) {
	chunk, _ = slices.BinarySearchFunc(x.chunks, counter+1, func(c []*run, n uint32) int { return byCounter(c[0], n) })
	if chunk--; chunk < 0 {
		return 0, 0
	}
	count, _ = slices.BinarySearchFunc(x.chunks[chunk], counter+1, byCounter)
	return chunk, count
}

func (x *runIndex) find(counter uint32) *run {
	chunk, count := x.locate(counter)
	if count == 0 {
		return nil
	}
	if r := x.chunks[chunk][count-1]; counter-r.first.counter < r.length {
		return r
	}
	return nil
}

func (x *runIndex) insert(r *run) {
	if len(x.chunks) == 0 {
		x.chunks = [][]*run{{r}}
		return
	}
	chunk, count := x.locate(r.first.counter)
	c := slices.Insert(x.chunks[chunk], count, r)
	x.chunks[chunk] = c
	if len(c) > indexChunk {
		x.chunks[chunk] = slices.Clone(c[:indexChunk/2])
		x.chunks = slices.Insert(x.chunks, chunk+1, slices.Clone(c[indexChunk/2:]))
	}
}

// from gives the runs that have elements numbered from or above, in the order of their numbers.
func (x *runIndex) from(counter uint32, yield func(*run) bool) {
	if x == nil || len(x.chunks) == 0 {
		return
	}
	chunk, count := x.locate(counter)
	for at := max(count-1, 0); chunk < len(x.chunks); chunk, at = chunk+1, 0 {
		for _, r := range x.chunks[chunk][at:] {
			if r.first.counter+r.length > counter && !yield(r) {
				return
			}
		}
	}
}
