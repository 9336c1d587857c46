package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"cowrite/crdt"
	"cowrite/doc"
)

// compactAndDie in the environment makes the test binary a process that compacts killDocument(0) in the folder named
// there, and kills itself at the step whose number is in compactStep.
const (
	compactAndDie = "COWRITE_TEST_COMPACT_AND_DIE"
	compactStep   = "COWRITE_TEST_COMPACT_STEP"
)

// The commit has so many steps, so far apart.
const (
	commitSteps = 10
	commitPause = 300 * time.Microsecond
)

// compactUntilStep ends with 0 if there was no such step.
func compactUntilStep(dir string) int {
	last, err := strconv.Atoi(os.Getenv(compactStep))
	if err == nil {
		err = compactUntil(dir, last)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func compactUntil(dir string, last int) error {
	s, err := Open(context.Background(), dir, Options{})
	if err != nil {
		return err
	}
	meta, err := s.Document(context.Background(), killDocument(0))
	if err != nil {
		return err
	}
	steps := 0
	step := func() int64 {
		if steps++; steps == last {
			die()
		}
		return 0
	}
	if err := s.atEachRow(step); err != nil {
		return err
	}
	err = s.writer.conn.Raw(func(c any) error {
		c.(*sqlite3.SQLiteConn).RegisterCommitHook(func() int {
			for n := range commitSteps {
				if steps++; steps == last {
					time.AfterFunc(time.Duration(n)*commitPause, die) // somewhere in the commit, if it takes so long
				}
			}
			return 0
		})
		return nil
	})
	if err != nil {
		return err
	}
	step()
	if err := s.Compact(context.Background(), meta.ID, savedUpto(meta.Changes)); err != nil {
		return err
	}
	step()
	if steps >= last {
		select {} // until it is killed
	}
	return s.Close()
}

// atEachRow has a function called before and behind each row that a compaction writes or removes.
func (s *Store) atEachRow(step func() int64) error {
	err := s.writer.conn.Raw(func(c any) error { return c.(*sqlite3.SQLiteConn).RegisterFunc("step", step, false) })
	for i, when := range []string{"BEFORE INSERT ON main.saved", "AFTER INSERT ON main.saved", "BEFORE DELETE ON main.changes", "AFTER DELETE ON main.changes"} {
		if err == nil {
			_, err = s.writer.conn.ExecContext(context.Background(), fmt.Sprintf(`CREATE TEMP TRIGGER step_%d %s BEGIN SELECT step(); END`, i, when))
		}
	}
	return err
}

// die ends the process as kill -9 does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// savedUpto stands for what a document is saved as.
func savedUpto(n int64) doc.Saved {
	return doc.Saved{Upto: n, Chunk: fmt.Appendf(nil, "chunk %d", n), Index: fmt.Appendf(nil, "index %d", n)}
}

// A process is killed at every step of a compaction: before and behind each row that it writes or removes, and at
// several instants of the commit. Either all of the compaction is there or nothing, no change is lost, and the next
// compaction runs.
func TestCompactionKilledAtEveryStep(t *testing.T) {
	const rows = 3
	dir := t.TempDir()
	id := killDocument(0)
	var hashes []crdt.Hash // of all changes
	grow := func(s *Store) {
		var changes []doc.ChangeRow
		for range rows {
			h := crdt.Hash{0: byte(len(hashes)), 1: byte(len(hashes) >> 8), 31: 1}
			hashes = append(hashes, h)
			changes = append(changes, doc.ChangeRow{Number: int64(len(hashes)), Hash: h, Author: "ada", Logged: true, At: time.Now(), Raw: h[:]})
		}
		if _, err := s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	first := openStore(t, dir, Options{})
	if _, err := first.Create(t.Context(), doc.Meta{ID: id, CreatedAt: time.Now()}, doc.Append{}); err != nil {
		t.Fatal(err)
	}
	grow(first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	done := 0
	step := 1
	for ; compactAndKill(t, dir, step); step++ {
		s := openStore(t, dir, Options{})
		upto := checkCompacted(t, s, hashes, rows)
		all := int64(len(hashes))
		if upto == all {
			done++
			grow(s)
			all += rows
		}
		if err := s.Compact(t.Context(), id, savedUpto(all)); err != nil {
			t.Errorf("the next compaction: %v", err)
		}
		grow(s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
	t.Logf("%d steps, of which %d came too late to undo anything", step-1, done)
	if least := 1 + 2 + 2*rows + commitSteps + 1; step-1 < least || done == 0 || done == step-1 {
		t.Errorf("%d steps, want %d at least, and some of them too late", step-1, least)
	}
}

// compactAndKill has a process compact up to a step, and says whether there was such a step.
func compactAndKill(t *testing.T, dir string, step int) bool {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), compactAndDie+"="+dir, compactStep+"="+strconv.Itoa(step))
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Exited()) {
		t.Fatalf("step %d: the process was not killed: %v", step, err)
	}
	return err != nil
}

// checkCompacted says up to where the document was compacted: to its end, or before its last rows.
func checkCompacted(t *testing.T, s *Store, hashes []crdt.Hash, rows int) int64 {
	t.Helper()
	var integrity string
	if err := s.readers.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity: %s, %v", integrity, err)
	}
	saved, err := s.Saved(t.Context(), killDocument(0), true)
	if err != nil {
		t.Fatal(err)
	}
	all := int64(len(hashes))
	if saved.Upto != all && saved.Upto != all-int64(rows) {
		t.Errorf("it was compacted up to change %d of %d", saved.Upto, all)
	}
	if want := savedUpto(saved.Upto); saved.Upto > 0 && (string(saved.Chunk) != string(want.Chunk) || string(saved.Index) != string(want.Index)) {
		t.Errorf("it was compacted to %q, %q, want that up to %d", saved.Chunk, saved.Index, saved.Upto)
	}
	left, err := s.Changes(t.Context(), killDocument(0), 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(left)) != all-saved.Upto {
		t.Errorf("%d rows are left behind change %d of %d", len(left), saved.Upto, all)
	}
	for i, row := range left {
		if row.Number != saved.Upto+int64(i)+1 || row.Hash != hashes[row.Number-1] {
			t.Errorf("row %d is change %d, %s", i, row.Number, row.Hash)
		}
	}
	return saved.Upto
}
