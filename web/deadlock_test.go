package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

// ring has agents hold a resource each, and all but the last wait for the next one's. It returns the answer to
// the last, whose request closes the circle.
func (w *world) ring(agents, resources []string, wait string) answer {
	w.t.Helper()
	w.agents(agents...)
	for i, name := range agents {
		w.granted(name, resources[i], `"ttlMs":300000`)
	}
	last := len(agents) - 1
	for i, name := range agents[:last] {
		w.refused(name, resources[i+1], wait, "lease_held")
	}
	return w.refused(agents[last], resources[0], wait, "deadlock")
}

// wantCircle checks a refusal that names the whole circle, beginning with the caller, and that it is told afterwards.
func (w *world) wantCircle(a answer, agents, resources []string) {
	w.t.Helper()
	last := len(agents) - 1
	cycle := []string{step(agents[last], resources[0])}
	actors, waited := []string{"did:cowrite:" + agents[last]}, []string{resources[0]}
	for i, name := range agents[:last] {
		cycle = append(cycle, step(name, resources[i+1]))
		actors, waited = append(actors, "did:cowrite:"+name), append(waited, resources[i+1])
	}
	if fmt.Sprint(a.body["cycle"]) != fmt.Sprint(cycle) || a.str("waitingOn") != resources[1] || a.status != 409 || a.str("holder") != "did:cowrite:"+agents[0] {
		w.t.Errorf("the circle is told as %v, want %v", a, cycle)
	}
	told := w.ok(root, "GET", coordination+"/wait", "").body["deadlocks"].([]any)
	if len(told) == 0 {
		w.t.Fatal("no deadlock is told")
	}
	first := told[0].(map[string]any)
	if fmt.Sprint(first["actors"]) != fmt.Sprint(actors) || fmt.Sprint(first["resources"]) != fmt.Sprint(waited) || first["at"] != until(0) {
		w.t.Errorf("the deadlock is told as %v, want %v waiting for %v", first, actors, waited)
	}
}

func step(agent, resource string) string {
	return fmt.Sprint(map[string]string{"actorDid": "did:cowrite:" + agent, "resource": resource})
}

func TestDeadlocksOfAnyLength(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var agents, resources []string
				for i := range n {
					agents, resources = append(agents, fmt.Sprintf("agent-%d", i)), append(resources, fmt.Sprintf("file:%d", i))
				}
				a := w.ring(agents, resources, "")
				w.wantCircle(a, agents, resources)
				if held := w.ok(root, "GET", coordination+"/agents/"+agents[n-1], ""); fmt.Sprint(held.body["waitsFor"]) != "[]" {
					t.Errorf("the refused waits: %v", held)
				}
				// Breaking it: once another in the circle gives up, the same request waits.
				w.ok(agents[0], "DELETE", coordination+"/wait?resource="+resources[1], "")
				w.refused(agents[n-1], resources[0], "", "lease_held")
				time.Sleep(time.Hour + time.Second)
				if told := w.ok(root, "GET", coordination+"/wait", "").body["deadlocks"].([]any); len(told) != 0 {
					t.Errorf("after more than an hour there are still %v", told)
				}
			})
		})
	}
}

// A circle through both doors: sections and resources are one graph.
func TestADeadlockOverSectionsAndResources(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60}`)
		w.granted(beta, "lock:deploy", "")
		w.granted(root, "section:paper/plan", "")
		if a := w.do(request{as: beta, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"queue":true}`}); a.str("error") != "SECTION_LEASED" {
			t.Fatal(a)
		}
		w.refused(root, "lock:deploy", "", "lease_held")
		const lease2 = "/documents/paper/sections/plan/lease"
		a := w.do(request{as: alpha, method: "POST", path: lease2, body: `{"leaseDurationSeconds":60,"queue":true}`})
		want := "[map[agent:alpha resource:section:paper/plan] map[agent:root resource:lock:deploy] map[agent:beta resource:section:paper/intro]]"
		if a.status != 409 || a.str("error") != "DEADLOCK" || a.str("waitingOn") != "lock:deploy" || fmt.Sprint(a.body["cycle"]) != want {
			t.Errorf("at the section's door: %v", a)
		}
		same := w.refused(alpha, "section:paper/plan", "", "deadlock")
		if want := fmt.Sprint([]string{step(alpha, "section:paper/plan"), step(root, "lock:deploy"), step(beta, "section:paper/intro")}); fmt.Sprint(same.body["cycle"]) != want {
			t.Errorf("at the coordination door: %v", same)
		}
		if hidden := w.ok(tom, "GET", coordination+"/wait", "").body["deadlocks"]; fmt.Sprint(hidden) != "[]" {
			t.Errorf("who may not read the document sees %v", hidden)
		}
		// A share link is told of the circle, but not what its agents wait for elsewhere.
		share := w.ok(alpha, "POST", "/documents/paper/shares", `{}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		told := w.ok("guest", "GET", coordination+"/wait", "").body["deadlocks"].([]any)[0].(map[string]any)
		if want := "[did:cowrite:alpha did:cowrite:root did:cowrite:beta] [section:paper/plan  section:paper/intro]"; fmt.Sprint(told["actors"], told["resources"]) != want {
			t.Errorf("a share link is told %v, want %s", told, want)
		}
		for _, path := range []string{"/wait", "/ledger", "/resources"} {
			if a := w.ok("guest", "GET", coordination+path, ""); strings.Contains(string(a.raw), "lock:") {
				t.Errorf("a share link reads in %s: %v", path, a)
			}
		}
	})
}

// Who would not wait closes no circle: it is told who holds the resource, at both doors, and nothing is written.
func TestWhoDoesNotWaitClosesNoCircle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.granted(alpha, "section:paper/intro", "")
		w.granted(beta, "lock:deploy", "")
		w.refused(alpha, "lock:deploy", "", "lease_held")
		before := w.ok(root, "GET", coordination+"/ledger", "").body["entries"]
		for range 3 {
			w.refused(beta, "section:paper/intro", `"queue":false`, "lease_held")
			if a := w.do(request{as: beta, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`}); a.status != 409 || a.str("error") != "SECTION_LEASED" || a.str("holder") != alpha {
				t.Errorf("at the section's door: %v", a)
			}
		}
		if after := w.ok(root, "GET", coordination+"/ledger", "").body["entries"]; fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("the ledger says of it: %v", after)
		}
		w.refused(beta, "section:paper/intro", `"queue":false,"waitMs":1000`, "deadlock")
	})
}

// A writer waits for every reader, so a circle may lead through any of them.
func TestADeadlockThroughASharedHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents("one", "two", "writer")
		w.granted("one", "file:shared", `"operation":"read"`)
		w.granted("two", "file:shared", `"operation":"read"`)
		w.granted("writer", "file:own", "")
		w.refused("two", "file:own", "", "lease_held")
		a := w.refused("writer", "file:shared", "", "deadlock")
		if want := fmt.Sprint([]string{step("writer", "file:shared"), step("two", "file:own")}); fmt.Sprint(a.body["cycle"]) != want || a.str("waitingOn") != "file:own" {
			t.Errorf("the circle is %v", a)
		}
		w.granted("writer", "file:other", "")
		w.granted("one", "file:own2", "") // the other reader waits for nobody
		w.ok("two", "DELETE", coordination+"/wait?resource=file:own", "")
		w.refused("writer", "file:shared", "", "lease_held")
	})
}

// What has ended makes no edge: neither a lease that ran out, nor a place that lapsed, nor a caller that hung up.
func TestNoDeadlockThroughWhatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents("one", "two")
		w.granted("one", "file:1", `"ttlMs":10000`)
		w.granted("two", "file:2", `"ttlMs":300000`)
		w.refused("one", "file:2", "", "lease_held")
		time.Sleep(10 * time.Second)
		w.granted("two", "file:1", `"ttlMs":300000`) // its holder waits for the caller, but holds it no more

		w.granted("one", "file:3", `"ttlMs":300000`)
		time.Sleep(lease.DefaultPlace)
		w.refused("two", "file:3", "", "lease_held") // the holder's place has lapsed
		w.ok("two", "DELETE", coordination+"/wait?resource=file:3", "")

		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			resp, err := w.client.Do(w.newRequest(ctx, request{as: "one", method: "POST", path: coordination + "/lease", body: asks("one", "file:2", `"waitMs":60000`)}))
			if err == nil {
				resp.Body.Close()
				t.Errorf("answered %s", resp.Status)
			}
		})
		synctest.Wait()
		w.refused("two", "file:3", "", "deadlock")
		hangUp()
		wg.Wait()
		synctest.Wait()
		w.refused("two", "file:3", "", "lease_held")
	})
}
