package lease

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// crowd is a kernel in which each of n agents holds one of n resources, and MaxWaiters wait for each: whoever
// waits for resource i holds one of the resources behind it, so that there is no cycle yet, and the last
// agent can be reached from the first over everything that lies between.
func crowd(tb testing.TB, n int) *Kernel {
	tb.Helper()
	k := NewKernel(KernelOptions{})
	do := func(cmd Acquire) {
		_, _, err := k.Do(epoch, cmd)
		if r, ok := errors.AsType[*Refusal](err); ok && cmd.Queue && r.Why == Held {
			return
		}
		if err != nil {
			tb.Fatalf("%+v: %v", cmd, err)
		}
	}
	name := func(i int) (Resource, Agent) {
		return Resource(fmt.Sprintf("file-%d", i)), Agent(fmt.Sprintf("agent-%d", i))
	}
	for i := range n {
		r, a := name(i)
		do(Acquire{Resource: r, Agent: a, Duration: time.Minute, NewID: ID(r)})
	}
	for i := range n {
		r, _ := name(i)
		for w := range MaxWaiters {
			if i+w+1 >= n {
				break
			}
			_, a := name(i + w + 1)
			do(Acquire{Resource: r, Agent: a, Duration: time.Minute, NewID: "x", Queue: true, Waiting: true})
		}
	}
	return k
}

// TestDeepDeadlock closes a ring through a thousand agents.
func TestDeepDeadlock(t *testing.T) {
	k := NewKernel(KernelOptions{})
	const n = 1000
	var err error
	for i := range n {
		_, _, err = k.Do(epoch, Acquire{Resource: Resource(fmt.Sprint(i)), Agent: Agent(fmt.Sprint(i)), Duration: time.Minute, NewID: ID(fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		_, _, err = k.Do(epoch, Acquire{Resource: Resource(fmt.Sprint((i + 1) % n)), Agent: Agent(fmt.Sprint(i)), Duration: time.Minute, NewID: "x", Queue: true})
		if r := refusal(t, err, map[bool]Why{false: Held, true: Deadlock}[i == n-1]); r.Why == Deadlock && len(r.Cycle) != n {
			t.Errorf("the cycle has %d steps", len(r.Cycle))
		}
	}
}

// BenchmarkDeadlock asks for the worst: a search that walks the whole graph of 1,000 agents and 8 waiters on
// each of 1,000 resources, and finds at its very end that a cycle would close.
func BenchmarkDeadlock(b *testing.B) {
	k := crowd(b, 1000)
	// The first resource's holder asks for the last one, whose holder waits for others before it, down to the first.
	cmd := Acquire{Resource: "file-999", Agent: "agent-0", Duration: time.Minute, NewID: "x", Queue: true}
	for b.Loop() {
		_, _, err := k.Do(epoch, cmd)
		if r, ok := errors.AsType[*Refusal](err); !ok || r.Why != Deadlock {
			b.Fatal(err)
		}
	}
}

// BenchmarkNoDeadlock is the same walk with nothing to find.
func BenchmarkNoDeadlock(b *testing.B) {
	k := crowd(b, 1000)
	cmd := Acquire{Resource: "file-999", Agent: "newcomer", Duration: time.Minute, NewID: "x"}
	for b.Loop() {
		_, _, err := k.Do(epoch, cmd)
		if r, ok := errors.AsType[*Refusal](err); !ok || r.Why != Held {
			b.Fatal(err)
		}
	}
}
