package client

import (
	"context"
	"fmt"

	"cowrite/crdt"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// Edit is a change of a section's text: made by [Text], [Ops] or [Replace].
type Edit struct {
	frame agent.Edit
}

// Text gives the whole new text. It is compared with the text at its base word by word, so that what others wrote since
// stays; it needs a base, unless the section is new or empty.
func Text(text string) Edit { return Edit{agent.Edit{Text: &text}} }

// Ops gives operations in code points of the text at the base.
func Ops(ops ...agent.TextOp) Edit { return Edit{agent.Edit{Ops: append([]agent.TextOp{}, ops...)}} }

// Replace replaces passages by what they say: each must be there once, or say which occurrence is meant. Otherwise
// nothing is written (TEXT_NOT_FOUND and TEXT_AMBIGUOUS, with what is nearest).
func Replace(passages ...agent.Replacement) Edit {
	return Edit{agent.Edit{Replace: append([]agent.Replacement{}, passages...)}}
}

// On says which version the edit was made on; [agent.Current] is the present one, whatever it is.
func (e Edit) On(base crdt.Version) Edit { e.frame.Base = base; return e }

// Under says with which grant's fence the writer believes to hold the section. A stale one is told in the answer's
// Advisory and logged; the edit counts all the same.
func (e Edit) Under(f lease.Fence) Edit { e.frame.Fence = f; return e }

// Edit changes a section's text and returns when that is on disk. It is made once, however often it has to be sent.
// The answer tells what of others was merged in, and who else holds the section's lease. The document's own text
// follows when the server sends it, just before or after: [Document.CatchUp] waits for it.
func (d *Document) Edit(ctx context.Context, sid agent.SectionID, e Edit) (*agent.Ack, error) {
	f := e.frame
	f.Header, f.Document, f.Section = agent.Header{ID: newID()}, d.name, sid
	ack, err := d.c.ack(ctx, f.ID, &f)
	if err != nil {
		return nil, fmt.Errorf("edit section %s: %w", sid, err)
	}
	return ack, nil
}

// Change makes a section's new text out of the one that the document has, and writes it as an edit of that.
func (d *Document) Change(ctx context.Context, sid agent.SectionID, change func(text string) string) (*agent.Ack, error) {
	s, at, ok := d.Section(sid)
	if !ok {
		return nil, fmt.Errorf("change section %s: the document has none", sid)
	}
	return d.Edit(ctx, sid, Text(change(s.Text)).On(at))
}

// Add makes a section behind another; after "" puts it at the end, and sid "" names it.
func (d *Document) Add(ctx context.Context, sid, after agent.SectionID, text string) (*agent.Ack, error) {
	id := newID()
	return d.restructure(ctx, "add section", id, &agent.Create{Header: agent.Header{ID: id}, Document: d.name, Section: sid, After: after, Text: &text})
}

// Move puts a section behind another; after "" puts it first.
func (d *Document) Move(ctx context.Context, sid, after agent.SectionID) (*agent.Ack, error) {
	id := newID()
	return d.restructure(ctx, "move section", id, &agent.Move{Header: agent.Header{ID: id}, Document: d.name, Section: sid, After: &after})
}

// Remove takes a section out; its text stays and can be restored.
func (d *Document) Remove(ctx context.Context, sid agent.SectionID) (*agent.Ack, error) {
	id := newID()
	return d.restructure(ctx, "remove section", id, &agent.Remove{Header: agent.Header{ID: id}, Document: d.name, Section: sid})
}

// Restore brings a removed section back.
func (d *Document) Restore(ctx context.Context, sid agent.SectionID) (*agent.Ack, error) {
	id := newID()
	return d.restructure(ctx, "restore section", id, &agent.Restore{Header: agent.Header{ID: id}, Document: d.name, Section: sid})
}

func (d *Document) restructure(ctx context.Context, what string, id agent.RequestID, f agent.Frame) (*agent.Ack, error) {
	ack, err := d.c.ack(ctx, id, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return ack, nil
}
