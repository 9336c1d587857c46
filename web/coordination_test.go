package web

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

const coordination = coordinationPath

// asks is the body of a request at the coordination door, with more fields as JSON.
func asks(as, resource, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"resource":%q,"actorDid":"did:cowrite:%s"%s}`, resource, as, more)
}

// coordinate calls POST lease, release, renew or check.
func (w *world) coordinate(as, call, resource, more string) answer {
	w.t.Helper()
	a := w.do(request{as: as, method: "POST", path: coordination + "/" + call, body: asks(as, resource, more)})
	if ok, is := a.body["ok"].(bool); !is || ok != (a.status == 200) {
		w.t.Errorf("%s of %s by %s: ok is not whether it is: %v", call, resource, as, a)
	}
	return a
}

// granted leases a resource that has to be free.
func (w *world) granted(as, resource, more string) map[string]any {
	w.t.Helper()
	a := w.coordinate(as, "lease", resource, more)
	if a.status != 200 {
		w.t.Fatalf("%s is not granted to %s: %v", resource, as, a)
	}
	return a.body["lease"].(map[string]any)
}

// refused asks for a resource and has to be refused with a code.
func (w *world) refused(as, resource, more, code string) answer {
	w.t.Helper()
	a := w.coordinate(as, "lease", resource, more)
	if a.str("error") != code {
		w.t.Fatalf("%s asks for %s and is answered %v, want %s", as, resource, a, code)
	}
	return a
}

// agents makes editors with these names.
func (w *world) agents(names ...string) {
	for _, name := range names {
		w.addKey(name, doc.Key{Agent: doc.Agent(name), Role: doc.Editor, Pattern: "*"})
	}
}

func TestAResourceFromGrantToRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const deploy = "lock:deploy/production"
		l := w.granted(alpha, deploy, `"reason":"release 7","operation":"write"`)
		for name, want := range map[string]any{
			"resource": deploy, "holder": "did:cowrite:alpha", "mode": "exclusive", "operation": "write", "reason": "release 7", "fence": 1.0,
			"acquiredAt": until(0), "expiresAt": until(30 * time.Second), "expiresInMs": 30_000.0, "ttlMs": 30_000.0,
		} {
			if l[name] != want {
				t.Errorf("%s is %v, want %v", name, l[name], want)
			}
		}
		time.Sleep(10 * time.Second)
		held := w.refused(beta, deploy, "", "lease_held")
		for name, want := range map[string]any{
			"holder": "did:cowrite:alpha", "holders": []any{"did:cowrite:alpha"}, "expiresAt": until(20 * time.Second), "expiresInMs": 20_000.0,
			"reason": "release 7", "position": 1.0, "waiters": 1.0, "stampede": map[string]any{"admitted": 1.0, "waitMs": 25.0},
		} {
			if fmt.Sprint(held.body[name]) != fmt.Sprint(want) {
				t.Errorf("%s is %v, want %v", name, held.body[name], want)
			}
		}
		if held.status != 409 || held.header.Get("Retry-After") != "15" {
			t.Errorf("%v with Retry-After %s", held, held.header.Get("Retry-After"))
		}
		renewed := w.coordinate(alpha, "renew", deploy, `"ttlMs":60000`)
		if again := renewed.body["lease"].(map[string]any); again["leaseId"] != l["leaseId"] || again["expiresAt"] != until(time.Minute) || again["ttlMs"] != 60_000.0 {
			t.Errorf("renewed: %v", renewed)
		}
		if extended := w.granted(alpha, deploy, `"ttlMs":1000`); extended["leaseId"] != l["leaseId"] || extended["expiresAt"] != until(time.Minute) {
			t.Errorf("asking again: %v", extended)
		}
		released := w.coordinate(alpha, "release", deploy, fmt.Sprintf(`"leaseId":%q`, l["leaseId"]))
		if released.body["released"] != true || released.body["trust"] != 50.5 {
			t.Errorf("released: %v", released)
		}
		kept := w.refused(alpha, deploy, `"queue":false`, "lease_held")
		if kept.str("holder") != "did:cowrite:beta" || kept.body["reserved"] != true || fmt.Sprint(kept.body["holders"]) != "[]" || kept.str("expiresAt") != until(lease.Reservation) {
			t.Errorf("kept for the first: %v", kept)
		}
		nobody := w.coordinate(alpha, "release", deploy, "")
		if nobody.status != 404 || nobody.str("error") != "no_active_lease" || nobody.str("reservedFor") != "did:cowrite:beta" {
			t.Errorf("releasing what one does not hold: %v", nobody)
		}
		if second := w.granted("beta", deploy, `"ttlMs":1000`); second["fence"] != 2.0 {
			t.Errorf("the second grant: %v", second)
		}
		time.Sleep(time.Second)
		for _, call := range []string{"release", "renew"} {
			if a := w.coordinate(beta, call, deploy, ""); a.status != 404 || a.str("error") != "no_active_lease" {
				t.Errorf("%s of what has expired: %v", call, a)
			}
		}
		if standing := w.ok(vera, "GET", coordination+"/agents/did:cowrite:beta", ""); standing.body["trust"] != 45.0 || standing.body["expiries"] != 1.0 {
			t.Errorf("after an expiry: %v", standing)
		}
	})
}

// Every refusal has one form: ok false, a code in lower case, a sentence.
func TestCoordinationRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("gone")
		w.ok(root, "DELETE", "/documents/gone", "")
		share := w.ok(alpha, "POST", "/documents/paper/shares", `{}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		w.granted(alpha, "lock:a", "")
		const post, get = "POST", "GET"
		long := strings.Repeat("x", 513)
		play := func(call, as, body string, status int, code string, facts map[string]string) scenario {
			return scenario{name: call + " " + body + " by " + as, as: as, method: post, path: coordination + "/" + call, body: body, status: status, code: code, facts: facts}
		}
		scenarios := []scenario{
			play("lease", nobody, asks(alpha, "lock:a", ""), 401, "unauthorized", nil),
			play("lease", alpha, ``, 400, "invalid_json", nil),
			play("lease", alpha, `{"resource":`, 400, "invalid_json", nil),
			play("lease", alpha, "{\"resource\":\"\xff\"}", 400, "invalid_json", nil),
			play("lease", alpha, `{"actorDid":"alpha"}`, 400, "bad_request", nil),
			play("lease", alpha, `{"resource":"lock:b"}`, 400, "invalid_agent", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"ttl":5`), 400, "bad_request", nil),
			play("lease", alpha, asks(alpha, "", ""), 400, "bad_request", map[string]string{"limit": "512"}),
			play("lease", alpha, asks(alpha, long, ""), 400, "bad_request", map[string]string{"limit": "512"}),
			play("lease", alpha, asks(alpha, strings.Repeat("é", 257), ""), 400, "bad_request", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"ttlMs":999`), 400, "invalid_duration", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"ttlMs":300001`), 400, "invalid_duration", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"ttlMs":"30000"`), 400, "invalid_duration", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"waitMs":60001`), 400, "invalid_duration", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"operation":"steal"`), 400, "bad_request", nil),
			play("lease", alpha, asks(alpha, "lock:b", `"reason":"`+longText(257)+`"`), 400, "bad_request", nil),
			play("lease", alpha, asks("Alpha!", "lock:b", ""), 400, "invalid_agent", nil),
			play("lease", alpha, asks(beta, "lock:b", ""), 403, "actor_mismatch", map[string]string{"actorDid": "did:cowrite:alpha"}),
			play("lease", root, asks(beta, "lock:b", ""), 403, "actor_mismatch", nil),
			play("lease", vera, asks(vera, "lock:b", ""), 403, "forbidden", nil),
			play("lease", vera, asks(vera, "section:paper/intro", ""), 403, "forbidden", nil),
			play("lease", tom, asks(tom, "section:paper/intro", ""), 403, "forbidden", nil),
			play("lease", alpha, asks(alpha, "section:none/intro", ""), 404, "document_not_found", nil),
			play("lease", alpha, asks(alpha, "section:gone/intro", ""), 410, "document_deleted", nil),
			play("lease", alpha, asks(alpha, "section:paper", ""), 400, "invalid_section_id", nil),
			play("lease", alpha, asks(alpha, "section:paper/In/tro", ""), 400, "invalid_section_id", nil),
			play("lease", beta, asks(beta, "lock:a", `"queue":false`), 409, "lease_held", map[string]string{"stampede": "map[admitted:0 waitMs:25]", "waiters": "0"}),
			play("release", beta, asks(beta, "lock:a", ""), 403, "not_holder", map[string]string{"holder": "did:cowrite:alpha"}),
			play("renew", beta, asks(beta, "lock:a", ""), 403, "not_holder", map[string]string{"holder": "did:cowrite:alpha"}),
			play("release", alpha, asks(alpha, "lock:a", `"leaseId":"other"`), 409, "stale_lease", map[string]string{"holder": "did:cowrite:alpha"}),
			play("release", alpha, asks(alpha, "lock:never", ""), 404, "no_active_lease", nil),
			play("renew", alpha, asks(alpha, "lock:a", `"ttlMs":1`), 400, "invalid_duration", nil),
			play("check", alpha, `{"resource":"lock:a","fence":0}`, 400, "bad_request", nil),
			play("check", alpha, `{"resource":"lock:a"}`, 400, "bad_request", nil),
			play("check", tom, `{"resource":"section:paper/intro","fence":1}`, 403, "forbidden", nil),
			play("nothing", alpha, `{}`, 404, "not_found", nil),
			{name: "another method", as: alpha, method: "PUT", path: coordination + "/lease", status: 405, code: "method_not_allowed"},
			{name: "a form", as: alpha, method: post, path: coordination + "/lease", body: "resource=x", header: map[string][]string{"Content-Type": {"text/plain"}}, status: 415, code: "unsupported_media_type"},
			{name: "too large", as: alpha, method: post, path: coordination + "/lease", body: `{"resource":"` + strings.Repeat("x", smallBody) + `"}`, status: 413, code: "too_large"},
			{name: "a queue of others", as: tom, method: get, path: coordination + "/wait?resource=section:paper/intro", status: 403, code: "forbidden"},
			{name: "an agent for a guest", as: "guest", method: get, path: coordination + "/agents/alpha", status: 403, code: "forbidden"},
			{name: "a lock for a guest", as: "guest", method: get, path: coordination + "/wait?resource=lock:a", status: 403, code: "forbidden"},
			{name: "not UTF-8", as: alpha, method: get, path: coordination + "/wait?resource=%ff", status: 400, code: "bad_request"},
			{name: "leaving nothing", as: alpha, method: "DELETE", path: coordination + "/wait", status: 400, code: "bad_request"},
			{name: "a viewer leaves", as: vera, method: "DELETE", path: coordination + "/wait?resource=lock:a", status: 403, code: "forbidden"},
			{name: "a bad cursor", as: alpha, method: get, path: coordination + "/ledger?after=-1", status: 400, code: "invalid_cursor"},
			{name: "a bad actor", as: alpha, method: get, path: coordination + "/ledger?actor=Nobody", status: 400, code: "invalid_agent"},
			{name: "a bad limit", as: alpha, method: get, path: coordination + "/ledger?limit=1001", status: 400, code: "bad_request"},
			{name: "a bad name", as: alpha, method: get, path: coordination + "/agents/system", status: 400, code: "invalid_agent"},
			{name: "a revoked key", as: "revoked", method: get, path: coordination + "/ledger", status: 401, code: "key_revoked"},
		}
		w.addKey("revoked", doc.Key{Agent: "gone", Role: doc.Admin, Pattern: "*"})
		w.must(w.keyring.Revoke(t.Context(), w.ids["revoked"]))
		for i := range scenarios {
			if scenarios[i].facts == nil {
				scenarios[i].facts = map[string]string{}
			}
			scenarios[i].facts["ok"] = "false"
		}
		w.play(t, scenarios)
	})
}

func TestTooManyLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for i := range lease.DefaultPerAgent {
			w.granted(alpha, fmt.Sprintf("file:%d", i), "")
		}
		if a := w.refused(alpha, "file:more", "", "too_many_leases"); a.status != 429 || a.body["limit"] != float64(lease.DefaultPerAgent) || a.header.Get("Retry-After") == "" {
			t.Errorf("one more: %v", a)
		}
	})
}

// Two reads share, but of locks; a write waits for both, and readers that come later wait for the writer.
func TestReadsShare(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const read = `"operation":"read"`
		if l := w.granted(alpha, "repo:x/file.go", read); l["mode"] != "shared" {
			t.Errorf("%v", l)
		}
		w.granted(beta, "repo:x/file.go", read+`,"ttlMs":60000`)
		held := w.refused(root, "repo:x/file.go", `"operation":"delete"`, "lease_held")
		if fmt.Sprint(held.body["holders"]) != "[did:cowrite:beta did:cowrite:alpha]" || held.str("holder") != "did:cowrite:beta" {
			t.Errorf("%v", held)
		}
		w.refused(tom, "repo:x/file.go", read, "lease_held")
		if l := w.granted(alpha, "lock:x", read); l["mode"] != "exclusive" {
			t.Errorf("a read of a lock: %v", l)
		}
		w.refused(beta, "lock:x", read, "lease_held")
	})
}

// A section is one lease, one queue and one log at both doors, whatever the document is called.
func TestBothDoorsSeeOneLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.document("paper").str("documentId")
		first := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60,"reason":"mine"}`)
		held := w.refused(beta, "section:paper/intro", "", "lease_held")
		if held.str("holder") != "did:cowrite:alpha" || held.str("reason") != "mine" || held.str("expiresAt") != first.str("expiresAt") {
			t.Errorf("at the coordination door: %v", held)
		}
		if again := w.granted(alpha, "section:"+id+"/intro", ""); again["leaseId"] != first.str("leaseId") || again["resource"] != "section:paper/intro" {
			t.Errorf("the holder by the document's id: %v", again)
		}
		third := w.do(request{as: tom, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`})
		if third.status != 403 {
			t.Errorf("who may not at one door may at the other: %v", third)
		}
		w.ok(alpha, "PATCH", "/documents/paper", `{"slug":"essay"}`)
		queues := w.ok(vera, "GET", coordination+"/wait", "").body["queues"]
		want := fmt.Sprintf("[map[holders:[did:cowrite:alpha] resource:section:essay/intro waiters:[map[actorDid:did:cowrite:beta mode:exclusive position:1 since:%s]]]]", until(0))
		if fmt.Sprint(queues) != want {
			t.Errorf("the queues are %v, want %s", queues, want)
		}
		if queues := w.ok(tom, "GET", coordination+"/wait", "").body["queues"]; fmt.Sprint(queues) != "[]" {
			t.Errorf("who may not read the document sees %v", queues)
		}
		if a := w.coordinate(alpha, "release", "section:paper/intro", ""); a.status != 200 { // the former slug leads here
			t.Errorf("released by the former slug: %v", a)
		}
		const essay = "/documents/essay/sections/intro/lease"
		if reserved := w.do(request{as: root, method: "GET", path: essay}); reserved.str("reservedFor") != beta {
			t.Errorf("kept for who waited at the other door: %v", reserved)
		}
		taken := w.ok(beta, "POST", essay, `{"leaseDurationSeconds":60}`)
		standing := w.ok(vera, "GET", coordination+"/agents/beta", "")
		holds := standing.body["holds"].([]any)
		if len(holds) != 1 || holds[0].(map[string]any)["leaseId"] != taken.str("leaseId") || holds[0].(map[string]any)["resource"] != "section:essay/intro" {
			t.Errorf("what beta holds: %v", standing)
		}
		if hidden := w.ok(tom, "GET", coordination+"/agents/beta", ""); fmt.Sprint(hidden.body["holds"]) != "[]" {
			t.Errorf("who may not read the document sees %v", hidden)
		}
		var types []string
		for _, e := range w.ok(vera, "GET", "/documents/essay/events?limit=1000", "").body["events"].([]any) {
			if kind := e.(map[string]any)["event_type"].(string); strings.HasPrefix(kind, "section.lease") {
				types = append(types, strings.TrimPrefix(kind, "section."))
			}
		}
		if fmt.Sprint(types) != "[leased lease_queued lease_released lease_reserved leased]" {
			t.Errorf("the document's log says %v", types)
		}
	})
}

func TestLeavingAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.granted(alpha, "lock:a", `"ttlMs":300000`)
		w.refused(beta, "lock:a", "", "lease_held")
		leave := request{as: beta, method: "DELETE", path: coordination + "/wait?resource=" + url.QueryEscape("lock:a")}
		for _, want := range []bool{true, false} {
			if a := w.do(leave); a.status != 200 || a.body["ok"] != true || a.body["left"] != want {
				t.Errorf("leaving: %v, want %v", a, want)
			}
		}
		one := w.ok(vera, "GET", coordination+"/wait?resource=lock:a", "")
		if fmt.Sprint(one.body["queues"]) != "[map[holders:[did:cowrite:alpha] resource:lock:a waiters:[]]]" {
			t.Errorf("the queue is %v", one)
		}
		w.refused(beta, "lock:a", "", "lease_held")
		time.Sleep(lease.DefaultPlace)
		if all := w.ok(vera, "GET", coordination+"/wait", ""); fmt.Sprint(all.body["queues"]) != "[]" {
			t.Errorf("a place outlives its 30 seconds: %v", all)
		}
	})
}

func TestWaitingInTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.granted(alpha, "lock:a", `"ttlMs":50000`)
		begun := time.Now()
		late := w.refused(beta, "lock:a", `"waitMs":1500`, "lease_held")
		if waited := time.Since(begun); waited != 1500*time.Millisecond || late.body["position"] != 1.0 {
			t.Errorf("after %v: %v", waited, late)
		}
		// Who opted out of the queue waits in it for the request alone.
		out := w.refused(root, "lock:a", `"waitMs":500,"queue":false`, "lease_held")
		if waited := time.Since(begun); waited != 2*time.Second || out.body["position"] != nil || out.body["waiters"] != 1.0 {
			t.Errorf("after %v: %v", waited, out)
		}
		if stays := w.refused(beta, "lock:a", `"waitMs":500,"queue":false`, "lease_held"); stays.body["position"] != 1.0 {
			t.Errorf("a place that was asked for before: %v", stays)
		}
		w.granted(beta, "lock:a", `"waitMs":60000`)
		if waited := time.Since(begun); waited != 50*time.Second {
			t.Errorf("served after %v", waited)
		}

		// A caller that hangs up loses its place, and nothing is granted to it.
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			resp, err := w.client.Do(w.newRequest(ctx, request{as: root, method: "POST", path: coordination + "/lease", body: asks(root, "lock:a", `"waitMs":60000`)}))
			if err == nil {
				resp.Body.Close()
				t.Errorf("answered %s", resp.Status)
			}
		})
		synctest.Wait()
		hangUp()
		wg.Wait()
		synctest.Wait()
		if a := w.coordinate(beta, "release", "lock:a", ""); a.status != 200 {
			t.Fatal(a)
		}
		if queue := w.ok(vera, "GET", coordination+"/wait?resource=lock:a", ""); fmt.Sprint(queue.body["queues"]) != "[map[holders:[] resource:lock:a waiters:[]]]" {
			t.Errorf("after the hang-up: %v", queue)
		}
	})
}

// A server that ends sends its long polls away, and they keep their places: who comes back finds its own.
func TestPlacesOutliveTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.granted(alpha, "lock:a", `"ttlMs":300000`)
		var wg sync.WaitGroup
		for _, as := range []string{beta, root} {
			wg.Go(func() {
				a := w.coordinate(as, "lease", "lock:a", `"waitMs":60000`)
				if a.status != 503 || a.str("error") != "shutting_down" || a.header.Get("Retry-After") == "" {
					t.Errorf("%s is sent away with %v", as, a)
				}
			})
			synctest.Wait()
		}
		w.stop()
		wg.Wait()
		var waiting []doc.Agent
		for _, q := range w.keeper.Status("lock:a").Queue {
			waiting = append(waiting, q.Agent)
			if !q.Until.Equal(w.keeper.Now().Add(lease.DefaultPlace)) {
				t.Errorf("the place of %s lives until %v", q.Agent, q.Until)
			}
		}
		if fmt.Sprint(waiting) != "[beta root]" {
			t.Errorf("places have %v", waiting)
		}
	})
}

// Fifty agents want one file: the first has it, eight wait for ever longer, the rest are sent away. After the
// release the eight are served in their order, none twice, and none is passed by those who come later, for ten minutes.
func TestFiftyAgentsAndOneFile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		names := make([]string, 50)
		for i := range names {
			names[i] = fmt.Sprintf("agent-%d", i)
		}
		w.agents(names...)
		const file = "repo:x/file.go"
		w.granted(names[0], file, `"ttlMs":300000`)
		var waits []int
		for i, name := range names[1:] {
			want := "lease_held"
			if i >= 8 {
				want = "queue_full"
			}
			a := w.refused(name, file, "", want)
			stampede := a.body["stampede"].(map[string]any)
			if i < 8 {
				waits = append(waits, int(stampede["waitMs"].(float64)))
				if a.body["position"] != float64(i+1) {
					t.Errorf("%s is told %v", name, a)
				}
			} else if stampede["admitted"] != 8.0 || a.body["waiters"] != 8.0 || a.body["limit"] != 8.0 || a.status != 409 || a.body["position"] != nil || a.str("holder") != "did:cowrite:agent-0" {
				t.Errorf("the queue is full: %v", a)
			}
		}
		if fmt.Sprint(waits) != "[25 50 100 200 400 800 800 800]" {
			t.Errorf("the back-off is %v", waits)
		}

		const step, turn = 5 * time.Second, 13 // the holder works for 13 steps
		holder, waiting, newcomers := names[0], slices.Clone(names[1:9]), names[9:]
		var served []string
		for begun := time.Now(); time.Since(begun) < 10*time.Minute; time.Sleep(step) {
			if n := int(time.Since(begun) / step); n > 0 && n%turn == 0 && len(waiting) > 0 {
				if a := w.coordinate(holder, "release", file, ""); a.status != 200 {
					t.Fatalf("%s releases: %v", holder, a)
				}
			}
			for _, name := range newcomers {
				w.refused(name, file, `"queue":false`, "lease_held")
			}
			for i, name := range slices.Backward(waiting) {
				if a := w.coordinate(name, "lease", file, `"ttlMs":300000`); a.status == 200 {
					holder, waiting = name, slices.Delete(waiting, i, i+1)
					served = append(served, name)
				}
			}
		}
		if fmt.Sprint(served) != fmt.Sprint(names[1:9]) {
			t.Errorf("served are %v", served)
		}
		w.coordinate(holder, "release", file, "")
		w.granted(newcomers[0], file, "")
	})
}
