package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"cowrite/crdt"
)

// BenchmarkAppend is one event an append, each appender on a document of its own, waiting for its answer before the next.
func BenchmarkAppend(b *testing.B) {
	for _, appenders := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("appenders=%d", appenders), func(b *testing.B) {
			s := openStore(b, b.TempDir(), Options{})
			ids := make([]crdt.DocumentID, appenders)
			for i := range ids {
				ids[i] = mustCreate(b, s)
			}
			var commits, taken atomic.Int64
			onCommit(b, s, func() bool { commits.Add(1); return true })
			commits.Store(0)
			b.ResetTimer()
			var all sync.WaitGroup
			for _, id := range ids {
				all.Go(func() {
					for taken.Add(1) <= int64(b.N) {
						if _, err := s.Append(context.Background(), id, anyAppend(1)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			b.ReportMetric(float64(b.N)/float64(commits.Load()), "appends/commit")
		})
	}
}

// BenchmarkEvents reads a page of a hundred out of a log of ten thousand.
func BenchmarkEvents(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	id := mustCreate(b, s)
	for range 10 {
		if _, err := s.Append(context.Background(), id, anyAppend(1000)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		page, err := s.Events(context.Background(), id, 5000, 100)
		if err != nil || len(page) != 100 {
			b.Fatalf("%d events, %v", len(page), err)
		}
	}
}

// BenchmarkDocument finds one document.
func BenchmarkDocument(b *testing.B) {
	s := openStore(b, b.TempDir(), Options{})
	id := mustCreate(b, s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		if _, err := s.Document(ctx, id); err != nil {
			b.Fatal(err)
		}
	}
}
