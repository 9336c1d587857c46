package crdt

import "math/rand/v2"

// order is runs in the order of the text, as a treap: a search tree over places in which each node has a random
// priority above those below it, so that its depth is logarithmic whatever is inserted where.
type order struct{ root *run }

// run is elements that one author inserted one behind the other, with consecutive numbers, and of which the same
// deletions are known.
type run struct {
	up, left, right *run
	priority        uint32

	first    opRef  // names the first element
	length   uint32 // elements
	mark     bool   // the elements are ends of marks, which no reader of the text sees
	text     []byte // one code point an element
	deleters []opRef

	// Of the run and all below it.
	runs    uint32
	visible uint32 // elements
	least   uint32 // counter of a first element
}

func (r *run) shown() uint32 {
	if r.mark || len(r.deleters) > 0 {
		return 0
	}
	return r.length
}

// refresh works out anew what a run knows of those below it.
func (r *run) refresh() {
	r.runs, r.visible, r.least = 1, r.shown(), r.first.counter
	for _, below := range [...]*run{r.left, r.right} {
		if below != nil {
			r.runs += below.runs
			r.visible += below.visible
			r.least = min(r.least, below.least)
		}
	}
}

// changed is to be called when a run became longer, shorter or invisible.
func (r *run) changed() {
	for ; r != nil; r = r.up {
		r.refresh()
	}
}

// insertBefore puts a run before another; nil is the end.
func (o *order) insertBefore(at, r *run) {
	r.priority = rand.Uint32()
	switch {
	case o.root == nil:
		o.root = r
	case at == nil:
		o.hangRight(o.root, r)
	case at.left == nil:
		at.left, r.up = r, at
	default:
		o.hangRight(at.left, r)
	}
	r.changed()
	for r.up != nil && r.up.priority < r.priority {
		o.raise(r)
	}
}

func (o *order) hangRight(under, r *run) {
	for under.right != nil {
		under = under.right
	}
	under.right, r.up = r, under
}

// raise turns a run and the one above it round. What stands where in the text stays as it is.
func (o *order) raise(r *run) {
	above, top := r.up, r.up.up
	var moved *run
	if above.left == r {
		moved, above.left, r.right = r.right, r.right, above
	} else {
		moved, above.right, r.left = r.left, r.left, above
	}
	if moved != nil {
		moved.up = above
	}
	above.up, r.up = r, top
	switch {
	case top == nil:
		o.root = r
	case top.left == above:
		top.left = r
	default:
		top.right = r
	}
	above.refresh()
	r.refresh()
}

// next is the run behind another, and the first one for nil.
func (o *order) next(r *run) *run {
	below := o.root
	if r != nil {
		below = r.right
	}
	if below == nil {
		for r != nil && r.up != nil && r.up.right == r {
			r = r.up
		}
		if r == nil {
			return nil
		}
		return r.up
	}
	for below.left != nil {
		below = below.left
	}
	return below
}

// nextBelow is the first run behind another (nil: of all) whose first element's counter is below a limit.
func (o *order) nextBelow(r *run, limit uint32) *run {
	if r == nil {
		return o.root.leftmostBelow(limit)
	}
	for found := r.right.leftmostBelow(limit); ; found = r.right.leftmostBelow(limit) {
		if found != nil {
			return found
		}
		for r.up != nil && r.up.right == r {
			r = r.up
		}
		if r = r.up; r == nil || r.first.counter < limit {
			return r
		}
	}
}

func (r *run) leftmostBelow(limit uint32) *run {
	if r == nil || r.least >= limit {
		return nil
	}
	for {
		switch {
		case r.left != nil && r.left.least < limit:
			r = r.left
		case r.first.counter < limit:
			return r
		default:
			r = r.right
		}
	}
}

// place is how many runs, and how many visible elements, stand before a run; nil is the end.
func (o *order) place(r *run) (runs, visible int) {
	if r == nil {
		if o.root == nil {
			return 0, 0
		}
		return int(o.root.runs), int(o.root.visible)
	}
	if r.left != nil {
		runs, visible = int(r.left.runs), int(r.left.visible)
	}
	for ; r.up != nil; r = r.up {
		if above := r.up; above.right == r {
			runs += int(above.runs - r.runs)
			visible += int(above.visible - r.visible)
		}
	}
	return runs, visible
}

// at finds the nth visible element, from 0: its run and its place in the run. There must be one.
func (o *order) at(n int) (r *run, offset int) {
	for r = o.root; ; {
		before := 0
		if r.left != nil {
			before = int(r.left.visible)
		}
		switch shown := int(r.shown()); {
		case n < before:
			r = r.left
		case n < before+shown:
			return r, n - before
		default:
			n -= before + shown
			r = r.right
		}
	}
}
