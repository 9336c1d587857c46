package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/crdttest"
)

// mutants is how many mutated inputs of each kind are tried; the long form sets it to 100000.
var mutants = flag.Int("mutants", 300, "mutated inputs of each kind to try on the engine's workers")

func openWorkers(t *testing.T, opts WorkerOptions) *workers {
	opts.Command = workerCommand
	opts.Log = slog.New(slog.DiscardHandler)
	e := NewWorkers(opts).(*workers)
	t.Cleanup(func() {
		pids := e.pids()
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); err == nil {
				t.Errorf("worker %d lives on", pid)
			}
		}
	})
	return e
}

// pids are the process ids of the workers that run, the spare one and the saver last.
func (w *workers) pids() []int {
	var pids []int
	for _, s := range slices.Concat(w.seats, []*seat{w.spare, w.saver}) {
		s.mu.Lock()
		if s.running != nil {
			pids = append(pids, s.running.cmd.Process.Pid)
		}
		s.mu.Unlock()
	}
	return pids
}

func TestWorkers(t *testing.T) {
	testEngine(t, func(t *testing.T) Engine { return openWorkers(t, WorkerOptions{Workers: 1}) })
}

// changesOn makes changes that put values one after another under a key, by an author of their own.
func changesOn(t *testing.T, seed uint64, base [][]byte, values ...string) []crdt.Change {
	t.Helper()
	d := load(t, New(Options{Random: seeded(seed)}), base...)
	var out []crdt.Change
	for _, v := range values {
		out = append(out, *edit(t, d, nil, Put{crdt.Path{"key"}, v}))
	}
	return out
}

// A change that ends every worker is refused by name, and what came with it is not; nobody else notices.
func TestWhatEndsWorkersIsRefused(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	d, bystander := load(t, e), load(t, e)
	edit(t, bystander, nil, Put{crdt.Path{"mine"}, "kept"})
	first := edit(t, d, nil, Put{crdt.Path{"a"}, "b"})
	changes := changesOn(t, 9, [][]byte{first.Raw}, "one", "two", abortMark, "three")

	err := d.Apply(t.Context(), changes)
	var bad *BadChangeError
	if !errors.As(err, &bad) || bad.Hash != changes[2].Hash {
		t.Fatalf("got %v, want %v refused", err, changes[2].Hash)
	}
	if v := read(t, d, nil, "key"); v != "two" {
		t.Errorf("after the refusal it reads %q", v)
	}
	if v := read(t, bystander, nil, "mine"); v != "kept" {
		t.Errorf("the other document reads %q", v)
	}
	before := e.pids()
	if err := d.Apply(t.Context(), changes); !errors.As(err, &bad) || bad.Hash != changes[2].Hash {
		t.Errorf("again: %v", err)
	}
	if after := e.pids(); !slices.Equal(after, before) {
		t.Errorf("its second coming cost a worker: %v, then %v", before, after)
	}
	if c := edit(t, d, nil, Put{crdt.Path{"key"}, "on"}); c == nil || read(t, d, nil, "key") != "on" {
		t.Error("the document does not go on")
	}
}

// A call that takes too long is given up, wherever among others what takes long stands: nobody is said to be at fault, and the
// document is as before. What is written next builds on nothing that was not taken in, and all of it can come again.
func TestTimeout(t *testing.T) {
	for at := range 3 {
		t.Run(fmt.Sprint("behind ", at), func(t *testing.T) {
			t.Parallel() // it waits for two time limits
			e := openWorkers(t, WorkerOptions{Workers: 1, CallTimeout: 4 * time.Second})
			d := load(t, e)
			first := edit(t, d, nil, Put{crdt.Path{"key"}, "first"})
			values := slices.Insert([]string{"one", "two"}, at, hangMark)
			changes := changesOn(t, 9, [][]byte{first.Raw}, values...)
			if err := d.Apply(t.Context(), changes); !errors.Is(err, ErrTimeout) {
				t.Fatalf("got %v", err)
			}
			if v := read(t, d, nil, "key"); v != "first" {
				t.Errorf("it reads %q", v)
			}
			if e.convicts.has(changes[at].Hash) {
				t.Error("it was convicted")
			}
			if c := edit(t, d, nil, Put{crdt.Path{"other"}, "next"}); !slices.Equal(c.Deps, []crdt.Hash{first.Hash}) {
				t.Errorf("the next change builds on %v, want %v", c.Deps, first.Hash)
			}
			if err := d.Apply(t.Context(), changes[:at]); err != nil {
				t.Errorf("again, without it: %v", err)
			}
			heads, err := crdt.SavedHeads(save(t, d))
			if want := 1 + min(at, 1); err != nil || len(heads) != want {
				t.Errorf("in the end there are %d heads, %v, want %d", len(heads), err, want)
			}
		})
	}
}

// Workers are killed by hand all the time, and every document goes on without an error or a loss.
func TestKilledByHand(t *testing.T) {
	t.Parallel()
	e := openWorkers(t, WorkerOptions{Workers: 2})
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	const documents, kills = 4, 12
	killed := make(chan struct{}, kills)
	for i := range documents {
		writers.Go(func() {
			d, err := e.Load(t.Context(), crdt.DocumentID{byte(i)}, nil)
			for errors.Is(err, ErrWorker) {
				d, err = e.Load(t.Context(), crdt.DocumentID{byte(i)}, nil)
			}
			if err != nil {
				t.Errorf("load: %v", err)
				return
			}
			defer d.Close()
			want, op := "", Op(PutText{crdt.Path{"text"}, ""})
			for n := 0; ctx.Err() == nil; {
				_, err := d.Edit(t.Context(), nil, noon, []Op{op})
				if errors.Is(err, ErrWorker) {
					continue // killed three times in one call: the document is whole, the edit is made again
				}
				if err != nil {
					t.Errorf("edit: %v", err)
					return
				}
				if n > 0 {
					want += op.(Splice).Insert
				}
				op = Splice{crdt.Path{"text"}, len(want), 0, string(rune('a' + n%26))}
				n++
			}
			for range attempts {
				v, err := d.Read(t.Context(), nil, crdt.Path{"text"})
				if err == nil && v != Text(want) {
					t.Errorf("document %d reads %q, want %q", i, v, want)
				}
				if err == nil {
					return
				}
			}
			t.Errorf("document %d cannot be read", i)
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for len(killed) < kills {
		if pids := e.pids(); len(pids) > 0 {
			if syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL) == nil {
				killed <- struct{}{}
			}
		}
		// Let an edit come through between two kills: the workers' turn goes round.
		for _, s := range e.seats {
			<-s.turn
			s.turn <- struct{}{}
		}
	}
	stop()
	writers.Wait()
}

// A worker that grows over its limit is replaced, and its documents are loaded again as they are needed.
func TestGrownWorkerIsReplaced(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1, Memory: 1}) // any worker is larger
	d := load(t, e)
	for i := range 5 {
		edit(t, d, nil, Put{crdt.Path{"key"}, int64(i)})
		if n := len(e.pids()); n != 0 {
			t.Fatalf("%d workers over the limit", n)
		}
		if v := read(t, d, nil, "key"); v != int64(i) {
			t.Errorf("it reads %v, want %d", v, i)
		}
	}
}

// A journal is saved when it grows long, so that loading a document again does not take its whole history.
func TestJournalIsShortened(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	d := load(t, e)
	long := strings.Repeat("all the same ", 10_000)
	const edits = 80
	for i := range edits {
		edit(t, d, nil, Put{crdt.Path{"key"}, fmt.Sprint(i, long)})
	}
	j := d.(*workerDocument).journal
	if len(j.parts) > edits || j.saved == 0 {
		t.Errorf("%d parts of %d bytes, %d of them saved", len(j.parts), j.bytes, j.saved)
	}
	again := load(t, e, j.parts...)
	if v := read(t, again, nil, "key"); v != fmt.Sprint(edits-1, long) {
		t.Error("the journal is not the document")
	}
}

// What is made of stored parts is saved beside the documents, whose worker is not asked; what that cannot be done with is
// told by name.
func TestPartsAreSavedBesideTheDocuments(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	changes := changesOn(t, 1, nil, "one", "two", "three")
	var parts [][]byte
	for _, c := range changes {
		parts = append(parts, c.Raw)
	}
	d := load(t, e, parts...)
	<-e.seats[0].turn
	saved, err := e.Save(t.Context(), parts)
	e.seats[0].turn <- struct{}{}
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" { // which counts from 20 down
		pids := e.pids()
		if line, err := syscall.Getpriority(syscall.PRIO_PROCESS, pids[len(pids)-1]); err != nil || line != 20-niceness {
			t.Errorf("the saver's priority is %d, %v", line, err)
		}
	}
	if heads, err := crdt.SavedHeads(saved); err != nil || !slices.Equal(heads, []crdt.Hash{changes[2].Hash}) {
		t.Errorf("the heads are %v, %v", heads, err)
	}
	// From now on it is loaded from the short form.
	next := edit(t, d, nil, Put{crdt.Path{"next"}, "four"})
	d.Rebase([][]byte{saved, next.Raw})
	for _, pid := range e.pids() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if v := fmt.Sprint(read(t, d, nil, "key"), read(t, d, nil, "next")); v != "threefour" {
		t.Errorf("it reads %q", v)
	}
	damaged := slices.Clone(saved)
	damaged[len(damaged)-1] ^= 1
	var bad *BadChangeError
	if _, err := e.Save(t.Context(), [][]byte{damaged}); !errors.As(err, &bad) {
		t.Errorf("a damaged part: %v", err)
	}
}

// A closed engine says so, and a context that has ended does not wait for its turn.
func TestClosedAndCancelled(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	d := load(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	<-e.seats[0].turn
	if _, err := d.Read(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	e.seats[0].turn <- struct{}{}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Read(t.Context(), nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed document: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.Load(t.Context(), docID, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed engine: %v", err)
	}
	none := NewWorkers(WorkerOptions{Command: func() *exec.Cmd { return exec.Command("/nowhere/at/all") }, Log: slog.New(slog.DiscardHandler)})
	if _, err := none.Load(t.Context(), docID, nil); !errors.Is(err, ErrWorker) {
		t.Errorf("no worker to be had: %v", err)
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

func TestConvictsAreBounded(t *testing.T) {
	c := newConvicts()
	for i := range uint32(2 * maxConvicts) {
		var h crdt.Hash
		binary.BigEndian.PutUint32(h[:], i)
		c.add(h)
		c.add(h)
		if !c.has(h) {
			t.Fatal("forgotten at once")
		}
	}
	if len(c.known) != maxConvicts || c.has(crdt.Hash{}) {
		t.Errorf("%d known", len(c.known))
	}
}

// Changes with bytes turned over and a right checksum: each is taken in or refused by name, what was there before
// stays, and another document on the same worker notices nothing.
func TestMutatedChanges(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	base := changesOn(t, 3, nil, "base")
	d := load(t, New(Options{Random: seeded(4)}), base[0].Raw)
	valid := []crdt.Change{
		*edit(t, d, nil, PutText{crdt.Path{"text"}, "some text"}, PutMap{crdt.Path{"map"}}, Put{crdt.Path{"map", "n"}, int64(1234)}),
		*edit(t, d, nil, Splice{crdt.Path{"text"}, 2, 3, "xyz"}, Put{crdt.Path{"map", "n"}, 1.5}, Delete{crdt.Path{"key"}}),
	}
	bystander := load(t, e)
	random := rand.New(rand.NewPCG(5, 6))
	taken, refused, unsavable, tried := 0, 0, 0, 0
	for tried < *mutants {
		n := random.IntN(len(valid))
		raw := crdttest.Mutate(random, valid[n].Plain())
		changes, _, err := crdt.ParseEntry(raw, crdt.Limits{ChangeBytes: 1 << 20})
		if err != nil || !fits(changes, base[0], valid[0]) {
			continue // it never comes to the engine
		}
		tried++
		m := load(t, e, base[0].Raw, valid[0].Raw)
		before := read(t, m, nil, "text")
		err = m.Apply(t.Context(), changes)
		var bad *BadChangeError
		switch {
		case err == nil:
			taken++
			parts := [][]byte{base[0].Raw, valid[0].Raw, raw}
			saved, err := m.Save(t.Context())
			if errors.Is(err, ErrUnsavable) {
				unsavable++
			} else if err != nil {
				t.Errorf("what was taken in cannot be saved: %v\n%x", err, raw)
			} else {
				parts = [][]byte{saved}
			}
			want := fmt.Sprint(read(t, m, nil)) // in print NaN is NaN
			again, err := e.Load(t.Context(), docID, parts)
			if err != nil {
				t.Errorf("what was taken in cannot be loaded: %v\n%x", err, raw)
			} else if v := fmt.Sprint(read(t, again, nil)); v != want {
				t.Errorf("loaded again it reads %v, not %v\n%x", v, want, raw)
			}
		case errors.As(err, &bad) && bad.Hash == changes[0].Hash:
			refused++
			if v := read(t, m, nil, "text"); v != before {
				t.Errorf("a refused change left %q", v)
			}
			if strings.Contains(err.Error(), "worker ended") {
				keep(t, "change", base[0].Raw, valid[0].Raw, raw)
			}
		default:
			t.Errorf("%v\n%x", err, raw)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		edit(t, bystander, nil, Put{crdt.Path{"n"}, int64(tried)})
	}
	if v := read(t, bystander, nil, "n"); v != int64(tried) {
		t.Errorf("the other document reads %v", v)
	}
	t.Logf("%d mutants: %d taken in, of them %d that cannot be saved, %d refused, of them %d for ending workers", tried, taken, unsavable, refused, len(e.convicts.known))
}

// Saved documents with bytes turned over.
func TestMutatedDocuments(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	d := load(t, New(Options{Random: seeded(4)}))
	for i := range 20 {
		edit(t, d, nil, PutText{crdt.Path{"text"}, fmt.Sprint("some text ", i)}, Put{crdt.Path{"n"}, int64(i)})
	}
	saved := save(t, d)
	random := rand.New(rand.NewPCG(7, 8))
	opened := 0
	for range *mutants {
		raw := crdttest.Mutate(random, saved)
		changes, err := e.Unpack(t.Context(), raw)
		var bad *BadChangeError
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("%v\n%x", err, raw)
		}
		if err != nil && strings.Contains(err.Error(), "worker ended") {
			keep(t, "document", raw)
		}
		if changes != nil {
			opened++
		}
	}
	t.Logf("%d mutants: %d opened, %d ended workers", *mutants, opened, len(e.convicts.known))
}

// What ended workers once is still refused, and nothing more.
func TestCrashers(t *testing.T) {
	e := openWorkers(t, WorkerOptions{Workers: 1})
	files, err := filepath.Glob("testdata/crashers/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no crashers: %v", err)
	}
	came := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var bad *BadChangeError
		if strings.HasPrefix(filepath.Base(file), "document") {
			came++
			if _, err := e.Unpack(t.Context(), raw); !errors.As(err, &bad) {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		changes, _, err := crdt.ParseEntry(raw, crdt.Limits{ChangeBytes: 1 << 20})
		last := len(changes) - 1
		if err != nil || !fits(changes[last:], changes[:last]...) {
			continue // it would not come to the engine any more
		}
		came++
		var history [][]byte
		for _, c := range changes[:last] {
			history = append(history, c.Raw)
		}
		d := load(t, e, history...)
		before := fmt.Sprint(read(t, d, nil)) // in print NaN is NaN
		if err := d.Apply(t.Context(), changes[last:]); !errors.As(err, &bad) {
			t.Errorf("%s: %v", file, err)
		}
		if after := fmt.Sprint(read(t, d, nil)); after != before {
			t.Errorf("%s: the document reads %s, not %s", file, after, before)
		}
	}
	t.Logf("%d of %d come to the engine", came, len(files))
}

// fits says whether the graph lets the changes through to the engine.
func fits(changes []crdt.Change, history ...crdt.Change) bool {
	g := crdt.NewGraph()
	g.Add(history...)
	ready, _, _ := g.Sort(changes)
	return len(ready) == len(changes)
}

// keep writes a crasher to the tree when it is asked for.
func keep(t *testing.T, kind string, chunks ...[]byte) {
	t.Helper()
	if *keepCrashers {
		if err := crdttest.Keep("testdata/crashers", kind, chunks...); err != nil {
			t.Error(err)
		}
	}
}

var keepCrashers = flag.Bool("keep-crashers", false, "write inputs that end workers to testdata/crashers")
