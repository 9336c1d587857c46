package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// fill makes a document with a row of everything that a document can have, and more than a purge removes in one step.
func fill(t *testing.T, s *Store, id crdt.DocumentID, slug doc.Slug) {
	t.Helper()
	day := time.UnixMilli(1e12)
	changes := make([]doc.ChangeRow, 3)
	for i := range changes {
		changes[i] = doc.ChangeRow{Number: int64(i + 1), Hash: crdt.Hash{id[0], byte(i)}, Author: "ada", Logged: true, At: day, Raw: make([]byte, purgeBytes)}
	}
	events := make([]doc.NewEvent, purgeRows+1)
	for i := range events {
		events[i] = doc.NewEvent{Type: doc.MessagePosted, Actor: "ada", Payload: []byte(`{}`), At: day}
	}
	grant := lease.Lease{ID: "l", Resource: doc.SectionResource(id, "intro"), Holder: "ada", Mode: lease.Exclusive, Fence: 1, AcquiredAt: day, ExpiresAt: day}
	event := lease.Event{Kind: lease.Released, Resource: grant.Resource, Actor: "ada", At: day, Lease: grant}
	_, err := s.Create(t.Context(), doc.Meta{ID: id, Slug: slug, CreatedAt: day, CreatedBy: "ada"}, doc.Append{Changes: changes, Events: events})
	err = errors.Join(err,
		s.Compact(t.Context(), id, doc.Saved{Upto: 1, Chunk: []byte("chunk"), Index: []byte("index")}),
		s.SaveLeases(t.Context(), []doc.LeaseCommit{{Commit: lease.Commit{Events: []lease.Event{event}}, Document: id}}))
	if err != nil {
		t.Fatal(err)
	}
}

// held is how many rows there are of each table that documents have rows in.
func held(t *testing.T, s *Store) (counts []int) {
	t.Helper()
	for _, table := range []string{"documents", "slugs", "changes", "events", "saved", "ledger", "purges"} {
		var n int
		if err := s.readers.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts = append(counts, n)
	}
	return counts
}

// A purge that ends anywhere leaves a document that was not purged, or one that cannot be come by any more, of which nothing is
// left when the store is opened again; other documents keep everything.
func TestAPurgeThatIsInterrupted(t *testing.T) {
	mine, other := crdt.DocumentID{1}, crdt.DocumentID{2}
	whole := []int{2, 2, 4, 2*purgeRows + 2, 2, 2, 0}
	half := []int{2, 1, 2, purgeRows + 1, 1, 1, 0}
	begun := 0
	for _, last := range []int{1, 2, 3, 4, purgeRows + 3, purgeRows + 4, purgeRows + 5, purgeRows + 6, purgeRows + 7} {
		t.Run(fmt.Sprint(last), func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir, Options{})
			fill(t, s, mine, "mine")
			fill(t, s, other, "other")
			if _, err := s.Append(t.Context(), mine, doc.Append{Expect: doc.AnySeq, Deletion: &doc.Deletion{At: time.UnixMilli(2e12), By: "ada"}}); err != nil {
				t.Fatal(err)
			}
			if got := held(t, s); !slices.Equal(got, whole) {
				t.Fatalf("there are %d rows, want %d", got, whole)
			}
			purge := func() error { return s.Purge(t.Context(), mine, doc.Purge{At: time.UnixMilli(3e12), By: "root"}) }
			s.failAtRow(t, last)
			err := purge()
			if (err == nil) != (last == purgeRows+7) {
				t.Fatalf("failing at row %d the purge came to %v", last, err)
			}
			m, findErr := s.Document(t.Context(), mine)
			_, slugErr := s.FindSlug(t.Context(), "mine")
			if purged := !m.Purge.At.IsZero(); findErr != nil || purged != errors.Is(slugErr, doc.ErrNotFound) || purged != (last > 1) || err == nil && !purged {
				t.Errorf("the document is %+v, %v, its slug %v", m, findErr, slugErr)
			}
			if got := held(t, s); last > 1 && err != nil && got[6] == 1 {
				begun++
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, dir, Options{})
			if last == 1 {
				if got := held(t, s); !slices.Equal(got, whole) {
					t.Errorf("a purge that was not begun left %d rows, want %d", got, whole)
				}
				if err := purge(); err != nil {
					t.Error(err)
				}
			}
			if got := held(t, s); !slices.Equal(got, half) {
				t.Errorf("there are %d rows, want %d", got, half)
			}
			if events, err := s.Events(t.Context(), other, 0, 2*purgeRows); err != nil || len(events) != purgeRows+1 {
				t.Errorf("the other document has %d events, %v", len(events), err)
			}
		})
	}
	if begun == 0 {
		t.Error("no purge was interrupted half way")
	}
}

// failAtRow has removing a document's rows fail at the one with a number, counted from 1 over all tables.
func (s *Store) failAtRow(t *testing.T, last int) {
	t.Helper()
	rows := 0
	step := func() (int64, error) {
		if rows++; rows == last {
			return 0, errors.New("of the test")
		}
		return 0, nil
	}
	err := s.writer.conn.Raw(func(c any) error { return c.(*sqlite3.SQLiteConn).RegisterFunc("step", step, false) })
	for _, table := range []string{"slugs", "changes", "events", "saved", "ledger"} {
		if err == nil {
			_, err = s.writer.conn.ExecContext(t.Context(), fmt.Sprintf(`CREATE TEMP TRIGGER fail_%[1]s BEFORE DELETE ON main.%[1]s BEGIN SELECT step(); END`, table))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// No step of a purge removes more than its share, so that nobody who writes meanwhile waits for all of it.
func TestAPurgeGoesInSteps(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := crdt.DocumentID{1}
	fill(t, s, id, "d")
	number := int64(1)
	for i, want := range [][]int64{{1, 1, 0}, {purgeRows, 1, 0}, {1, 0}, {1, 0}} {
		for _, n := range want {
			err := s.write(t.Context(), func(writing tx) error {
				removed, err := purgeSteps[i](writing, number, id)
				if removed != n {
					t.Errorf("step %d removed %d rows, want %d", i, removed, n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
