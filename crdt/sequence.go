package crdt

import (
	"errors"
	"math"
	"slices"
	"sort"
	"unicode/utf8"
)

// Sequence is the Text at one path of a document as a sequence of operations, through all versions: which operation
// inserted each character and which ones deleted it. It leads positions of one version over to another by the names
// of the characters, never by comparing texts. Not safe for concurrent use.
//
// It is made of the document's changes once, and then kept up to date at a cost in proportion to each change. It takes
// some 150 bytes for each run of characters that have the same author and the same fate, and 16 for each change.
type Sequence struct {
	graph *Graph
	path  Path
	upto  int // changes taken in, by their number in the graph

	actors  []ActorID
	numbers map[ActorID]uint32
	touches []touch
	counts  []uint32 // touches by each actor

	root    *object
	objects map[opRef]*object // that stand, or once stood, at the path or on the way to it
}

// touch is a change that wrote to the text or to the way to it.
type touch struct {
	number  uint32 // in the graph
	actor   uint32
	first   uint32 // counter of its first operation
	ordinal uint32 // among the touches by the actor
}

// object is a map on the way to the text, or a text at its end.
type object struct {
	level  int       // how many keys lead to it
	values []value   // of a map: what was ever written to the next key
	text   *elements // of a text
}

// value is what an operation wrote to a property.
type value struct {
	id          opRef
	overwritten []opRef // operations that took its place
	object      *object // nil: nothing that the way leads through
}

// Errors of a Sequence.
var (
	// ErrNoText: there was no Text at the path in that version.
	ErrNoText = errors.New("there is no text at that version")
	// ErrUnmapped: the sequence cannot tell. The engine can.
	ErrUnmapped = errors.New("the version cannot be mapped to the present one")
)

// NewSequence is that of the Text at a path of which the changes are still to be added.
func NewSequence(g *Graph, path Path) *Sequence {
	s := &Sequence{graph: g, path: path, numbers: make(map[ActorID]uint32), objects: make(map[opRef]*object)}
	s.root = &object{}
	return s
}

// Add takes in a change that is in the graph. They come in the order of the graph; those that do not touch the path
// may be left out. A change that does not come in its turn is ignored.
func (s *Sequence) Add(c Change) {
	n, ok := s.graph.Number(c.Hash)
	if !ok || n < s.upto {
		return
	}
	s.upto = n + 1
	w := sequenceWriter{Sequence: s, change: &c}
	rows := newRows(&c)
	for rows.next() {
		op := &rows.op
		o := w.object(op.object)
		switch {
		case o == nil:
			rows.skipAlike()
		case o.text != nil:
			w.touch(uint32(n))
			w.element(o.text, op)
			if op.action == actionDelete || op.action == actionMark {
				w.alike(rows)
			}
		case op.named && op.name == s.path[o.level]:
			w.touch(uint32(n))
			w.property(o, op)
		}
	}
	w.flush()
}

// sequenceWriter is one Add. What a change inserts, or deletes, in a row is collected.
type sequenceWriter struct {
	*Sequence
	change  *Change
	touched bool
	self    uint32 // number of the change's author, once touched

	last   opID // the object that was last looked up, and what it is here
	lastIs *object

	text      *elements // that what is collected goes to
	inserted  *run
	behind    opRef
	deletions removal
}

func (w *sequenceWriter) object(id opID) *object {
	if id == (opID{}) {
		return w.root
	}
	if id != w.last {
		w.last, w.lastIs = id, nil
		if ref, ok := w.ref(id); ok {
			w.lastIs = w.objects[ref]
		}
	}
	return w.lastIs
}

// ref gives the short form of an operation's name; false when nothing by that author is here.
func (s *Sequence) ref(id opID) (opRef, bool) {
	n, ok := s.numbers[id.actor]
	return opRef{uint32(id.counter), n}, ok
}

func (w *sequenceWriter) touch(number uint32) {
	if w.touched {
		return
	}
	w.touched = true
	actor, ok := w.numbers[w.change.Actor]
	if !ok {
		actor = uint32(len(w.actors))
		w.actors, w.counts = append(w.actors, w.change.Actor), append(w.counts, 0)
		w.numbers[w.change.Actor] = actor
	}
	w.self = actor
	w.touches = append(w.touches, touch{number, actor, uint32(w.change.StartOp), w.counts[actor]})
	w.counts[actor]++
}

// property takes in a write to the next key of the way.
func (w *sequenceWriter) property(o *object, op *row) {
	self := opRef{uint32(op.self.counter), w.self}
	if op.action == actionIncrement {
		return
	}
	for _, id := range op.replaced {
		ref, ok := w.ref(id)
		for i, v := range slices.Backward(o.values) {
			if ok && v.id == ref {
				o.values[i].overwritten = append(v.overwritten, self)
				break
			}
		}
	}
	if op.action == actionDelete {
		return
	}
	v := value{id: self}
	below := &object{level: o.level + 1}
	switch last := below.level == len(w.path); {
	case last && op.action == actionMakeText:
		below.text = newElements()
		v.object = below
	case !last && op.action == actionMakeMap:
		v.object = below
	}
	if v.object != nil {
		w.objects[self] = below
		w.last = opID{} // it may have been looked up already
	}
	o.values = append(o.values, v)
}

// element takes in a write to a text.
func (w *sequenceWriter) element(text *elements, op *row) {
	self := opRef{uint32(op.self.counter), w.self}
	element, known := opRef{}, true // the beginning
	if op.element != (opID{}) {
		element, known = w.ref(op.element)
	}
	if w.text != text {
		w.flush()
		w.text = text
	}
	switch {
	case text.unread:
	case self.counter == math.MaxUint32 || !known:
		text.unread = true
	case op.insert && op.action == actionPut && op.value == valueString && isOneCharacter(op.bytes):
		w.insert(self, element, false, op.bytes)
	case op.insert && op.action == actionMark:
		w.insert(self, element, true, nil)
	case op.action == actionDelete && len(op.replaced) == 1 && op.replaced[0] == op.element:
		w.remove(self, element, 1)
	default:
		text.unread = true
	}
}

// insert collects an element that is inserted behind another.
func (w *sequenceWriter) insert(self, behind opRef, mark bool, character []byte) {
	r := w.inserted
	if r == nil || r.mark != mark || behind != (opRef{r.first.counter + r.length - 1, w.self}) || self.counter != behind.counter+1 {
		w.flush()
		r = &run{first: self, mark: mark}
		w.inserted, w.behind = r, behind
	}
	r.length++
	r.text = append(r.text, character...)
}

// remove collects elements that are deleted, from one on.
func (w *sequenceWriter) remove(self, first opRef, length uint32) {
	d := &w.deletions
	switch end := first.counter + length; {
	case d.length == 0 || first.actor != d.first.actor || end < d.first.counter || first.counter > d.first.counter+d.length:
		w.flush()
		w.deletions = removal{self.counter, first, length}
	default:
		end = max(end, d.first.counter+d.length)
		d.first.counter = min(first.counter, d.first.counter)
		d.length = end - d.first.counter
	}
}

// alike takes in the operations that are as the last one, a deletion or the end of a mark, but for their numbers. Few
// bytes can claim millions of them.
func (w *sequenceWriter) alike(rows *rows) {
	self, element := rows.op.self.counter, rows.op.element
	rows.skipAlike()
	n, step := uint32(rows.op.self.counter-self), rows.keyCounters.runs.value
	if n == 0 || w.text.unread {
		return
	}
	ref, _ := w.ref(element)
	by := opRef{uint32(self), w.self}
	switch {
	case rows.op.action == actionMark && step == 1 && w.inserted != nil && element.actor == w.change.Actor && element.counter+1 == self:
		w.inserted.length += n
	case rows.op.action == actionMark || rows.predCounters.runs.value != step:
		w.text.unread = true
	case step == 1:
		w.remove(by, opRef{ref.counter + 1, ref.actor}, n)
	case step == -1:
		w.remove(by, opRef{ref.counter - n, ref.actor}, n)
	case step != 0:
		for i := range int64(n) {
			w.remove(by, opRef{uint32(int64(ref.counter) + (i+1)*step), ref.actor}, 1)
		}
	}
}

func isOneCharacter(b []byte) bool {
	_, size := utf8.DecodeRune(b)
	return size > 0 && size == len(b)
}

// flush writes what was collected into the text.
func (w *sequenceWriter) flush() {
	if w.inserted != nil {
		w.text.insert(w.behind, w.inserted, w.older)
	}
	if d := w.deletions; d.length > 0 {
		w.text.remove(opRef{d.counter, w.self}, uint32(w.change.StartOp), d.first, d.length)
	}
	w.inserted, w.deletions = nil, removal{}
}

// older orders operations as Automerge does.
func (s *Sequence) older(a, b opRef) bool {
	if a.counter != b.counter {
		return a.counter < b.counter
	}
	return s.actors[a.actor] < s.actors[b.actor]
}

// horizon is a version: for the authors that wrote anything since, the counter of the first operation that is not in it.
type horizon map[uint32]uint32

func (h horizon) has(id opRef) bool {
	end, ok := h[id.actor]
	return !ok || id.counter < end
}

// horizon gives the version of heads. The cost is that of the part of the graph that is younger.
func (s *Sequence) horizon(heads []Hash) (horizon, error) {
	h := make(horizon)
	type since struct{ first, count uint32 }
	by := make(map[uint32]since)
	for _, n := range s.graph.since(heads) {
		i, ok := slices.BinarySearchFunc(s.touches, n, func(t touch, n uint32) int { return int(t.number) - int(n) })
		if !ok {
			continue
		}
		t := s.touches[i]
		seen, ok := by[t.actor]
		if !ok {
			seen.first, h[t.actor] = t.ordinal, t.first
		}
		seen.count++
		by[t.actor] = seen
	}
	for actor, seen := range by {
		if seen.first+seen.count != s.counts[actor] {
			return nil, ErrUnmapped // a change of the actor is in the version and one before it is not
		}
	}
	return h, nil
}

// at follows the path as it led at a version; nil when to no text.
func (s *Sequence) at(h horizon) *elements {
	o := s.root
	for o != nil && o.level < len(s.path) {
		var winner value
		for _, v := range o.values {
			gone := slices.ContainsFunc(v.overwritten, h.has)
			if h.has(v.id) && !gone && (winner.id == opRef{} || s.older(winner.id, v.id)) {
				winner = v
			}
		}
		o = winner.object
	}
	if o == nil {
		return nil
	}
	return o.text
}

// Len is how many characters the present text has; ErrNoText, or ErrUnmapped.
func (s *Sequence) Len() (int, error) {
	text := s.at(nil)
	switch {
	case text == nil:
		return 0, ErrNoText
	case text.unread:
		return 0, ErrUnmapped
	}
	_, length := text.place(nil)
	return length, nil
}

// Size is about how many bytes of memory the sequence takes.
func (s *Sequence) Size() int {
	const perRun, perTouch, perRemoval = 150, 16, 16
	size := perTouch * len(s.touches)
	for _, o := range s.objects {
		if o.text != nil {
			runs, _ := o.text.place(nil)
			size += perRun*runs + perRemoval*o.text.removed + o.text.bytes
		}
	}
	return size
}

// change gives the number of the change that an operation is of, and the operation's counter up to which it goes.
func (s *Sequence) change(id opRef) (number int, last uint32) {
	own := s.graph.actors[s.actors[id.actor]]
	i := sort.Search(int(own.size), func(i int) bool { return s.graph.maxOp(own.at(uint32(i))) >= id.counter })
	n := own.at(uint32(i))
	return int(n), s.graph.maxOp(n)
}
