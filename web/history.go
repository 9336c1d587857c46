package web

import (
	"context"
	"net/http"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

func (s *Server) historyRoutes() {
	const tag, one = "history", "/documents/{slug}/sections/{sid}"
	register(s, route{
		id: "section-history", method: http.MethodGet, path: one + "/history", tag: tag, status: http.StatusOK,
		summary: "Who changed a section, and when",
		about: "The events about one section behind `since`, oldest first. A replica's typing is folded into one event for 2 s of it. " +
			"The payload of section.edited has the version that the edit made. A page may be empty although more follow.",
		refuses: append([]code.Code{code.InvalidSectionID, code.InvalidCursor}, ofDocuments...),
	}, s.sectionHistory)
	register(s, route{
		id: "diff-document", method: http.MethodGet, path: "/documents/{slug}/diff", tag: tag, status: http.StatusOK,
		summary: "What differs between two versions of a document",
		about:   "Operations that lead from the text of one version to that of the other, section by section. The versions may be given in either order.",
		refuses: append([]code.Code{code.InvalidVersion, code.Busy, code.ShuttingDown}, ofDocuments...),
	}, s.diffDocument)
	register(s, route{
		id: "revert-section", method: http.MethodPost, path: one + "/revert", tag: tag, status: http.StatusOK,
		summary: "Give a section the text of an earlier version",
		about:   "As a new edit on the present version: nothing is erased, and reverting to the version before takes it back. Leases are advisory.",
		body:    smallBody,
		refuses: append([]code.Code{code.InvalidVersion}, ofSections...),
	}, s.revertSection)
}

type sectionHistoryInput struct {
	SectionPath
	Since string `query:"since" doc:"A seq: only what comes behind it." example:"0"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *Server) sectionHistory(ctx context.Context, in *sectionHistoryInput) (*listEventsOutput, error) {
	since, err := parseSince(in.Since)
	if err != nil {
		return nil, err
	}
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	events, next, err := s.library.History(ctx, keyOf(ctx), meta.ID, sid, since, in.Limit)
	if err != nil {
		return nil, err
	}
	switch {
	case next > 0:
		since = next
	case len(events) > 0:
		since = events[len(events)-1].Seq
	}
	out := new(listEventsOutput)
	out.Body.Events, out.Body.HasMore, out.Body.NextSince = append([]doc.Event{}, events...), next > 0, since.String()
	return out, nil
}

type diffDocumentInput struct {
	DocumentPath
	From string `query:"from" doc:"A version; it has to be given."`
	To   string `query:"to" doc:"A version; the present one if not given."`
}

type diffDocumentOutput struct {
	Body struct {
		From     crdt.Version  `json:"from"`
		To       crdt.Version  `json:"to"`
		Title    *string       `json:"title,omitempty" doc:"Where it differs: what it is at to."`
		Sections []sectionDiff `json:"sections" nullable:"false" doc:"Those that differ."`
	} `nameHint:"DocumentDiff"`
}

// sectionDiff is what became of a section from one version to another.
type sectionDiff struct {
	Section
	Made bool         `json:"made,omitempty" doc:"It is not there at from; text is its text at to. Of others text is empty."`
	Gone bool         `json:"gone,omitempty" doc:"It is not there at to."`
	Ops  []doc.TextOp `json:"ops" nullable:"false" doc:"In order, in code points of the text at from: delete so many at, insert there."`
}

func (s *Server) diffDocument(ctx context.Context, in *diffDocumentInput) (*diffDocumentOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	if in.From == "" {
		return nil, code.New(code.InvalidVersion, `"from" says from which version on`)
	}
	update, err := s.library.Diff(ctx, keyOf(ctx), meta.ID, crdt.Version(in.From), crdt.Version(in.To))
	if err != nil {
		return nil, err
	}
	out := new(diffDocumentOutput)
	out.Body.From, out.Body.To, out.Body.Title = update.From, update.To, update.Title
	out.Body.Sections = make([]sectionDiff, 0, len(update.Sections))
	for _, u := range update.Sections {
		out.Body.Sections = append(out.Body.Sections, sectionDiff{sectionOf(u.Section), u.Made, u.Gone, append([]doc.TextOp{}, u.Ops...)})
	}
	return out, nil
}

type revertSectionInput struct {
	SectionPath
	Once
	Body struct {
		To    string      `json:"to" doc:"The version whose text the section gets."`
		Fence lease.Fence `json:"fence,omitempty" doc:"As of a write."`
	} `nameHint:"SectionRevert"`
}

func (s *Server) revertSection(ctx context.Context, in *revertSectionInput) (*writtenOutput, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	if in.Body.To == "" {
		return nil, code.New(code.InvalidVersion, `"to" says which version's text the section is to get`)
	}
	options, err := writeOptions(ctx, in.Once, in.Body.Fence, "revert-section", meta.ID, sid, in.Body)
	if err != nil {
		return nil, err
	}
	w, err := s.library.RevertSection(ctx, keyOf(ctx), meta.ID, sid, crdt.Version(in.Body.To), options...)
	if err != nil {
		return nil, err
	}
	return &writtenOutput{s.written(w)}, nil
}
