package doc

import (
	"context"
	"encoding/json"
	"fmt"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// headsOf decodes a version of the document; "" is the present one, nil.
func (d *desk) headsOf(v crdt.Version) ([]crdt.Hash, error) {
	if v == "" {
		return nil, nil
	}
	heads, err := v.Heads()
	if err != nil {
		return nil, code.New(code.InvalidVersion, "this is no version")
	}
	for _, h := range heads {
		if !d.graph.Has(h) {
			return nil, code.New(code.InvalidVersion, "this is no version of this document").With("version", d.version())
		}
	}
	return heads, nil
}

// contentAt reads the document as it was at a version; "" is now.
func (d *desk) contentAt(ctx context.Context, v crdt.Version) (*content, error) {
	heads, err := d.headsOf(v)
	if err != nil {
		return nil, err
	}
	if heads == nil && v == "" {
		return d.current(ctx)
	}
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	root, err := doc.Read(ctx, heads, nil)
	if err != nil {
		return nil, unavailable("read document at version", err)
	}
	c := readContent(root, d.lib.limits.TitleBytes)
	return &c, nil
}

// ReadAt gives the document's content as it was at a version; "" is now. Meta, but for the title, is the present one.
// INVALID_VERSION.
func (l *Library) ReadAt(ctx context.Context, k Key, id crdt.DocumentID, v crdt.Version) (Snapshot, error) {
	m, err := l.meta(ctx, k, id, false)
	if err != nil {
		return Snapshot{}, err
	}
	snap := Snapshot{Meta: m}
	err = l.at(ctx, id, func(d *desk) *request {
		return &request{stage: func(*step) error {
			c, err := d.contentAt(l.ctx, v)
			if err != nil {
				return err
			}
			if v == "" {
				v = d.version()
			}
			snap.fill(c, v)
			return nil
		}}
	})
	return snap, err
}

// Diff gives what leads from one version of the document to another; "" is the present one. INVALID_VERSION.
func (l *Library) Diff(ctx context.Context, k Key, id crdt.DocumentID, from, to crdt.Version) (*Update, error) {
	if _, err := l.meta(ctx, k, id, false); err != nil {
		return nil, err
	}
	var u *Update
	err := l.at(ctx, id, func(d *desk) *request {
		return &request{stage: func(*step) error {
			a, err := d.contentAt(l.ctx, from)
			if err != nil {
				return err
			}
			b, err := d.contentAt(l.ctx, to)
			if err != nil {
				return err
			}
			u = a.update(b)
			u.From, u.To = from, to
			for _, v := range []*crdt.Version{&u.From, &u.To} {
				if *v == "" {
					*v = d.version()
				}
			}
			return nil
		}}
	})
	return u, err
}

// historyScan bounds the events that one call of History looks through.
const historyScan = 10_000

// History gives the events about one section behind since, oldest first, at most limit; next is where the following
// call goes on, 0 at the end of the log. A page may be empty although more follow. INVALID_CURSOR.
func (l *Library) History(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, since Seq, limit int) (events []Event, next Seq, err error) {
	m, err := l.meta(ctx, k, id, false)
	if err == nil {
		err = m.Reaches(since)
	}
	if err != nil {
		return nil, 0, err
	}
	for seen := 0; seen < historyScan; {
		page, err := l.store.Events(ctx, id, since, loadPage)
		if err != nil {
			return nil, 0, fmt.Errorf("read events: %w", err)
		}
		for _, e := range page {
			if len(events) == limit {
				return events, since, nil
			}
			since = e.Seq
			if e.about(sid) {
				events = append(events, e)
			}
		}
		if len(page) < loadPage {
			return events, 0, nil
		}
		seen += len(page)
	}
	return events, since, nil
}

// about says whether an event is about a section.
func (e Event) about(sid SectionID) bool {
	var p struct {
		SectionID SectionID   `json:"sectionId"`
		Sections  []SectionID `json:"sections"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil || e.Type == MessagePosted {
		return false
	}
	for _, made := range p.Sections {
		if made == sid {
			return true
		}
	}
	return p.SectionID == sid
}

// RevertSection gives a section the text that it had at a version, as a new edit on the present one: nothing is erased.
// INVALID_VERSION, SECTION_NOT_FOUND.
func (l *Library) RevertSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, to crdt.Version, opts ...WriteOption) (Written, error) {
	return l.changeSection(ctx, k, id, sid, func(d *desk, c *content) (plan, error) {
		present, ok := c.sections[sid]
		if !ok {
			return plan{}, sectionNotFound(sid)
		}
		former, err := d.formerText(l.ctx, sid, to, present)
		if err != nil {
			return plan{}, err
		}
		p := plan{what: SectionEdited, old: present.Text, wanted: former}
		switch path := sectionPath(sid, keyBody); {
		case p.wanted == p.old:
		case present.scalarBody:
			p.ops = []engine.Op{engine.PutText{Path: path, Text: p.wanted}}
		default:
			p.ops = splices(path, diffText(p.old, p.wanted))
		}
		return p, nil
	}, opts...)
}
