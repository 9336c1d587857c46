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
	other    map[string]bool // paths outside the schema, as addPath adds them
}

const (
	maxPaths     = 64  // outside the schema that are told apart; the others are all called ""
	maxPathBytes = 512 // of such a path that are told
)

// addPath gives the name under which a path is counted with those there are.
func addPath[V any](paths map[string]V, path string) string {
	path = truncate(path, maxPathBytes)
	if _, known := paths[path]; !known && len(paths) >= maxPaths {
		return ""
	}
	return path
}

// reach is what of a section was touched.
type reach struct{ made, gone, body, position, removed, other bool }

func (r reach) and(s reach) reach {
	return reach{r.made || s.made, r.gone || s.gone, r.body || s.body, r.position || s.position, r.removed || s.removed, r.other || s.other}
}

// typed says whether it is told by the fold of an author's typing.
func (r reach) typed() bool { return !r.made && (r.body || r.other) }

func nothingTouched() touched {
	return touched{sections: map[SectionID]reach{}, other: map[string]bool{}}
}

// touchedBy sorts the paths that changes touch.
func touchedBy(touches []crdt.Touch) touched {
	t := nothingTouched()
	for _, touch := range touches {
		t.add(touch)
	}
	return t
}

func (t *touched) add(touch crdt.Touch) {
	p := touch.Path
	switch {
	case len(p) == 1 && p[0] == keySchema:
	case len(p) >= 1 && p[0] == keyTitle:
		t.title = true
	case len(p) >= 2 && p[0] == keySections && isName(p[1]):
		sid := SectionID(p[1])
		r := t.sections[sid]
		switch {
		case len(p) == 2 && touch.MakeMap:
			r.made = true
		case len(p) == 2:
			r.gone = true
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
		t.other[addPath(t.other, strings.Join(p, "/"))] = true
	}
}

func (t touched) sectionIDs() []SectionID { return slices.Sorted(maps.Keys(t.sections)) }

// merge adds what another change touched.
func (t *touched) merge(u touched) {
	for sid, r := range u.sections {
		t.sections[sid] = t.sections[sid].and(r)
	}
	t.title = t.title || u.title
	for path := range u.other {
		t.other[addPath(t.other, path)] = true
	}
}
