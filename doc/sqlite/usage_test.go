package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"cowrite/crdt"
	"cowrite/doc"
)

// databaseOf makes a database as it was after so many migrations, in a folder, and gives its writer.
func databaseOf(t *testing.T, applied int) (dir string, w *writer) {
	t.Helper()
	dir = t.TempDir()
	w, err := openWriter(t.Context(), filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	names, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:applied] {
		if err := applyMigration(t.Context(), w.conn, name); err != nil {
			t.Fatal(err)
		}
	}
	return dir, w
}

// What a document and its messages take in the store is known of documents of before that was counted too: of one that was
// compacted, and of one that was not.
func TestBytesOfBefore(t *testing.T) {
	dir, w := databaseOf(t, 4)
	saved, plain := crdt.DocumentID{1}, crdt.DocumentID{2}
	var err error
	for n, id := range []crdt.DocumentID{saved, plain} {
		err = errors.Join(err,
			(tx{w.conn}).exec(`INSERT INTO documents VALUES (?, ?, '', '', 0, 'ada', 0, NULL, 0, zeroblob(32), 1)`, n, id[:]),
			(tx{w.conn}).exec(`INSERT INTO changes VALUES (?, 1, zeroblob(32), 'ada', '[]', 1, 0, zeroblob(700))`, n))
	}
	for seq, kind := range []doc.EventType{doc.MessagePosted, doc.SectionEdited, doc.MessagePosted} {
		err = errors.Join(err, (tx{w.conn}).exec(`INSERT INTO events VALUES (1, ?, zeroblob(16), ?, 'ada', 0, '{"text":"é"}', zeroblob(32))`, seq+1, kind))
	}
	err = errors.Join(err, (tx{w.conn}).exec(`INSERT INTO saved VALUES (0, 0, zeroblob(5000), zeroblob(60))`), w.closeConnection())
	if err != nil {
		t.Fatal(err)
	}
	largest, err := openStore(t, dir, Options{}).Largest(t.Context(), 9)
	if err != nil || len(largest) != 2 || largest[0].ID != saved || largest[0].Bytes != 5760 || largest[1].ID != plain || largest[1].Bytes != 700 || largest[0].Posted != 0 || largest[1].Posted != 26 {
		t.Errorf("by size they are %+v, %v, want %s with 5760 bytes, then %s with 700 and messages of 26", largest, err, saved, plain)
	}
}
