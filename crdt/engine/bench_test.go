package engine

import (
	"fmt"
	"log/slog"
	"testing"

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
