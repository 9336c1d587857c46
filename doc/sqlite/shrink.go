package sqlite

import (
	"context"
	"fmt"
)

const (
	keptPages   = 256 // free pages of 4 KiB that stay in the file, for what is written next
	shrinkPages = 256 // that are given back in one step, for which other steps wait
)

// shrink gives the file system what is free in the file, when it is much. A database that was made without the means for
// it stays as large as it is.
func (s *Store) shrink(ctx context.Context) error {
	for before := -1; ; {
		var free int
		err := s.write(ctx, func(t tx) error {
			if err := t.row(`PRAGMA freelist_count`).Scan(&free); err != nil {
				return fmt.Errorf("count free pages: %w", err)
			}
			if free <= keptPages {
				return nil
			}
			return t.giveBack(min(shrinkPages, free-keptPages))
		})
		if err != nil || free <= keptPages || free == before {
			return err
		}
		before = free
	}
}

// giveBack takes free pages off the end of the file. SQLite gives a row for each, and does no more than is read.
func (t tx) giveBack(pages int) error {
	rows, err := t.conn.QueryContext(context.Background(), fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, pages))
	if err != nil {
		return fmt.Errorf("give back free pages: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("give back free pages: %w", err)
	}
	return nil
}
