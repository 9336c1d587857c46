package sqlite

import (
	"context"
	"fmt"
	"math"

	"cowrite/doc"
)

// addCall remembers a lease call, and forgets those that are too old or too many.
func addCall(t tx, c doc.LeaseCall) error {
	if err := forgetCall(t, c.Agent, c.Key); err != nil {
		return err
	}
	var number int64
	if err := t.row(`SELECT coalesce(max(number), 0) + 1 FROM lease_calls WHERE agent = ?`, c.Agent).Scan(&number); err != nil {
		return fmt.Errorf("number lease call: %w", err)
	}
	err := t.exec(`INSERT INTO lease_calls (agent, number, key, request, resource, lease, granted, released, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.Agent, number, c.Key, c.Request[:], c.Resource, c.Lease, c.Granted, c.Released, c.At.UnixMilli())
	if err != nil {
		return fmt.Errorf("insert lease call: %w", err)
	}
	if err := t.exec(`DELETE FROM lease_calls WHERE agent = ? AND number <= ?`, c.Agent, number-doc.LeaseCallsPerAgent); err != nil {
		return fmt.Errorf("forget surplus lease calls: %w", err)
	}
	if err := t.exec(`DELETE FROM lease_calls WHERE at < ?`, c.At.Add(-doc.LeaseCallsKept).UnixMilli()); err != nil {
		return fmt.Errorf("forget old lease calls: %w", err)
	}
	return nil
}

func forgetCall(t tx, a doc.Agent, k doc.IdempotencyKey) error {
	if err := t.exec(`DELETE FROM lease_calls WHERE agent = ? AND key = ?`, a, k); err != nil {
		return fmt.Errorf("forget lease call: %w", err)
	}
	return nil
}

// ForgetLeaseCall forgets a lease call.
func (s *Store) ForgetLeaseCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) error {
	return s.write(ctx, func(t tx) error { return forgetCall(t, a, k) })
}

// LeaseCall finds a remembered lease call.
func (s *Store) LeaseCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) (doc.LeaseCall, error) {
	c := doc.LeaseCall{Agent: a, Key: k}
	err := s.read(ctx, func(v view) error {
		return notFound(v.row(`SELECT request, resource, lease, granted, released, at FROM lease_calls WHERE agent = ? AND key = ?`, a, k).
			Scan(fixed(c.Request[:]), &c.Resource, &c.Lease, &c.Granted, &c.Released, instant{&c.At}))
	})
	if err != nil {
		return doc.LeaseCall{}, fmt.Errorf("find lease call: %w", err)
	}
	return c, nil
}

// editCallsPruned is after how many edits it is looked whether those of the agent whose turn it is are too many. It has no
// divisor, so that agents who write by turns all have theirs.
const editCallsPruned = 1021

// addEditCalls remembers writes, in place of what was remembered of the same agents' keys, and forgets those that are
// too old, and now and then those that are too many.
func addEditCalls(t tx, h *head, calls []doc.EditCall) error {
	if len(calls) == 0 {
		return nil
	}
	for _, c := range calls {
		number, err := t.insert(`INSERT OR REPLACE INTO edit_calls (agent, key, request, section, hash, at, document, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			c.Agent, c.Key, c.Request[:], c.Section, c.Hash[:], c.At.UnixMilli(), h.id[:], h.lastSeq)
		if err != nil {
			return fmt.Errorf("remember edit: %w", err)
		}
		if number%editCallsPruned != 0 {
			continue
		}
		err = t.exec(`DELETE FROM edit_calls WHERE number IN (SELECT number FROM edit_calls WHERE agent = ? ORDER BY number DESC LIMIT -1 OFFSET ?)`,
			c.Agent, doc.EditCallsPerAgent)
		if err != nil {
			return fmt.Errorf("forget surplus edits: %w", err)
		}
	}
	// The old ones are those in front of the first that is not: usually none.
	err := t.exec(`DELETE FROM edit_calls WHERE at < ?1 AND
		number < coalesce((SELECT number FROM edit_calls WHERE at >= ?1 ORDER BY number LIMIT 1), ?2)`,
		calls[0].At.Add(-doc.EditCallsKept).UnixMilli(), int64(math.MaxInt64))
	if err != nil {
		return fmt.Errorf("forget old edits: %w", err)
	}
	return nil
}

// EditCall finds a remembered edit.
func (s *Store) EditCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) (doc.EditCall, error) {
	c := doc.EditCall{Agent: a, Key: k}
	err := s.read(ctx, func(v view) error {
		return notFound(v.row(`SELECT request, section, hash, at, document, seq FROM edit_calls WHERE agent = ? AND key = ?`, a, k).
			Scan(fixed(c.Request[:]), &c.Section, fixed(c.Hash[:]), instant{&c.At}, fixed(c.Document[:]), &c.Seq))
	})
	if err != nil {
		return doc.EditCall{}, fmt.Errorf("find edit: %w", err)
	}
	return c, nil
}
