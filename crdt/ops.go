package crdt

import "math"

// opColumns are the columns of a change's operations, as far as they are needed here. A column that is
// missing is empty, which reads as null throughout.
type opColumns struct {
	objActor, objCounter              []byte
	keyActor, keyCounter, keyName     []byte
	insert, action                    []byte
	valueMeta, value                  []byte
	predCount, predActor, predCounter []byte
	expand, markName                  []byte
}

// Column specifications: an id shifted by four bits, a bit for deflate, and three bits for the encoding.
const (
	columnObjActor    = 0<<4 | 1
	columnObjCounter  = 0<<4 | 2
	columnKeyActor    = 1<<4 | 1
	columnKeyCounter  = 1<<4 | 3
	columnKeyName     = 1<<4 | 5
	columnInsert      = 3<<4 | 4
	columnAction      = 4<<4 | 2
	columnValueMeta   = 5<<4 | 6
	columnValue       = 5<<4 | 7
	columnPredCount   = 7<<4 | 0
	columnPredActor   = 7<<4 | 1
	columnPredCounter = 7<<4 | 3
	columnExpand      = 9<<4 | 4
	columnMarkName    = 10<<4 | 5

	columnDeflated = 1 << 3
)

// Actions of operations.
const (
	actionMakeMap   = 0
	actionPut       = 1
	actionMakeList  = 2
	actionDelete    = 3
	actionMakeText  = 4
	actionIncrement = 5
	actionMakeTable = 6
	actionMark      = 7
)

// parse reads the columns' specifications and cuts their data.
func (o *opColumns) parse(r *reader) error {
	type column struct{ spec, length uint64 }
	columns := make([]column, r.count(2))
	for i := range columns {
		c := column{spec: r.uint(), length: r.uint()}
		switch {
		case r.err != nil:
			return r.err
		case c.spec > math.MaxUint32:
			return &ParseError{What: "column specification above 32 bits"}
		case c.spec&columnDeflated != 0:
			return &ParseError{What: "deflated column in a change"}
		case i > 0 && c.spec <= columns[i-1].spec:
			return &ParseError{What: "columns out of order"}
		}
		columns[i] = c
	}
	for _, c := range columns {
		data := r.bytes(c.length)
		if r.err == nil && len(data) == 0 {
			return &ParseError{What: "empty column"}
		}
		switch c.spec {
		case columnObjActor:
			o.objActor = data
		case columnObjCounter:
			o.objCounter = data
		case columnKeyActor:
			o.keyActor = data
		case columnKeyCounter:
			o.keyCounter = data
		case columnKeyName:
			o.keyName = data
		case columnInsert:
			o.insert = data
		case columnAction:
			o.action = data
		case columnValueMeta:
			o.valueMeta = data
		case columnValue:
			o.value = data
		case columnPredCount:
			o.predCount = data
		case columnPredActor:
			o.predActor = data
		case columnPredCounter:
			o.predCounter = data
		case columnExpand:
			o.expand = data
		case columnMarkName:
			o.markName = data
		default:
			if r.err == nil {
				return &ParseError{What: "column of unknown kind"} // a saved document would lose it
			}
		}
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

// opID names an operation, and the object that it makes.
type opID struct {
	actor   ActorID
	counter uint64
}

// opRun is operations that stand behind one another in a change and differ in nothing that matters to
// which property or object they touch.
type opRun struct {
	first  uint64 // counter of the first one
	items  uint64
	root   bool
	object opID   // what they write to, unless root
	name   string // the key in a map
	named  bool   // false: an element of a text or list
	action uint64
}

// runs calls yield for the operations of the change in order.
func (c *Change) runs(yield func(opRun) bool) {
	objActors := newRuns(c.ops.objActor, (*reader).uint)
	objCounters := newRuns(c.ops.objCounter, (*reader).uint)
	names := newRuns(c.ops.keyName, (*reader).text)
	actions := newRuns(c.ops.action, (*reader).uint)
	for first := c.StartOp; ; {
		action, _, items := actions.run()
		if items == 0 {
			return
		}
		actor, noActor, n := objActors.run()
		items = shorter(items, n)
		counter, noCounter, n := objCounters.run()
		items = shorter(items, n)
		name, noName, n := names.run()
		items = shorter(items, n)
		op := opRun{first: first, items: items, root: noActor || noCounter || counter == 0, name: name, named: !noName, action: action}
		if !op.root {
			op.object = opID{c.actors[actor], counter}
		}
		if !yield(op) {
			return
		}
		first += items
		actions.skip(items)
		skipUpTo(&objActors, items)
		skipUpTo(&objCounters, items)
		skipUpTo(&names, items)
	}
}

// Writes says whether an operation of the change writes a property of that name, in whichever map.
func (c *Change) Writes(name string) bool {
	names := newRuns(c.ops.keyName, (*reader).text)
	for {
		written, null, items := names.run()
		if items == 0 || !null && written == name {
			return items > 0
		}
		names.skip(items)
	}
}

// shorter is the shorter of two runs; a column at its end goes on as null for ever.
func shorter(items, run uint64) uint64 {
	if run == 0 {
		return items
	}
	return min(items, run)
}

func skipUpTo[T comparable](c *runs[T], items uint64) {
	if _, _, n := c.run(); n > 0 {
		c.skip(items)
	}
}
