package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"net/http"

	"cowrite/doc"
	"cowrite/doc/code"
)

// savedType is a document as Automerge saves it.
const savedType = "application/vnd.automerge"

// bringsSaved says whether a request is POST /documents with a saved document for a body, which is no business of the
// JSON operation at the same address.
func bringsSaved(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == savedType && r.Method == http.MethodPost && r.URL.Path == Prefix+"/documents"
}

// importDocument makes a document of a saved one. ?slug= names it.
func (s *Server) importDocument(w http.ResponseWriter, r *http.Request) {
	r.Pattern = "POST " + Prefix + "/documents"
	snap, err := s.imported(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", Prefix+"/documents/"+snap.Meta.Ref())
	w.Header().Set("ETag", jsonTag(keyOf(r.Context()), snap))
	s.writeJSON(w, r, http.StatusCreated, documentOf(keyOf(r.Context()), snap))
}

func (s *Server) imported(r *http.Request) (doc.Snapshot, error) {
	key, err := s.authenticate(r)
	if err != nil {
		return doc.Snapshot{}, err
	}
	callOf(r.Context()).key = key
	var slug doc.Slug
	if name := r.URL.Query().Get("slug"); name != "" {
		if slug, err = doc.ParseSlug(name); err != nil {
			return doc.Snapshot{}, err
		}
	}
	limit := s.library.Limits().SavedBytes
	saved, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, int64(limit)))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return doc.Snapshot{}, code.New(code.TooLarge, "the saved document is larger than %d bytes", limit).With("limit", limit)
	}
	if err != nil {
		return doc.Snapshot{}, code.New(code.BadRequest, "the body did not arrive whole").Because(err)
	}
	options, err := writeOptions(r.Context(), Once{r.Header.Get("Idempotency-Key")}, 0, "import-document", slug, sha256.Sum256(saved))
	if err != nil {
		return doc.Snapshot{}, err
	}
	return s.library.Import(r.Context(), key, slug, saved, options...)
}

// exportDocument gives a document as Automerge saves it.
func (s *Server) exportDocument(ctx context.Context, meta doc.Meta, out *getDocumentOutput, ifNoneMatch string) error {
	saved, version, err := s.library.Export(ctx, keyOf(ctx), meta.ID)
	if err != nil {
		return err
	}
	out.ContentType, out.ETag, out.Body = savedType, `"`+string(version)+`"`, saved
	if matches(ifNoneMatch, out.ETag) {
		out.Status, out.Body = http.StatusNotModified, nil
	}
	return nil
}
