package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"cowrite/crdt"
	"cowrite/doc"
)

// Raw gives the bytes of the changes that are rows.
func (s *Store) Raw(ctx context.Context, id crdt.DocumentID, numbers []int64) ([][]byte, error) {
	raws := make([][]byte, len(numbers))
	err := s.read(ctx, func(v view) error {
		document, err := v.document(id)
		if err != nil {
			return err
		}
		for i, number := range numbers {
			err := v.row(`SELECT raw FROM changes WHERE document = ? AND number = ?`, document, number).Scan(&raws[i])
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return fmt.Errorf("change %d: %w", number, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	return raws, nil
}

// Saved gives what the document was last compacted to.
func (s *Store) Saved(ctx context.Context, id crdt.DocumentID, chunk bool) (doc.Saved, error) {
	var saved doc.Saved
	err := s.read(ctx, func(v view) error {
		number, err := v.document(id)
		if err != nil {
			return err
		}
		err = v.row(`SELECT upto, "index", iif(?, chunk, NULL) FROM saved WHERE document = ?`, chunk, number).
			Scan(&saved.Upto, &saved.Index, &saved.Chunk)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return doc.Saved{}, fmt.Errorf("read saved document: %w", err)
	}
	return saved, nil
}

// Compact puts a saved form in the place of the rows of its changes.
func (s *Store) Compact(ctx context.Context, id crdt.DocumentID, saved doc.Saved) error {
	err := s.write(ctx, func(t tx) error {
		h, err := findHead(t, id)
		if err != nil {
			return err
		}
		var former, unlogged int64
		err = t.row(`SELECT upto FROM saved WHERE document = ?`, h.number).Scan(&former)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("find saved document: %w", err)
		}
		if saved.Upto <= former || saved.Upto > h.lastChange {
			return fmt.Errorf("up to change %d, of %d, behind %d: %w", saved.Upto, h.lastChange, former, doc.ErrConflict)
		}
		err = t.row(`SELECT count(*) FROM changes WHERE document = ? AND number <= ? AND NOT logged`, h.number, saved.Upto).Scan(&unlogged)
		if err != nil {
			return fmt.Errorf("count changes that are not logged: %w", err)
		}
		if unlogged > 0 {
			return fmt.Errorf("%d changes are not logged: %w", unlogged, doc.ErrConflict)
		}
		err = t.exec(`INSERT OR REPLACE INTO saved (document, upto, chunk, "index") VALUES (?, ?, ?, ?)`,
			h.number, saved.Upto, notNull(saved.Chunk), notNull(saved.Index))
		if err != nil {
			return fmt.Errorf("insert saved document: %w", err)
		}
		if err := t.exec(`DELETE FROM changes WHERE document = ? AND number <= ?`, h.number, saved.Upto); err != nil {
			return fmt.Errorf("delete changes: %w", err)
		}
		err = t.exec(`UPDATE documents SET bytes = ? + coalesce((SELECT sum(length(raw)) FROM changes WHERE document = documents.number), 0) WHERE number = ?`,
			len(saved.Chunk)+len(saved.Index), h.number)
		if err != nil {
			return fmt.Errorf("count bytes: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("compact document: %w", err)
	}
	_ = s.shrink(ctx) // what is not given back now is with the next compaction
	return nil
}
