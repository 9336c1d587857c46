package sqlite

import (
	"context"
	"fmt"
	"time"

	"cowrite/doc"
)

// never is an end that does not come, in milliseconds since 1970. Queries spell it as their indexes do.
const never = `9223372036854775807`

const countShares = `SELECT count(*) FROM keys WHERE document = ? AND revoked_at IS NULL AND coalesce(expires_at, ` + never + `) > ?`

// addShare makes a link to a document, unless as many are live as there may be.
func addShare(t tx, h *head, share doc.NewShare) error {
	share.Document = h.id
	var live int
	if err := t.row(countShares, h.id[:], share.CreatedAt.UnixMilli()).Scan(&live); err != nil {
		return fmt.Errorf("count share links: %w", err)
	}
	if live >= share.Limit {
		return fmt.Errorf("%d share links are live: %w", live, doc.ErrTooMany)
	}
	if err := addKey(t, share.Key); err != nil {
		return fmt.Errorf("add share link: %w", err)
	}
	return nil
}

// endShare revokes a document's live link.
func endShare(t tx, h *head, end doc.EndShare) error {
	var live bool
	err := t.row(`SELECT EXISTS (SELECT 1 FROM keys WHERE id = ? AND document = ? AND revoked_at IS NULL AND coalesce(expires_at, `+never+`) > ?)`,
		end.ID, h.id[:], end.At.UnixMilli()).Scan(&live)
	if err != nil {
		return fmt.Errorf("find share link: %w", err)
	}
	if !live {
		return fmt.Errorf("the share link is not live: %w", doc.ErrConflict)
	}
	if err := t.exec(`UPDATE keys SET revoked_at = ? WHERE id = ?`, end.At.UnixMilli(), end.ID); err != nil {
		return fmt.Errorf("revoke share link: %w", err)
	}
	return nil
}

const (
	shareEnd   = `min(coalesce(expires_at, ` + never + `), coalesce(revoked_at, ` + never + `))`
	dropShares = `DELETE FROM keys WHERE number IN
		(SELECT number FROM keys WHERE document IS NOT NULL AND ` + shareEnd + ` < ? ORDER BY ` + shareEnd + `, number LIMIT ?)`
)

// DropShares removes share links that ended before an instant.
func (s *Store) DropShares(ctx context.Context, before time.Time, limit int) (dropped int, err error) {
	err = s.write(ctx, func(t tx) error {
		n, err := t.removed(dropShares, before.UnixMilli(), max(0, limit))
		dropped = int(n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop share links: %w", err)
	}
	return dropped, nil
}
