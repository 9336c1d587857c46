package doc

import (
	"context"
	"maps"
	"slices"

	"cowrite/crdt"
)

// Follower is told of what happens to a document's text, step by step: whoever applies every Update to the Snapshot that
// [Library.Follow] gave has, always, what a reader of the document gets.
type Follower interface {
	// Updated hands over what one step changed. It is called on the desk's goroutine, in order, and must not block;
	// false says that the follower's queue is full and ends the feed. What it is given is shared and not to be changed.
	Updated(id crdt.DocumentID, u *Update) bool
	// Gone says that the feed ended, and why (a *code.Error). It must not block.
	Gone(id crdt.DocumentID, why error)
}

// Update leads from one version of a document's text to the next.
type Update struct {
	From, To crdt.Version
	Authors  []Agent // of the changes in it
	Title    *string // nil: as it was
	Sections []SectionUpdate
}

// SectionUpdate is what became of one section. Ops count in code points of the text at From, and do not overlap; they are sorted.
type SectionUpdate struct {
	Section // as it now is; Text is left out unless Made
	Made    bool
	Gone    bool // it is no section any more: a replica made something else of it
	Ops     []TextOp
}

// Feed is a document followed. It lasts until Close, or until the follower is told that it is Gone.
type Feed struct {
	lib      *Library
	desk     *desk
	key      Key
	follower Follower
}

// feeds is a desk's followers, and the text as they have it.
type feeds struct {
	all     map[*Feed]struct{}
	version crdt.Version
	content content
	authors map[Agent]bool // of what they have not been told yet
}

// Follow begins a feed, and gives the document as it stands at its beginning. The errors are those of Read. The follower is told
// FORBIDDEN when the document is given a slug that the key does not cover.
func (l *Library) Follow(ctx context.Context, k Key, id crdt.DocumentID, f Follower) (Snapshot, *Feed, error) {
	for {
		snap, feed, err := l.follow(ctx, k, id, f)
		if err != errRestood {
			return snap, feed, err
		}
	}
}

func (l *Library) follow(ctx context.Context, k Key, id crdt.DocumentID, f Follower) (Snapshot, *Feed, error) {
	_, asked := l.standing(id)
	m, err := l.meta(ctx, k, id, false)
	if err != nil {
		return Snapshot{}, nil, err
	}
	d, err := l.open(ctx, id)
	if err != nil {
		return Snapshot{}, nil, err
	}
	feed := &Feed{lib: l, desk: d, key: k, follower: f}
	snap := Snapshot{Meta: m}
	err = d.do(&request{ctx: ctx, alone: true, stage: func(*step) error {
		if err := l.stood(asked); err != nil {
			return err
		}
		c, err := d.current(l.ctx)
		if err != nil {
			return err
		}
		if len(d.feeds.all) == 0 {
			d.feeds = feeds{all: map[*Feed]struct{}{}, version: d.version(), content: c.clone(), authors: map[Agent]bool{}}
		}
		d.feeds.all[feed] = struct{}{}
		snap.fill(c, d.version())
		return nil
	}})
	if err != nil {
		l.release(d)
		if err == errUnserved {
			err = d.err
		}
		return Snapshot{}, nil, err
	}
	return snap, feed, nil
}

// Close ends the feed. It is called once.
func (f *Feed) Close() {
	_ = f.desk.do(&request{ctx: f.lib.ctx, stage: func(*step) error { // an ended desk has no feeds
		delete(f.desk.feeds.all, f)
		return nil
	}})
	f.lib.release(f.desk)
}

// fill sets what of a snapshot the content says.
func (s *Snapshot) fill(c *content, v crdt.Version) {
	s.Sections, s.Removed = c.ordered()
	s.Ignored = c.allIgnored()
	s.Version, s.Meta.Title = v, c.title
}

func (c *content) clone() content {
	out := *c
	out.sections = maps.Clone(c.sections)
	return out
}

// feed tells the followers what a step changed.
func (d *desk) feed(ctx context.Context, s *step) error {
	if len(d.feeds.all) == 0 {
		return nil
	}
	for _, row := range s.Changes {
		d.feeds.authors[row.Author] = true
	}
	c, err := d.current(ctx)
	if err != nil {
		return err
	}
	u := d.feeds.content.update(c)
	u.From, u.To = d.feeds.version, d.version()
	u.Authors = slices.Sorted(maps.Keys(d.feeds.authors))
	d.feeds.version, d.feeds.content = u.To, c.clone()
	clear(d.feeds.authors)
	for f := range d.feeds.all {
		if !f.follower.Updated(d.id, u) {
			delete(d.feeds.all, f)
		}
	}
	return nil
}

// update compares two states of a document's text.
func (c *content) update(now *content) *Update {
	u := &Update{}
	if c.title != now.title {
		u.Title = &now.title
	}
	for _, sid := range slices.Sorted(maps.Keys(now.sections)) {
		before, was := c.sections[sid]
		after := now.sections[sid]
		switch {
		case !was:
			u.Sections = append(u.Sections, SectionUpdate{Section: after.Section, Made: true})
		case before.Section != after.Section:
			s := SectionUpdate{Section: after.Section, Ops: diffText(before.Text, after.Text)}
			s.Text = ""
			u.Sections = append(u.Sections, s)
		}
	}
	for _, sid := range slices.Sorted(maps.Keys(c.sections)) {
		if _, is := now.sections[sid]; !is {
			u.Sections = append(u.Sections, SectionUpdate{Section: Section{ID: sid}, Gone: true})
		}
	}
	return u
}
