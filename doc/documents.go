package doc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// NewDocument is what a document begins with. All fields may be empty.
type NewDocument struct {
	Slug     Slug   // "": made from the title or the first heading, with a random suffix
	Title    string // "": the first heading, else the slug
	Markdown string
	Level    int // split at headings down to this level, 1 to 6; 0 is DefaultLevel
}

// createdPayload is the payload of document.created.
type createdPayload struct {
	Slug       Slug        `json:"slug,omitempty"`
	DocumentID string      `json:"documentId"`
	Title      string      `json:"title,omitempty"`
	Sections   []SectionID `json:"sections,omitempty"`
	Changes    int         `json:"changes"`
	Via        string      `json:"via"`

	Version crdt.Version `json:"version"` // right after it
}

// Find resolves what an address calls a document: slug, former slug or document id. DOCUMENT_NOT_FOUND,
// DOCUMENT_DELETED, DOCUMENT_BLOCKED, FORBIDDEN when the key does not cover it. A former slug gives the document's present Meta.
func (l *Library) Find(ctx context.Context, k Key, ref string) (Meta, error) {
	m, err := l.lookUp(ctx, ref)
	switch {
	case errors.Is(err, ErrNotFound):
		return Meta{}, documentNotFound(ref)
	case err != nil:
		return Meta{}, fmt.Errorf("find document: %w", err)
	}
	return m, l.readable(k, m)
}

func (l *Library) lookUp(ctx context.Context, ref string) (Meta, error) {
	if isName(ref) {
		if m, err := l.store.FindSlug(ctx, Slug(ref)); !errors.Is(err, ErrNotFound) {
			return m, err
		}
	}
	id, err := crdt.ParseDocumentID(ref)
	if err != nil {
		return Meta{}, ErrNotFound
	}
	return l.store.Document(ctx, id)
}

func (l *Library) readable(k Key, m Meta) error {
	if !k.CanRead(m) {
		return notCovered()
	}
	if !m.Deletion.At.IsZero() {
		return deleted(m)
	}
	if !m.Block.At.IsZero() {
		return blocked(m)
	}
	return nil
}

// meta finds a living document that the key may read, or also write. With DOCUMENT_DELETED and DOCUMENT_BLOCKED it gives the
// document's too.
func (l *Library) meta(ctx context.Context, k Key, id crdt.DocumentID, write bool) (Meta, error) {
	m, err := l.store.Document(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Meta{}, documentNotFound(id.String())
	case err != nil:
		return Meta{}, fmt.Errorf("find document: %w", err)
	}
	if err := l.readable(k, m); err != nil {
		return m, err
	}
	if write && !k.CanWrite(m) {
		return Meta{}, forbidden("a viewer's key cannot write")
	}
	return m, nil
}

// List gives the documents that the key covers, newest first: those with a Number below before (0: all). next is
// the cursor of the following page, 0 at the end.
func (l *Library) List(ctx context.Context, k Key, before int64, limit int) (docs []Meta, next int64, err error) {
	for limit > 0 {
		page, err := l.store.List(ctx, before, limit)
		if err != nil {
			return nil, 0, fmt.Errorf("list documents: %w", err)
		}
		for _, m := range page {
			if !k.CanRead(m) {
				continue
			}
			if len(docs) == limit {
				return docs, docs[limit-1].Number, nil
			}
			docs = append(docs, m)
		}
		if len(page) < limit {
			return docs, 0, nil
		}
		before = page[len(page)-1].Number
	}
	return nil, 0, nil
}

// Create makes a document. SLUG_TAKEN, TOO_LARGE, INVALID_MARKDOWN, FORBIDDEN. A retry under the key of [Once] is given the
// document that it made, as it is now.
func (l *Library) Create(ctx context.Context, k Key, n NewDocument, opts ...WriteOption) (Snapshot, error) {
	o := options(opts)
	return l.makeOnce(ctx, k, o, func() (Snapshot, error) { return l.create(ctx, k, n, o) })
}

func (l *Library) create(ctx context.Context, k Key, n NewDocument, o writeOptions) (Snapshot, error) {
	if n.Level == 0 {
		n.Level = DefaultLevel
	}
	if n.Level < 1 || n.Level > 6 {
		return Snapshot{}, code.New(code.BadRequest, "a heading's level is 1 to 6")
	}
	if err := l.checkText("markdown", n.Markdown, l.limits.MarkdownBytes); err != nil {
		return Snapshot{}, err
	}
	parts := SplitMarkdown(n.Markdown, n.Level)
	if len(parts) > l.limits.Sections {
		return Snapshot{}, code.New(code.TooLarge, "the document has %d sections, at most %d are taken", len(parts), l.limits.Sections).With("limit", l.limits.Sections)
	}
	for _, part := range parts {
		if err := l.checkText("section", part, l.limits.SectionBytes); err != nil {
			return Snapshot{}, err
		}
	}
	if err := l.nameDocument(&n, parts); err != nil {
		return Snapshot{}, err
	}
	if k.Role == Viewer || !k.CanRead(Meta{Slug: n.Slug}) {
		return Snapshot{}, forbidden("this key cannot create a document of that name")
	}
	if err := l.checkText("title", n.Title, l.limits.TitleBytes); err != nil {
		return Snapshot{}, err
	}
	ops, sections, err := l.firstOps(n, parts)
	if err != nil {
		return Snapshot{}, err
	}
	id, err := l.ids.document()
	if err != nil {
		return Snapshot{}, err
	}
	err = l.at(ctx, id, func(d *desk) *request {
		return &request{alone: true, stage: func(s *step) error {
			s.create = &Meta{ID: id, Slug: n.Slug, Title: n.Title, CreatedAt: s.at, CreatedBy: k.Agent}
			s.remember(k.Agent, "", o, crdt.Hash{})
			if _, err := d.edit(l.ctx, s, k.Agent, nil, ops); err != nil {
				return err
			}
			return d.event(s, DocumentCreated, k.Agent, createdPayload{n.Slug, id.String(), n.Title, sections, len(s.Changes), viaREST, d.version()})
		}}
	})
	if err != nil {
		return Snapshot{}, err
	}
	return l.Read(ctx, k, id)
}

// nameDocument gives the document a title and slug where it has none.
func (l *Library) nameDocument(n *NewDocument, parts []string) error {
	if n.Title == "" {
		for _, part := range parts {
			if n.Title, _ = HeadingOf(part); n.Title != "" {
				break
			}
		}
		n.Title = truncate(n.Title, l.limits.TitleBytes)
	}
	if n.Slug == "" {
		suffix, err := l.ids.suffix()
		if err != nil {
			return err
		}
		n.Slug = Slug(nameFrom(n.Title, "document") + "-" + suffix)
	}
	if n.Title == "" {
		n.Title = string(n.Slug)
	}
	return nil
}

func (l *Library) firstOps(n NewDocument, parts []string) ([]engine.Op, []SectionID, error) {
	ops := []engine.Op{
		engine.Put{Path: pathOf(keySchema), Value: int64(schemaVersion)},
		engine.PutText{Path: pathOf(keyTitle), Text: n.Title},
		engine.PutMap{Path: pathOf(keySections)},
	}
	positions := positionsFor(len(parts))
	ids, taken := make([]SectionID, len(parts)), map[SectionID]bool{}
	for i, part := range parts {
		sid, err := l.nameSection(part, func(id SectionID) bool { return taken[id] })
		if err != nil {
			return nil, nil, err
		}
		ids[i], taken[sid] = sid, true
		ops = append(ops, sectionOps(sid, part, positions[i])...)
	}
	return ops, ids, nil
}

// nameSection makes an id from a section's heading and a random suffix.
func (l *Library) nameSection(text string, taken func(SectionID) bool) (SectionID, error) {
	heading, _ := HeadingOf(text)
	for {
		suffix, err := l.ids.suffix()
		if err != nil {
			return "", err
		}
		if sid := SectionID(nameFrom(heading, "section") + "-" + suffix); !taken(sid) {
			return sid, nil
		}
	}
}

func sectionOps(sid SectionID, text, position string) []engine.Op {
	return []engine.Op{
		engine.PutMap{Path: sectionPath(sid)},
		engine.PutText{Path: sectionPath(sid, keyBody), Text: text},
		engine.Put{Path: sectionPath(sid, keyPosition), Value: position},
	}
}

// Read gives the document's present content. LastSeq and ChangedAt are from before the content: who goes on from there is told
// of some events that the content has, and misses none.
func (l *Library) Read(ctx context.Context, k Key, id crdt.DocumentID) (Snapshot, error) {
	return l.ReadAt(ctx, k, id, "")
}

// renamedPayload is the payload of document.renamed.
type renamedPayload struct {
	From Slug `json:"from,omitempty"`
	To   Slug `json:"to"`
}

// Rename gives a document another title or slug; nil leaves it. The former slug goes on to lead to it, and is
// never given to another. SLUG_TAKEN, TOO_LARGE.
func (l *Library) Rename(ctx context.Context, k Key, id crdt.DocumentID, title *string, slug *Slug) (Meta, error) {
	m, err := l.meta(ctx, k, id, true)
	if err != nil {
		return Meta{}, err
	}
	if title != nil {
		if err := l.checkText("title", *title, l.limits.TitleBytes); err != nil {
			return Meta{}, err
		}
	}
	if slug != nil && *slug != m.Slug {
		if !k.CoversSlug(*slug) {
			return Meta{}, forbidden("this key does not cover a document of that name")
		}
		if err := l.reslug(ctx, k, m, *slug); err != nil {
			return Meta{}, err
		}
	}
	if title != nil {
		if err := l.retitle(ctx, k, id, *title); err != nil {
			return Meta{}, err
		}
	}
	return l.meta(ctx, k, id, false)
}

func (l *Library) reslug(ctx context.Context, k Key, m Meta, slug Slug) error {
	event, err := l.newEvent(DocumentRenamed, k.Agent, renamedPayload{m.Slug, slug})
	if err != nil {
		return err
	}
	_, err = l.store.Append(ctx, m.ID, Append{Expect: AnySeq, Slug: slug, Events: []NewEvent{event}})
	l.restand(m.ID)
	if errors.Is(err, ErrSlugTaken) {
		return slugTaken(slug)
	}
	if err != nil {
		return fmt.Errorf("rename document: %w", err)
	}
	m.Slug = slug
	l.uncover(m)
	l.announce(m)
	return nil
}

func (l *Library) retitle(ctx context.Context, k Key, id crdt.DocumentID, title string) error {
	return l.at(ctx, id, func(d *desk) *request {
		return &request{stage: func(s *step) error {
			if err := d.hasRoom(0); err != nil {
				return err
			}
			ops := []engine.Op{engine.PutText{Path: pathOf(keyTitle), Text: title}}
			doc, err := d.engine(l.ctx)
			if err != nil {
				return err
			}
			v, err := doc.Read(l.ctx, nil, pathOf(keyTitle))
			if err != nil {
				return unavailable("read title", err)
			}
			if old, ok := v.(engine.Text); ok {
				ops = splices(pathOf(keyTitle), diffText(string(old), title))
			}
			c, err := d.edit(l.ctx, s, k.Agent, nil, ops)
			if err != nil || c == nil {
				return err
			}
			s.Title = &title
			p := edited(viaREST, c.Hash)
			p.Title, p.Version = &title, d.version()
			return d.event(s, DocumentRetitled, k.Agent, p)
		}}
	})
}

// Reaches refuses a position that the log has not come to with INVALID_CURSOR and its lastSeq. It may have come there before: of a
// server that was restored from a backup the log is shorter, and who waited behind its end would miss all that is appended up to there.
func (m Meta) Reaches(since Seq) error {
	if since > m.LastSeq {
		return code.New(code.InvalidCursor, "the log has not come to event %s, it ends with %s: begin anew", since, m.LastSeq).With("lastSeq", m.LastSeq.String())
	}
	return nil
}

// Events gives a page of the log: what stands behind since, at most limit. INVALID_CURSOR. Who has read a part of the log may read it
// to its end after the document was deleted or blocked; then it is DOCUMENT_DELETED or DOCUMENT_BLOCKED.
func (l *Library) Events(ctx context.Context, k Key, id crdt.DocumentID, since Seq, limit int) (events []Event, more bool, err error) {
	m, err := l.meta(ctx, k, id, false)
	if (code.Is(err, code.DocumentDeleted) || code.Is(err, code.DocumentBlocked)) && since > 0 && since < m.LastSeq {
		err = nil
	}
	if err == nil {
		err = m.Reaches(since)
	}
	if err != nil {
		return nil, false, err
	}
	events, err = l.store.Events(ctx, id, since, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	if len(events) > limit {
		return events[:limit], true, nil
	}
	return events, false, nil
}

// Watch gives a channel that receives whenever the log may have grown, and a function that ends the watch.
func (l *Library) Watch(id crdt.DocumentID) (wake <-chan struct{}, stop func()) {
	return l.store.Watch(id)
}

// Post appends a message.posted event with the caller's payload, a JSON object. BAD_REQUEST, TOO_LARGE, MESSAGES_FULL. A retry under the
// key of [Once] is given the event that it made.
func (l *Library) Post(ctx context.Context, k Key, id crdt.DocumentID, payload json.RawMessage, opts ...WriteOption) (e Event, err error) {
	o := options(opts)
	err = l.once(ctx, k.Agent, o, func() error {
		e, err = l.post(ctx, k, id, payload, o)
		return err
	}, func(former EditCall) error {
		if former.Document != id {
			return idempotencyMismatch()
		}
		events, _, err := l.Events(ctx, k, id, former.Seq-1, 1)
		if err == nil && len(events) == 0 {
			err = idempotencyMismatch()
		}
		if err == nil {
			e = events[0]
		}
		return err
	})
	return e, err
}

func (l *Library) post(ctx context.Context, k Key, id crdt.DocumentID, payload json.RawMessage, o writeOptions) (Event, error) {
	m, err := l.meta(ctx, k, id, true)
	if err != nil {
		return Event{}, err
	}
	if len(payload) > l.limits.MessageBytes {
		return Event{}, tooLarge("message", l.limits.MessageBytes)
	}
	if limit := l.limits.PostedBytes; m.Posted+int64(len(payload)) > int64(limit) {
		return Event{}, code.New(code.MessagesFull, "the document's messages have %d bytes, at most %d are taken", m.Posted, limit).With("limit", limit)
	}
	if !json.Valid(payload) || !utf8.Valid(payload) || bytes.TrimLeft(payload, " \t\r\n")[0] != '{' {
		return Event{}, code.New(code.BadRequest, "a message is a JSON object")
	}
	event, err := l.newEvent(MessagePosted, k.Agent, payload)
	if err != nil {
		return Event{}, err
	}
	s := step{Append: Append{Expect: AnySeq, Events: []NewEvent{event}}, at: l.now()}
	s.remember(k.Agent, "", o, crdt.Hash{})
	events, err := l.store.Append(ctx, id, s.Append)
	if err != nil {
		return Event{}, fmt.Errorf("post message: %w", err)
	}
	return events[0], nil
}

func (l *Library) newEvent(t EventType, actor Agent, payload any) (NewEvent, error) {
	id, err := l.ids.event()
	if err != nil {
		return NewEvent{}, err
	}
	return MakeEvent(id, t, actor, l.now().UTC().Truncate(time.Millisecond), payload)
}

// checkText refuses what is too large or cannot be a text.
func (l *Library) checkText(what, text string, limit int) error {
	if len(text) > limit {
		return tooLarge(what, limit)
	}
	if !utf8.ValidString(text) {
		return code.New(code.InvalidMarkdown, "the %s is not valid UTF-8", what)
	}
	return nil
}

func tooLarge(what string, limit int) *code.Error {
	return code.New(code.TooLarge, "the %s is larger than %d bytes", what, limit).With("limit", limit)
}

// truncate cuts a text to at most n bytes, between characters.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
