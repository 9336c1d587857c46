package doc

import (
	"context"
	"errors"
	"slices"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Base is the version that a write was based on.
type Base struct {
	Version crdt.Version
	Current bool // the present version, whatever it is: replaces knowingly
}

// Written is what a write to a section came to.
type Written struct {
	Section    Section
	Version    crdt.Version
	Merged     bool         // the section now holds what others wrote since the base
	MergedFrom *MergedFrom  // what, and whose; nil when not Merged
	Advisory   *lease.Lease // somebody else's lease on the section, nil without one
	Stale      *StaleFence  // the write came with a fence that is stale, nil otherwise
	Repeated   bool         // a retry: it had been done before, and was not done again
}

// plan is what a write comes to at the desk.
type plan struct {
	what   EventType
	ops    []engine.Op
	base   []crdt.Hash // on which the operations are typed; nil: now
	old    string      // the section's text there
	wanted string      // and what it would be had nobody else written
	after  *string     // and what it will be, if no character of it is an oddity; nil: only the engine can tell

	mapped bool         // the operations have been led over to the present version, and the following is known
	typed  []TextOp     // as they were typed on the base
	onto   []TextOp     // and led over
	since  []difference // what was written since
}

// WriteSection replaces a section's text as if typed on base: what others wrote since stays. A section that
// does not exist is made, at the end. Without a base (nil) it is BASE_REQUIRED with the present version and
// text, unless the section is empty or not there. INVALID_VERSION for a base that this document never had, or
// that did not have the section; TOO_LARGE.
func (l *Library) WriteSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, text string, base *Base, opts ...WriteOption) (Written, error) {
	return l.EditSection(ctx, k, id, sid, TextEdit{text}, base, opts...)
}

// textAt gives the heads of a base (nil for the present ones) and the section's text there. past leads edits of it over to
// the present version; it is nil where that is not needed and where only the engine can do so.
func (d *desk) textAt(ctx context.Context, sid SectionID, present sectionContent, base Base) (heads []crdt.Hash, text string, past *crdt.Past, err error) {
	if base.Current {
		return nil, present.Text, nil, nil
	}
	invalid := func(why string) error {
		return code.New(code.InvalidVersion, "%s", why).With("version", d.version()).With("text", present.Text)
	}
	heads, err = d.headsOf(base.Version)
	if err != nil || base.Version == "" {
		return nil, "", nil, invalid("the base is no version of this document")
	}
	if slices.Equal(heads, d.graph.Heads()) {
		return nil, present.Text, nil, nil
	}
	const noText = "the section has no text in the base version"
	switch past, text, err = d.past(ctx, sid, heads, present); {
	case err == nil:
		return heads, text, past, nil
	case errors.Is(err, crdt.ErrNoText):
		return nil, "", nil, invalid(noText)
	case !errors.Is(err, crdt.ErrUnmapped):
		return nil, "", nil, err
	}
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	v, err := doc.Read(ctx, heads, sectionPath(sid, keyBody))
	if err != nil {
		return nil, "", nil, unavailable("read section at base", err)
	}
	body, ok := v.(engine.Text)
	if !ok {
		return nil, "", nil, invalid(noText)
	}
	return heads, string(body), nil, nil
}

// AddSection makes a section behind another ("" puts it last); sid "" makes an id from the heading, or
// means the section that was made before under the key of [Once].
// SECTION_EXISTS, SECTION_NOT_FOUND for after, TOO_LARGE.
func (l *Library) AddSection(ctx context.Context, k Key, id crdt.DocumentID, sid, after SectionID, text string, opts ...WriteOption) (Written, error) {
	if err := l.checkText("section", text, l.limits.SectionBytes); err != nil {
		return Written{}, err
	}
	if o := options(opts); sid == "" && o.key != "" {
		over, err := l.calls.enter(ctx, callName{k.Agent, o.key})
		if err != nil {
			return Written{}, err
		}
		defer over()
		former, remembered, err := l.recall(ctx, k.Agent, o.key)
		if err != nil {
			return Written{}, err
		}
		if remembered {
			sid = former.Section
		}
	}
	if sid == "" {
		// A random suffix: it is taken once in two thousand million times, and then SECTION_EXISTS says so.
		name, err := l.nameSection(text, func(SectionID) bool { return false })
		if err != nil {
			return Written{}, err
		}
		sid = name
	}
	return l.changeSection(ctx, k, id, sid, func(_ *desk, c *content) (plan, error) {
		if s, ok := c.sections[sid]; ok {
			return plan{}, code.New(code.SectionExists, "there is a section %q already", sid).With("removed", s.Removed)
		}
		ops, err := l.addOps(c, sid, after, text)
		return plan{what: SectionCreated, ops: ops}, err
	}, opts...)
}

// addOps makes a section that is not there.
func (l *Library) addOps(c *content, sid, after SectionID, text string) ([]engine.Op, error) {
	if len(c.sections) >= l.limits.Sections {
		return nil, code.New(code.TooLarge, "the document has %d sections, which is the most", len(c.sections)).With("limit", l.limits.Sections)
	}
	if _, ok := c.sections[after]; after != "" && !ok {
		return nil, sectionNotFound(after)
	}
	ops := sectionOps(sid, text, c.positionBehind(sid, after, after == ""))
	if c.noSections {
		ops = append([]engine.Op{engine.PutMap{Path: pathOf(keySections)}}, ops...)
	}
	return ops, nil
}

// MoveSection puts a section behind another; after "" puts it first. SECTION_NOT_FOUND.
func (l *Library) MoveSection(ctx context.Context, k Key, id crdt.DocumentID, sid, after SectionID, opts ...WriteOption) (Written, error) {
	if sid == after {
		return Written{}, code.New(code.BadRequest, "a section cannot be put behind itself")
	}
	return l.restructure(ctx, k, id, sid, SectionMoved, func(c *content) ([]engine.Op, error) {
		if _, ok := c.sections[after]; after != "" && !ok {
			return nil, sectionNotFound(after)
		}
		return []engine.Op{engine.Put{Path: sectionPath(sid, keyPosition), Value: c.positionBehind(sid, after, false)}}, nil
	}, opts...)
}

// RemoveSection takes a section out of the document; its text stays, and can be restored. SECTION_NOT_FOUND.
func (l *Library) RemoveSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, opts ...WriteOption) (Written, error) {
	return l.restructure(ctx, k, id, sid, SectionRemoved, func(c *content) ([]engine.Op, error) {
		if c.sections[sid].Removed {
			return nil, nil
		}
		return []engine.Op{engine.Put{Path: sectionPath(sid, keyRemoved), Value: true}}, nil
	}, opts...)
}

// RestoreSection brings a removed section back, in its place and with its text. SECTION_NOT_FOUND.
func (l *Library) RestoreSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, opts ...WriteOption) (Written, error) {
	return l.restructure(ctx, k, id, sid, SectionRestored, func(c *content) ([]engine.Op, error) {
		if !c.sections[sid].Removed {
			return nil, nil
		}
		return []engine.Op{engine.Delete{Path: sectionPath(sid, keyRemoved)}}, nil
	}, opts...)
}

// restructure changes something of a section that is there, other than its text, on the present version.
func (l *Library) restructure(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, what EventType, ops func(*content) ([]engine.Op, error), opts ...WriteOption) (Written, error) {
	return l.changeSection(ctx, k, id, sid, func(_ *desk, c *content) (plan, error) {
		if _, ok := c.sections[sid]; !ok {
			return plan{}, sectionNotFound(sid)
		}
		o, err := ops(c)
		return plan{what: what, ops: o}, err
	}, opts...)
}

// changeSection makes one change to a section, as planned at the desk.
func (l *Library) changeSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID,
	planned func(*desk, *content) (plan, error), opts ...WriteOption) (Written, error) {
	if err := l.mayWrite(ctx, k, id); err != nil {
		return Written{}, err
	}
	o := options(opts)
	stale, err := l.staleFence(ctx, SectionResource(id, sid), o.fence)
	if err != nil {
		return Written{}, err
	}
	w := Written{Stale: stale}
	err = l.at(ctx, id, func(d *desk) *request {
		return &request{stage: func(s *step) (err error) {
			if w.Repeated, err = d.repeats(l.ctx, s, k.Agent, sid, o); err != nil {
				return err
			}
			held := l.heldByOthers(k.Agent, id, sid)
			if len(held) > 0 {
				w.Advisory = &held[0]
			}
			if !w.Repeated {
				if err := d.write(l.ctx, s, k.Agent, sid, planned, o, held, &w); err != nil {
					return err
				}
			}
			c, err := d.current(l.ctx)
			if err != nil {
				return err
			}
			w.Section, w.Version = c.sections[sid].Section, d.version()
			return nil
		}}
	})
	if err != nil {
		return Written{}, err
	}
	l.act(ctx, k.Agent, id, []SectionID{sid})
	return w, nil
}

// write does what is planned and stages its events. held are the leases of which the author is told: those, and no
// others, are overridden.
func (d *desk) write(ctx context.Context, s *step, author Agent, sid SectionID, planned func(*desk, *content) (plan, error), o writeOptions, held []lease.Lease, w *Written) error {
	c, err := d.current(ctx)
	if err != nil {
		return err
	}
	p, err := planned(d, c)
	if err != nil {
		return err
	}
	before := c.sections[sid].Text
	var change *crdt.Change
	if len(p.ops) > 0 {
		if err := d.hasRoom(0); err != nil {
			return err
		}
		if change, err = d.editSection(ctx, s, author, sid, p); err != nil {
			return err
		}
	}
	if c, err = d.current(ctx); err != nil {
		return err
	}
	if p.what == SectionEdited && c.sections[sid].Text != p.wanted {
		w.Merged = true
		w.MergedFrom = d.mergedFrom(author, sid, p, c.sections[sid].Text)
	}
	if change == nil {
		s.remember(author, sid, o, crdt.Hash{})
		return nil
	}
	s.remember(author, sid, o, change.Hash)
	payload := edited(o.via, change.Hash)
	payload.SectionID, payload.Merged, payload.Version = sid, w.Merged, d.version()
	if err := d.event(s, p.what, author, payload); err != nil {
		return err
	}
	if w.Merged {
		if err := d.stageOverlap(s, author, sid, p, before, w.MergedFrom); err != nil {
			return err
		}
	}
	if stale := w.Stale; stale != nil {
		if err := d.event(s, SectionFenceStale, author, staleFencePayload{sid, author, stale.Fence, stale.SupersededBy, change.Hash.String(), o.via}); err != nil {
			return err
		}
	}
	return d.stageOverrides(s, author, sid, held, change.Hash, o.via)
}

// overriddenPayload is the payload of section.lease_overridden.
type overriddenPayload struct {
	SectionID SectionID `json:"sectionId"`
	By        Agent     `json:"by"`
	Holder    Agent     `json:"holder"`
	LeaseID   lease.ID  `json:"leaseId"`
	ExpiresAt string    `json:"expiresAt"`
	Hash      string    `json:"hash"` // of the change, the first of those folded
	Via       string    `json:"via"`
}

// stageOverrides logs a write into a section leased by others: one through the server each time, a replica's once in a
// fold's window.
func (d *desk) stageOverrides(s *step, author Agent, sid SectionID, held []lease.Lease, h crdt.Hash, via string) error {
	for _, held := range held {
		if via == viaSync && !d.folds.overridden(override{author, sid, held.ID}, s.at) {
			continue
		}
		p := overriddenPayload{sid, author, held.Holder, held.ID, FormatTime(held.ExpiresAt), h.String(), via}
		if err := d.event(s, SectionLeaseOverridden, author, p); err != nil {
			return err
		}
	}
	return nil
}

func sectionNotFound(sid SectionID) *code.Error {
	return code.New(code.SectionNotFound, "there is no section %q", sid).With("sectionId", sid)
}
