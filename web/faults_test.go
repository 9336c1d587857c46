package web

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

var errDisk = errors.New("disk full")

// fault is how a call to a store fails.
type fault int

const (
	works     fault = iota
	fails           // nothing is written
	failsLate       // everything is written, but the caller is told that it was not
)

// faultyStore is a store whose lease calls fail when told to.
type faultyStore struct {
	doc.Store

	mu    sync.Mutex
	calls int
	fault func(call int) fault // nil: none
}

func (s *faultyStore) setFault(f func(call int) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.calls = f, 0
}

func (s *faultyStore) next() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fault == nil {
		return works
	}
	return s.fault(s.calls)
}

func (s *faultyStore) LoadLeases(ctx context.Context) (lease.State, error) {
	if s.next() != works {
		return lease.State{}, errDisk
	}
	return s.Store.LoadLeases(ctx)
}

func (s *faultyStore) SaveLeases(ctx context.Context, commits []doc.LeaseCommit) error {
	f := s.next()
	if f == fails {
		return errDisk
	}
	if err := s.Store.SaveLeases(ctx, commits); err != nil {
		return err
	}
	if f == failsLate {
		return errDisk
	}
	return nil
}

func (s *faultyStore) LeaseCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) (doc.LeaseCall, error) {
	if s.next() != works {
		return doc.LeaseCall{}, errDisk
	}
	return s.Store.LeaseCall(ctx, a, k)
}

// A store that fails, at any of the calls that an acquire makes and before or after it wrote, never yields a
// grant; and once it works again state, events and ledger agree.
func TestAFailingStoreNeverGrants(t *testing.T) {
	for name, f := range map[string]fault{"before it wrote": fails, "after it wrote": failsLate} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.document("paper")
				ways := []request{
					{as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`},
					{as: alpha, method: "POST", path: lease1 + "?wait=5s", body: `{"leaseDurationSeconds":60}`},
					{as: alpha, method: "POST", path: coordination + "/lease", body: asks(alpha, "lock:a", "")},
					{as: alpha, method: "POST", path: coordination + "/lease", body: asks(alpha, "section:paper/intro", `"waitMs":5000`)},
				}
				for i, rq := range ways {
					for at := 1; ; at++ { // fails at its at-th call, until there are not so many
						w.store.setFault(func(call int) fault {
							if call == at {
								return f
							}
							return works
						})
						a := w.do(keyed(rq, fmt.Sprintf("key-%d-%d", i, at)))
						w.store.mu.Lock()
						reached := w.store.calls >= at
						w.store.mu.Unlock()
						w.store.setFault(nil)
						if reached && (a.status != 500 || a.body["lease"] != nil || a.body["leaseId"] != nil) {
							t.Errorf("%s %s, failing at call %d: %v", rq.method, rq.path, at, a)
						}
						time.Sleep(lease.SweepEvery)
						w.agrees()
						for _, end := range []request{{as: root, method: "DELETE", path: lease1 + "?force=true"}, {as: alpha, method: "POST", path: coordination + "/release", body: asks(alpha, "lock:a", "")}} {
							w.do(end)
						}
						if !reached {
							break
						}
					}
				}
				// For good, with everybody asking: all are refused, and nobody holds anything.
				w.store.setFault(func(int) fault { return fails })
				for _, rq := range ways {
					if a := w.do(rq); a.status != 500 {
						t.Errorf("%s %s on a dead disk: %v", rq.method, rq.path, a)
					}
				}
				w.store.setFault(nil)
				time.Sleep(time.Minute)
				w.agrees()
				w.granted(beta, "lock:a", "")
				w.ok(beta, "POST", lease1, `{"leaseDurationSeconds":60}`)
				w.agrees()
			})
		})
	}
}

// agrees checks that what the keeper says, what the ledger comes to and what the documents' logs tell is the same.
func (w *world) agrees() {
	w.t.Helper()
	state := w.replayed()
	if got, want := fmt.Sprint(state.lines()), fmt.Sprint(w.present()); got != want {
		w.t.Errorf("the ledger comes to\n%s, the state is\n%s", got, want)
	}
	for agent, trust := range state.trust {
		if standing := w.ok(root, "GET", coordination+"/agents/"+agent, ""); standing.body["trust"] != trust {
			w.t.Errorf("the ledger leaves %s with trust %v, it has %v", agent, trust, standing.body["trust"])
		}
	}
	docs, _, err := w.library.List(w.t.Context(), doc.Key{Role: doc.Admin, Pattern: "*"}, 0, 10)
	w.must(err)
	for _, m := range docs {
		w.logAgrees(m, state)
	}
}

// logAgrees checks that a document's log has the lease events that the ledger has of its sections, in order.
func (w *world) logAgrees(m doc.Meta, state *replay) {
	w.t.Helper()
	var inLog []string
	log := w.ok(root, "GET", "/documents/"+m.Ref()+"/events?limit=1000", "")
	if log.body["has_more"] != false {
		w.t.Fatal("the log is longer than a page")
	}
	for _, e := range log.body["events"].([]any) {
		event := e.(map[string]any)
		if kind, ok := actionsOfTypes[event["event_type"].(string)]; ok {
			inLog = append(inLog, fmt.Sprint(kind, " ", event["payload"].(map[string]any)["sectionId"], " ", event["created_at"]))
		}
	}
	if got, want := fmt.Sprint(inLog), fmt.Sprint(state.sections[m.Ref()]); got != want {
		w.t.Errorf("the log of %s has\n%s, the ledger\n%s", m.Ref(), got, want)
	}
}

// The whole ledger, replayed by who reads it over HTTP, comes to the present state: after a thousand steps of
// six agents that lease, wait, release, renew, leave, hand on, are cut off and forget.
func TestReplayingTheLedgerGivesTheState(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		agents := []string{alpha, beta, root, "four", "five", "six"}
		w.agents(agents[3:]...)
		resources := []string{"section:paper/intro", "section:paper/plan", "lock:a", "file:b", "file:c"}
		const steps = 1000
		for n := range steps {
			agent, resource := agents[draw.IntN(len(agents))], resources[draw.IntN(len(resources))]
			switch k := draw.IntN(20); {
			case k < 10:
				operation := []string{"read", "write"}[draw.IntN(2)]
				w.coordinate(agent, "lease", resource, fmt.Sprintf(`"operation":%q,"ttlMs":%d,"queue":%t`, operation, 1000+draw.IntN(20_000), draw.IntN(4) > 0))
			case k < 13:
				w.coordinate(agent, "release", resource, "")
			case k < 14:
				w.coordinate(agent, "renew", resource, `"ttlMs":10000`)
			case k < 15:
				w.ok(agent, "DELETE", coordination+"/wait?resource="+resource, "")
			case k < 16:
				w.do(request{as: agent, method: "POST", path: lease1 + "/transfer", body: `{"to":"` + agents[draw.IntN(len(agents))] + `"}`})
			case k < 17:
				w.do(request{as: root, method: "DELETE", path: lease1 + "?force=true"})
			default:
				time.Sleep(time.Duration(draw.IntN(8000)) * time.Millisecond)
			}
			if n%100 == 99 {
				w.agrees()
			}
		}
		kinds := w.replayed().kinds
		for _, kind := range []lease.Kind{lease.Granted, lease.Renewed, lease.Released, lease.Expired, lease.Broken, lease.Handed, lease.Queued, lease.Unqueued, lease.Reserved, lease.Lapsed, lease.Deadlocked} {
			if kinds[string(kind)] == 0 {
				t.Errorf("nothing of kind %s happened", kind)
			}
		}
	})
}
