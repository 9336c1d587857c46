package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cowrite/crdt"
)

// ErrGap says that a [Changed] frame does not begin where a mirror is: the document has to be opened anew.
var ErrGap = errors.New("the change does not begin at this version")

// Mirror is a copy of a document's text that stays exact: it begins with an [Opened] frame and follows every
// [Changed] one. The zero value is empty. It is not safe for concurrent use.
type Mirror struct {
	Version  crdt.Version
	Title    string
	sections map[SectionID]Section
}

// Begin takes what an Opened frame has. A resumed one leaves the text as it is.
func (m *Mirror) Begin(o *Opened) {
	if o.Resumed {
		return
	}
	m.Version, m.Title = o.Version, o.Title
	m.sections = make(map[SectionID]Section, len(o.Sections)+len(o.Removed))
	for _, s := range slices.Concat(o.Sections, o.Removed) {
		m.sections[s.ID] = s
	}
}

// Apply follows a Changed frame. On an error, which may be ErrGap, the mirror is as it was.
func (m *Mirror) Apply(c *Changed) error {
	if c.From != m.Version {
		return fmt.Errorf("apply change from %s at %s: %w", c.From, m.Version, ErrGap)
	}
	next := make([]Section, 0, len(c.Sections))
	for _, change := range c.Sections {
		s := change.Section
		before, there := m.sections[s.ID]
		if !change.Made && !change.Gone {
			if !there {
				return fmt.Errorf("apply change of section %s: %w", s.ID, ErrGap)
			}
			text, err := ApplyOps(before.Text, change.Ops)
			if err != nil {
				return fmt.Errorf("apply change of section %s: %w", s.ID, err)
			}
			s.Text = text
		}
		next = append(next, s)
	}
	if m.sections == nil {
		m.sections = map[SectionID]Section{}
	}
	for i, s := range next {
		if c.Sections[i].Gone {
			delete(m.sections, s.ID)
			continue
		}
		m.sections[s.ID] = s
	}
	if c.Title != nil {
		m.Title = *c.Title
	}
	m.Version = c.To
	return nil
}

// Section gives a section, removed or not.
func (m *Mirror) Section(id SectionID) (Section, bool) {
	s, ok := m.sections[id]
	return s, ok
}

// Sections gives those that are not removed, in order.
func (m *Mirror) Sections() []Section { return m.ordered(false) }

// Removed gives those that are removed, in order.
func (m *Mirror) Removed() []Section { return m.ordered(true) }

func (m *Mirror) ordered(removed bool) []Section {
	var out []Section
	for _, s := range m.sections {
		if s.Removed == removed {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Section) int {
		if (a.Position == "") != (b.Position == "") {
			return cmp.Compare(b.Position, a.Position) // without a position: last
		}
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Markdown joins the sections that are not removed.
func (m *Mirror) Markdown() string {
	var b strings.Builder
	for _, s := range m.Sections() {
		b.WriteString(s.Text)
	}
	return b.String()
}

// ApplyOps does operations, sorted and apart, to a text.
func ApplyOps(text string, ops []TextOp) (string, error) {
	if len(ops) == 0 {
		return text, nil
	}
	var b strings.Builder
	at := 0 // code points of text that are done with
	for _, op := range ops {
		if op.At < at || op.Delete < 0 {
			return "", fmt.Errorf("operation at %d: not sorted and apart", op.At)
		}
		kept, rest, ok := cut(text, op.At-at)
		if !ok {
			return "", fmt.Errorf("operation at %d: behind the end of the text", op.At)
		}
		b.WriteString(kept)
		b.WriteString(op.Insert)
		if _, text, ok = cut(rest, op.Delete); !ok {
			return "", fmt.Errorf("operation at %d: deletes more than there is", op.At)
		}
		at = op.At + op.Delete
	}
	b.WriteString(text)
	return b.String(), nil
}

// cut parts a text behind its first n code points.
func cut(text string, n int) (before, after string, ok bool) {
	for i := range text {
		if n == 0 {
			return text[:i], text[i:], true
		}
		n--
	}
	return text, "", n == 0
}
