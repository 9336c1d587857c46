package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cowrite/crdt"
	"cowrite/doc"
)

func TestOneServerAFolder(t *testing.T) {
	dir := t.TempDir()
	first := openStore(t, dir, Options{})
	id := mustCreate(t, first)
	_, err := Open(t.Context(), dir, Options{})
	if !errors.Is(err, doc.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second server: %v, want %v naming %s", err, doc.ErrInUse, dir)
	}
	if _, err := first.Append(t.Context(), id, anyAppend(1)); err != nil {
		t.Errorf("the first server, after the second was refused: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := openStore(t, dir, Options{})
	if log := verify(t, second, id); len(log) != 1 {
		t.Errorf("the next server finds %d events", len(log))
	}
}

// A command may come first: it makes the database and is in no server's way.
func TestBesideNobody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	command := openStore(t, dir, Options{Beside: true})
	id := mustCreate(t, command)
	server := openStore(t, dir, Options{})
	if _, err := server.Document(t.Context(), id); err != nil {
		t.Error(err)
	}
	another := openStore(t, dir, Options{Beside: true})
	if _, err := another.Document(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	mustCreate(t, openStore(t, dir, Options{}))
	want := map[string]os.FileMode{".": 0o700, "cowrite.db": 0o600, "cowrite.db-wal": 0o600, "cowrite.db-shm": 0o600, "cowrite.lock": 0o600}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), mode)
		}
	}
}

// The folder's name goes through a URL.
func TestOddFolderNames(t *testing.T) {
	for _, name := range []string{"a b", "a?mode=memory", "a#b", "50%25", "é\u0308", "a&_query_only=on", ":memory:"} {
		dir := filepath.Join(t.TempDir(), name)
		mustCreate(t, openStore(t, dir, Options{}))
		if info, err := os.Stat(filepath.Join(dir, databaseName)); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}
}

// Each of these is one clear error that names the place, and what is there stays as it was.
func TestRefusedFolders(t *testing.T) {
	database := func(t *testing.T, content func(file string)) string {
		dir := t.TempDir()
		content(filepath.Join(dir, databaseName))
		return dir
	}
	write := func(t *testing.T, file, content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	statement := func(t *testing.T, s *Store, query string) {
		if err := s.write(context.Background(), func(tx tx) error { return tx.exec(query) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		dir  func(t *testing.T) string
		want string
	}{
		{"a file", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "file")
			write(t, file, "text")
			return file
		}, "is not a folder"},
		{"below a file", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "file")
			write(t, file, "text")
			return filepath.Join(file, "data")
		}, "open data folder"},
		{"unwritable", unwritableFolder, "write to data folder"},
		{"text for a database", func(t *testing.T) string {
			return database(t, func(file string) { write(t, file, strings.Repeat("this is no database. ", 100)) })
		}, "it is damaged, or no database"},
		{"a damaged database", func(t *testing.T) string {
			return database(t, func(file string) {
				s := openStore(t, filepath.Dir(file), Options{})
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				f, err := os.OpenFile(file, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteAt([]byte(strings.Repeat("junk", 1000)), 96); err != nil {
					t.Fatal(err)
				}
			})
		}, "it is damaged, or no database"},
		{"another program's database", func(t *testing.T) string {
			return database(t, func(file string) {
				w, err := openWriter(t.Context(), file)
				if err != nil {
					t.Fatal(err)
				}
				if err := (tx{w.conn}).exec(`CREATE TABLE songs (title TEXT)`); err != nil {
					t.Fatal(err)
				}
				if err := w.closeConnection(); err != nil {
					t.Fatal(err)
				}
			})
		}, "not one of Cowrite"},
		{"a newer version's database", func(t *testing.T) string {
			return database(t, func(file string) {
				statement(t, openStore(t, filepath.Dir(file), Options{Beside: true}), `INSERT INTO migrations (name) VALUES ('9999_future')`)
			})
		}, "a newer version of Cowrite wrote it (migration 9999_future)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			for _, opts := range []Options{{}, {Beside: true}} {
				s, err := Open(t.Context(), dir, opts)
				if err == nil {
					s.Close()
					t.Fatalf("%+v: opened", opts)
				}
				if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%+v: %q, want one line with %q and %q", opts, err, c.want, dir)
				}
			}
		})
	}
}

// unwritableFolder is one in which nobody can make a file, root included.
func unwritableFolder(t *testing.T) string {
	if os.Geteuid() == 0 {
		return "/proc/self"
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What compaction sets free is given back to the file system, and what was written meanwhile is there.
func TestTheFileShrinks(t *testing.T) {
	dir := t.TempDir()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, databaseName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	reopen := func(s *Store) *Store {
		t.Helper()
		if err := s.Close(); err != nil { // brings the write-ahead log into the file
			t.Fatal(err)
		}
		return openStore(t, dir, Options{})
	}
	s := openStore(t, dir, Options{})
	ids := []crdt.DocumentID{{1}, {2}}
	const rows = 2000
	for _, id := range ids {
		var changes []doc.ChangeRow
		for n := range rows {
			changes = append(changes, doc.ChangeRow{Number: int64(n + 1), Hash: crdt.Hash{byte(n), byte(n >> 8)}, Logged: true, Raw: bytes.Repeat([]byte{byte(n)}, 2000)})
		}
		if _, err := s.Create(t.Context(), doc.Meta{ID: id}, doc.Append{Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(s)
	before := size()
	if err := s.Compact(t.Context(), ids[0], doc.Saved{Upto: rows, Chunk: []byte("chunk"), Index: []byte("index")}); err != nil {
		t.Fatal(err)
	}
	s = reopen(s)
	if after, want := size(), before/2+2*keptPages*4096; after > want {
		t.Errorf("half of what is in a file of %d bytes went, and %d are left, more than %d", before, after, want)
	}
	all, err := s.Changes(t.Context(), ids[1], 0, rows+1)
	if err != nil || len(all) != rows {
		t.Fatalf("%d changes are left of the other document, %v", len(all), err)
	}
	for n, c := range all {
		if !bytes.Equal(c.Raw, bytes.Repeat([]byte{byte(n)}, 2000)) {
			t.Fatalf("change %d is not what was written", n)
		}
	}
}
