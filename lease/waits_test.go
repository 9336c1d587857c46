package lease

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Readers that hold together are each waited for, those ahead in the queue too, and a reader for no reader.
func TestWaitsAreThoseOfTheKernel(t *testing.T) {
	k := NewKernel(KernelOptions{})
	ask := func(resource Resource, agent Agent, op Operation) {
		_, _, err := k.Do(epoch, Acquire{Resource: resource, Agent: agent, Operation: op, Duration: time.Minute, NewID: ID(agent) + ID(resource), Queue: true})
		if err != nil {
			refusal(t, err, Held)
		}
	}
	ask("x", "a", Read)
	ask("x", "b", Read)
	ask("x", "c", Write)
	ask("x", "d", Read)
	ask("x", "e", Read)
	ask("y", "c", Write)
	ask("y", "f", Write)
	want := []Wait{{"c", "a", "x"}, {"c", "b", "x"}, {"d", "c", "x"}, {"e", "c", "x"}, {"f", "c", "y"}}
	slices.SortFunc(want, byNames)
	got := Waits(k.List(epoch, ""))
	slices.SortFunc(got, byNames)
	if !slices.Equal(got, want) {
		t.Errorf("waits are %v, want %v", got, want)
	}
}

func byNames(a, b Wait) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// In a row of queues everybody is drawn behind the next one alone.
func TestWaitsOfACrowd(t *testing.T) {
	const n = 100
	waits := Waits(crowd(t, n).List(epoch, ""))
	for _, e := range waits {
		from, to := 0, 0
		if _, err := fmt.Sscanf(string(e.From+" "+e.To), "agent-%d agent-%d", &from, &to); err != nil || from != to+1 {
			t.Fatalf("%v is plain from the others", e)
		}
	}
	if got := reach(waits); len(got) != n*(n-1)/2 {
		t.Errorf("%d agents are waited for by those behind them, want %d", len(got), n*(n-1)/2)
	}
}

// The reduced graph leads from everybody to the same others, and no edge of it can be left out.
func TestReducedGraphSaysTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var edges []Wait
		n := rapid.IntRange(2, 7).Draw(t, "agents")
		for from := range n {
			for to := range from { // no circle: everybody waits for earlier ones alone
				if rapid.Bool().Draw(t, "waits") {
					edges = append(edges, Wait{From: Agent(strconv.Itoa(from)), To: Agent(strconv.Itoa(to)), Over: "x"})
				}
			}
		}
		whole := reach(edges)
		reduced := reduce(slices.Clone(edges))
		if !slices.Equal(reach(reduced), whole) {
			t.Fatalf("%v became %v", edges, reduced)
		}
		for i := range reduced {
			if slices.Equal(reach(slices.Delete(slices.Clone(reduced), i, i+1)), whole) {
				t.Fatalf("%v says nothing new in %v", reduced[i], reduced)
			}
		}
	})
}

// reach is every pair of which the one leads to the other, by Warshall's rule.
func reach(edges []Wait) []string {
	leads := map[[2]Agent]bool{}
	names := map[Agent]bool{}
	for _, e := range edges {
		leads[[2]Agent{e.From, e.To}] = true
		names[e.From], names[e.To] = true, true
	}
	for k := range names {
		for i := range names {
			for j := range names {
				if leads[[2]Agent{i, k}] && leads[[2]Agent{k, j}] {
					leads[[2]Agent{i, j}] = true
				}
			}
		}
	}
	var out []string
	for pair := range leads {
		out = append(out, fmt.Sprint(pair))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
