package lease

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	simSeeds = flag.Int("sim.seeds", 40, "how many seeds the simulation runs")
	simSteps = flag.Int("sim.steps", 1000, "how many steps each seed has")
	simSeed  = flag.Uint64("sim.seed", 1, "the first seed")
)

var epoch = time.Date(2026, 4, 16, 3, 0, 0, 0, time.UTC)

// TestSimulation lets a kernel live through random commands, pauses, crashes and clocks that were set while it
// was down, and holds it to its invariants after each step. To see one seed again: -sim.seeds 1 -sim.seed N.
func TestSimulation(t *testing.T) {
	var next atomic.Uint64
	var wg sync.WaitGroup
	worlds := make([]map[string]int, runtime.GOMAXPROCS(0))
	for i := range worlds {
		worlds[i] = make(map[string]int)
		wg.Go(func() {
			for n := next.Add(1) - 1; n < uint64(*simSeeds) && !t.Failed(); n = next.Add(1) - 1 {
				if err := simulate(*simSeed+n, *simSteps, worlds[i]); err != nil {
					t.Errorf("seed %d: %v", *simSeed+n, err)
				}
			}
		})
	}
	wg.Wait()
	seen := make(map[string]int)
	for _, w := range worlds {
		for what, n := range w {
			seen[what] += n
		}
	}
	t.Logf("%d seeds of %d steps: %v", *simSeeds, *simSteps, seen)
	for _, what := range []string{
		"grant", "renew", "release", "expire", "force", "end", "transfer", "queue", "unqueue", "reserve", "lapse", "deadlock",
		"held", "queue_full", "not_holder", "no_active_lease", "stale_lease", "too_many_leases", "not_queued", "crash",
	} {
		if *simSeeds >= 40 && seen[what] == 0 {
			t.Errorf("the simulation never came to %q", what)
		}
	}
}

func simulate(seed uint64, steps int, seen map[string]int) error {
	rnd := rand.New(rand.NewPCG(seed, 0))
	h := &history{throw: rnd.IntN, crowded: seed%3 == 0}
	opts := KernelOptions{PerAgent: 3}
	k, disk, book := NewKernel(opts), NewKernel(opts), newLedger()
	now := epoch
	step := func(cmd Command, crash bool) error {
		_, commits, err := k.Do(now, cmd)
		if r, ok := err.(*Refusal); ok {
			seen[string(r.Why)]++
		} else if err != nil {
			return err
		}
		if crash {
			return nil
		}
		_, free := cmd.(Resume)
		for _, c := range commits {
			disk.Apply(c)
			for _, e := range c.Events {
				seen[string(e.Kind)]++
				if err := book.add(e, free); err != nil {
					return err
				}
			}
		}
		s := k.State()
		if err := invariants(s, now); err != nil {
			return err
		}
		if err := book.compare(s); err != nil {
			return err
		}
		return sameState(disk.State(), s)
	}
	for range steps {
		now = now.Add(h.pause())
		crash := h.throw(100) == 0
		if err := step(h.command(), crash); err != nil {
			return err
		}
		if !crash {
			continue
		}
		seen["crash"]++
		now = now.Add(pick(h.throw, 0, 2*time.Second, time.Hour, -time.Hour))
		k = NewKernel(opts)
		k.Load(disk.State())
		if err := step(Resume{}, false); err != nil {
			return err
		}
	}
	return nil
}

// sameState compares all but agents that were merely asked about.
func sameState(is, want State) error {
	known := make(map[Agent]bool)
	for _, a := range is.Agents {
		known[a.Agent] = true
	}
	var agents []AgentRecord
	for _, a := range want.Agents {
		if known[a.Agent] || a != (AgentRecord{Agent: a.Agent, Trust: StartTrust}) {
			agents = append(agents, a)
		}
	}
	want.Agents = agents
	if !reflect.DeepEqual(is, want) {
		return fmt.Errorf("the saved state is %+v, the kernel's %+v", is, want)
	}
	return nil
}
