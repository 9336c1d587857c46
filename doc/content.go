package doc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cowrite/crdt"
	"cowrite/crdt/engine"
)

// schemaVersion is what the root's "schema" says.
const schemaVersion = 1

// The names in the root map and in a section.
const (
	keySchema   = "schema"
	keyTitle    = "title"
	keySections = "sections"
	keyBody     = "body"
	keyPosition = "position"
	keyRemoved  = "removed"
)

// content is a document's content, read leniently: a replica may write anything at all, and what does not fit
// the schema is named in ignored and never makes a read fail.
type content struct {
	title    string
	sections map[SectionID]sectionContent
	ignored  []string // of the root

	noSections bool // there is no map of sections yet
}

type sectionContent struct {
	Section
	scalarBody bool // the body is a scalar string, or missing: it cannot be spliced
	ignored    []string
}

func pathOf(names ...string) crdt.Path { return names }

func sectionPath(sid SectionID, more ...string) crdt.Path {
	return append(crdt.Path{keySections, string(sid)}, more...)
}

// readContent reads the root of a document, and of its title at most so many bytes: replicas may make it as long as
// they like, and it stands in every list of documents and in the log.
func readContent(root engine.Value, titleBytes int) content {
	c := content{sections: map[SectionID]sectionContent{}, noSections: true}
	m, _ := root.(map[string]engine.Value)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		fits := false
		switch key {
		case keySchema:
			fits = isInteger(v, schemaVersion)
		case keyTitle:
			c.title, fits = stringOf(v)
			c.title = truncate(c.title, titleBytes)
		case keySections:
			fits = c.readSections(v)
		}
		if !fits {
			c.ignored = append(c.ignored, key)
		}
	}
	return c
}

func (c *content) readSections(v engine.Value) bool {
	m, ok := v.(map[string]engine.Value)
	if !ok {
		return false
	}
	c.noSections = false
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !c.readSection(key, m[key]) {
			c.ignored = append(c.ignored, keySections+"/"+key)
		}
	}
	return true
}

// readSection puts the section into the content; false when the value is none.
func (c *content) readSection(name string, v engine.Value) bool {
	sid, err := ParseSectionID(name)
	if err != nil {
		return false
	}
	m, ok := v.(map[string]engine.Value)
	if !ok {
		delete(c.sections, sid)
		return false
	}
	s := sectionContent{Section: Section{ID: sid}, scalarBody: true}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		fits := false
		switch key {
		case keyBody:
			s.Text, fits = stringOf(v)
			_, isText := v.(engine.Text)
			s.scalarBody = !isText
		case keyPosition:
			s.Position, fits = stringOf(v)
			if fits = fits && validPosition(s.Position); !fits {
				s.Position = ""
			}
		case keyRemoved:
			s.Removed, fits = v.(bool)
		}
		if !fits {
			s.ignored = append(s.ignored, strings.Join(sectionPath(sid, key), "/"))
		}
	}
	s.Heading, s.Level = HeadingOf(s.Text)
	c.sections[sid] = s
	return true
}

// setText changes the text of a section that is there.
func (c *content) setText(sid SectionID, text string) {
	s := c.sections[sid]
	s.Text = text
	s.Heading, s.Level = HeadingOf(text)
	c.sections[sid] = s
}

// ordered gives the sections by (position, id), those without a position last: the living and the removed.
func (c *content) ordered() (living, removed []Section) {
	for _, s := range c.sections {
		if s.Removed {
			removed = append(removed, s.Section)
		} else {
			living = append(living, s.Section)
		}
	}
	slices.SortFunc(living, compareSections)
	slices.SortFunc(removed, compareSections)
	return living, removed
}

func compareSections(a, b Section) int {
	if (a.Position == "") != (b.Position == "") {
		return cmp.Compare(b.Position, a.Position) // the empty one last
	}
	return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID))
}

// allIgnored names what does not fit the schema: the first maxPaths, and of each maxPathBytes.
func (c *content) allIgnored() []string {
	out := slices.Clone(c.ignored)
	for _, s := range c.sections {
		out = append(out, s.ignored...)
	}
	slices.Sort(out)
	out = out[:min(len(out), maxPaths)]
	for i, path := range out {
		out[i] = truncate(path, maxPathBytes)
	}
	return out
}

// positionBehind gives a position for a section (which may be there already) behind another; after "" puts it
// first, or last when last is set.
func (c *content) positionBehind(sid, after SectionID, last bool) string {
	living, removed := c.ordered()
	all := slices.SortedFunc(slices.Values(append(living, removed...)), compareSections)
	all = slices.DeleteFunc(all, func(s Section) bool { return s.ID == sid || s.Position == "" })
	at := 0
	if last {
		at = len(all)
	} else if after != "" {
		at = slices.IndexFunc(all, func(s Section) bool { return s.ID == after }) + 1
		if at == 0 { // after has no position: behind all that have one is as near as it gets
			at = len(all)
		}
	}
	var a, b string
	if at > 0 {
		a = all[at-1].Position
	}
	if at < len(all) {
		b = all[at].Position
	}
	return positionBetween(a, b)
}

// stringOf reads a Text or a scalar string: JavaScript clients write either.
func stringOf(v engine.Value) (string, bool) {
	switch v := v.(type) {
	case engine.Text:
		return string(v), true
	case string:
		return v, true
	}
	return "", false
}

func isInteger(v engine.Value, want int64) bool {
	switch v := v.(type) {
	case int64:
		return v == want
	case uint64:
		return v == uint64(want)
	case float64:
		return v == float64(want)
	}
	return false
}
