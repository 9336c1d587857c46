package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Once is the header of a write that counts once, however often it is sent.
type Once struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"A name for this write, up to 255 visible ASCII characters, remembered for 24 hours. The same name and body again is not done again: the answer has the section as it stands now, and repeated; or the document, or the message, that was made. Refusals are not remembered."`
}

// editOp replaces a range of the base's text.
type editOp struct {
	At     int    `json:"at" minimum:"0" maximum:"2147483647" doc:"In Unicode code points of the base's text."`
	Delete int    `json:"delete,omitempty" minimum:"0" maximum:"2147483647" doc:"How many code points go."`
	Insert string `json:"insert,omitempty" doc:"What comes in their place."`
}

// editReplacement replaces a passage by what it says.
type editReplacement struct {
	Find       string `json:"find" minLength:"1" doc:"The passage, exactly as it stands in the base's text."`
	With       string `json:"with"`
	Occurrence int    `json:"occurrence,omitempty" minimum:"1" maximum:"2147483647" doc:"Which of several, from 1. Without it the passage has to be there once."`
}

// SectionEdit is one of three ways to say how a section's text is to change.
type SectionEdit struct {
	Text    *string           `json:"text,omitempty" doc:"The whole new text. It is compared with the base word by word."`
	Ops     []editOp          `json:"ops,omitempty" nullable:"false" doc:"Operations whose ranges in the base do not overlap, in any order; at most 10,000."`
	Replace []editReplacement `json:"replace,omitempty" nullable:"false" doc:"Passages of the base to replace, which do not overlap; at most 10,000."`
	Base    *string           `json:"base,omitempty" doc:"The version that the edit was made on, or \"current\". A text needs it; the others then mean the present version."`
	Fence   lease.Fence       `json:"fence,omitempty" doc:"Of the grant that the writer believes to hold. A stale one is reported, and the write counts all the same."`
}

// edit gives the one way that is there.
func (e SectionEdit) edit() (doc.Edit, error) {
	var edits []doc.Edit
	if e.Text != nil {
		edits = append(edits, doc.TextEdit{Text: *e.Text})
	}
	if e.Ops != nil {
		ops := make([]doc.TextOp, 0, len(e.Ops))
		for _, op := range e.Ops {
			ops = append(ops, doc.TextOp(op))
		}
		edits = append(edits, doc.OpsEdit{Ops: ops})
	}
	if e.Replace != nil {
		replacements := make([]doc.Replacement, 0, len(e.Replace))
		for _, r := range e.Replace {
			replacements = append(replacements, doc.Replacement(r))
		}
		edits = append(edits, doc.ReplaceEdit{Replacements: replacements})
	}
	if len(edits) != 1 {
		return nil, code.New(code.BadRequest, `an edit has exactly one of "text", "ops" and "replace"`)
	}
	return edits[0], nil
}

// current as a base means the present version, whatever it is.
const current = "current"

func baseOf(s *string) *doc.Base {
	switch {
	case s == nil:
		return nil
	case *s == current:
		return &doc.Base{Current: true}
	}
	return &doc.Base{Version: crdt.Version(*s)}
}

// writeOptions is what a write says beside its content. asked is all that was asked for, to tell a retry from another request.
func writeOptions(ctx context.Context, once Once, fence lease.Fence, asked ...any) ([]doc.WriteOption, error) {
	options := []doc.WriteOption{doc.Via(callOf(ctx).door()), doc.Fenced(fence)}
	key, err := doc.ParseIdempotencyKey(once.IdempotencyKey)
	if err != nil || key == "" {
		return options, err
	}
	digest, err := digestOf(asked)
	if err != nil {
		return nil, err
	}
	return append(options, doc.Once(key, digest)), nil
}

// digestOf names what was asked for, however it was spelt.
func digestOf(asked any) (doc.RequestDigest, error) {
	canonical, err := json.Marshal(asked)
	if err != nil {
		return doc.RequestDigest{}, fmt.Errorf("marshal what was asked: %w", err)
	}
	return sha256.Sum256(canonical), nil
}

// mergedFrom is what of others' writing is in the answer's text and was not in the base.
type mergedFrom struct {
	Agents []doc.Agent       `json:"agents" nullable:"false" doc:"Whose writing was merged in, without the writer's own."`
	Ranges []doc.MergedRange `json:"ranges" nullable:"false" doc:"Where the text now differs from what this edit alone had made: length code points from at on came since the base, deleted ones of this edit's are gone, and agent is whose that is. It may be the writer's own of before; where the server cannot tell it is left out."`
}

func mergedFromOf(m *doc.MergedFrom) *mergedFrom {
	if m == nil {
		return nil
	}
	return &mergedFrom{append([]doc.Agent{}, m.Agents...), append([]doc.MergedRange{}, m.Ranges...)}
}

func (s *Server) editRoutes() {
	register(s, route{
		id: "edit-section", method: http.MethodPatch, path: "/documents/{slug}/sections/{sid}", tag: "sections", status: http.StatusOK,
		summary: "Edit a section",
		about: "In one of three ways, as if typed on the version `base`: what others wrote since then stays, and `mergedFrom` tells whose it is. " +
			"`text` is the whole new text; `ops` are ranges of the base to replace; `replace` names passages by what they say, and when one is not there, or more often than once, " +
			"nothing is written and the answer has the text near the best match and the version. " +
			"Where two authors changed the same words at the same time both texts are kept, and section.overlap in the log names the authors. " +
			"Leases are advisory: a write into a section leased by another is accepted and answered with `advisory`.",
		body:    sectionBody,
		refuses: append([]code.Code{code.BaseRequired, code.InvalidVersion, code.InvalidRange, code.TextNotFound, code.TextAmbiguous}, ofSections...),
	}, s.editSection)
}

type editSectionInput struct {
	SectionPath
	Once
	Body SectionEdit
}

func (s *Server) editSection(ctx context.Context, in *editSectionInput) (*writtenOutput, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	edit, err := in.Body.edit()
	if err != nil {
		return nil, err
	}
	options, err := writeOptions(ctx, in.Once, in.Body.Fence, "edit-section", meta.ID, sid, in.Body)
	if err != nil {
		return nil, err
	}
	w, err := s.library.EditSection(ctx, keyOf(ctx), meta.ID, sid, edit, baseOf(in.Body.Base), options...)
	if err != nil {
		return nil, err
	}
	return &writtenOutput{s.written(w)}, nil
}
