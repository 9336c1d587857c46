package crdt

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// checkOps counts the operations and says whether the columns are whole and encoded as the format's own encoder
// would: the same operations, encoded again, give the same bytes. Without that a saved document that contains the
// change cannot be loaded. What the operations refer to may still be missing from the document.
func (c *Change) checkOps(limits Limits) error {
	o := &c.ops
	actions := newRuns(o.action, (*reader).uint)
	ops, err := actions.each(math.MaxUint32, func(action, _ uint64) string {
		if action > actionMark {
			return "operation of unknown action"
		}
		return ""
	})
	if err == nil {
		err = limits.checkOps(ops)
	}
	switch {
	case err != nil:
		return err
	case c.StartOp == 0:
		return &ParseError{What: "operations numbered from zero"}
	case c.StartOp > math.MaxUint32 || c.StartOp+ops-1 > math.MaxUint32:
		return &ParseError{What: "operation numbered above 32 bits"}
	}
	c.NumOps = ops
	k := columnCheck{ops: ops, used: make([]bool, len(c.actors))}
	k.used[0] = true
	k.actors(o.objActor, false)
	k.numbers(o.objCounter, false, nil)
	k.actors(o.keyActor, false)
	k.deltas(o.keyCounter, ops)
	k.texts(o.keyName)
	k.texts(o.markName)
	k.booleans(o.insert, true)
	k.booleans(o.expand, false)
	k.numbers(o.valueMeta, true, nil)
	k.values(o)
	k.predecessors(o, uint64(cmp.Or(limits.Ops, DefaultOps)))
	if k.err != nil {
		return k.err
	}
	for i, used := range k.used {
		if !used || i > 1 && c.actors[i-1] >= c.actors[i] || i > 0 && c.actors[i] == c.Actor {
			return &ParseError{What: "authors unused or out of order"}
		}
	}
	return c.checkRows()
}

// columnCheck goes through columns until one fails.
type columnCheck struct {
	ops  uint64
	used []bool // actors, by number
	err  error
}

func (k *columnCheck) fail(what string) {
	if k.err == nil {
		k.err = &ParseError{What: what}
	}
}

// length says whether a column of total items is as long as there are operations, or left out where it may be.
func (k *columnCheck) length(total, want uint64, needed bool) {
	if total != want && (needed || total != 0) {
		k.fail("a column shorter than there are operations")
	}
}

func (k *columnCheck) numbers(column []byte, needed bool, visit func(n, items uint64) string) {
	if k.err != nil {
		return
	}
	var values uint64
	c := newRuns(column, (*reader).uint)
	total, err := c.each(k.ops, func(n, items uint64) string {
		values += items
		if visit == nil {
			return ""
		}
		return visit(n, items)
	})
	k.err = err
	k.length(total, k.ops, needed)
	if needed && values != total {
		k.fail("operation without a value")
	}
}

func (k *columnCheck) actors(column []byte, needed bool) {
	k.numbers(column, needed, func(n, _ uint64) string {
		if n >= uint64(len(k.used)) {
			return "operation names an author that the change does not list"
		}
		k.used[n] = true
		return ""
	})
}

func (k *columnCheck) deltas(column []byte, want uint64) {
	if k.err != nil {
		return
	}
	c := newRuns(column, (*reader).int)
	total, err := c.each(want, func(int64, uint64) string { return "" })
	k.err = err
	k.length(total, want, false)
}

func (k *columnCheck) texts(column []byte) {
	if k.err != nil {
		return
	}
	c := newRuns(column, (*reader).text)
	total, err := c.each(k.ops, func(string, uint64) string { return "" })
	k.err = err
	k.length(total, k.ops, false)
}

func (k *columnCheck) booleans(column []byte, needed bool) {
	if k.err != nil {
		return
	}
	c := booleans{in: reader{rest: column}}
	total, anyTrue, err := c.each(k.ops)
	k.err = err
	k.length(total, k.ops, needed)
	if !needed && total > 0 && !anyTrue {
		k.fail("a column of nothing")
	}
}

// Types of values, in the low four bits of their metadata; the length of their bytes is above.
const (
	valueNull = iota
	valueFalse
	valueTrue
	valueUint
	valueInt
	valueFloat
	valueString
	valueBytes
	valueCounter
	valueTime
)

// values checks that each value has its bytes in the form of its type, and that no bytes are left over.
func (k *columnCheck) values(o *opColumns) {
	if k.err != nil {
		return
	}
	r := reader{rest: o.value}
	c := newRuns(o.valueMeta, (*reader).uint)
	_, k.err = c.each(k.ops, func(meta, items uint64) string {
		length := meta >> 4
		if length == 0 {
			items = 1 // they are all the same, also in taking no bytes
		}
		for ; items > 0; items-- {
			if what := checkValue(meta&15, r.bytes(length)); what != "" || r.err != nil {
				return "value not in the form of its type"
			}
		}
		return ""
	})
	if k.err == nil && !r.empty() {
		k.fail("bytes that are no value's")
	}
}

func checkValue(kind uint64, b []byte) (what string) {
	const wrong = "wrong"
	r := reader{rest: b}
	switch kind {
	case valueNull, valueFalse, valueTrue:
	case valueUint:
		r.uint()
	case valueInt, valueCounter, valueTime:
		r.int()
	case valueFloat:
		r.bytes(8)
	case valueString:
		if !utf8.Valid(b) {
			return wrong
		}
		return ""
	default: // bytes, and types that are yet to come
		return ""
	}
	if r.err != nil || !r.empty() {
		return wrong
	}
	return ""
}

// predecessors checks that the lists of the operations that each one replaces are there.
func (k *columnCheck) predecessors(o *opColumns, most uint64) {
	var total uint64
	k.numbers(o.predCount, true, func(n, items uint64) string {
		if n > 0 && items > (most-total)/n {
			return "operations with too many predecessors"
		}
		total += n * items
		return ""
	})
	ops := k.ops
	k.ops = total
	k.actors(o.predActor, true)
	k.deltas(o.predCounter, total)
	k.ops = ops
	if k.err == nil && total > 0 && len(o.predCounter) == 0 {
		k.fail("operations without their predecessors")
	}
}

// checkRows goes through the operations: each has what its action needs and nothing that a saved document
// would not keep, and refers to none that is younger.
func (c *Change) checkRows() error {
	rows := newRows(c)
	for rows.next() {
		op := &rows.op
		head := op.element == opID{} && !op.named
		switch {
		case op.object == opID{} && !op.named:
			return &ParseError{What: "operation on no element"}
		case op.insert && (op.named || len(op.replaced) > 0) || !op.insert && head:
			return &ParseError{What: "insertion that is none"}
		case op.action == actionDelete && (op.insert || len(op.replaced) == 0):
			return &ParseError{What: "deletion of nothing"}
		case op.action == actionIncrement && (len(op.replaced) == 0 || op.value != valueInt && op.value != valueUint):
			return &ParseError{What: "increment of nothing, or by no number"}
		case op.value != valueNull && (op.action == actionDelete || isMake(op.action)):
			return &ParseError{What: "value of an operation that has none"}
		}
		rows.skipAlike()
	}
	return rows.err()
}

func isMake(action uint64) bool {
	return slices.Contains([]uint64{actionMakeMap, actionMakeList, actionMakeText, actionMakeTable}, action)
}
