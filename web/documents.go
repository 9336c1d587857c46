package web

import (
	"context"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
)

// document is a document in full.
type document struct {
	DocumentHead
	Sections []Section `json:"sections" nullable:"false" doc:"In order."`
	Removed  []Section `json:"removed" nullable:"false" doc:"Sections taken out; they can be restored."`
	Ignored  []string  `json:"ignored" nullable:"false" doc:"Paths of the content that fit no schema, the first 64. They are kept and synced."`
}

// DocumentHead is a document without its content.
type DocumentHead struct {
	Slug       *doc.Slug    `json:"slug" doc:"Null for a document made by a replica and not named yet."`
	DocumentID string       `json:"documentId" doc:"automerge-repo's document id (base58check of the UUID)."`
	URL        string       `json:"url" doc:"automerge-repo's document URL."`
	Title      string       `json:"title"`
	Version    crdt.Version `json:"version" doc:"The state of the content, as an opaque token: what a write says it was based on."`
	CreatedAt  string       `json:"createdAt" format:"date-time"`
	CreatedBy  doc.Agent    `json:"createdBy"`
	ChangedAt  string       `json:"changedAt" format:"date-time"`
	LastSeq    string       `json:"lastSeq" doc:"A position in the log up to which the content has everything: who follows the log from here misses nothing."`
	Me         me           `json:"me"`
}

// me is the caller.
type me struct {
	Agent    doc.Agent `json:"agent"`
	Role     doc.Role  `json:"role" enum:"viewer,editor,admin"`
	CanWrite bool      `json:"canWrite"`
}

// documentEntry is a document in the list.
type documentEntry struct {
	Slug       *doc.Slug `json:"slug"`
	DocumentID string    `json:"documentId"`
	URL        string    `json:"url"`
	Title      string    `json:"title"`
	CreatedAt  string    `json:"createdAt" format:"date-time"`
	CreatedBy  doc.Agent `json:"createdBy"`
	ChangedAt  string    `json:"changedAt" format:"date-time"`
	LastSeq    string    `json:"lastSeq"`
	Leases     int       `json:"leases" doc:"Sections leased right now (advisory)."`
	Blocked    bool      `json:"blocked" doc:"An operator took it out of service."`
	Present    []present `json:"present" nullable:"false" doc:"Who has it open on a WebSocket now, by name."`
}

// present is somebody who has a document open.
type present struct {
	Agent doc.Agent `json:"agent"`
	Page  bool      `json:"page" doc:"On a page, as a person has it; else a program has."`
}

// DocumentPath addresses a document.
type DocumentPath struct {
	Slug string `path:"slug" doc:"Slug, former slug (answers 308) or documentId."`
}

func (s *Server) documentRoutes() {
	const tag = "documents"
	register(s, route{
		id: "list-documents", method: http.MethodGet, path: "/documents", tag: tag, status: http.StatusOK,
		summary: "List documents",
		about:   "The living documents that the key covers, the newest first.",
		refuses: []code.Code{code.InvalidCursor},
	}, s.listDocuments)
	register(s, route{
		id: "create-document", method: http.MethodPost, path: "/documents", tag: tag, status: http.StatusCreated,
		summary: "Create a document",
		about: "Markdown is split into sections at its headings; joined again they give the same bytes. Without a slug one is made " +
			"from the title or the first heading. A slug is never reused.\n\nA body of type `application/vnd.automerge` is a saved Automerge " +
			"document, of at most 32 MiB, all of whose changes are kept; `?slug=` names it.",
		body:    documentBody,
		refuses: []code.Code{code.InvalidSlug, code.SlugTaken, code.InvalidMarkdown, code.BadChange, code.IdempotencyMismatch, code.Forbidden, code.Busy, code.ShuttingDown},
	}, s.createDocument)
	register(s, route{
		id: "get-document", method: http.MethodGet, path: "/documents/{slug}", tag: tag, status: http.StatusOK,
		summary: "Read a document",
		about: "With `Accept: text/markdown` the answer is the Markdown, byte for byte what was imported and edited since. With " +
			"`Accept: application/vnd.automerge` it is the document as Automerge saves it.",
		tagged:  true,
		refuses: append([]code.Code{code.NotAcceptable, code.InvalidVersion}, ofDocuments...),
		answers: map[string]reflect.Type{jsonType: reflect.TypeFor[document](), markdownType: reflect.TypeFor[string](), savedType: reflect.TypeFor[string]()},
	}, s.getDocument)
	register(s, route{
		id: "change-document", method: http.MethodPatch, path: "/documents/{slug}", tag: tag, status: http.StatusOK,
		summary: "Rename a document",
		about:   "Gives it another title or slug. The former slug goes on to lead here.",
		body:    smallBody,
		refuses: append([]code.Code{code.SlugTaken}, ofWrites...),
	}, s.changeDocument)
}

// find resolves the document that a request addresses. A former slug is answered with DOCUMENT_MOVED and the
// same address under the present slug.
func (s *Server) find(ctx context.Context, ref string) (doc.Meta, error) {
	meta, err := s.library.Find(ctx, keyOf(ctx), ref)
	if err != nil {
		return doc.Meta{}, err
	}
	if meta.Slug == "" || ref == string(meta.Slug) {
		return meta, nil
	}
	if id, err := crdt.ParseDocumentID(ref); err == nil && id == meta.ID {
		return meta, nil
	}
	moved := code.New(code.DocumentMoved, "this document is called %s now", meta.Slug).With("slug", meta.Slug)
	return doc.Meta{}, withHeader(moved, "Location", movedTo(callOf(ctx).request, meta.Slug))
}

// movedTo is the request's address with another slug: /api/v1/documents/{slug}/...
func movedTo(r *http.Request, slug doc.Slug) string {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	segments[4] = string(slug)
	to := strings.Join(segments, "/")
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	return to
}

type listDocumentsInput struct {
	Limit int   `query:"limit" minimum:"1" maximum:"200" default:"50"`
	After int64 `query:"after" minimum:"0" doc:"The next of the page before."`
}

type listDocumentsOutput struct {
	Body struct {
		Documents []documentEntry `json:"documents" nullable:"false"`
		Next      string          `json:"next,omitempty" doc:"Cursor of the following page; absent at the end."`
	} `nameHint:"DocumentList"`
}

func (s *Server) listDocuments(ctx context.Context, in *listDocumentsInput) (*listDocumentsOutput, error) {
	metas, next, err := s.library.List(ctx, keyOf(ctx), in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	out := new(listDocumentsOutput)
	out.Body.Documents = make([]documentEntry, 0, len(metas))
	whoIsIn := s.present()
	for _, m := range metas {
		out.Body.Documents = append(out.Body.Documents, s.entry(m, whoIsIn))
	}
	if next > 0 {
		out.Body.Next = strconv.FormatInt(next, 10)
	}
	return out, nil
}

// entry is a document as a list shows it.
func (s *Server) entry(m doc.Meta, whoIsIn map[crdt.DocumentID][]present) documentEntry {
	leases := 0
	for _, status := range s.leases.List(doc.SectionsPrefix(m.ID)) {
		if len(status.Holders) > 0 {
			leases++
		}
	}
	return documentEntry{
		Slug: slugOf(m), DocumentID: m.ID.String(), URL: m.ID.URL(), Title: m.Title, CreatedAt: doc.FormatTime(m.CreatedAt),
		CreatedBy: m.CreatedBy, ChangedAt: doc.FormatTime(m.ChangedAt), LastSeq: m.LastSeq.String(), Leases: leases,
		Blocked: !m.Block.At.IsZero(), Present: append([]present{}, whoIsIn[m.ID]...),
	}
}

// present finds who has which document open, by name.
func (s *Server) present() map[crdt.DocumentID][]present {
	pages := map[crdt.DocumentID]map[doc.Agent]bool{}
	for _, info := range s.opts.Sockets() {
		for _, id := range info.Documents {
			if pages[id] == nil {
				pages[id] = map[doc.Agent]bool{}
			}
			pages[id][info.Agent] = pages[id][info.Agent] || info.Page
		}
	}
	out := make(map[crdt.DocumentID][]present, len(pages))
	for id, agents := range pages {
		for _, name := range slices.Sorted(maps.Keys(agents)) {
			out[id] = append(out[id], present{name, agents[name]})
		}
	}
	return out
}

type createDocumentInput struct {
	Once
	Body struct {
		Slug     string `json:"slug,omitempty" doc:"1 to 64 of a-z, 0-9 and -, not beginning with -."`
		Title    string `json:"title,omitempty" doc:"Default: the first heading, else the slug. At most 512 bytes."`
		Markdown string `json:"markdown,omitempty" doc:"At most 4 MiB."`
		Level    int    `json:"level,omitempty" minimum:"1" maximum:"6" doc:"Split at headings down to this level; 2 if not given."`
	} `nameHint:"NewDocument"`
}

type createDocumentOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     document
}

func (s *Server) createDocument(ctx context.Context, in *createDocumentInput) (*createDocumentOutput, error) {
	n := doc.NewDocument{Title: in.Body.Title, Markdown: in.Body.Markdown, Level: in.Body.Level}
	if in.Body.Slug != "" {
		slug, err := doc.ParseSlug(in.Body.Slug)
		if err != nil {
			return nil, err
		}
		n.Slug = slug
	}
	options, err := writeOptions(ctx, in.Once, 0, "create-document", in.Body)
	if err != nil {
		return nil, err
	}
	snap, err := s.library.Create(ctx, keyOf(ctx), n, options...)
	if err != nil {
		return nil, err
	}
	return &createDocumentOutput{Location: Prefix + "/documents/" + snap.Meta.Ref(), ETag: jsonTag(keyOf(ctx), snap), Body: documentOf(keyOf(ctx), snap)}, nil
}

type getDocumentInput struct {
	DocumentPath
	Version     string `query:"version" doc:"The content as it was at this version, with what the document is called now."`
	Accept      string `header:"Accept" hidden:"true"`
	IfNoneMatch string `header:"If-None-Match" doc:"An ETag: 304 if nothing happened to the document since."`
}

const (
	jsonType     = "application/json"
	markdownType = "text/markdown"
)

type getDocumentOutput struct {
	Status      int
	ETag        string `header:"ETag"`
	Vary        string `header:"Vary"`
	ContentType string `header:"Content-Type" hidden:"true"`
	Body        any
}

func (s *Server) getDocument(ctx context.Context, in *getDocumentInput) (*getDocumentOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	media := accepted(in.Accept, jsonType, markdownType, savedType)
	if media == "" {
		return nil, code.New(code.NotAcceptable, "a document can be had as %s, %s or %s", jsonType, markdownType, savedType)
	}
	if media == savedType {
		if in.Version != "" {
			return nil, code.New(code.NotAcceptable, "a saved document is the present one, with all its history")
		}
		out := &getDocumentOutput{Status: http.StatusOK, Vary: "Accept"}
		return out, s.exportDocument(ctx, meta, out, in.IfNoneMatch)
	}
	snap, err := s.snapshot(ctx, meta, crdt.Version(in.Version))
	if err != nil {
		return nil, err
	}
	out := &getDocumentOutput{Status: http.StatusOK, Vary: "Accept", ContentType: jsonType, ETag: jsonTag(keyOf(ctx), snap)}
	if media == markdownType {
		out.ContentType, out.ETag = markdownType+"; charset=utf-8", markdownTag(snap)
	}
	switch {
	case matches(in.IfNoneMatch, out.ETag):
		out.Status = http.StatusNotModified
	case media == markdownType:
		out.Body = []byte(snap.Markdown())
	default:
		out.Body = documentOf(keyOf(ctx), snap)
	}
	return out, nil
}

// snapshot reads a document as it was at a version; "" is now.
func (s *Server) snapshot(ctx context.Context, meta doc.Meta, v crdt.Version) (doc.Snapshot, error) {
	if v == "" {
		return s.library.Read(ctx, keyOf(ctx), meta.ID)
	}
	return s.library.ReadAt(ctx, keyOf(ctx), meta.ID, v)
}

type changeDocumentInput struct {
	DocumentPath
	Body struct {
		Title *string `json:"title,omitempty"`
		Slug  *string `json:"slug,omitempty"`
	} `nameHint:"DocumentChange"`
}

type changeDocumentOutput struct{ Body DocumentHead }

func (s *Server) changeDocument(ctx context.Context, in *changeDocumentInput) (*changeDocumentOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	var slug *doc.Slug
	if in.Body.Slug != nil {
		parsed, err := doc.ParseSlug(*in.Body.Slug)
		if err != nil {
			return nil, err
		}
		slug = &parsed
	}
	if _, err := s.library.Rename(ctx, keyOf(ctx), meta.ID, in.Body.Title, slug); err != nil {
		return nil, err
	}
	snap, err := s.library.Read(ctx, keyOf(ctx), meta.ID)
	if err != nil {
		return nil, err
	}
	return &changeDocumentOutput{headOf(keyOf(ctx), snap)}, nil
}

func slugOf(m doc.Meta) *doc.Slug {
	if m.Slug == "" {
		return nil
	}
	return &m.Slug
}

func headOf(k doc.Key, snap doc.Snapshot) DocumentHead {
	m := snap.Meta
	return DocumentHead{
		Slug: slugOf(m), DocumentID: m.ID.String(), URL: m.ID.URL(), Title: m.Title, Version: snap.Version,
		CreatedAt: doc.FormatTime(m.CreatedAt), CreatedBy: m.CreatedBy, ChangedAt: doc.FormatTime(m.ChangedAt),
		LastSeq: m.LastSeq.String(), Me: me{Agent: k.Agent, Role: k.Role, CanWrite: k.CanWrite(m)},
	}
}

func documentOf(k doc.Key, snap doc.Snapshot) document {
	return document{
		DocumentHead: headOf(k, snap),
		Sections:     sectionsOf(snap.Sections),
		Removed:      sectionsOf(snap.Removed),
		Ignored:      append([]string{}, snap.Ignored...),
	}
}

// markdownTag names the Markdown, which the version alone decides.
func markdownTag(snap doc.Snapshot) string { return `"` + string(snap.Version) + `"` }

// jsonTag names what is said of a document or section in JSON to a key: beside the content also its name, log and
// leases, whose every change is an event, and who the reader is, because a browser keeps one answer for all who sign in
// at it. Weak, because remaining times differ from one answer to the next.
func jsonTag(k doc.Key, snap doc.Snapshot) string {
	access := "reads"
	if k.CanWrite(snap.Meta) {
		access = "writes"
	}
	return fmt.Sprintf(`W/"%s:%s:%s:%s:%s"`, snap.Version, snap.Meta.LastSeq, k.Agent, k.Role, access)
}

// matches says whether If-None-Match names the tag (RFC 9110, section 13.1.2: weak comparison).
func matches(header, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	return slices.ContainsFunc(strings.Split(header, ","), func(t string) bool {
		t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
		return t == "*" || t == tag
	})
}

// accepted chooses among the offers the one that an Accept header likes best, the first if it likes several
// alike or says nothing, "" if it takes none (RFC 9110, section 12.5.1).
func accepted(header string, offers ...string) string {
	if strings.TrimSpace(header) == "" {
		return offers[0]
	}
	best, bestQuality := "", 0.0
	for _, offer := range offers {
		quality, precision := 0.0, 0
		for _, item := range strings.Split(header, ",") {
			media, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			kind, _, _ := strings.Cut(offer, "/")
			p := slices.Index([]string{"*/*", kind + "/*", offer}, media) + 1
			if p <= precision {
				continue
			}
			precision, quality = p, 1
			if q, ok := params["q"]; ok {
				if quality, err = strconv.ParseFloat(q, 64); err != nil {
					quality = 0
				}
			}
		}
		if quality > bestQuality {
			best, bestQuality = offer, quality
		}
	}
	return best
}
