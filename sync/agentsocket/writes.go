package agentsocket

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// door is what writes by this socket are logged as coming by.
const door = "agent"

// edit changes a section's text.
func (s *socket) edit(r *agent.Edit) (agent.Frame, error) {
	id, sid, err := s.locate(r.Document, r.Section)
	if err != nil {
		return nil, err
	}
	opts, err := s.writeOptions(r.ID, r.Fence, id, r.Type, []any{r.Text, r.Ops, r.Replace, r.Base, r.Fence})
	if err != nil {
		return nil, err
	}
	w, err := s.Library.EditSection(s.work, s.key, id, sid, editOf(r), baseOf(r.Base), opts...)
	if err != nil {
		return nil, err
	}
	return s.ack(r.Header, r.Document, w), nil
}

func editOf(r *agent.Edit) doc.Edit {
	switch {
	case r.Text != nil:
		return doc.TextEdit{Text: *r.Text}
	case r.Ops != nil:
		ops := make([]doc.TextOp, len(r.Ops))
		for i, op := range r.Ops {
			ops[i] = doc.TextOp(op)
		}
		return doc.OpsEdit{Ops: ops}
	}
	replacements := make([]doc.Replacement, len(r.Replace))
	for i, p := range r.Replace {
		replacements[i] = doc.Replacement{Find: p.Find, With: p.With, Occurrence: p.Occurrence}
	}
	return doc.ReplaceEdit{Replacements: replacements}
}

func baseOf(v crdt.Version) *doc.Base {
	switch v {
	case "":
		return nil
	case agent.Current:
		return &doc.Base{Current: true}
	}
	return &doc.Base{Version: v}
}

// writeOptions says of a write what it was asked as, so that it counts once under its id.
func (s *socket) writeOptions(id agent.RequestID, fence lease.Fence, document crdt.DocumentID, t agent.Type, asked []any) ([]doc.WriteOption, error) {
	opts := []doc.WriteOption{doc.Via(door), doc.Fenced(fence)}
	if id == "" {
		return opts, nil
	}
	key, err := doc.ParseIdempotencyKey(string(id))
	if err != nil {
		return nil, err
	}
	digest, err := digestOf(t, document, asked)
	if err != nil {
		return nil, err
	}
	return append(opts, doc.Once(key, digest)), nil
}

func digestOf(asked ...any) (doc.RequestDigest, error) {
	b, err := json.Marshal(asked)
	if err != nil {
		return doc.RequestDigest{}, fmt.Errorf("marshal request: %w", err)
	}
	return sha256.Sum256(b), nil
}

// ack says what a write to a section came to.
func (s *socket) ack(h agent.Header, name agent.Document, w doc.Written) *agent.Ack {
	ack := &agent.Ack{
		Header: agent.Header{ID: h.ID}, Document: name, Version: w.Version, Merged: w.Merged, Repeated: w.Repeated, Advisory: (*agent.Advisory)(s.Library.Advise(w)),
		Section: &agent.Written{
			ID: agent.SectionID(w.Section.ID), Heading: w.Section.Heading, Level: w.Section.Level, Position: w.Section.Position, Removed: w.Section.Removed,
		},
	}
	if w.Merged || w.Repeated {
		ack.Section.Text = &w.Section.Text
	}
	if from := w.MergedFrom; from != nil {
		ack.MergedFrom = &agent.MergedFrom{Agents: append([]doc.Agent{}, from.Agents...), Ranges: make([]agent.MergedRange, len(from.Ranges))}
		for i, r := range from.Ranges {
			ack.MergedFrom.Ranges[i] = agent.MergedRange(r)
		}
	}
	return ack
}

// create makes a section, or a document.
func (s *socket) create(r *agent.Create) (agent.Frame, error) {
	if r.Document == "" {
		return s.createDocument(r)
	}
	id, sid, err := s.locate(r.Document, r.Section)
	if err != nil {
		return nil, err
	}
	var after doc.SectionID
	if r.After != "" {
		if after, err = doc.ParseSectionID(string(r.After)); err != nil {
			return nil, err
		}
	}
	opts, err := s.writeOptions(r.ID, r.Fence, id, r.Type, []any{r.After, r.Text, r.Fence})
	if err != nil {
		return nil, err
	}
	w, err := s.Library.AddSection(s.work, s.key, id, sid, after, *r.Text, opts...)
	if err != nil {
		return nil, err
	}
	return s.ack(r.Header, r.Document, w), nil
}

func (s *socket) createDocument(r *agent.Create) (agent.Frame, error) {
	n := doc.NewDocument{Title: r.Title, Markdown: r.Markdown, Level: r.Level}
	if r.Slug != "" {
		slug, err := doc.ParseSlug(r.Slug)
		if err != nil {
			return nil, err
		}
		n.Slug = slug
	}
	opts, err := s.writeOptions(r.ID, 0, crdt.DocumentID{}, r.Type, []any{r.Slug, r.Title, r.Markdown, r.Level})
	if err != nil {
		return nil, err
	}
	snap, err := s.Library.Create(s.work, s.key, n, opts...)
	if err != nil {
		return nil, err
	}
	return &agent.Ack{
		Header: agent.Header{ID: r.ID}, Document: agent.Document(snap.Meta.Ref()), DocumentID: snap.Meta.ID.String(),
		Slug: string(snap.Meta.Slug), Version: snap.Version,
	}, nil
}

func (s *socket) move(r *agent.Move) (agent.Frame, error) {
	id, sid, err := s.locate(r.Document, r.Section)
	if err != nil {
		return nil, err
	}
	var after doc.SectionID
	if *r.After != "" {
		if after, err = doc.ParseSectionID(string(*r.After)); err != nil {
			return nil, err
		}
	}
	opts, err := s.writeOptions(r.ID, r.Fence, id, r.Type, []any{r.After, r.Fence})
	if err != nil {
		return nil, err
	}
	w, err := s.Library.MoveSection(s.work, s.key, id, sid, after, opts...)
	if err != nil {
		return nil, err
	}
	return s.ack(r.Header, r.Document, w), nil
}

func (s *socket) remove(r *agent.Remove) (agent.Frame, error) {
	return s.keepOrDrop(r, s.Library.RemoveSection)
}

func (s *socket) restore(r *agent.Restore) (agent.Frame, error) {
	return s.keepOrDrop((*agent.Remove)(r), s.Library.RestoreSection)
}

// keepOrDrop removes or restores a section, which are asked alike.
func (s *socket) keepOrDrop(r *agent.Remove,
	write func(context.Context, doc.Key, crdt.DocumentID, doc.SectionID, ...doc.WriteOption) (doc.Written, error)) (agent.Frame, error) {
	id, sid, err := s.locate(r.Document, r.Section)
	if err != nil {
		return nil, err
	}
	opts, err := s.writeOptions(r.ID, r.Fence, id, r.Type, []any{sid, r.Fence})
	if err != nil {
		return nil, err
	}
	w, err := write(s.work, s.key, id, sid, opts...)
	if err != nil {
		return nil, err
	}
	return s.ack(r.Header, r.Document, w), nil
}

// message posts to the log.
func (s *socket) message(r *agent.Post) (agent.Frame, error) {
	id, _, err := s.locate(r.Document, "")
	if err != nil {
		return nil, err
	}
	opts, err := s.writeOptions(r.ID, 0, id, r.Type, []any{r.Payload})
	if err != nil {
		return nil, err
	}
	posted, err := s.Library.Post(s.work, s.key, id, r.Payload, opts...)
	if err != nil {
		return nil, err
	}
	record, err := recordOf(posted)
	if err != nil {
		return nil, err
	}
	return &agent.Ack{Header: agent.Header{ID: r.ID}, Document: r.Document, Event: record}, nil
}
