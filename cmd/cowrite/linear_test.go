package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"cowrite/doc"
)

var linearSeeds = flag.Int("linear.seeds", 5, "how many histories TestLeasesAreLinearizable looks at; in each fifth the server is killed")

// leaseCall is one call of a client to the coordination door.
type leaseCall struct {
	verb     string // lease, release or look
	resource string
	agent    string
	shared   bool
}

// leaseSeen is what the client learned.
type leaseSeen struct {
	lost    bool   // the server was killed before it answered: it may have been done or not
	refused string // code word
	holders string // who holds, where that was told
	told    bool
}

// leaseModel is one resource as its clients may imagine it: who holds it, each as agent=mode, sorted. Leases outlive
// the run and nobody queues.
var leaseModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		of := map[string][]porcupine.Operation{}
		for _, op := range history {
			r := op.Input.(leaseCall).resource
			of[r] = append(of[r], op)
		}
		return slices.Collect(maps.Values(of))
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		modes := parseModes(state.(string))
		call, seen := input.(leaseCall), output.(leaseSeen)
		refused := imagineCall(modes, call)
		next := formatModes(modes)
		if seen.lost {
			return true, next // at the end of time if it was never done
		}
		return seen.refused == refused && (!seen.told || seen.holders == names(modes)), next
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func imagineCall(modes map[string]string, call leaseCall) (refused string) {
	mine, held := modes[call.agent]
	switch call.verb {
	case "lease":
		mode := "exclusive"
		if call.shared {
			mode = "shared"
		}
		if held && (mine == "exclusive" || call.shared) {
			return ""
		}
		for agent, other := range modes {
			if agent != call.agent && (other == "exclusive" || mode == "exclusive") {
				return "lease_held"
			}
		}
		modes[call.agent] = mode
	case "release":
		switch {
		case held:
			delete(modes, call.agent)
		case len(modes) == 0:
			return "no_active_lease"
		default:
			return "not_holder"
		}
	}
	return ""
}

func parseModes(s string) map[string]string {
	modes := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if agent, mode, ok := strings.Cut(part, "="); ok {
			modes[agent] = mode
		}
	}
	return modes
}

func formatModes(modes map[string]string) string {
	var parts []string
	for agent, mode := range modes {
		parts = append(parts, agent+"="+mode)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func names(modes map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(modes)), ",")
}

// TestLeasesAreLinearizable has clients lease, release and look over HTTP, and checks that what each of them saw can be
// put in one order, also when the server was killed and started again in the middle.
func TestLeasesAreLinearizable(t *testing.T) {
	for seed := range *linearSeeds {
		history := linearRun(t, uint64(seed), seed%5 == 0)
		if result := porcupine.CheckOperationsTimeout(leaseModel, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("seed %d: %d calls: %s", seed, len(history), result)
		}
	}
}

func linearRun(t *testing.T, seed uint64, kill bool) []porcupine.Operation {
	t.Helper()
	const clients, resources, calls = 8, 50, 370 // below 60 calls for each resource, on average
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	var address atomic.Pointer[string]
	address.Store(&p.address)
	l := &linear{address: &address, began: time.Now(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	defer l.http.CloseIdleConnections()
	var wg sync.WaitGroup
	var done atomic.Int64
	restarted := make(chan struct{})
	for n := range clients {
		agent := fmt.Sprintf("client-%d", n)
		key := newAgent(t, data, agent).key
		chance := rand.New(rand.NewPCG(seed, uint64(n)))
		wg.Go(func() {
			id := n
			for range calls {
				call := leaseCall{resource: fmt.Sprintf("file-%d", chance.IntN(resources)), agent: agent, shared: chance.IntN(2) == 0}
				call.verb = []string{"lease", "lease", "release", "look"}[chance.IntN(4)]
				if !l.do(t.Context(), id, key, call) {
					id += clients // the lost call may still be under way: who goes on is another
					<-restarted
				}
				done.Add(1)
			}
		})
	}
	if kill {
		for half := int64(clients * calls / 2); done.Load() < half; {
			time.Sleep(time.Millisecond) // the moment is meant to be any
		}
		if _, err := p.end(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		p = start(t, data)
		address.Store(&p.address)
	}
	close(restarted)
	wg.Wait()
	if _, err := p.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for _, err := range l.failures {
		t.Errorf("seed %d: %v", seed, err)
	}
	if l.lost > 0 != kill {
		t.Errorf("seed %d: %d calls were not answered, and the server was killed: %v", seed, l.lost, kill)
	}
	return l.history
}

// linear is the clients' way to the server, and what they saw.
type linear struct {
	address *atomic.Pointer[string]
	http    *http.Client
	began   time.Time

	mu       sync.Mutex
	history  []porcupine.Operation
	lost     int
	failures []error
}

// do makes a call and notes what came of it; false when the server was gone.
func (l *linear) do(ctx context.Context, client int, key doc.Secret, call leaseCall) bool {
	op := porcupine.Operation{ClientId: client, Input: call, Call: int64(time.Since(l.began))}
	seen, err := l.ask(ctx, key, call)
	op.Return = int64(time.Since(l.began))
	if seen.lost {
		op.Return = math.MaxInt64
	}
	op.Output = seen
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, err)
	}
	if seen.lost {
		l.lost++
	}
	if !seen.lost || call.verb != "look" {
		l.history = append(l.history, op)
	}
	return !seen.lost
}

func (l *linear) ask(ctx context.Context, key doc.Secret, call leaseCall) (leaseSeen, error) {
	const door = "/api/v1/acp/coordination"
	body := map[string]any{"resource": call.resource, "actorDid": "did:cowrite:" + call.agent}
	method, path := http.MethodPost, door+"/"+call.verb
	switch call.verb {
	case "lease":
		body["ttlMs"], body["queue"] = 300_000, false
		if call.shared {
			body["operation"] = "read"
		}
	case "look":
		method, path, body = http.MethodGet, door+"/wait?resource="+url.QueryEscape(call.resource), nil
	}
	var payload io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return leaseSeen{}, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, *l.address.Load()+path, payload)
	if err != nil {
		return leaseSeen{}, err
	}
	req.Header.Set("Authorization", "Bearer "+string(key))
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.http.Do(req)
	if err != nil {
		return leaseSeen{lost: true}, nil
	}
	defer resp.Body.Close()
	var answer struct {
		Error   string
		Holders []string
		Queues  []struct{ Holders []string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return leaseSeen{lost: true}, nil
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return leaseSeen{lost: true}, fmt.Errorf("%+v: %s %s", call, resp.Status, answer.Error)
	}
	seen := leaseSeen{refused: answer.Error, told: answer.Error == "lease_held" || call.verb == "look"}
	holders := answer.Holders
	for _, q := range answer.Queues {
		holders = q.Holders
	}
	for i, did := range holders {
		holders[i] = strings.TrimPrefix(did, "did:cowrite:")
	}
	slices.Sort(holders)
	seen.holders = strings.Join(holders, ",")
	return seen, nil
}
