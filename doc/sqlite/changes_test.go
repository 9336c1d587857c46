package sqlite

import (
	"errors"
	"testing"

	"cowrite/crdt"
	"cowrite/doc"
)

// A document of before the tenth migration, part of it compacted, goes on: its changes are found, marked and followed by their
// numbers.
func TestChangesOfBefore(t *testing.T) {
	dir, w := databaseOf(t, 9)
	id, before := crdt.DocumentID{1}, tx{w.conn}
	err := errors.Join(
		before.exec(`INSERT INTO documents (number, id, slug, title, created_at, created_by, changed_at, last_seq, last_hash, last_change, bytes)
			VALUES (1, ?, '', '', 0, 'ada', 0, 0, zeroblob(32), 4, 9)`, id[:]),
		before.exec(`INSERT INTO saved VALUES (1, 2, x'01', x'02')`),
		before.exec(`INSERT INTO changes VALUES (1, 3, randomblob(32), 'ada', '[]', 0, 0, x'7468726565'), (1, 4, randomblob(32), 'ada', '[]', 0, 0, x'666f7572')`),
		w.closeConnection())
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Options{})
	raws, err := s.Raw(t.Context(), id, []int64{4, 2, 3})
	if err != nil || string(raws[0]) != "four" || raws[1] != nil || string(raws[2]) != "three" {
		t.Errorf("raw: %q, %v", raws, err)
	}
	next := doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{{Number: 5, Raw: []byte("five")}}, Logged: []int64{4}}
	if _, err := s.Append(t.Context(), id, next); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Changes(t.Context(), id, 0, 9)
	if err != nil || len(rows) != 3 || rows[0].Logged || !rows[1].Logged || rows[2].Number != 5 {
		t.Errorf("changes: %+v, %v", rows, err)
	}
}
