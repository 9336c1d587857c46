package lease

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkAcquireRelease is what a lease costs where nobody is in the way.
func BenchmarkAcquireRelease(b *testing.B) {
	k := crowd(b, 1000)
	for b.Loop() {
		if _, _, err := k.Do(epoch, Acquire{Resource: "free", Agent: "a", Duration: time.Minute, NewID: "x"}); err != nil {
			b.Fatal(err)
		}
		if _, _, err := k.Do(epoch, Release{Resource: "free", Agent: "a"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKeeper is the same through the keeper for 64 callers at once, over a store that costs nothing.
func BenchmarkKeeper(b *testing.B) {
	k, err := Open(b.Context(), newMemStore(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	var callers atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		n := callers.Add(1)
		r, a := Resource(fmt.Sprintf("file-%d", n)), Agent(fmt.Sprintf("agent-%d", n))
		for pb.Next() {
			if _, err := k.Do(b.Context(), Acquire{Resource: r, Agent: a, Duration: time.Minute}); err != nil {
				b.Error(err)
			}
			if _, err := k.Do(b.Context(), Release{Resource: r, Agent: a}); err != nil {
				b.Error(err)
			}
		}
	})
	if err := k.Close(); err != nil {
		b.Fatal(err)
	}
}
