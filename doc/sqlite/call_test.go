package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

// An agent's latest edits are remembered however many others there are, and those beyond are forgotten in time.
func TestSurplusEditsAreForgotten(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	m := doc.Meta{ID: crdt.DocumentID{1}, CreatedAt: time.UnixMilli(0), CreatedBy: "bob"}
	if _, err := s.Create(t.Context(), m, doc.Append{}); err != nil {
		t.Fatal(err)
	}
	key := func(n int) doc.IdempotencyKey { return doc.IdempotencyKey(fmt.Sprint("key-", n)) }
	const most = doc.EditCallsPerAgent + 2*editCallsPruned
	calls := []doc.EditCall{{Agent: "bob", Key: key(0), At: time.UnixMilli(0)}}
	for n := range most {
		calls = append(calls, doc.EditCall{Agent: "ada", Key: key(n), At: time.UnixMilli(int64(n))})
	}
	if _, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Calls: calls}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{most - 1, most - doc.EditCallsPerAgent} {
		if _, err := s.EditCall(t.Context(), "ada", key(n)); err != nil {
			t.Errorf("edit %d of %d: %v", n, most, err)
		}
	}
	if _, err := s.EditCall(t.Context(), "ada", key(0)); !errors.Is(err, doc.ErrNotFound) {
		t.Errorf("the first of %d edits: %v", most, err)
	}
	if _, err := s.EditCall(t.Context(), "bob", key(0)); err != nil {
		t.Errorf("another's only edit: %v", err)
	}
}

// What is remembered for retries outlasts that it is kept in another way.
func TestEditsAreRememberedOverMigration(t *testing.T) {
	dir := t.TempDir()
	if err := makeFolder(dir); err != nil {
		t.Fatal(err)
	}
	w, err := openWriter(t.Context(), filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	todo, err := pending(t.Context(), w.conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range todo[:6] {
		if err := applyMigration(t.Context(), w.conn, name); err != nil {
			t.Fatal(err)
		}
	}
	want := doc.EditCall{Agent: "ada", Key: "k", Request: doc.RequestDigest{1}, Section: "intro", Hash: crdt.Hash{2}, At: time.UnixMilli(3).UTC(), Document: crdt.DocumentID{4}, Seq: 5}
	_, err = w.conn.ExecContext(t.Context(), `INSERT INTO edit_calls (agent, number, key, request, section, hash, at, document, seq) VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)`,
		want.Agent, want.Key, want.Request[:], want.Section, want.Hash[:], want.At.UnixMilli(), want.Document[:], want.Seq)
	if err := errors.Join(err, w.closeConnection()); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Options{})
	if got, err := s.EditCall(t.Context(), want.Agent, want.Key); err != nil || got != want {
		t.Errorf("remembered %+v, %v, want %+v", got, err, want)
	}
}
