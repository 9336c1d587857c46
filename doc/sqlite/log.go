package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

// addChanges writes the changes behind the document's last one.
func addChanges(t tx, h *head, changes []doc.ChangeRow) error {
	for _, c := range changes {
		if c.Number != h.lastChange+1 {
			return fmt.Errorf("change %d behind change %d: %w", c.Number, h.lastChange, doc.ErrConflict)
		}
		sections, err := json.Marshal(append([]doc.SectionID{}, c.Sections...))
		if err != nil {
			return fmt.Errorf("marshal sections: %w", err)
		}
		err = t.exec(`INSERT INTO changes (document, number, hash, author, sections, logged, at, raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			h.number, c.Number, c.Hash[:], c.Author, string(sections), c.Logged, c.At.UnixMilli(), notNull(c.Raw))
		if err != nil {
			return fmt.Errorf("insert change: %w", err)
		}
		h.lastChange = c.Number
		h.bytes += int64(len(c.Raw))
	}
	return nil
}

// markLogged marks changes with one statement for all that follow each other, as those of a crowd do.
func markLogged(t tx, h *head, numbers []int64) error {
	numbers = slices.Sorted(slices.Values(numbers))
	for first := 0; first < len(numbers); {
		last := first
		for last+1 < len(numbers) && numbers[last+1] <= numbers[last]+1 {
			last++
		}
		err := t.exec(`UPDATE changes SET logged = 1 WHERE document = ? AND number BETWEEN ? AND ?`, h.number, numbers[first], numbers[last])
		if err != nil {
			return fmt.Errorf("mark changes as logged: %w", err)
		}
		first = last + 1
	}
	return nil
}

// addEvents seals the events behind the document's last one and writes them.
func addEvents(t tx, h *head, events []doc.NewEvent) ([]doc.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	sealed := make([]doc.Event, len(events))
	for i, n := range events {
		n.Payload = slices.Clone(n.Payload)
		n.At = time.UnixMilli(n.At.UnixMilli()).UTC()
		e := doc.Chain(h.lastHash, h.lastSeq+1, n)
		err := t.exec(`INSERT INTO events (document, seq, id, type, actor, at, payload, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			h.number, e.Seq, e.ID[:], e.Type, e.Actor, e.At.UnixMilli(), string(e.Payload), e.Hash[:])
		if err != nil {
			return nil, fmt.Errorf("insert event: %w", err)
		}
		if e.Type == doc.MessagePosted {
			h.posted += int64(len(e.Payload))
		}
		sealed[i] = e
		h.lastSeq, h.lastHash, h.changedAt = e.Seq, e.Hash, e.At
	}
	return sealed, nil
}

// notNull is b, empty where it is nil: the driver would write NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Changes gives the document's changes behind a number.
func (s *Store) Changes(ctx context.Context, id crdt.DocumentID, after int64, limit int) ([]doc.ChangeRow, error) {
	var changes []doc.ChangeRow
	err := s.read(ctx, func(v view) error {
		number, err := v.document(id)
		if err != nil {
			return err
		}
		return v.each(`SELECT number, hash, author, sections, logged, at, raw FROM changes WHERE document = ? AND number > ? ORDER BY number LIMIT ?`,
			[]any{number, after, max(0, limit)}, func(rows *sql.Rows) error {
				var c doc.ChangeRow
				var sections []byte
				if err := rows.Scan(&c.Number, fixed(c.Hash[:]), &c.Author, &sections, &c.Logged, instant{&c.At}, &c.Raw); err != nil {
					return err
				}
				if err := json.Unmarshal(sections, &c.Sections); err != nil {
					return fmt.Errorf("sections of change %d: %w", c.Number, err)
				}
				changes = append(changes, c)
				return nil
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	return changes, nil
}

// Events gives the document's events behind a seq.
func (s *Store) Events(ctx context.Context, id crdt.DocumentID, since doc.Seq, limit int) ([]doc.Event, error) {
	var events []doc.Event
	err := s.read(ctx, func(v view) error {
		number, err := v.document(id)
		if err != nil {
			return err
		}
		return v.each(`SELECT seq, id, type, actor, at, payload, hash FROM events WHERE document = ? AND seq > ? ORDER BY seq LIMIT ?`,
			[]any{number, since, max(0, limit)}, func(rows *sql.Rows) error {
				var e doc.Event
				err := rows.Scan(&e.Seq, fixed(e.ID[:]), &e.Type, &e.Actor, instant{&e.At}, (*[]byte)(&e.Payload), fixed(e.Hash[:]))
				events = append(events, e)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// document finds the number of a document that is not purged.
func (v view) document(id crdt.DocumentID) (number int64, err error) {
	err = v.row(`SELECT number FROM documents WHERE id = ? AND purged_at IS NULL`, id[:]).Scan(&number)
	return number, notFound(err)
}
