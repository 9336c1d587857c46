package doc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Deletion is that a document was deleted: it is neither read nor written until it is restored.
type Deletion struct {
	At time.Time
	By Agent
}

// Purge is that a deleted document's content was taken away for good.
type Purge struct {
	At time.Time
	By Agent
}

// DeletedPlace is where a document stands in the list of what is deleted. As text it is a cursor.
type DeletedPlace struct {
	At     time.Time // of the deletion
	Number int64     // of the document
}

// DeletedPlace of a document that is deleted.
func (m Meta) DeletedPlace() DeletedPlace { return DeletedPlace{m.Deletion.At, m.Number} }

// String is "", or both numbers with a dash between: milliseconds since 1970 and the document's.
func (p DeletedPlace) String() string {
	if p == (DeletedPlace{}) {
		return ""
	}
	return strconv.FormatInt(p.At.UnixMilli(), 10) + "-" + strconv.FormatInt(p.Number, 10)
}

// ParseDeletedPlace reads what String wrote. INVALID_CURSOR.
func ParseDeletedPlace(s string) (DeletedPlace, error) {
	if s == "" {
		return DeletedPlace{}, nil
	}
	ms, number, _ := strings.Cut(s, "-")
	at, err := strconv.ParseUint(ms, 10, 63)
	n, err2 := strconv.ParseUint(number, 10, 63)
	if err := errors.Join(err, err2); err != nil || n == 0 {
		return DeletedPlace{}, code.New(code.InvalidCursor, "this is no place in the list of what is deleted").Because(err)
	}
	return DeletedPlace{time.UnixMilli(int64(at)).UTC(), int64(n)}, nil
}

// deleted says that a document was, and whether for good.
func deleted(m Meta) *code.Error {
	if m.Purge.At.IsZero() {
		return errDeleted
	}
	return code.New(code.DocumentDeleted, "this document was deleted for good").With("purgedAt", FormatTime(m.Purge.At)).With("purgedBy", m.Purge.By)
}

// Delete makes the document a tombstone until [Library.Restore]: its replicas are told, its leases end, and later calls say
// DOCUMENT_DELETED.
func (l *Library) Delete(ctx context.Context, k Key, id crdt.DocumentID) error {
	if _, err := l.meta(ctx, k, id, true); err != nil {
		return err
	}
	l.clearLeases(ctx, k.Agent, id, wasDeleted)
	err := l.at(ctx, id, func(d *desk) *request {
		return &request{alone: true, stage: func(s *step) error {
			s.Deletion = &Deletion{s.at, k.Agent}
			return d.event(s, DocumentDeleted, k.Agent, struct{}{})
		}}
	})
	if err != nil {
		return err
	}
	l.clearLeases(ctx, k.Agent, id, wasDeleted) // those taken meanwhile
	return nil
}

// Why a document's leases end with it.
const (
	wasDeleted = "the document was deleted"
	wasBlocked = "the document was blocked"
)

// clearLeases ends the leases of a document's sections. The document goes whatever becomes of it: a lease would only
// run out later.
func (l *Library) clearLeases(ctx context.Context, by Agent, id crdt.DocumentID, why string) {
	for _, status := range l.leases.List(SectionsPrefix(id)) {
		if _, err := l.leases.Do(ctx, lease.Clear{Resource: status.Resource, By: by, Reason: why}); err != nil {
			l.log.Error("end lease of document", "why", why, "resource", status.Resource, "err", err)
		}
	}
}

// Deleted gives the deleted documents that the key may restore, the latest deleted first: those behind a place in that
// order (zero: all). next is where the following page begins, zero at the end.
func (l *Library) Deleted(ctx context.Context, k Key, behind DeletedPlace, limit int) (docs []Meta, next DeletedPlace, err error) {
	for k.Role != Viewer && limit > 0 {
		page, err := l.store.Deleted(ctx, behind, limit)
		if err != nil {
			return nil, next, fmt.Errorf("list deleted documents: %w", err)
		}
		for _, m := range page {
			if !k.CanWrite(m) {
				continue
			}
			if len(docs) == limit {
				return docs, docs[limit-1].DeletedPlace(), nil
			}
			docs = append(docs, m)
		}
		if len(page) < limit {
			break
		}
		behind = page[len(page)-1].DeletedPlace()
	}
	return docs, next, nil
}

// Restore brings a deleted document back, for whoever may delete it: with its text, log, slug, and the keys and share links
// that have not ended meanwhile. Its leases stay ended. Who waits for it is told, and what replicas wrote meanwhile is merged
// when they come. A document that is not deleted stays as it is. FORBIDDEN, DOCUMENT_DELETED when it was purged.
func (l *Library) Restore(ctx context.Context, k Key, ref string) (Meta, error) {
	for {
		m, err := l.Find(ctx, k, ref)
		if err != nil && !code.Is(err, code.DocumentDeleted) {
			return Meta{}, err
		}
		if !k.CanWrite(m) {
			return Meta{}, forbidden("a viewer's key cannot restore a document")
		}
		if err == nil || !m.Purge.At.IsZero() {
			return m, err
		}
		event, err := l.newEvent(DocumentRestored, k.Agent, struct{}{})
		if err != nil {
			return Meta{}, err
		}
		// What is expected keeps two who restore it at once from doing so twice.
		_, err = l.store.Append(ctx, m.ID, Append{Expect: m.LastSeq, Deletion: &Deletion{}, Events: []NewEvent{event}})
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) { // restored, or purged, by somebody else
			continue
		}
		if err != nil {
			return Meta{}, fmt.Errorf("restore document: %w", err)
		}
		if m, err = l.store.Document(ctx, m.ID); err != nil {
			return Meta{}, fmt.Errorf("find document: %w", err)
		}
		l.log.Info(string(DocumentRestored), "document", m.ID, "slug", m.Slug, "by", k.Agent)
		l.announce(m)
		return m, nil
	}
}

// Purge takes a deleted document away for good: its text, its log, what is recorded of its sections' leases, and its names, which are
// free again. Its id goes on to say DOCUMENT_DELETED, and is never used again. It goes on when ctx ends, until the store is closed,
// and is finished when the store is next opened. NOT_DELETED, FORBIDDEN but for an admin's key that covers the document.
func (l *Library) Purge(ctx context.Context, k Key, ref string) (Meta, error) {
	m, err := l.Find(ctx, k, ref)
	if err != nil && !code.Is(err, code.DocumentDeleted) {
		return Meta{}, err
	}
	if k.Role != Admin {
		return Meta{}, forbidden("a document is purged with an admin's key")
	}
	if err == nil {
		return Meta{}, notDeleted()
	}
	// A desk that ends may still be compacting; when the next one finds the document deleted, no other is left.
	err = l.at(ctx, m.ID, func(*desk) *request { return &request{stage: func(*step) error { return nil }} })
	switch {
	case err == nil:
		return Meta{}, notDeleted()
	case !code.Is(err, code.DocumentDeleted):
		return Meta{}, err
	}
	ctx = context.WithoutCancel(ctx)
	l.clearLeases(ctx, k.Agent, m.ID, wasDeleted)
	switch err := l.store.Purge(ctx, m.ID, Purge{l.now(), k.Agent}); {
	case errors.Is(err, ErrConflict):
		return Meta{}, notDeleted()
	case err != nil:
		return Meta{}, fmt.Errorf("purge document: %w", err)
	}
	l.log.Info("document.purged", "document", m.ID, "slug", m.Slug, "by", k.Agent)
	if m, err = l.store.Document(ctx, m.ID); err != nil {
		return Meta{}, fmt.Errorf("find document: %w", err)
	}
	return m, nil
}

func notDeleted() *code.Error {
	return code.New(code.NotDeleted, "this document is not deleted: delete it first")
}
