package doc

import (
	"context"
	"errors"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// Import makes a document of a saved one, as Automerge writes it: one chunk of type 0, whose every change is kept. The chunk
// is opened in a worker before anything is stored. TOO_LARGE, for one of the changes too, BAD_CHANGE, SLUG_TAKEN, FORBIDDEN. slug "" is made from the
// document's title. A retry under the key of [Once] is given the document that it made, as it is now.
func (l *Library) Import(ctx context.Context, k Key, slug Slug, chunk []byte, opts ...WriteOption) (Snapshot, error) {
	o := options(opts)
	return l.makeOnce(ctx, k, o, func() (Snapshot, error) { return l.importSaved(ctx, k, slug, chunk, o) })
}

func (l *Library) importSaved(ctx context.Context, k Key, slug Slug, chunk []byte, o writeOptions) (Snapshot, error) {
	if k.Role == Viewer {
		return Snapshot{}, forbidden("a viewer's key cannot create a document")
	}
	if len(chunk) > l.limits.SavedBytes {
		return Snapshot{}, tooLarge("saved document", l.limits.SavedBytes)
	}
	if _, err := crdt.SavedHeads(chunk); err != nil {
		return Snapshot{}, code.New(code.BadChange, "this is no saved Automerge document").Because(err)
	}
	changes, err := l.engine.Unpack(ctx, chunk)
	if err != nil {
		return Snapshot{}, badChange(err)
	}
	if len(changes) == 0 {
		return Snapshot{}, code.New(code.BadChange, "the saved document is empty")
	}
	id, err := l.ids.document()
	if err != nil {
		return Snapshot{}, err
	}
	err = l.at(ctx, id, func(d *desk) *request {
		return &request{alone: true, stage: func(s *step) error { // a refusal of what was merged already ends the desk
			b := &brought{author: k.Agent, changes: changes}
			if err := d.merge(l.ctx, s, b); err != nil {
				return err
			}
			if b.refused != nil {
				return b.refused
			}
			if s.create == nil {
				return code.New(code.BadChange, "the saved document lacks changes that it builds on")
			}
			s.remember(k.Agent, "", o, crdt.Hash{})
			return l.nameImported(s, k, slug)
		}}
	})
	if err != nil {
		return Snapshot{}, err
	}
	return l.Read(ctx, k, id)
}

// nameImported gives an imported document its slug.
func (l *Library) nameImported(s *step, k Key, slug Slug) error {
	n := NewDocument{Slug: slug, Title: s.create.Title}
	if err := l.nameDocument(&n, nil); err != nil {
		return err
	}
	if !k.CanRead(Meta{Slug: n.Slug}) {
		return forbidden("this key cannot create a document of that name")
	}
	s.create.Slug = n.Slug
	return nil
}

// Export gives the document as Automerge saves it, for any Automerge program to open, with the version that it is. A
// document that the engine cannot save in one chunk comes as one behind the other of its changes.
func (l *Library) Export(ctx context.Context, k Key, id crdt.DocumentID) (saved []byte, v crdt.Version, err error) {
	if _, err := l.meta(ctx, k, id, false); err != nil {
		return nil, "", err
	}
	err = l.at(ctx, id, func(d *desk) *request {
		return &request{stage: func(*step) error {
			saved, err = d.save(l.ctx)
			if errors.Is(err, engine.ErrUnsavable) {
				saved, err = d.Whole()
			}
			v = d.version()
			return err
		}}
	})
	return saved, v, err
}
