package web

import (
	"context"
	"net/http"

	"cowrite/doc"
	"cowrite/doc/code"
)

// deletedDocument is a document in the list of what is deleted.
type deletedDocument struct {
	Slug       *doc.Slug `json:"slug" doc:"It stays the document's until that is purged: no other is given it."`
	DocumentID string    `json:"documentId"`
	URL        string    `json:"url"`
	Title      string    `json:"title"`
	CreatedAt  string    `json:"createdAt" format:"date-time"`
	CreatedBy  doc.Agent `json:"createdBy"`
	DeletedAt  string    `json:"deletedAt" format:"date-time"`
	DeletedBy  doc.Agent `json:"deletedBy"`
}

func (s *Server) deletionRoutes() {
	const tag = "documents"
	register(s, route{
		id: "delete-document", method: http.MethodDelete, path: "/documents/{slug}", tag: tag, status: http.StatusOK,
		summary: "Delete a document",
		about: "Leaves a tombstone: later answers say DOCUMENT_DELETED, until it is restored. Its leases end, its sockets and streams are closed. " +
			"Its slug is given to no other, unless it is purged.",
		refuses: ofWrites,
	}, s.deleteDocument)
	register(s, route{
		id: "list-deletions", method: http.MethodGet, path: "/deletions", tag: tag, status: http.StatusOK,
		summary: "List deleted documents",
		about:   "Those that the key may restore, the latest deleted first. A viewer's key may restore none.",
		refuses: []code.Code{code.InvalidCursor},
	}, s.listDeletions)
	register(s, route{
		id: "purge-document", method: http.MethodDelete, path: "/deletions/{slug}", tag: tag, status: http.StatusOK,
		summary: "Purge a deleted document",
		about: "Takes its text, log and leases' record away for good, and frees its slugs. Its documentId goes on to answer DOCUMENT_DELETED, also to replicas that still have it. " +
			"It may take seconds for a large one, during which others write. Administrators only.",
		refuses: []code.Code{code.DocumentNotFound, code.DocumentBlocked, code.NotDeleted, code.Forbidden},
	}, s.purgeDocument)
	register(s, route{
		id: "restore-document", method: http.MethodPost, path: "/documents/{slug}/restore", tag: tag, status: http.StatusOK,
		summary: "Restore a deleted document",
		about: "For whoever may delete it. It is back under its slug with its text and log, for all keys and share links that have not ended meanwhile. Its leases stay " +
			"ended; what replicas wrote meanwhile is merged when they send it. One that is not deleted stays as it is, and one that was purged is DOCUMENT_DELETED.",
		refuses: []code.Code{code.DocumentNotFound, code.DocumentDeleted, code.DocumentBlocked, code.Forbidden},
	}, s.restoreDocument)
}

type deleteDocumentOutput struct {
	Body struct {
		Deleted bool `json:"deleted"`
	} `nameHint:"Deleted"`
}

func (s *Server) deleteDocument(ctx context.Context, in *DocumentPath) (*deleteDocumentOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	if err := s.library.Delete(ctx, keyOf(ctx), meta.ID); err != nil {
		return nil, err
	}
	out := new(deleteDocumentOutput)
	out.Body.Deleted = true
	return out, nil
}

type listDeletionsInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	After string `query:"after" doc:"The next of the page before."`
}

type listDeletionsOutput struct {
	Body struct {
		Documents []deletedDocument `json:"documents" nullable:"false"`
		Next      string            `json:"next,omitempty" doc:"Cursor of the following page; absent at the end."`
	} `nameHint:"DeletionList"`
}

func (s *Server) listDeletions(ctx context.Context, in *listDeletionsInput) (*listDeletionsOutput, error) {
	behind, err := doc.ParseDeletedPlace(in.After)
	if err != nil {
		return nil, err
	}
	metas, next, err := s.library.Deleted(ctx, keyOf(ctx), behind, in.Limit)
	if err != nil {
		return nil, err
	}
	out := new(listDeletionsOutput)
	out.Body.Documents = make([]deletedDocument, len(metas))
	for i, m := range metas {
		out.Body.Documents[i] = deletedDocument{
			Slug: slugOf(m), DocumentID: m.ID.String(), URL: m.ID.URL(), Title: m.Title, CreatedAt: doc.FormatTime(m.CreatedAt),
			CreatedBy: m.CreatedBy, DeletedAt: doc.FormatTime(m.Deletion.At), DeletedBy: m.Deletion.By,
		}
	}
	out.Body.Next = next.String()
	return out, nil
}

type purgeDocumentOutput struct {
	Body struct {
		Purged     bool   `json:"purged"`
		DocumentID string `json:"documentId"`
	} `nameHint:"Purged"`
}

func (s *Server) purgeDocument(ctx context.Context, in *DocumentPath) (*purgeDocumentOutput, error) {
	meta, err := s.library.Purge(ctx, keyOf(ctx), in.Slug)
	if err != nil {
		return nil, err
	}
	out := new(purgeDocumentOutput)
	out.Body.Purged, out.Body.DocumentID = true, meta.ID.String()
	return out, nil
}

type restoreDocumentOutput struct{ Body documentEntry }

func (s *Server) restoreDocument(ctx context.Context, in *DocumentPath) (*restoreDocumentOutput, error) {
	meta, err := s.library.Restore(ctx, keyOf(ctx), in.Slug)
	if err != nil {
		return nil, err
	}
	return &restoreDocumentOutput{s.entry(meta, s.present())}, nil
}
