package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"cowrite/crdt"
	"cowrite/doc"
)

// A step of a purge, for which other steps wait, removes so many rows at most, and hardly more than so many bytes of them. A
// saved form is one row; it is as long as that of a compaction.
const (
	purgeRows  = 1000
	purgeBytes = 1 << 20
)

// purgeStep removes some of what a document holds and says how many rows that were.
type purgeStep func(t tx, number int64, id crdt.DocumentID) (removed int64, err error)

// purgeSteps are done one after the other, each until it removes nothing.
var purgeSteps = []purgeStep{
	func(t tx, number int64, _ crdt.DocumentID) (int64, error) {
		return t.removed(firstRows("changes", "number", "raw"), number, purgeRows, purgeBytes)
	},
	func(t tx, number int64, _ crdt.DocumentID) (int64, error) {
		return t.removed(firstRows("events", "seq", "payload"), number, purgeRows, purgeBytes)
	},
	func(t tx, number int64, _ crdt.DocumentID) (int64, error) {
		return t.removed(`DELETE FROM saved WHERE document = ?`, number)
	},
	func(t tx, _ int64, id crdt.DocumentID) (int64, error) {
		// What is appended next is numbered behind the last entry, also where that goes.
		if err := t.exec(`UPDATE counters SET value = max(value, (SELECT coalesce(max(seq), 0) FROM ledger)) WHERE name = 'ledger'`); err != nil {
			return 0, err
		}
		prefix := doc.SectionsPrefix(id)
		behind := strings.TrimSuffix(prefix, "/") + "0" // what follows a slash
		return t.removed(`DELETE FROM ledger WHERE seq IN (SELECT seq FROM ledger WHERE resource >= ? AND resource < ? LIMIT ?)`, prefix, behind, purgeRows)
	},
}

// firstRows removes a document's first rows, of which there is at least one where there are any.
func firstRows(table, key, content string) string {
	return fmt.Sprintf(`DELETE FROM %[1]s WHERE document = ?1 AND %[2]s <= (
		SELECT max(%[2]s) FROM (
			SELECT %[2]s, sum(bytes) OVER (ORDER BY %[2]s) - bytes AS before
			FROM (SELECT %[2]s, length(%[3]s) AS bytes FROM %[1]s WHERE document = ?1 ORDER BY %[2]s LIMIT ?2))
		WHERE before < ?3)`, table, key, content)
}

// Purge takes a deleted document's content away for good.
func (s *Store) Purge(ctx context.Context, id crdt.DocumentID, p doc.Purge) error {
	err := s.beginPurge(ctx, id, p)
	if err == nil {
		err = s.finishPurge(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("purge document: %w", err)
	}
	_ = s.shrink(ctx) // what is not given back now is with the next compaction
	return nil
}

// beginPurge makes a tombstone one that cannot be restored, and frees its names. A document that is purged stays as it is.
func (s *Store) beginPurge(ctx context.Context, id crdt.DocumentID, p doc.Purge) error {
	return s.write(ctx, func(t tx) error {
		var number int64
		var deleted, purged bool
		err := t.row(`SELECT number, deleted_at IS NOT NULL, purged_at IS NOT NULL FROM documents WHERE id = ?`, id[:]).Scan(&number, &deleted, &purged)
		switch {
		case err != nil:
			return fmt.Errorf("find document: %w", notFound(err))
		case purged:
			return nil
		case !deleted:
			return fmt.Errorf("it is not deleted: %w", doc.ErrConflict)
		}
		var none doc.EventHash
		err = t.exec(`UPDATE documents SET slug = '', title = '', last_seq = 0, last_hash = ?, last_change = 0, bytes = 0, posted_bytes = 0,
			blocked_at = NULL, blocked_by = '', block_reason = '', purged_at = ?, purged_by = ? WHERE number = ?`, none[:], p.At.UnixMilli(), p.By, number)
		if err != nil {
			return fmt.Errorf("update document: %w", err)
		}
		if err := t.exec(`DELETE FROM slugs WHERE document = ?`, number); err != nil {
			return fmt.Errorf("free slugs: %w", err)
		}
		if err := t.exec(`INSERT INTO purges (document) VALUES (?)`, number); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		return nil
	})
}

// finishPurge removes what a purged document still holds, in steps between which others write.
func (s *Store) finishPurge(ctx context.Context, id crdt.DocumentID) error {
	var number int64
	err := s.read(ctx, func(v view) error {
		return v.row(`SELECT p.document FROM purges p JOIN documents d ON d.number = p.document WHERE d.id = ?`, id[:]).Scan(&number)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it is finished
	}
	if err != nil {
		return fmt.Errorf("find what is left: %w", err)
	}
	for _, step := range purgeSteps {
		for removed := int64(1); removed > 0; {
			err := s.write(ctx, func(t tx) (err error) {
				removed, err = step(t, number, id)
				return err
			})
			if err != nil {
				return fmt.Errorf("remove rows: %w", err)
			}
		}
	}
	return s.write(ctx, func(t tx) error { return t.exec(`DELETE FROM purges WHERE document = ?`, number) })
}

// finishPurges finishes those that a process began which has ended since.
func (s *Store) finishPurges(ctx context.Context) error {
	var ids []crdt.DocumentID
	err := s.read(ctx, func(v view) error {
		return v.each(`SELECT d.id FROM purges p JOIN documents d ON d.number = p.document`, nil, func(rows *sql.Rows) error {
			var id crdt.DocumentID
			err := rows.Scan(fixed(id[:]))
			ids = append(ids, id)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("find purges under way: %w", err)
	}
	for _, id := range ids {
		if err := s.finishPurge(ctx, id); err != nil {
			return fmt.Errorf("finish purge of %s: %w", id, err)
		}
	}
	return nil
}
