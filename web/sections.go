package web

import (
	"context"
	"net/http"
	"slices"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Section is a section as it stands.
type Section struct {
	ID       doc.SectionID `json:"id"`
	Heading  string        `json:"heading" doc:"The text of the heading line, empty without one."`
	Level    int           `json:"level" doc:"Of the heading, 1 to 6; 0 without one."`
	Text     string        `json:"text" doc:"Raw Markdown with its heading line."`
	Position string        `json:"position" doc:"Sections are ordered by position and id."`
	Removed  bool          `json:"removed,omitempty"`
}

func sectionOf(s doc.Section) Section {
	return Section{ID: s.ID, Heading: s.Heading, Level: s.Level, Text: s.Text, Position: s.Position, Removed: s.Removed}
}

func sectionsOf(in []doc.Section) []Section {
	out := make([]Section, 0, len(in))
	for _, s := range in {
		out = append(out, sectionOf(s))
	}
	return out
}

// sectionState is a section with the document's version and who holds its lease.
type sectionState struct {
	Section
	Version crdt.Version `json:"version" doc:"Of the document: what a write says it was based on."`
	Lease   *HeldBy      `json:"lease,omitempty"`
}

// HeldBy names the holder of a lease. It is advisory: nothing is refused because of it.
type HeldBy struct {
	Holder      doc.Agent `json:"holder"`
	LeaseID     lease.ID  `json:"leaseId"`
	ExpiresAt   string    `json:"expiresAt" format:"date-time"`
	ExpiresInMs int64     `json:"expiresInMs"`
	Reason      string    `json:"reason,omitempty"`
}

func (s *Server) heldBy(l lease.Lease) HeldBy {
	return HeldBy{l.Holder, l.ID, doc.FormatTime(l.ExpiresAt), s.library.Remaining(l.ExpiresAt).Milliseconds(), l.Reason}
}

// written is what a write to a section came to.
type written struct {
	ID       doc.SectionID `json:"id"`
	Heading  string        `json:"heading"`
	Level    int           `json:"level"`
	Text     string        `json:"text" doc:"As it stands now, others' edits included."`
	Position string        `json:"position"`
	Version  crdt.Version  `json:"version"`
	Merged   bool          `json:"merged" doc:"Others had written since the base; their text is in."`
	Removed  bool          `json:"removed,omitempty"`
	Repeated bool          `json:"repeated,omitempty" doc:"The edit had been made before, under the same Idempotency-Key, and was not made again."`
	From     *mergedFrom   `json:"mergedFrom,omitempty" doc:"Where merged: what was merged in, and whose."`
	Advisory *doc.Advisory `json:"advisory,omitempty" doc:"Somebody else holds the section's lease, or the write's fence is stale. The write counts all the same."`
}

func (s *Server) written(w doc.Written) written {
	return written{
		ID: w.Section.ID, Heading: w.Section.Heading, Level: w.Section.Level, Text: w.Section.Text, Position: w.Section.Position,
		Version: w.Version, Merged: w.Merged, Removed: w.Section.Removed,
		Repeated: w.Repeated, From: mergedFromOf(w.MergedFrom), Advisory: s.library.Advise(w),
	}
}

// SectionPath addresses a section.
type SectionPath struct {
	DocumentPath
	SID string `path:"sid" doc:"Section id: 1 to 64 of a-z, 0-9 and -, not beginning with -."`
}

// findSection resolves the document and checks the form of the section's id, which need not exist.
func (s *Server) findSection(ctx context.Context, p SectionPath) (doc.Meta, doc.SectionID, error) {
	meta, err := s.find(ctx, p.Slug)
	if err != nil {
		return doc.Meta{}, "", err
	}
	sid, err := doc.ParseSectionID(p.SID)
	return meta, sid, err
}

// ofSections are the refusals of every write to a section.
var ofSections = append([]code.Code{code.InvalidSectionID, code.SectionNotFound, code.IdempotencyMismatch}, ofWrites...)

func (s *Server) sectionRoutes() {
	const tag, one = "sections", "/documents/{slug}/sections/{sid}"
	register(s, route{
		id: "get-section", method: http.MethodGet, path: one, tag: tag, status: http.StatusOK,
		summary: "Read a section",
		about:   "Its text, the document's version, and who holds its lease, if anybody (advisory).",
		tagged:  true,
		refuses: append([]code.Code{code.InvalidSectionID, code.SectionNotFound}, ofDocuments...),
	}, s.getSection)
	register(s, route{
		id: "put-section", method: http.MethodPut, path: one, tag: tag, status: http.StatusOK,
		summary: "Write a section",
		about: "Replaces the text as if it had been typed on the version `base`: what others wrote since then stays. A section that does not exist " +
			"is made. Without a base a section that has text is refused with BASE_REQUIRED and its present version and text; " +
			"`\"base\": \"current\"` replaces it knowingly. Leases are advisory: a write into a section leased by another is accepted, answered with `advisory`, " +
			"and logged as section.lease_overridden; a write by the holder extends the lease.",
		body:    sectionBody,
		refuses: append([]code.Code{code.BaseRequired, code.InvalidVersion}, ofSections...),
	}, s.putSection)
	register(s, route{
		id: "add-section", method: http.MethodPost, path: "/documents/{slug}/sections", tag: tag, status: http.StatusCreated,
		summary: "Add a section",
		about:   "Behind another one, or at the end. Without an id one is made from the heading.",
		body:    sectionBody,
		refuses: append([]code.Code{code.SectionExists}, ofSections...),
	}, s.addSection)
	register(s, route{
		id: "remove-section", method: http.MethodDelete, path: one, tag: tag, status: http.StatusOK,
		summary: "Remove a section",
		about:   "Its text stays and can be restored. Accepted whoever holds the lease: leases are advisory.",
		refuses: ofSections,
	}, s.removeSection)
	register(s, route{
		id: "restore-section", method: http.MethodPost, path: one + "/restore", tag: tag, status: http.StatusOK,
		summary: "Restore a removed section",
		refuses: ofSections,
	}, s.restoreSection)
	register(s, route{
		id: "move-section", method: http.MethodPost, path: one + "/move", tag: tag, status: http.StatusOK,
		summary: "Move a section",
		about:   "Behind another one; with an empty `after` it becomes the first.",
		body:    smallBody,
		refuses: ofSections,
	}, s.moveSection)
}

type getSectionInput struct {
	SectionPath
	IfNoneMatch string `header:"If-None-Match" doc:"An ETag: 304 if nothing happened to the document since."`
}

type getSectionOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   sectionState
}

func (s *Server) getSection(ctx context.Context, in *getSectionInput) (*getSectionOutput, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	snap, err := s.library.Read(ctx, keyOf(ctx), meta.ID)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(snap.Sections, snap.Removed)
	i := slices.IndexFunc(all, func(sec doc.Section) bool { return sec.ID == sid })
	if i < 0 {
		return nil, code.New(code.SectionNotFound, "there is no section %s", sid)
	}
	out := &getSectionOutput{Status: http.StatusOK, ETag: jsonTag(keyOf(ctx), snap)}
	if matches(in.IfNoneMatch, out.ETag) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	out.Body = sectionState{Section: sectionOf(all[i]), Version: snap.Version}
	if holders := s.leases.Status(doc.SectionResource(meta.ID, sid)).Holders; len(holders) > 0 {
		held := s.heldBy(holders[0])
		out.Body.Lease = &held
	}
	return out, nil
}

type writtenOutput struct {
	Body written
}

type putSectionInput struct {
	SectionPath
	Once
	Body struct {
		Text  string      `json:"text" doc:"At most 1 MiB."`
		Base  *string     `json:"base,omitempty" doc:"The version that the text was written on, or \"current\"."`
		Fence lease.Fence `json:"fence,omitempty" doc:"Of the grant that the writer believes to hold. A stale one is reported, and the write counts all the same."`
	} `nameHint:"SectionWrite"`
}

func (s *Server) putSection(ctx context.Context, in *putSectionInput) (*writtenOutput, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	options, err := writeOptions(ctx, in.Once, in.Body.Fence, "put-section", meta.ID, sid, in.Body)
	if err != nil {
		return nil, err
	}
	w, err := s.library.WriteSection(ctx, keyOf(ctx), meta.ID, sid, in.Body.Text, baseOf(in.Body.Base), options...)
	if err != nil {
		return nil, err
	}
	return &writtenOutput{s.written(w)}, nil
}

type addSectionInput struct {
	DocumentPath
	Once
	Body struct {
		ID    string      `json:"id,omitempty" doc:"Without one it is made from the heading."`
		After string      `json:"after,omitempty" doc:"Id of the section before; at the end if not given."`
		Text  string      `json:"text" doc:"At most 1 MiB."`
		Fence lease.Fence `json:"fence,omitempty" doc:"As of a write."`
	} `nameHint:"NewSection"`
}

func (s *Server) addSection(ctx context.Context, in *addSectionInput) (*writtenOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	id, err := optionalSectionID(in.Body.ID)
	if err != nil {
		return nil, err
	}
	after, err := optionalSectionID(in.Body.After)
	if err != nil {
		return nil, err
	}
	options, err := writeOptions(ctx, in.Once, in.Body.Fence, "add-section", meta.ID, in.Body)
	if err != nil {
		return nil, err
	}
	w, err := s.library.AddSection(ctx, keyOf(ctx), meta.ID, id, after, in.Body.Text, options...)
	if err != nil {
		return nil, err
	}
	return &writtenOutput{s.written(w)}, nil
}

func optionalSectionID(s string) (doc.SectionID, error) {
	if s == "" {
		return "", nil
	}
	return doc.ParseSectionID(s)
}

type removeSectionOutput struct {
	Body struct {
		Removed  bool          `json:"removed" doc:"As it stands now: a removal that was repeated may have been undone since."`
		ID       doc.SectionID `json:"id"`
		Version  crdt.Version  `json:"version"`
		Repeated bool          `json:"repeated,omitempty" doc:"It had been done before, under the same Idempotency-Key, and was not done again."`
		Advisory *doc.Advisory `json:"advisory,omitempty" doc:"Somebody else holds the section's lease, or the write's fence is stale."`
	} `nameHint:"RemovedSection"`
}

// onceSectionInput is a write to a section that has no body.
type onceSectionInput struct {
	SectionPath
	Once
	Fence lease.Fence `query:"fence" doc:"As of a write."`
}

func (s *Server) removeSection(ctx context.Context, in *onceSectionInput) (*removeSectionOutput, error) {
	w, err := s.keepOrDrop(ctx, in, "remove-section", s.library.RemoveSection)
	if err != nil {
		return nil, err
	}
	out := new(removeSectionOutput)
	out.Body.Removed, out.Body.ID, out.Body.Version, out.Body.Repeated, out.Body.Advisory = w.Section.Removed, w.Section.ID, w.Version, w.Repeated, s.library.Advise(w)
	return out, nil
}

// keepOrDrop removes or restores a section.
func (s *Server) keepOrDrop(ctx context.Context, in *onceSectionInput, what string,
	write func(context.Context, doc.Key, crdt.DocumentID, doc.SectionID, ...doc.WriteOption) (doc.Written, error)) (doc.Written, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return doc.Written{}, err
	}
	options, err := writeOptions(ctx, in.Once, in.Fence, what, meta.ID, sid, in.Fence)
	if err != nil {
		return doc.Written{}, err
	}
	return write(ctx, keyOf(ctx), meta.ID, sid, options...)
}

func (s *Server) restoreSection(ctx context.Context, in *onceSectionInput) (*writtenOutput, error) {
	w, err := s.keepOrDrop(ctx, in, "restore-section", s.library.RestoreSection)
	if err != nil {
		return nil, err
	}
	return &writtenOutput{s.written(w)}, nil
}

type moveSectionInput struct {
	SectionPath
	Once
	Body struct {
		After string      `json:"after" doc:"Id of the section before; empty puts it first."`
		Fence lease.Fence `json:"fence,omitempty" doc:"As of a write."`
	} `nameHint:"SectionMove"`
}

func (s *Server) moveSection(ctx context.Context, in *moveSectionInput) (*writtenOutput, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	after, err := optionalSectionID(in.Body.After)
	if err != nil {
		return nil, err
	}
	options, err := writeOptions(ctx, in.Once, in.Body.Fence, "move-section", meta.ID, sid, in.Body)
	if err != nil {
		return nil, err
	}
	w, err := s.library.MoveSection(ctx, keyOf(ctx), meta.ID, sid, after, options...)
	if err != nil {
		return nil, err
	}
	return &writtenOutput{s.written(w)}, nil
}
