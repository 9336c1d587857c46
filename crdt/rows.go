package crdt

import "math"

// row is one operation of a change.
type row struct {
	self     opID
	object   opID // zero is the root
	named    bool // it writes to a key of a map, else to an element
	name     string
	element  opID // zero is before the first
	insert   bool // behind the element, not on it
	action   uint64
	value    uint64 // type of the value
	bytes    []byte // and its bytes
	replaced []opID // valid until the next row
}

// rows reads a change's operations one by one, for who has to look at each. Those who need not use Change.runs.
type rows struct {
	op   row
	left uint64
	bad  *ParseError

	actors                                  []ActorID
	objActors, objCounters, keyActors       runs[uint64]
	actions, values, predCounts, predActors runs[uint64]
	keyCounters, predCounters               deltas
	names                                   runs[string]
	inserts                                 booleans
	data                                    reader
}

// newRows stands before the first operation. The columns have been checked, or are being checked now: the numbers of
// operations and authors in them are right.
func newRows(c *Change) *rows {
	o, uints := &c.ops, (*reader).uint
	return &rows{
		op: row{self: opID{c.Actor, c.StartOp - 1}}, left: c.NumOps, actors: c.actors,
		objActors: newRuns(o.objActor, uints), objCounters: newRuns(o.objCounter, uints),
		keyActors: newRuns(o.keyActor, uints), keyCounters: deltas{runs: newRuns(o.keyCounter, (*reader).int)},
		names: newRuns(o.keyName, (*reader).text), inserts: booleans{in: reader{rest: o.insert}},
		actions: newRuns(o.action, uints), values: newRuns(o.valueMeta, uints), predCounts: newRuns(o.predCount, uints),
		predActors: newRuns(o.predActor, uints), predCounters: deltas{runs: newRuns(o.predCounter, (*reader).int)},
		data: reader{rest: o.value},
	}
}

// err is why next ended before the last operation, or nil.
func (r *rows) err() error {
	if r.bad == nil {
		return nil
	}
	return r.bad
}

// next reads an operation into r.op. It ends at one that refers to something half, or to something that is not older
// than itself.
func (r *rows) next() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	op := &r.op
	op.self.counter++
	op.object, op.element = opID{}, opID{}
	actor, noActor := r.objActors.next()
	counter, noCounter := r.objCounters.next()
	if noActor != noCounter {
		return r.fail("operation on no object")
	}
	if !noActor && !r.refer(&op.object, actor, int64(counter)) {
		return r.fail("operation on no object")
	}
	var noName bool
	op.name, noName = r.names.next()
	op.named = !noName
	actor, noActor = r.keyActors.next()
	element, noElement := r.keyCounters.next()
	switch {
	case op.named && noActor && noElement:
	case op.named || noElement:
		return r.fail("operation on no property and no element")
	case noActor && element == 0: // before the first
	case noActor || !r.refer(&op.element, actor, element):
		return r.fail("operation on no element")
	}
	op.insert = r.inserts.next()
	op.action, _ = r.actions.next()
	meta, _ := r.values.next()
	op.value, op.bytes = meta&15, r.data.bytes(meta>>4)
	return r.predecessors()
}

// skipAlike steps over the operations behind the present one that differ from it in nothing but by how much their
// numbers go on, as those of a deletion do, having looked at the last of them. Few bytes can claim millions of them.
func (r *rows) skipAlike() {
	if len(r.op.replaced) > 1 {
		return
	}
	items := r.left
	for _, c := range []*runs[uint64]{&r.objActors, &r.objCounters, &r.keyActors, &r.actions, &r.values, &r.predCounts} {
		items = min(items, c.alike())
	}
	items = min(items, r.names.alike(), r.keyCounters.runs.alike(), r.inserts.alike())
	if len(r.op.replaced) == 1 {
		items = min(items, r.predActors.alike(), r.predCounters.runs.alike())
	}
	if items == 0 || items > r.left {
		return
	}
	self := r.op.self.counter + items
	if r.op.element != (opID{}) && !r.keyCounters.skip(items, self) || len(r.op.replaced) == 1 && !r.predCounters.skip(items, self) {
		r.fail("operation on something younger")
		return
	}
	if r.op.element == (opID{}) && !r.op.named && !r.keyCounters.stand(items) {
		r.fail("operation on no element")
		return
	}
	if r.op.named {
		r.keyCounters.runs.pass(items)
	}
	for _, c := range []*runs[uint64]{&r.objActors, &r.objCounters, &r.keyActors, &r.actions, &r.values, &r.predCounts} {
		c.pass(items)
	}
	r.names.pass(items)
	r.data.bytes(items * uint64(len(r.op.bytes)))
	r.inserts.left -= min(items, r.inserts.left)
	if len(r.op.replaced) == 1 {
		r.predActors.pass(items)
	}
	r.op.self.counter, r.left = self, r.left-items
}

// predecessors are older than the operation, and ascend by counter and author.
func (r *rows) predecessors() bool {
	n, _ := r.predCounts.next()
	r.op.replaced = r.op.replaced[:0]
	for i := range n {
		actor, _ := r.predActors.next()
		counter, null := r.predCounters.next()
		var id opID
		if null || !r.refer(&id, actor, counter) {
			return r.fail("predecessor that is none")
		}
		if i > 0 {
			last := r.op.replaced[i-1]
			if id.counter < last.counter || id.counter == last.counter && id.actor <= last.actor {
				return r.fail("predecessors out of order")
			}
		}
		r.op.replaced = append(r.op.replaced, id)
	}
	return true
}

func (r *rows) refer(id *opID, actor uint64, counter int64) bool {
	if counter <= 0 || uint64(counter) >= r.op.self.counter {
		return false
	}
	*id = opID{r.actors[actor], uint64(counter)}
	return true
}

func (r *rows) fail(what string) bool {
	r.bad, r.left = &ParseError{What: what}, 0
	return false
}

// deltas reads a column of numbers of which each is stored as its difference from the one before.
type deltas struct {
	runs runs[int64]
	last int64
}

func (d *deltas) next() (value int64, null bool) {
	delta, null := d.runs.next()
	if null {
		return 0, true
	}
	d.last += delta
	return d.last, false
}

// skip steps over items of a run of equal differences, and says whether the number at its end is one of an operation
// before self. Those between are then, too.
func (d *deltas) skip(items, self uint64) bool {
	step := d.runs.value
	if step > math.MaxUint32 || step < -math.MaxUint32 || d.last < 0 || d.last > math.MaxUint32 {
		return false
	}
	d.last += step * int64(items)
	d.runs.pass(items)
	return d.last > 0 && uint64(d.last) < self
}

// stand steps over items that do not change the number.
func (d *deltas) stand(items uint64) bool {
	d.runs.pass(items)
	return d.runs.value == 0
}
