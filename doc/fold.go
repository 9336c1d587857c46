package doc

import (
	"context"
	"maps"
	"slices"
	"time"

	"cowrite/crdt"
	"cowrite/lease"
)

const (
	foldWindow  = 2 * time.Second // one section.edited per author and section in so long
	foldChanges = 256             // or in so many changes
)

// folds gathers the typing of replicas, so that the log has one event for many keystrokes. All that an author
// did in a window goes into the log in one append, which marks the changes it covers: a crash before it
// leaves them unmarked, and they are logged when the document is next opened.
type folds struct {
	open      map[Agent]*fold
	overrides map[override]time.Time // when each was last logged
}

type fold struct {
	since    time.Time
	numbers  []int64 // of the changes that it covers
	sections map[SectionID][]crdt.Hash
	title    []crdt.Hash
	other    map[string][]crdt.Hash
}

// override is a write by an agent into a section on which somebody else has that lease.
type override struct {
	by      Agent
	section SectionID
	lease   lease.ID
}

func (f *folds) empty() bool { return len(f.open) == 0 }

// due is when the oldest fold is to be logged.
func (f *folds) due() (at time.Time, ok bool) {
	for _, o := range f.open {
		end := o.since.Add(foldWindow)
		if len(o.numbers) >= foldChanges {
			end = o.since
		}
		if !ok || end.Before(at) {
			at, ok = end, true
		}
	}
	return at, ok
}

func (f *folds) of(author Agent, now time.Time) *fold {
	if f.open == nil {
		f.open = map[Agent]*fold{}
	}
	o := f.open[author]
	if o == nil {
		o = &fold{since: now, sections: map[SectionID][]crdt.Hash{}, other: map[string][]crdt.Hash{}}
		f.open[author] = o
	}
	return o
}

// add takes in a change whose typing is to be logged later; false when there is nothing of that kind in it.
func (f *folds) add(row ChangeRow, t touched) bool {
	typed := t.title || len(t.other) > 0
	for _, r := range t.sections {
		typed = typed || r.typed()
	}
	if !typed {
		return false
	}
	o := f.of(row.Author, row.At)
	o.numbers = append(o.numbers, row.Number)
	for sid, r := range t.sections {
		if r.typed() {
			o.sections[sid] = append(o.sections[sid], row.Hash)
		}
	}
	if t.title {
		o.title = append(o.title, row.Hash)
	}
	for path := range t.other {
		path = addPath(o.other, path)
		if hashes := o.other[path]; len(hashes) == 0 || hashes[len(hashes)-1] != row.Hash {
			o.other[path] = append(hashes, row.Hash)
		}
	}
	return true
}

// addRow takes in a stored change that no event covers yet.
func (f *folds) addRow(row ChangeRow, t touched) {
	if !f.add(row, t) {
		o := f.of(row.Author, row.At)
		o.numbers = append(o.numbers, row.Number)
	}
}

// overridden says whether an override is to be logged now, and remembers it.
func (f *folds) overridden(o override, now time.Time) bool {
	if last, ok := f.overrides[o]; ok && now.Sub(last) < foldWindow {
		return false
	}
	maps.DeleteFunc(f.overrides, func(_ override, last time.Time) bool { return now.Sub(last) >= foldWindow })
	if f.overrides == nil {
		f.overrides = map[override]time.Time{}
	}
	f.overrides[o] = now
	return true
}

// editedPayload is the payload of section.edited, document.edited and document.retitled.
type editedPayload struct {
	SectionID SectionID `json:"sectionId,omitempty"`
	Title     *string   `json:"title,omitempty"`
	Path      string    `json:"path,omitempty"`
	Changes   int       `json:"changes"`
	Hashes    []string  `json:"hashes"`
	Via       string    `json:"via"` // "sync" for replicas, else the door of an edit through the server
	Merged    bool      `json:"merged,omitempty"`

	Version crdt.Version `json:"version"` // right after it
}

func edited(via string, hashes ...crdt.Hash) editedPayload {
	p := editedPayload{Changes: len(hashes), Hashes: make([]string, len(hashes)), Via: via}
	for i, h := range hashes {
		p.Hashes[i] = h.String()
	}
	return p
}

const (
	viaSync = "sync"
	viaREST = "rest"
)

// flushFolds logs the folds that are due, or all. When the window of one is over, those of all authors end: their next
// ones then begin together, and one append is for all.
func (d *desk) flushFolds(ctx context.Context, all bool) error {
	s := &step{Append: Append{Expect: AnySeq}, at: d.lib.now()}
	for _, o := range d.folds.open {
		all = all || s.at.Sub(o.since) >= foldWindow
	}
	for _, author := range slices.Sorted(maps.Keys(d.folds.open)) {
		o := d.folds.open[author]
		if !all && len(o.numbers) < foldChanges {
			continue
		}
		if err := d.stageFold(ctx, s, author, o); err != nil {
			return err
		}
		delete(d.folds.open, author)
	}
	return d.commit(ctx, s)
}

func (d *desk) stageFold(ctx context.Context, s *step, author Agent, o *fold) error {
	for _, sid := range slices.Sorted(maps.Keys(o.sections)) {
		for hashes := range slices.Chunk(o.sections[sid], foldChanges) {
			p := edited(viaSync, hashes...)
			p.SectionID, p.Version = sid, d.version()
			if err := d.event(s, SectionEdited, author, p); err != nil {
				return err
			}
		}
	}
	for hashes := range slices.Chunk(o.title, foldChanges) {
		c, err := d.current(ctx)
		if err != nil {
			return err
		}
		p := edited(viaSync, hashes...)
		title := c.title
		p.Title, p.Version = &title, d.version()
		s.Title = &title
		if err := d.event(s, DocumentRetitled, author, p); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.other)) {
		for hashes := range slices.Chunk(o.other[name], foldChanges) {
			p := edited(viaSync, hashes...)
			p.Path, p.Version = name, d.version()
			if err := d.event(s, DocumentEdited, author, p); err != nil {
				return err
			}
		}
	}
	s.Logged = append(s.Logged, o.numbers...)
	return nil
}
