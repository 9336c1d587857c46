package crdt

import (
	"cmp"
	"slices"
)

// maxPathLength bounds the paths that Objects gives: what lies deeper is called by the path of that length
// above it, or a chain of n maps in one another would cost n² to name.
const maxPathLength = 32

// Objects resolves which properties and objects of a document its changes touch. Not safe for concurrent use.
//
// It knows nothing of deletions and conflicts: an object keeps the path at which it was made, also when
// something else stands there now.
type Objects struct {
	root place
	made map[ActorID][]madeObjects // each list in the order of first
}

// place is one path: where it leads on to has places of its own.
type place struct {
	path  Path
	below map[string]*place
	made  int // objects, ever
}

// madeObjects is one object, or several made in a row at the same place, which only elements of a list can be
// to any effect.
type madeObjects struct {
	first, items uint64 // counters of the operations that made them
	at           *place
	keyed        bool // a map: a write to it touches one property
}

// NewObjects is the index of the empty document.
func NewObjects() *Objects { return &Objects{made: make(map[ActorID][]madeObjects)} }

// Touch is a path that a change touches, and whether it puts a map there.
type Touch struct {
	Path    Path
	MakeMap bool
}

// Add takes in a change and returns the paths that it touches, without repetitions, in order of first
// touch: for an operation on a Text or list, the path of that object; on a map, the path of the property. The
// elements of a list have its path, and so has all that is in them.
func (o *Objects) Add(c Change) []Touch {
	var touched []Touch
	seen := make(map[*place]int) // where in touched
	for op := range c.runs {
		object := madeObjects{at: &o.root, keyed: true}
		if !op.root {
			var ok bool
			if object, ok = o.find(op.object); !ok {
				continue
			}
		}
		at := object.at
		if object.keyed && op.named {
			at = at.child(op.name)
		}
		i, ok := seen[at]
		if !ok {
			i = len(touched)
			seen[at] = i
			touched = append(touched, Touch{Path: at.path})
		}
		switch op.action {
		case actionMakeMap, actionMakeTable:
			touched[i].MakeMap = true
			o.insert(c.Actor, madeObjects{op.first, op.items, at, object.keyed})
		case actionMakeList, actionMakeText:
			o.insert(c.Actor, madeObjects{op.first, op.items, at, false})
		}
	}
	return touched
}

func (p *place) child(name string) *place {
	if len(p.path) >= maxPathLength {
		return p
	}
	if c := p.below[name]; c != nil {
		return c
	}
	c := &place{path: append(slices.Clip(p.path), name)}
	if p.below == nil {
		p.below = make(map[string]*place)
	}
	p.below[name] = c
	return c
}

func (o *Objects) find(id opID) (madeObjects, bool) {
	list := o.made[id.actor]
	i, found := slices.BinarySearchFunc(list, id.counter, byFirst)
	if found {
		return list[i], true
	}
	if i == 0 || id.counter-list[i-1].first >= list[i-1].items {
		return madeObjects{}, false
	}
	return list[i-1], true
}

// insert keeps the list in order. An actor's operations come with rising counters, so that it is an append
// but for an actor that miscounts.
func (o *Objects) insert(actor ActorID, m madeObjects) {
	list := o.made[actor]
	i, found := slices.BinarySearchFunc(list, m.first, byFirst)
	if !found {
		o.made[actor] = slices.Insert(list, i, m)
		m.at.made++
	}
}

func byFirst(m madeObjects, counter uint64) int { return cmp.Compare(m.first, counter) }
