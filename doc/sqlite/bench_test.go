package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
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

// crowd is documents that ten authors each type into, as their desks store it.
type crowd struct {
	*Store
	b         *testing.B
	documents []crdt.DocumentID
	random    *rand.ChaCha8
	changes   int64 // that each document has
	logged    int64
}

// write appends ten changes to each document.
func (c *crowd) write() {
	c.b.Helper()
	for _, id := range c.documents {
		a := doc.Append{Expect: doc.AnySeq}
		for n := range int64(10) {
			row := doc.ChangeRow{Number: c.changes + n + 1, Author: doc.Agent(fmt.Sprintf("writer-%d", n)),
				Sections: []doc.SectionID{"introduction-k3x9"}, At: time.Now(), Raw: make([]byte, 120)}
			c.random.Read(row.Hash[:])
			a.Changes = append(a.Changes, row)
		}
		c.append(id, a)
	}
	c.changes += 10
}

// log appends an event of each author to each document, and marks what it covers.
func (c *crowd) log() {
	c.b.Helper()
	for _, id := range c.documents {
		a := anyAppend(10)
		for n := c.logged + 1; n <= c.changes; n++ {
			a.Logged = append(a.Logged, n)
		}
		c.append(id, a)
	}
	c.logged = c.changes
}

func (c *crowd) append(id crdt.DocumentID, a doc.Append) {
	c.b.Helper()
	if _, err := c.Append(context.Background(), id, a); err != nil {
		c.b.Fatal(err)
	}
}

// BenchmarkCrowd is the appends of a crowd in five documents by turns: ten changes each, and after twenty of them the events
// that cover the two hundred. It tells the processor's time of an append, and the pages of the write-ahead log that either kind writes.
func BenchmarkCrowd(b *testing.B) {
	const rounds = 20
	dir := b.TempDir()
	c := &crowd{Store: openStore(b, dir, Options{}), b: b, random: rand.NewChaCha8([32]byte{})}
	for range 5 {
		c.documents = append(c.documents, mustCreate(b, c.Store))
	}
	before, appends := cpuTime(b), 0
	for b.Loop() {
		for range rounds {
			c.write()
		}
		c.log()
		appends += (rounds + 1) * len(c.documents)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(appends), "cpu-µs/append")

	pragma := func(p string) {
		b.Helper()
		if _, err := c.writer.conn.ExecContext(context.Background(), "PRAGMA "+p); err != nil {
			b.Fatal(err)
		}
	}
	pages := func(do func()) float64 {
		b.Helper()
		pragma("wal_checkpoint(TRUNCATE)")
		do()
		wal, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
		if err != nil {
			b.Fatal(err)
		}
		return float64(wal.Size()) / 4120 / float64(len(c.documents)) // a page of 4 KiB with its header
	}
	pragma("wal_autocheckpoint = 0")
	b.ReportMetric(pages(func() {
		for range rounds {
			c.write()
		}
	})/rounds, "pages/append")
	b.ReportMetric(pages(c.log), "pages/log")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
