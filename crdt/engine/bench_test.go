package engine

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"cowrite/crdt"
)

// One character typed through a worker, on the present version, at several lengths of history.
func BenchmarkEdit(b *testing.B) {
	for _, history := range []int{0, 20_000} {
		b.Run(fmt.Sprint(history), func(b *testing.B) {
			e := NewWorkers(WorkerOptions{Command: workerCommand, Workers: 1, Log: slog.New(slog.DiscardHandler)})
			defer e.Close()
			d, err := e.Load(b.Context(), docID, nil)
			if err != nil {
				b.Fatal(err)
			}
			edit := func(op Op) {
				if _, err := d.Edit(b.Context(), nil, noon, []Op{op}); err != nil {
					b.Fatal(err)
				}
			}
			edit(PutText{crdt.Path{"text"}, ""})
			for range history {
				edit(Splice{crdt.Path{"text"}, 0, 0, "x"})
			}
			for b.Loop() {
				edit(Splice{crdt.Path{"text"}, 0, 0, "x"})
			}
		})
	}
}

// One character replaced on the version ten changes ago of a text of 2,000, at several lengths of history. Where the
// sequence maps it that is all from the older text to the change in the engine, the graph and the sequence. The engine is
// in this process, so that cpu-ns/op is all that an edit takes of the processor, whatever else the machine does.
func BenchmarkEditOnAnOlderVersion(b *testing.B) {
	for _, way := range []string{"present", "mapped", "forked"} { // the first is for comparison
		for _, history := range []int{0, 5_000, 20_000} {
			b.Run(fmt.Sprint(way, "/", history), func(b *testing.B) { benchmarkOlder(b, history, way) })
		}
	}
}

func benchmarkOlder(b *testing.B, history int, way string) {
	const length, behind = 2000, 10
	d := load(b, New(Options{Random: seeded(1)}))
	g := crdt.NewGraph()
	s := crdt.NewSequence(g, bodyPath)
	var versions [behind + 1][]crdt.Hash // the latest last
	edit := func(base []crdt.Hash, ops ...Op) {
		c, err := d.Edit(b.Context(), base, noon, ops)
		if err != nil {
			b.Fatal(err)
		}
		if c != nil {
			g.Add(*c)
			s.Add(*c)
		}
		copy(versions[:], versions[1:])
		versions[behind] = g.Heads()
	}
	edit(nil, PutMap{bodyPath[:1]}, PutMap{bodyPath[:2]}, PutText{bodyPath, strings.Repeat("x", length)})
	random := rand.New(rand.NewPCG(1, 2))
	for range history + behind { // the text stays as it is, and all that it ever was stays in the document
		edit(nil, Splice{bodyPath, random.IntN(length), 1, "x"})
	}
	runtime.GC() // what making the history left
	before := processorTime(b)
	for b.Loop() {
		base := versions[0]
		op := crdt.Splice{At: random.IntN(length), Delete: 1, Insert: "x"}
		switch way {
		case "present":
			edit(nil, onText([]crdt.Splice{op})...)
			continue
		case "forked":
			edit(base, onText([]crdt.Splice{op})...)
			continue
		}
		past, err := s.Past(base)
		if err != nil {
			b.Fatal(err)
		}
		now, err := s.Len() // more than it was where two replaced the same character
		if err != nil {
			b.Fatal(err)
		}
		if _, err := past.Text(strings.Repeat("x", now)); err != nil {
			b.Fatal(err)
		}
		edit(nil, onText(past.Onto([]crdt.Splice{op}))...)
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
