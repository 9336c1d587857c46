package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

// head is what an append has to know of a document, and changes of it.
type head struct {
	id         crdt.DocumentID
	number     int64
	slug       doc.Slug
	title      string
	changedAt  time.Time
	lastSeq    doc.Seq
	lastHash   doc.EventHash
	lastChange int64
	bytes      int64
	posted     int64
}

// Create makes a document. Title, Slug and Deletion of the first append count too.
func (s *Store) Create(ctx context.Context, m doc.Meta, first doc.Append) ([]doc.Event, error) {
	first.Expect = doc.AnySeq
	var events []doc.Event
	err := s.write(ctx, func(t tx) (err error) {
		h, err := create(t, m)
		if err != nil {
			return err
		}
		events, err = add(t, h, first)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create document: %w", err)
	}
	s.wake(m.ID, events)
	return events, nil
}

// Append adds to a document.
func (s *Store) Append(ctx context.Context, id crdt.DocumentID, a doc.Append) ([]doc.Event, error) {
	var events []doc.Event
	err := s.write(ctx, func(t tx) (err error) {
		h, err := findHead(t, id)
		if err != nil {
			return err
		}
		events, err = add(t, h, a)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("append to document: %w", err)
	}
	s.wake(id, events)
	return events, nil
}

func (s *Store) wake(id crdt.DocumentID, appended []doc.Event) {
	if len(appended) > 0 {
		s.watchers.wake(id)
	}
}

func create(t tx, m doc.Meta) (*head, error) {
	h := &head{id: m.ID, slug: m.Slug, title: m.Title, changedAt: m.CreatedAt}
	var there bool
	if err := t.row(`SELECT EXISTS (SELECT 1 FROM documents WHERE id = ?)`, m.ID[:]).Scan(&there); err != nil {
		return nil, fmt.Errorf("find document: %w", err)
	}
	if there {
		return nil, fmt.Errorf("the document exists: %w", doc.ErrConflict)
	}
	err := t.row(`INSERT INTO documents (id, slug, title, created_at, created_by, changed_at, last_seq, last_hash, last_change)
		VALUES (?, ?, ?, ?, ?, ?, 0, ?, 0) RETURNING number`,
		m.ID[:], h.slug, h.title, m.CreatedAt.UnixMilli(), m.CreatedBy, h.changedAt.UnixMilli(), h.lastHash[:]).Scan(&h.number)
	if err != nil {
		return nil, fmt.Errorf("insert document: %w", err)
	}
	return h, takeSlug(t, h.number, m.Slug)
}

func findHead(t tx, id crdt.DocumentID) (*head, error) {
	h := head{id: id}
	err := t.row(`SELECT number, slug, title, changed_at, last_seq, last_hash, last_change, bytes, posted_bytes FROM documents WHERE id = ? AND purged_at IS NULL`, id[:]).
		Scan(&h.number, &h.slug, &h.title, instant{&h.changedAt}, &h.lastSeq, fixed(h.lastHash[:]), &h.lastChange, &h.bytes, &h.posted)
	if err != nil {
		return nil, fmt.Errorf("find document: %w", notFound(err))
	}
	return &h, nil
}

// add is one append: it writes what a adds and the head as it then is.
func add(t tx, h *head, a doc.Append) ([]doc.Event, error) {
	if a.Expect != doc.AnySeq && a.Expect != h.lastSeq {
		return nil, fmt.Errorf("last event is %d, expected %d: %w", h.lastSeq, a.Expect, doc.ErrConflict)
	}
	if a.Slug != "" && a.Slug != h.slug {
		if err := takeSlug(t, h.number, a.Slug); err != nil {
			return nil, err
		}
		h.slug = a.Slug
	}
	if a.Title != nil {
		h.title = *a.Title
	}
	if err := addChanges(t, h, a.Changes); err != nil {
		return nil, err
	}
	if err := markLogged(t, h, a.Logged); err != nil {
		return nil, err
	}
	if a.Share != nil {
		if err := addShare(t, h, *a.Share); err != nil {
			return nil, err
		}
	}
	if a.Unshare != nil {
		if err := endShare(t, h, *a.Unshare); err != nil {
			return nil, err
		}
	}
	events, err := addEvents(t, h, a.Events)
	if err != nil {
		return nil, err
	}
	if err := addEditCalls(t, h, a.Calls); err != nil {
		return nil, err
	}
	err = t.exec(`UPDATE documents SET slug = ?, title = ?, changed_at = ?, last_seq = ?, last_hash = ?, last_change = ?, bytes = ?, posted_bytes = ?
		WHERE number = ?`,
		h.slug, h.title, h.changedAt.UnixMilli(), h.lastSeq, h.lastHash[:], h.lastChange, h.bytes, h.posted, h.number)
	if err != nil {
		return nil, fmt.Errorf("update document: %w", err)
	}
	if a.Block != nil {
		err := t.exec(`UPDATE documents SET blocked_at = ?, blocked_by = ?, block_reason = ? WHERE number = ?`,
			optional(a.Block.At), a.Block.By, a.Block.Reason, h.number)
		if err != nil {
			return nil, fmt.Errorf("block document: %w", err)
		}
	}
	if a.Deletion != nil {
		err := t.exec(`UPDATE documents SET deleted_at = ?, deleted_by = ? WHERE number = ?`, optional(a.Deletion.At), a.Deletion.By, h.number)
		if err != nil {
			return nil, fmt.Errorf("delete document: %w", err)
		}
	}
	return events, nil
}

// takeSlug makes the slug lead to the document from now on and for ever.
func takeSlug(t tx, number int64, slug doc.Slug) error {
	if slug == "" {
		return nil
	}
	var owner int64
	err := t.row(`SELECT document FROM slugs WHERE slug = ?`, slug).Scan(&owner)
	switch {
	case err == nil && owner == number:
		return nil
	case err == nil:
		return fmt.Errorf("slug %q: %w", slug, doc.ErrSlugTaken)
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("find slug: %w", err)
	}
	if err := t.exec(`INSERT INTO slugs (slug, document) VALUES (?, ?)`, slug, number); err != nil {
		return fmt.Errorf("insert slug: %w", err)
	}
	return nil
}

const metaColumns = `d.id, d.slug, d.title, d.created_at, d.created_by, d.changed_at, d.last_seq, d.number,
	d.last_change, d.bytes, d.posted_bytes, d.blocked_at, d.blocked_by, d.block_reason, d.deleted_at, d.deleted_by, d.purged_at, d.purged_by`

func scanMeta(row interface{ Scan(...any) error }) (doc.Meta, error) {
	var m doc.Meta
	err := row.Scan(fixed(m.ID[:]), &m.Slug, &m.Title, instant{&m.CreatedAt}, &m.CreatedBy,
		instant{&m.ChangedAt}, &m.LastSeq, &m.Number,
		&m.Changes, &m.Bytes, &m.Posted, instant{&m.Block.At}, &m.Block.By, &m.Block.Reason,
		instant{&m.Deletion.At}, &m.Deletion.By, instant{&m.Purge.At}, &m.Purge.By)
	return m, notFound(err)
}

// Document finds a document by its id.
func (s *Store) Document(ctx context.Context, id crdt.DocumentID) (doc.Meta, error) {
	return s.meta(ctx, `SELECT `+metaColumns+` FROM documents d WHERE d.id = ?`, id[:])
}

// FindSlug finds a document by its present or a former slug.
func (s *Store) FindSlug(ctx context.Context, slug doc.Slug) (doc.Meta, error) {
	return s.meta(ctx, `SELECT `+metaColumns+` FROM slugs s JOIN documents d ON d.number = s.document WHERE s.slug = ?`, slug)
}

func (s *Store) meta(ctx context.Context, query string, arg any) (m doc.Meta, err error) {
	err = s.read(ctx, func(v view) error {
		m, err = scanMeta(v.row(query, arg))
		return err
	})
	if err != nil {
		return doc.Meta{}, fmt.Errorf("find document: %w", err)
	}
	return m, nil
}

// List gives living documents, the newest first.
func (s *Store) List(ctx context.Context, before int64, limit int) ([]doc.Meta, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return s.list(ctx, `d.number < ? AND d.deleted_at IS NULL ORDER BY d.number DESC LIMIT ?`, before, max(0, limit))
}

// Largest gives the living documents that take most bytes.
func (s *Store) Largest(ctx context.Context, limit int) ([]doc.Meta, error) {
	return s.list(ctx, `d.deleted_at IS NULL ORDER BY d.bytes DESC, d.number LIMIT ?`, max(0, limit))
}

// Blocked gives the living documents that are blocked.
func (s *Store) Blocked(ctx context.Context) ([]doc.Meta, error) {
	return s.list(ctx, `d.deleted_at IS NULL AND d.blocked_at IS NOT NULL ORDER BY d.blocked_at DESC, d.number`)
}

// Deleted gives the documents that are deleted, the latest first.
func (s *Store) Deleted(ctx context.Context, behind doc.DeletedPlace, limit int) ([]doc.Meta, error) {
	at, number := int64(math.MaxInt64), int64(math.MaxInt64)
	if behind.Number != 0 {
		at, number = behind.At.UnixMilli(), behind.Number
	}
	return s.list(ctx, `d.deleted_at IS NOT NULL AND d.purged_at IS NULL AND (d.deleted_at, d.number) < (?, ?) ORDER BY d.deleted_at DESC, d.number DESC LIMIT ?`, at, number, max(0, limit))
}

// list gives the documents that a condition is true of.
func (s *Store) list(ctx context.Context, where string, args ...any) ([]doc.Meta, error) {
	var list []doc.Meta
	err := s.read(ctx, func(v view) error {
		return v.each(`SELECT `+metaColumns+` FROM documents d WHERE `+where, args, func(rows *sql.Rows) error {
			m, err := scanMeta(rows)
			list = append(list, m)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	return list, nil
}

// notFound turns the driver's word for no rows into the store's.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return doc.ErrNotFound
	}
	return err
}
