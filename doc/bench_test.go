package doc_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/sqlite"
	"cowrite/lease"
)

// silent is a replica that says and hears nothing.
type silent struct{}

func (silent) Deliver(crdt.DocumentID, []byte) bool { return true }
func (silent) Gone(crdt.DocumentID, error)          {}

// A document of 260,000 changes of one character each: opened to be relayed, and loaded into the engine, in time of the processor
// and as a ratio; what of the heap it holds when it is open; and what it and its file take on disk.
func BenchmarkALongDocument(b *testing.B) {
	const changes = 260_000
	ctx, dir := context.Background(), b.TempDir()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	store, err := sqlite.Open(ctx, dir, sqlite.Options{})
	must(err)
	keeper, err := lease.Open(ctx, doc.LeaseStore(store, nil), lease.Options{})
	must(err)
	core := engine.New(engine.Options{})
	open := func() *doc.Library {
		l, err := doc.Open(doc.Options{Store: store, Engine: core, Leases: keeper, Limits: doc.Limits{DocumentBytes: 256 << 20}})
		must(err)
		return l
	}
	saved := typedDocument(b, changes)
	l := open()
	s, err := l.Import(ctx, alice, "long", saved)
	must(err)
	id := s.Meta.ID
	for compacted := int64(0); compacted == 0; time.Sleep(100 * time.Millisecond) {
		form, err := store.Saved(ctx, id, false)
		must(err)
		compacted = form.Upto
	}
	must(l.Close(ctx))
	form, err := store.Saved(ctx, id, true)
	must(err)

	runtime.GC()
	before := cpuTime(b)
	loaded, err := core.Load(ctx, id, [][]byte{form.Chunk})
	must(err)
	load := cpuTime(b) - before
	must(loaded.Close())
	form = doc.Saved{}
	loaded = nil

	l = open()
	idle := heapInUse()
	a, err := l.Attach(ctx, alice, id, silent{}, false)
	must(err)
	held := heapInUse() - idle
	a.Detach()
	must(l.Close(ctx))

	before = cpuTime(b)
	for b.Loop() {
		l := open()
		a, err := l.Attach(ctx, alice, id, silent{}, false)
		must(err)
		a.Detach()
		must(l.Close(ctx))
	}
	relay := (cpuTime(b) - before) / time.Duration(b.N)

	m, err := store.Document(ctx, id)
	must(err)
	must(keeper.Close())
	must(store.Close())
	info, err := os.Stat(filepath.Join(dir, "cowrite.db"))
	must(err)
	b.ReportMetric(float64(load.Milliseconds()), "load-cpu-ms")
	b.ReportMetric(float64(relay.Microseconds())/1000, "relay-cpu-ms")
	b.ReportMetric(float64(load)/float64(relay), "load/relay")
	b.ReportMetric(float64(held)/1e6, "held-MB")
	b.ReportMetric(float64(m.Bytes-4*int64(len(saved)))/changes, "disk-bytes/change")
	b.ReportMetric(float64(info.Size())/1e6, "file-MB")
}

// typedDocument is a saved document with a section into which so many characters were typed, one a change.
func typedDocument(b *testing.B, changes int) []byte {
	b.Helper()
	d := automerge.New()
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(d.Path("schema").Set(1))
	must(d.Path("sections", "s", "body").Set(automerge.NewText("")))
	must(d.Path("sections", "s", "position").Set("V"))
	text := d.Path("sections", "s", "body").Text()
	for i := range changes {
		must(text.Insert(i, string(rune('a'+i%26))))
		_, err := d.Commit("", automerge.CommitOptions{Time: new(time.Unix(int64(i), 0))})
		must(err)
	}
	return d.Save()
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
