package doc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// Replica is a peer with an Automerge document of its own, attached to a desk by [Library.Attach].
type Replica interface {
	// Deliver hands the peer a sync message. It is called on the desk's goroutine, in order, and must not
	// block; false says that the peer's queue is full and detaches it.
	Deliver(id crdt.DocumentID, message []byte) bool
	// Gone says that the document cannot be synced any further, and why (a *code.Error); the peer is
	// detached. It must not block.
	Gone(id crdt.DocumentID, why error)
}

// Attachment is a replica at a desk: one sync conversation about one document.
type Attachment struct {
	lib     *Library
	desk    *desk
	key     Key
	replica Replica
	canSend bool
	detach  sync.Once

	session *crdt.Session // the desk's goroutine's
}

// Attach opens a sync conversation; a key that may only read is told so and sent everything. create lets the
// document be made by the peer's first change when it does not exist; else that is DOCUMENT_NOT_FOUND. FORBIDDEN,
// DOCUMENT_DELETED, DOCUMENT_BLOCKED.
func (l *Library) Attach(ctx context.Context, k Key, id crdt.DocumentID, r Replica, create bool) (*Attachment, error) {
	meta, err := l.store.Document(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		meta = Meta{ID: id}
		if !create || k.Role == Viewer {
			return nil, documentNotFound(id.String())
		}
	case err != nil:
		return nil, fmt.Errorf("find document: %w", err)
	case !meta.DeletedAt.IsZero():
		return nil, errDeleted
	}
	if !k.CanRead(meta) {
		return nil, forbidden("this key does not cover the document")
	}
	if !meta.Block.At.IsZero() {
		return nil, blocked(meta)
	}
	d, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	a := &Attachment{lib: l, desk: d, key: k, replica: r, canSend: k.CanWrite(meta)}
	a.session = crdt.NewSession(!a.canSend)
	err = d.do(&request{ctx: ctx, stage: func(*step) error {
		d.peers[a] = struct{}{}
		return nil
	}})
	if err != nil {
		l.release(d)
		return nil, a.because(err)
	}
	return a, nil
}

// Receive takes in a sync message of the peer. It returns when the peer's changes are stored and the answer was handed to
// Deliver; the other peers are told right after. An error is a refusal that ends the conversation: BAD_FRAME for what
// is no sync message, BAD_CHANGE for a change that is not valid, TOO_LARGE for one that is too large, DOCUMENT_FULL when the document
// has no room for them.
func (a *Attachment) Receive(ctx context.Context, message []byte) error {
	m, err := crdt.ParseMessage(message, a.lib.limits.change())
	if bad := (*crdt.ParseError)(nil); errors.As(err, &bad) && bad.TooLarge {
		return code.New(code.TooLarge, "a change is larger than is taken: %v", err).With("limit", a.lib.limits.ChangeBytes).Because(err)
	}
	if err != nil {
		return code.New(code.BadFrame, "this is no sync message: %v", err).Because(err)
	}
	changes := m.Changes
	if a.canSend {
		for _, chunk := range m.Documents {
			more, err := a.lib.engine.Unpack(ctx, chunk)
			if err != nil {
				return badChange(err)
			}
			changes = append(changes, more...)
		}
	} else {
		changes = nil
	}
	var (
		acted  []SectionID
		refuse error
	)
	err = a.desk.do(&request{
		ctx: ctx,
		stage: func(s *step) error {
			var err error
			acted, refuse, err = a.desk.applyChanges(a.lib.ctx, s, a.key.Agent, changes)
			return err
		},
		committed: func() {
			a.session.Receive(a.desk.graph, m)
			a.desk.tell(a)
		},
	})
	if err != nil {
		return a.because(err)
	}
	a.lib.act(ctx, a.key.Agent, a.desk.id, acted)
	return refuse
}

// because gives the reason of a desk that ended before it came to a request: the peer has to attach anew.
func (a *Attachment) because(err error) error {
	if err == errUnserved {
		return a.desk.err
	}
	return err
}

// Detach ends the conversation. It may be called more than once.
func (a *Attachment) Detach() {
	a.detach.Do(func() {
		// The desk's own context: the peer's has usually ended by now.
		_ = a.desk.do(&request{ctx: a.lib.ctx, stage: func(*step) error {
			delete(a.desk.peers, a)
			return nil
		}})
		a.lib.release(a.desk)
	})
}

// tellPeers sends every peer what it lacks.
func (d *desk) tellPeers() {
	for a := range d.peers {
		d.tell(a)
	}
}

// tell sends a peer what it lacks.
func (d *desk) tell(a *Attachment) {
	if _, here := d.peers[a]; !here {
		return
	}
	message, ok, err := a.session.Generate(d.graph, d)
	if err != nil {
		d.lib.log.Error("make sync message", "document", d.id, "err", err)
		delete(d.peers, a)
		a.replica.Gone(d.id, code.From(err))
		return
	}
	if ok && !a.replica.Deliver(d.id, message) {
		delete(d.peers, a)
	}
}

// applyChanges merges a replica's changes and stages what is new. A change that is refused does not hold up
// the others that came with it: it is returned as refuse.
func (d *desk) applyChanges(ctx context.Context, s *step, author Agent, changes []crdt.Change) (acted []SectionID, refuse, err error) {
	if len(changes) == 0 {
		return nil, nil, nil
	}
	ready, orphans, refused := d.graph.Sort(append(slices.Clip(d.orphans), changes...))
	if len(refused) > 0 {
		refuse = code.New(code.BadChange, "another change of this actor has the same number").With("hash", refused[0].Hash.String())
	}
	if len(ready) == 0 {
		d.keepOrphans(orphans)
		return nil, refuse, nil
	}
	if err := d.hasRoom(rawBytes(ready)); err != nil {
		return nil, err, nil
	}
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, nil, err
	}
	err = doc.Apply(ctx, ready)
	if bad := (*engine.BadChangeError)(nil); errors.As(err, &bad) {
		refuse = badChange(bad)
		at := slices.IndexFunc(ready, func(c crdt.Change) bool { return c.Hash == bad.Hash })
		ready, err = ready[:max(at, 0)], nil
	}
	if err != nil {
		return nil, nil, unavailable("apply changes", err)
	}
	d.keepOrphans(orphans)
	if len(ready) == 0 {
		return nil, refuse, nil
	}
	created := !d.exists && s.create == nil
	s.changed = true
	all := touched{sections: map[SectionID]reach{}}
	for _, c := range ready {
		t := d.remember(c, author)
		all.merge(t)
		row := ChangeRow{Hash: c.Hash, Author: author, Sections: t.sectionIDs(), Logged: true, At: s.at, Raw: c.Raw}
		if !created {
			row.Logged = !d.folds.add(author, c.Hash, t, s.at)
			if err := d.stageStructure(ctx, s, author, c.Hash, t); err != nil {
				return nil, nil, err
			}
		}
		s.Changes = append(s.Changes, row)
	}
	if created {
		if err := d.stageCreated(ctx, s, author, len(ready)); err != nil {
			return nil, nil, err
		}
	}
	if err := d.stageConflicts(ctx, s, author, all); err != nil {
		return nil, nil, err
	}
	acted = all.sectionIDs()
	return acted, refuse, d.stageOverrides(s, author, acted, ready[len(ready)-1].Hash, viaSync)
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
		p := edited(viaSync, h)
		p.SectionID, p.Version = sid, d.version()
		switch {
		case r.made:
			if err := d.event(s, SectionCreated, author, p); err != nil {
				return err
			}
			continue
		case r.removed:
			c, err := d.current(ctx)
			if err != nil {
				return err
			}
			what := SectionRestored
			if c.sections[sid].Removed {
				what = SectionRemoved
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

func badChange(err error) error {
	refusal := code.New(code.BadChange, "a change is not valid and was not merged").Because(err)
	if bad := (*engine.BadChangeError)(nil); errors.As(err, &bad) && bad.Hash != (crdt.Hash{}) {
		return refusal.With("hash", bad.Hash.String())
	}
	return refusal
}
