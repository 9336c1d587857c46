package lease

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// lookUp is a command of the checker alone: Status.
type lookUp struct{ Resource }

func (lookUp) command() {}

// seen is what a client learned from one call: why it was refused, and who held the resource.
type seen struct {
	why     Why
	holders string
}

// model is one resource as a client may imagine it: a sorted list of holders and their modes.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		of := make(map[Resource][]porcupine.Operation)
		for _, op := range history {
			r := resourceOf(op.Input.(Command))
			of[r] = append(of[r], op)
		}
		return slices.Collect(maps.Values(of))
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		holders := parseHolders(state.(string))
		why := Why("")
		switch c := input.(type) {
		case lookUp:
		case Acquire:
			why = imagine(holders, c)
		case Release:
			if _, ok := holders[c.Agent]; ok {
				delete(holders, c.Agent)
			} else if why = NotHolder; len(holders) == 0 {
				why = NoActiveLease
			}
		case Break:
			if len(holders) == 0 {
				why = NoActiveLease
			}
			clear(holders)
		}
		next := formatHolders(holders)
		out := output.(seen)
		_, reads := input.(lookUp)
		told := reads || out.why == Held // who is told who holds
		return out.why == why && (!told || out.holders == next), next
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

func imagine(holders map[Agent]Mode, c Acquire) Why {
	mode := Exclusive
	if c.Operation == Read {
		mode = Shared
	}
	mine, held := holders[c.Agent]
	if held && (mine == Exclusive || mode == Shared) {
		return ""
	}
	for a, m := range holders {
		if a != c.Agent && (m == Exclusive || mode == Exclusive) {
			return Held
		}
	}
	holders[c.Agent] = mode
	return ""
}

func resourceOf(cmd Command) Resource {
	switch c := cmd.(type) {
	case lookUp:
		return c.Resource
	case Acquire:
		return c.Resource
	case Release:
		return c.Resource
	}
	return cmd.(Break).Resource
}

func formatHolders(holders map[Agent]Mode) string {
	var parts []string
	for a, m := range holders {
		parts = append(parts, string(a)+"="+string(m))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func parseHolders(s string) map[Agent]Mode {
	holders := make(map[Agent]Mode)
	for part := range strings.SplitSeq(s, ",") {
		if a, m, ok := strings.Cut(part, "="); ok {
			holders[Agent(a)] = Mode(m)
		}
	}
	return holders
}

func holdersOf(s Status) string {
	holders := make(map[Agent]Mode)
	for _, l := range s.Holders {
		holders[l.Holder] = l.Mode
	}
	return formatHolders(holders)
}

// TestLinearizable lets clients loose on a keeper and checks that what each of them saw, reads included, can be
// put in one order.
func TestLinearizable(t *testing.T) {
	const clients, resources, calls, seeds = 8, 4, 30, 60
	for seed := range uint64(seeds) {
		k := open(t, newMemStore(), Options{})
		began := time.Now()
		var mu sync.Mutex
		var history []porcupine.Operation
		var wg sync.WaitGroup
		for client := range clients {
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			a := Agent(fmt.Sprintf("client-%d", client))
			wg.Go(func() {
				for range calls {
					r := Resource(fmt.Sprintf("file-%d", rnd.IntN(resources)))
					cmd := pick[Command](rnd.IntN, write(r, a, minute), read(r, a, minute), read(r, a, minute),
						Release{Resource: r, Agent: a}, Release{Resource: r, Agent: a}, lookUp{r}, Break{Resource: r, By: a})
					op := porcupine.Operation{ClientId: client, Input: cmd, Call: int64(time.Since(began))}
					out, err := look(t, k, cmd)
					if err != nil {
						t.Error(err)
						return
					}
					op.Output, op.Return = out, int64(time.Since(began))
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if result := porcupine.CheckOperationsTimeout(model, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("seed %d: %s", seed, result)
		}
	}
}

func look(t *testing.T, k *Keeper, cmd Command) (seen, error) {
	if c, ok := cmd.(lookUp); ok {
		return seen{holders: holdersOf(k.Status(c.Resource))}, nil
	}
	_, err := k.Do(t.Context(), cmd)
	if r, ok := errors.AsType[*Refusal](err); ok {
		return seen{r.Why, holdersOf(r.Status)}, nil
	}
	return seen{}, err
}
