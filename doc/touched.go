package doc

import (
	"maps"
	"slices"
	"strings"

	"cowrite/crdt"
)

// touched is what a change, or several, reach in terms of the schema.
type touched struct {
	sections map[SectionID]reach
	title    bool
	other    []string // paths outside the schema
}

// reach is what of a section was touched.
type reach struct{ made, body, position, removed, other bool }

// touchedBy sorts the paths that changes touch.
func touchedBy(paths []crdt.Path) touched {
	t := touched{sections: map[SectionID]reach{}}
	for _, p := range paths {
		t.add(p)
	}
	return t
}

func (t *touched) add(p crdt.Path) {
	switch {
	case len(p) == 1 && p[0] == keySchema:
	case len(p) >= 1 && p[0] == keyTitle:
		t.title = true
	case len(p) >= 2 && p[0] == keySections && isName(p[1]):
		sid := SectionID(p[1])
		r := t.sections[sid]
		switch {
		case len(p) == 2:
			r.made = true
		case p[2] == keyBody:
			r.body = true
		case p[2] == keyPosition:
			r.position = true
		case p[2] == keyRemoved:
			r.removed = true
		default:
			r.other = true
		}
		t.sections[sid] = r
	default:
		if name := strings.Join(p, "/"); !slices.Contains(t.other, name) {
			t.other = append(t.other, name)
		}
	}
}

func (t touched) sectionIDs() []SectionID { return slices.Sorted(maps.Keys(t.sections)) }

// merge adds what another change touched.
func (t *touched) merge(u touched) {
	for sid, r := range u.sections {
		m := t.sections[sid]
		t.sections[sid] = reach{m.made || r.made, m.body || r.body, m.position || r.position, m.removed || r.removed, m.other || r.other}
	}
	t.title = t.title || u.title
	for _, name := range u.other {
		if !slices.Contains(t.other, name) {
			t.other = append(t.other, name)
		}
	}
}
