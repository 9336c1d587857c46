package crdt

import (
	"fmt"
	"slices"
	"strings"
)

// HiddenText is a text that stands at a sequence's path and that no reader sees, because another was put there at the
// same time and Automerge shows that one.
type HiddenText struct {
	Name string // of the operation that made it: the same on every replica, for ever
	Text string
}

// Hidden gives the texts hidden at the path now, in the order of their names. Those that cannot be read are left out.
func (s *Sequence) Hidden() []HiddenText {
	shown := s.at(nil)
	var hidden []HiddenText
	var walk func(o *object)
	walk = func(o *object) {
		for _, v := range o.values {
			switch {
			case v.object == nil || len(v.overwritten) > 0:
			case v.object.text == nil:
				walk(v.object)
			case v.object.text != shown && !v.object.text.unread:
				name := fmt.Sprintf("%d@%s", v.id.counter, s.actors[v.id.actor])
				hidden = append(hidden, HiddenText{name, v.object.text.String()})
			}
		}
	}
	walk(s.root)
	slices.SortFunc(hidden, func(a, b HiddenText) int { return strings.Compare(a.Name, b.Name) })
	return hidden
}

// String is the text as it stands.
func (e *elements) String() string {
	var b strings.Builder
	for r := e.next(nil); r != nil; r = e.next(r) {
		if r.shown() > 0 {
			b.Write(r.text)
		}
	}
	return b.String()
}

// Made counts the objects that were ever made at a path.
func (o *Objects) Made(p Path) int {
	at := &o.root
	for _, name := range p {
		if at = at.below[name]; at == nil {
			return 0
		}
	}
	return at.made
}
