package crdt

// A change's operations are stored by column, each column in runs: the same value many times over takes a few
// bytes. Everything here steps from run to run and never from item to item, so that what a reader costs
// depends on the bytes that are there and not on the counts that they claim.

// runs walks a column in Automerge's run-length encoding: a positive count and a value that is repeated, a
// negative count and as many single values, or a zero and a count of nulls.
type runs[T any] struct {
	in      reader
	read    func(*reader) T
	left    uint64 // items left in the run that was begun
	literal bool   // each of them has a value of its own, of which one is read ahead
	null    bool
	value   T
}

func newRuns[T any](column []byte, read func(*reader) T) runs[T] {
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
}

// skip steps over items of the present run, no more than run gave.
func (c *runs[T]) skip(items uint64) {
	c.left -= items
	if c.literal && c.left > 0 {
		c.value = c.read(&c.in)
	}
}

// next is the value at which the column stands, for the reader that goes item by item; null at its end.
func (c *runs[T]) next() (value T, null bool) {
	value, null, items := c.run()
	c.skip(min(items, 1))
	return value, null || items == 0
}

// count walks to the end and gives the number of items that are and that are not null. It stops with an
// error as soon as there are more than most, or when check refuses a value.
func (c *runs[T]) count(most uint64, check func(value T, items uint64) string) (values, nulls uint64, err error) {
	for {
		value, null, items := c.run()
		if c.in.err != nil {
			return 0, 0, c.in.err
		}
		if items == 0 {
			return values, nulls, nil
		}
		if items > most-values-nulls {
			return 0, 0, &ParseError{What: "a column longer than there are operations"}
		}
		if null {
			nulls += items
		} else {
			values += items
			if check != nil {
				if what := check(value, items); what != "" {
					return 0, 0, &ParseError{What: what}
				}
			}
		}
		c.skip(items)
	}
}

// booleans walks a column of alternating counts, of falses first.
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
		c.value = c.begun && !c.value
		c.begun = true
	}
	if c.left == 0 {
		return false, 0
	}
	return c.value, c.left
}

func (c *booleans) skip(items uint64) { c.left -= items }

func (c *booleans) next() bool {
	value, items := c.run()
	c.skip(min(items, 1))
	return value
}

// check says whether the column is whole and has at most most items.
func (c *booleans) check(most uint64) error {
	var total uint64
	for {
		_, items := c.run()
		if c.in.err != nil {
			return c.in.err
		}
		if items == 0 {
			return nil
		}
		if items > most-total {
			return &ParseError{What: "a column longer than there are operations"}
		}
		total += items
		c.skip(items)
	}
}
