package lease

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

var (
	simSeeds = flag.Int("sim.seeds", 100, "how many seeds the simulation runs")
	simSteps = flag.Int("sim.steps", 1000, "how many steps each seed has")
	simSeed  = flag.Uint64("sim.seed", 1, "the first seed")
)

var epoch = time.Date(2026, 4, 16, 3, 0, 0, 0, time.UTC)

// TestSimulation lets a kernel live through random commands, pauses, crashes and clocks that were set while it
// was down, and holds it to its invariants after each step. To see one seed again: -sim.seeds 1 -sim.seed N.
func TestSimulation(t *testing.T) {
	seen := make(map[string]int)
	for i := range *simSeeds {
		seed := *simSeed + uint64(i)
		if err := simulate(seed, *simSteps, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("%d seeds of %d steps: %v", *simSeeds, *simSteps, seen)
	for _, what := range []string{
		"grant", "renew", "release", "expire", "force", "end", "transfer", "queue", "unqueue", "reserve", "lapse", "deadlock",
		"held", "queue_full", "not_holder", "no_active_lease", "stale_lease", "too_many_leases", "not_queued", "crash",
	} {
		if *simSeeds >= 100 && seen[what] == 0 {
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
