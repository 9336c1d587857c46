package doc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// brought is changes from outside on their way into the document, and what became of them.
type brought struct {
	author  Agent
	changes []crdt.Change

	from    *Attachment  // who said the message; nil: nobody, the changes are all
	message crdt.Message // that they came in
	asks    bool         // the message may call for an answer

	touched touched
	last    crdt.Hash // of those that were new
	acted   []SectionID
	refused error // *code.Error: some of them were
}

// orphan is a change whose dependencies are missing.
type orphan struct {
	crdt.Change
	author Agent
}

// together gives what the first requests bring that can be merged in one go. What makes the document comes alone, and
// so does what removes or restores a section, because the log says which of the two after a look at the section.
func (d *desk) together(s *step, batch []*request) []*brought {
	var all []*brought
	creates := !d.exists && s.create == nil
	for _, r := range batch {
		if r.brought == nil || len(all) > 0 && r.dropped() != nil {
			break
		}
		alone := creates || slices.ContainsFunc(r.brought.changes, func(c crdt.Change) bool { return c.Writes(keyRemoved) })
		if alone && len(all) > 0 {
			break
		}
		all = append(all, r.brought)
		if alone {
			break
		}
	}
	return all
}

// merge merges what replicas brought and stages what is new of it, of all of them with one call to the engine. A change
// that is refused does not hold up the others, but for those that build on it; who brought it has refused set. An error is
// that of a request.
func (d *desk) merge(ctx context.Context, s *step, all ...*brought) error {
	most := len(d.orphans)
	for _, b := range all {
		most += len(b.changes)
	}
	if most == len(d.orphans) {
		return nil
	}
	owners := make(map[crdt.Hash]*brought, most)
	changes := make([]crdt.Change, 0, most)
	own := func(c crdt.Change, b *brought) {
		changes = append(changes, c)
		if owners[c.Hash] == nil {
			owners[c.Hash] = b
		}
	}
	for _, o := range d.orphans {
		own(o.Change, &brought{author: o.author})
	}
	for _, b := range all {
		for _, c := range b.changes {
			if err := d.lib.limits.change().Check(c); err != nil && !d.graph.Has(c.Hash) { // it came in a saved document
				b.refuse(d.lib.changeTooLarge(err))
				continue
			}
			own(c, b)
		}
	}
	ready, orphans, refused := d.graph.Sort(changes)
	if full := d.hasRoom(rawBytes(ready)); full != nil && len(ready) > 0 {
		return d.mergeWhatFits(ctx, s, all, full)
	}
	for _, c := range refused {
		owners[c.Hash].refuse(code.New(code.BadChange, "its number, or those of its operations, do not follow from what the change builds on").With("hash", c.Hash.String()))
	}
	created := !d.exists && s.create == nil
	var fresh []*brought // that brought anything new
	merged := 0
	for len(ready) > 0 {
		applied, err := d.applyTo(ctx, ready, owners)
		if err != nil {
			return err
		}
		for _, c := range ready[:applied] {
			b := owners[c.Hash]
			if b.touched.sections == nil {
				b.touched = nothingTouched()
				fresh = append(fresh, b)
			}
			if err := d.stageChange(ctx, s, b, c, created); err != nil {
				return err
			}
		}
		merged += applied
		if applied == len(ready) {
			break
		}
		ready, _, _ = d.graph.Sort(ready[applied+1:]) // without what builds on the one that was refused
	}
	d.keepOrphans(orphans, owners)
	if created && merged > 0 {
		if err := d.stageCreated(ctx, s, fresh[0].author, merged); err != nil {
			return err
		}
	}
	for _, b := range fresh {
		if err := d.stageConflicts(ctx, s, b.author, b.touched); err != nil {
			return err
		}
		b.acted = b.touched.sectionIDs()
		for _, sid := range b.acted {
			if err := d.stageOverrides(s, b.author, sid, d.lib.heldByOthers(b.author, d.id, sid), b.last, viaSync); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeWhatFits merges what several brought one after the other, since there is no room for all of it.
func (d *desk) mergeWhatFits(ctx context.Context, s *step, all []*brought, full error) error {
	if len(all) == 1 {
		all[0].refuse(full)
		return nil
	}
	for _, b := range all {
		if err := d.merge(ctx, s, b); err != nil {
			return err
		}
	}
	return nil
}

// applyTo has the engine merge changes and says how many of the first it took. One that it does not take is refused.
func (d *desk) applyTo(ctx context.Context, ready []crdt.Change, owners map[crdt.Hash]*brought) (applied int, err error) {
	doc, err := d.engine(ctx)
	if err != nil {
		return 0, err
	}
	err = doc.Apply(ctx, ready)
	bad := (*engine.BadChangeError)(nil)
	switch {
	case err == nil:
		return len(ready), nil
	case !errors.As(err, &bad):
		return 0, unavailable("apply changes", err)
	}
	at := slices.IndexFunc(ready, func(c crdt.Change) bool { return c.Hash == bad.Hash })
	if at < 0 {
		return 0, fmt.Errorf("apply changes: another one is refused: %w", err)
	}
	owners[bad.Hash].refuse(badChange(bad))
	return at, nil
}

func (b *brought) refuse(why error) {
	if b.refused == nil {
		b.refused = why
	}
}

// stageChange stages a change that the engine has merged.
func (d *desk) stageChange(ctx context.Context, s *step, b *brought, c crdt.Change, created bool) error {
	t := d.remember(c, b.author)
	s.changed = true
	d.pace.note(b.from, s.at)
	b.touched.merge(t)
	b.last = c.Hash
	row := d.row(c, b.author, t, s.at)
	if !created {
		row.Logged = !d.folds.add(row, t)
		if err := d.stageStructure(ctx, s, b.author, c.Hash, t); err != nil {
			return err
		}
	}
	s.Changes = append(s.Changes, row)
	return nil
}

// stageCreated makes the document of the replica's first changes; one event covers them all.
func (d *desk) stageCreated(ctx context.Context, s *step, author Agent, changes int) error {
	c, err := d.current(ctx)
	if err != nil {
		return err
	}
	s.create = &Meta{ID: d.id, Title: c.title, CreatedAt: s.at, CreatedBy: author}
	return d.event(s, DocumentCreated, author, createdPayload{
		DocumentID: d.id.String(), Title: c.title, Sections: slices.Sorted(maps.Keys(c.sections)), Changes: changes, Via: viaSync, Version: d.version(),
	})
}

// stageStructure logs at once what is not typing: sections made, moved, removed and restored.
func (d *desk) stageStructure(ctx context.Context, s *step, author Agent, h crdt.Hash, t touched) error {
	for _, sid := range t.sectionIDs() {
		r := t.sections[sid]
		if !r.made && !r.gone && !r.removed && !r.position {
			continue
		}
		p := edited(viaSync, h)
		p.SectionID, p.Version = sid, d.version()
		switch {
		case r.made:
			if err := d.event(s, SectionCreated, author, p); err != nil {
				return err
			}
			continue
		case r.gone, r.removed:
			c, err := d.current(ctx)
			if err != nil {
				return err
			}
			sec, there := c.sections[sid]
			what := SectionRestored
			switch {
			case !there || sec.Removed:
				what = SectionRemoved
			case r.gone: // somebody else's is there
				what = SectionEdited
			}
			if err := d.event(s, what, author, p); err != nil {
				return err
			}
		}
		if r.position {
			if err := d.event(s, SectionMoved, author, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Library) changeTooLarge(err error) error {
	return code.New(code.TooLarge, "a change is larger than is taken: %v", err).With("limit", l.limits.ChangeBytes).Because(err)
}

func badChange(err error) error {
	refusal := code.New(code.BadChange, "a change is not valid and was not merged").Because(err)
	if bad := (*engine.BadChangeError)(nil); errors.As(err, &bad) && bad.Hash != (crdt.Hash{}) {
		return refusal.With("hash", bad.Hash.String())
	}
	return refusal
}

const (
	maxOrphans     = 4096 // changes that wait for others
	maxOrphanBytes = 4 << 20
)

// keepOrphans holds back changes whose dependencies are missing, the latest ones within the bounds.
func (d *desk) keepOrphans(orphans []crdt.Change, owners map[crdt.Hash]*brought) {
	bytes := 0
	for i, c := range slices.Backward(orphans) {
		bytes += len(c.Raw)
		if bytes > maxOrphanBytes || len(orphans)-i > maxOrphans {
			orphans = orphans[i+1:]
			break
		}
	}
	d.orphans = nil
	for _, c := range orphans {
		d.orphans = append(d.orphans, orphan{c, owners[c.Hash].author})
	}
}
