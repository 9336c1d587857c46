package crdt

import "math"

// A change's operations are stored by column, each column in runs: the same value many times over takes a few
// bytes. Everything here steps from run to run and never from item to item, so that what a reader costs
// depends on the bytes that are there and not on the counts that they claim.

// runs walks a column in Automerge's run-length encoding: a positive count and a value that is repeated, a
// negative count and as many single values, or a zero and a count of nulls.
//
// Only the one encoding that the format's own encoder gives is accepted. A saved document does not keep a change's
// bytes, they are made again when it is loaded: what is encoded otherwise comes out with another hash, and no saved
// document that has it can be loaded ever again.
type runs[T comparable] struct {
	in      reader
	read    func(*reader) T
	left    uint64 // items left in the run that was begun
	literal bool   // each of them has a value of its own, of which one is read ahead
	null    bool
	begun   bool // any run
	value   T
}

func newRuns[T comparable](column []byte, read func(*reader) T) runs[T] {
	return runs[T]{in: reader{rest: column}, read: read}
}

// run gives the value at which the column stands and for how many items it holds on; zero items at its end
// and behind a failure.
func (c *runs[T]) run() (value T, null bool, items uint64) {
	for c.left == 0 && !c.in.empty() {
		c.begin()
	}
	if c.in.err != nil {
		var none T
		return none, true, 0
	}
	if c.literal {
		return c.value, false, min(c.left, 1)
	}
	return c.value, c.null, c.left
}

func (c *runs[T]) begin() {
	count := c.in.int()
	wasLiteral, wasNull, before := c.literal, c.null || !c.begun, c.value
	c.literal, c.null = count < 0, count == 0
	switch {
	case c.literal:
		c.left = -uint64(count)
		if c.left > uint64(len(c.in.rest)) {
			c.in.fail("a run of more values than there are bytes")
			return
		}
		c.value = c.read(&c.in)
	case c.null:
		var none T
		c.left, c.value = c.in.uint(), none
	default:
		c.left, c.value = uint64(count), c.read(&c.in)
	}
	joins := c.null && c.begun && wasNull || c.literal && wasLiteral || !c.null && !wasNull && c.value == before
	if joins || count == 1 || c.left == 0 {
		c.in.fail("runs that are not as long as they can be")
	}
	c.begun = true
}

// skip steps over items of the present run, no more than run gave.
func (c *runs[T]) skip(items uint64) {
	c.left -= items
	if c.literal && items > 0 && c.left > 0 {
		before := c.value
		if c.value = c.read(&c.in); c.value == before {
			c.in.fail("runs that are not as long as they can be")
		}
	}
}

// next is the value at which the column stands, for the reader that goes item by item; null at its end.
func (c *runs[T]) next() (value T, null bool) {
	value, null, items := c.run()
	c.skip(min(items, 1))
	return value, null || items == 0
}

// alike is how many items follow that are as the last one taken: the rest of its run. A column that is left out is
// null for ever.
func (c *runs[T]) alike() uint64 {
	switch {
	case c.left == 0 && c.in.empty():
		return math.MaxUint64
	case c.literal:
		return 0
	default:
		return c.left
	}
}

// pass steps over items that alike gave.
func (c *runs[T]) pass(items uint64) { c.left -= min(items, c.left) }

// each walks to the end and gives each run of values to visit, which may refuse it with a reason. It says how
// many items there are, and fails when they are more than most or all null.
func (c *runs[T]) each(most uint64, visit func(value T, items uint64) string) (total uint64, err error) {
	var values uint64
	for {
		value, null, items := c.run()
		switch {
		case c.in.err != nil:
			return 0, c.in.err
		case items == 0 && total > 0 && values == 0:
			return 0, &ParseError{What: "a column of nothing"}
		case items == 0:
			return total, nil
		case items > most-total:
			return 0, &ParseError{What: "a column longer than there are operations"}
		}
		total += items
		if !null {
			values += items
			if what := visit(value, items); what != "" {
				return 0, &ParseError{What: what}
			}
		}
		c.skip(items)
	}
}

// booleans walks a column of alternating counts, of falses first, as long as they can be.
type booleans struct {
	in    reader
	left  uint64
	value bool // of the run that was begun
	begun bool
}

// run is as that of runs; false at the end.
func (c *booleans) run() (value bool, items uint64) {
	for c.left == 0 && !c.in.empty() {
		c.left = c.in.uint()
		if c.left == 0 && (c.begun || c.in.empty()) {
			c.in.fail("runs that are not as long as they can be")
		}
		c.value = c.begun && !c.value
		c.begun = true
	}
	if c.left == 0 {
		return false, 0
	}
	return c.value, c.left
}

func (c *booleans) next() bool {
	value, items := c.run()
	c.left -= min(items, 1)
	return value
}

// alike is as that of runs.
func (c *booleans) alike() uint64 {
	if c.left == 0 && c.in.empty() {
		return math.MaxUint64
	}
	return c.left
}

// each walks to the end and says how many items there are, and whether one of them is true.
func (c *booleans) each(most uint64) (total uint64, anyTrue bool, err error) {
	for {
		value, items := c.run()
		switch {
		case c.in.err != nil:
			return 0, false, c.in.err
		case items == 0:
			return total, anyTrue, nil
		case items > most-total:
			return 0, false, &ParseError{What: "a column longer than there are operations"}
		}
		total += items
		anyTrue = anyTrue || value
		c.left = 0
	}
}
