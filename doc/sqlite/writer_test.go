package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mattn/go-sqlite3"

	"cowrite/crdt"
	"cowrite/doc"
)

var errRefused = errors.New("refused by the test")

// hold keeps the writer busy until release is called; what is queued meanwhile makes one batch.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	busy, free := make(chan struct{}), make(chan struct{})
	j := enqueue(s, func(tx) error {
		close(busy)
		<-free
		return nil
	})
	<-busy
	return func() {
		close(free)
		<-j.done
	}
}

func enqueue(s *Store, step func(tx) error) *job {
	j := &job{step: step, done: make(chan struct{})}
	s.writer.queue <- j
	return j
}

// appending is the step of an append of n events.
func appending(id crdt.DocumentID, n int) func(tx) error {
	return func(t tx) error {
		h, err := findHead(t, id)
		if err != nil {
			return err
		}
		_, err = add(t, h, anyAppend(n))
		return err
	}
}

// onCommit has a function decide about every commit from now on: false makes it fail.
func onCommit(t testing.TB, s *Store, allow func() bool) {
	t.Helper()
	err := s.write(context.Background(), func(tx tx) error {
		return tx.conn.Raw(func(c any) error {
			c.(*sqlite3.SQLiteConn).RegisterCommitHook(func() int {
				if allow() {
					return 0
				}
				return 1
			})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWaitingStepsShareACommit(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	var commits atomic.Int32
	onCommit(t, s, func() bool { commits.Add(1); return true })
	release := hold(t, s)
	var jobs []*job
	for range 2 * batchLength {
		jobs = append(jobs, enqueue(s, appending(id, 1)))
	}
	commits.Store(0)
	release()
	for _, j := range jobs {
		if <-j.done; j.err != nil {
			t.Fatal(j.err)
		}
	}
	if got := commits.Load() - 1; got != 2 { // one is that of the step that held the writer
		t.Errorf("%d steps took %d commits, want 2", len(jobs), got)
	}
	if log := verify(t, s, id); len(log) != len(jobs) {
		t.Errorf("%d events, want %d", len(log), len(jobs))
	}
}

// In one batch: a step that is refused after it wrote, one that breaks a constraint, and good ones around them.
func TestRefusedStepHarmsNoOther(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	good, bad := mustCreate(t, s), mustCreate(t, s)
	release := hold(t, s)
	first := enqueue(s, appending(good, 2))
	refused := enqueue(s, func(t tx) error {
		if err := appending(bad, 3)(t); err != nil {
			return err
		}
		return errRefused
	})
	second := enqueue(s, appending(good, 1))
	broken := enqueue(s, func(t tx) error {
		if err := appending(bad, 3)(t); err != nil {
			return err
		}
		return t.exec(`INSERT INTO events SELECT * FROM events LIMIT 1`)
	})
	third := enqueue(s, appending(bad, 1))
	release()
	for _, j := range []*job{first, second, third} {
		if <-j.done; j.err != nil {
			t.Errorf("a good step: %v", j.err)
		}
	}
	<-refused.done
	<-broken.done
	if !errors.Is(refused.err, errRefused) || broken.err == nil {
		t.Errorf("refused: %v, broken: %v", refused.err, broken.err)
	}
	if got := [2]int{len(verify(t, s, good)), len(verify(t, s, bad))}; got != [2]int{3, 1} {
		t.Errorf("the logs have %v events, want 3 and 1", got)
	}
}

// A commit that fails once is tried again step by step: nobody notices, and changes follow each other as they were numbered.
func TestFailedCommitIsTriedAlone(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	var fail atomic.Bool
	var once sync.Once
	onCommit(t, s, func() bool { return !fail.Swap(false) })
	release := hold(t, s)
	var jobs []*job
	for n := range int64(5) {
		jobs = append(jobs, enqueue(s, func(t tx) error {
			once.Do(func() { fail.Store(true) })
			h, err := findHead(t, id)
			if err != nil {
				return err
			}
			a := anyAppend(2)
			a.Changes = []doc.ChangeRow{{Number: n + 1}}
			_, err = add(t, h, a)
			return err
		}))
	}
	release()
	for _, j := range jobs {
		if <-j.done; j.err != nil {
			t.Error(j.err)
		}
	}
	if log := verify(t, s, id); len(log) != 10 {
		t.Errorf("%d events, want 10", len(log))
	}
	if m, err := s.Document(t.Context(), id); err != nil || m.Changes != 5 {
		t.Errorf("%d changes, want 5: %v", m.Changes, err)
	}
}

// A step with which no commit succeeds fails alone and leaves nothing.
func TestPoisonedStepFailsAlone(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	good, bad := mustCreate(t, s), mustCreate(t, s)
	var poisoned atomic.Bool
	onCommit(t, s, func() bool { return !poisoned.Swap(false) })
	release := hold(t, s)
	before := enqueue(s, appending(good, 1))
	poison := enqueue(s, func(t tx) error {
		poisoned.Store(true)
		return appending(bad, 1)(t)
	})
	after := enqueue(s, appending(good, 1))
	release()
	<-before.done
	<-poison.done
	<-after.done
	if before.err != nil || after.err != nil || poison.err == nil {
		t.Errorf("before: %v, poison: %v, after: %v", before.err, poison.err, after.err)
	}
	if got := [2]int{len(verify(t, s, good)), len(verify(t, s, bad))}; got != [2]int{2, 0} {
		t.Errorf("the logs have %v events, want 2 and 0", got)
	}
}

func TestFailedCommitLeavesNothing(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	var fail atomic.Bool
	onCommit(t, s, func() bool { return !fail.Load() })
	wake, stop := s.Watch(id)
	defer stop()
	fail.Store(true)
	for range 3 {
		if _, err := s.Append(t.Context(), id, anyAppend(1)); err == nil || !strings.Contains(err.Error(), "commit") {
			t.Fatalf("append while commits fail: %v", err)
		}
	}
	select {
	case <-wake:
		t.Error("a watcher was woken for what is not there")
	default:
	}
	fail.Store(false)
	got, err := s.Append(t.Context(), id, anyAppend(1))
	if err != nil || got[0].Seq != 1 {
		t.Fatalf("append after commits failed: %v, %v", got, err)
	}
	verify(t, s, id)
}

// The database may grow by a little: what does not fit fails alone, and what fits goes on.
func TestFullDatabase(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	err := s.write(t.Context(), func(tx tx) error {
		var pages int
		if err := tx.row(`PRAGMA page_count`).Scan(&pages); err != nil {
			return err
		}
		return tx.row(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+20)).Scan(&pages)
	})
	if err != nil {
		t.Fatal(err)
	}
	big := anyAppend(1)
	big.Events[0].Payload = []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
	release := hold(t, s)
	small := enqueue(s, appending(id, 1))
	tooBig := enqueue(s, func(t tx) error {
		h, err := findHead(t, id)
		if err != nil {
			return err
		}
		_, err = add(t, h, big)
		return err
	})
	smallToo := enqueue(s, appending(id, 1))
	release()
	<-small.done
	<-tooBig.done
	<-smallToo.done
	var full sqlite3.Error
	if !errors.As(tooBig.err, &full) || full.Code != sqlite3.ErrFull {
		t.Errorf("too big: %v", tooBig.err)
	}
	if small.err != nil || smallToo.err != nil {
		t.Errorf("small: %v and %v", small.err, smallToo.err)
	}
	if log := verify(t, s, id); len(log) != 2 {
		t.Errorf("%d events, want 2", len(log))
	}
}

// The disk refuses every write beyond a size: appends fail until there is room again, and leave nothing.
func TestDiskRefusesWrites(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	small := before
	small.Cur = 512 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	lift := sync.OnceValue(func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) })
	defer lift()
	kept, failed := 0, 0
	for failed < 10 {
		if _, err := s.Append(t.Context(), id, anyAppend(20)); err != nil {
			failed++
		} else {
			kept++
		}
	}
	if err := lift(); err != nil {
		t.Fatal(err)
	}
	if log := verify(t, s, id); len(log) != 20*kept {
		t.Errorf("%d events, want the %d acknowledged", len(log), 20*kept)
	}
	for range 50 {
		if _, err := s.Append(t.Context(), id, anyAppend(20)); err != nil {
			t.Fatalf("append with room again: %v", err)
		}
	}
	if log := verify(t, s, id); len(log) != 20*(kept+50) {
		t.Errorf("%d events, want %d", len(log), 20*(kept+50))
	}
}

// What waits when its caller gives up is never run; what was begun is answered.
func TestGivingUp(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			if _, err := s.Append(ctx, id, anyAppend(1)); !errors.Is(err, context.Canceled) {
				t.Errorf("append: %v", err)
			}
		})
	}
	cancel()
	waiting.Wait() // while the writer is still held
	release()

	ctx, cancel = context.WithCancel(t.Context())
	err := s.write(ctx, func(t tx) error {
		cancel()
		return appending(id, 1)(t)
	})
	if err != nil {
		t.Errorf("a step that was begun: %v", err)
	}
	if log := verify(t, s, id); len(log) != 1 {
		t.Errorf("%d events, want 1", len(log))
	}
}

// A call that was let in before Close is served, however late it comes to the writer.
func TestCloseWaitsForCalls(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	if err := s.enter(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for s.write(t.Context(), appending(id, 1)) == nil { // until Close has begun
	}
	if err := s.writer.do(t.Context(), appending(id, 1)); err != nil {
		t.Errorf("the call that was let in: %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("close did not wait: %v", err)
	default:
	}
	s.leave()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
