package lease

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

const minute = time.Minute

func write(r Resource, a Agent, d time.Duration) Acquire {
	return Acquire{Resource: r, Agent: a, Duration: d}
}

// refusal gives the refusal in err, which must be one.
func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		t.Fatalf("want a refusal, got %v", err)
	}
	return r
}

func TestOneGrantAmongAThousand(t *testing.T) {
	const agents, rounds = 1000, 100
	k := open(t, newMemStore(), Options{})
	for round := range rounds {
		r := Resource(fmt.Sprintf("file-%d", round))
		var wg sync.WaitGroup
		answers, errs := make([]Answer, agents), make([]error, agents)
		for i := range agents {
			wg.Go(func() {
				answers[i], errs[i] = k.Do(t.Context(), write(r, Agent(fmt.Sprintf("agent-%d", i)), minute))
			})
		}
		wg.Wait()
		var winners []Lease
		for i := range agents {
			if errs[i] == nil {
				winners = append(winners, answers[i].Lease)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: %d grants", round, len(winners))
		}
		for i := range agents {
			if errs[i] == nil {
				continue
			}
			ref := refusal(t, errs[i])
			if ref.Why != Held || len(ref.Status.Holders) != 1 || ref.Status.Holders[0] != winners[0] {
				t.Fatalf("round %d: refusal %+v does not name %+v", round, ref, winners[0])
			}
		}
	}
}
