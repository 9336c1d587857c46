package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

const lease1 = "/documents/paper/sections/intro/lease"

func TestALeaseFromGrantToRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		granted := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60,"reason":"rewriting"}`)
		if granted.str("holder") != alpha || granted.str("expiresAt") != until(time.Minute) || granted.body["expiresInMs"] != 60000.0 ||
			granted.str("sectionId") != "intro" || granted.str("mode") != "exclusive" || granted.str("reason") != "rewriting" || granted.str("advisory") == "" {
			t.Errorf("granted %v", granted)
		}
		id := granted.str("leaseId")
		time.Sleep(20 * time.Second)
		held := map[string]string{"holder": alpha, "expiresAt": until(40 * time.Second), "expiresInMs": "40000", "reason": "rewriting", "waiters": "0", "waitMs": "25"}
		w.play(t, []scenario{
			{name: "another asks", as: beta, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`, status: 409, code: "SECTION_LEASED", facts: held},
			{name: "a viewer looks", as: vera, method: "GET", path: lease1, status: 200, facts: map[string]string{"leaseId": id, "expiresInMs": "40000"}},
			{name: "a viewer reads the section", as: vera, method: "GET", path: "/documents/paper/sections/intro", status: 200, facts: map[string]string{"lease": "*"}},
			{name: "a viewer asks", as: vera, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`, status: 403, code: "FORBIDDEN"},
			{name: "a viewer releases", as: vera, method: "DELETE", path: lease1, status: 403, code: "FORBIDDEN"},
			{name: "another renews", as: beta, method: "PATCH", path: lease1, body: `{"leaseDurationSeconds":60}`, status: 403, code: "NOT_HOLDER", facts: map[string]string{"holder": alpha, "expiresInMs": "40000"}},
			{name: "another releases", as: beta, method: "DELETE", path: lease1, status: 403, code: "NOT_HOLDER", facts: map[string]string{"holder": alpha}},
			{name: "asking again for less", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":1}`, status: 200, facts: map[string]string{"leaseId": id, "expiresInMs": "40000"}},
			{name: "asking again for more", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":50.5}`, status: 200, facts: map[string]string{"leaseId": id, "expiresInMs": "50500"}},
			{name: "renewing", as: alpha, method: "PATCH", path: lease1, body: `{"leaseDurationSeconds":30}`, status: 200, facts: map[string]string{"leaseId": id, "expiresInMs": "30000"}},
			{name: "the list", as: vera, method: "GET", path: "/documents/paper/leases", status: 200, facts: map[string]string{"leases": "*", "queues": "[]"}},
			{name: "releasing another grant", as: alpha, method: "DELETE", path: lease1, header: http.Header{"If-Match": {`"other"`}}, status: 409, code: "STALE_LEASE"},
			{name: "releasing", as: alpha, method: "DELETE", path: lease1, header: http.Header{"Content-Type": {"application/json"}, "If-Match": {id}}, status: 200, facts: map[string]string{"released": "true"}},
			{name: "releasing again", as: alpha, method: "DELETE", path: lease1, status: 404, code: "NO_ACTIVE_LEASE"},
			{name: "looking again", as: vera, method: "GET", path: lease1, status: 404, code: "NO_ACTIVE_LEASE"},
			{name: "renewing nothing", as: alpha, method: "PATCH", path: lease1, body: `{"leaseDurationSeconds":30}`, status: 404, code: "NO_ACTIVE_LEASE"},
			{name: "a section that is not there yet", as: alpha, method: "POST", path: "/documents/paper/sections/new/lease", body: `{"leaseDurationSeconds":1}`, status: 200},
			{name: "a document that is not there", as: alpha, method: "POST", path: "/documents/none/sections/new/lease", body: `{"leaseDurationSeconds":1}`, status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "a bad section", as: alpha, method: "POST", path: "/documents/paper/sections/..%2fx/lease", body: `{"leaseDurationSeconds":1}`, status: 400, code: "INVALID_SECTION_ID"},
		})
		if retry := w.do(request{as: beta, method: "POST", path: "/documents/paper/sections/new/lease", body: `{"leaseDurationSeconds":1}`}).header.Get("Retry-After"); retry != "1" {
			t.Errorf("Retry-After is %q", retry)
		}
		second := w.ok(beta, "POST", lease1, `{"leaseDurationSeconds":2}`)
		if second.body["fence"].(float64) <= granted.body["fence"].(float64) || second.str("leaseId") == id {
			t.Errorf("the second grant is %v, the first was %v", second, granted)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait() // its end is in the log
		w.play(t, []scenario{
			{name: "renewing what has expired", as: beta, method: "PATCH", path: lease1, body: `{"leaseDurationSeconds":30}`, status: 404, code: "NO_ACTIVE_LEASE"},
			{name: "releasing what has expired", as: beta, method: "DELETE", path: lease1, status: 404, code: "NO_ACTIVE_LEASE"},
		})
	})
}

func TestDurations(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		var scenarios []scenario
		for _, bad := range []string{"0", "-1", "0.999", "300.001", "301", "1.5e18", "1e400", "-1e400", `"60"`, `"NaN"`, `"text"`, "null", "true", "[60]", "{}"} {
			for _, method := range []string{"POST", "PATCH"} {
				scenarios = append(scenarios, scenario{name: method + " " + bad, as: alpha, method: method, path: lease1, body: `{"leaseDurationSeconds":` + bad + `}`, status: 400, code: "INVALID_DURATION"})
			}
		}
		for _, wait := range []string{"-1", "61", "60.1s", "1h", "soon", "NaN", "1e400", "25 s"} {
			scenarios = append(scenarios, scenario{name: "wait " + wait, as: alpha, method: "POST", path: lease1 + "?wait=" + url.QueryEscape(wait), body: `{"leaseDurationSeconds":60}`, status: 400, code: "INVALID_DURATION"})
		}
		w.play(t, append(scenarios,
			scenario{name: "missing", as: alpha, method: "POST", path: lease1, body: `{"reason":"x"}`, status: 400, code: "INVALID_DURATION"},
			scenario{name: "missing", as: alpha, method: "PATCH", path: lease1, body: `{}`, status: 400, code: "INVALID_DURATION"},
			scenario{name: "NaN", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":NaN}`, status: 400, code: "INVALID_JSON"},
			scenario{name: "place", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"queue":true,"placeSeconds":301}`, status: 400, code: "INVALID_DURATION"},
			scenario{name: "long reason", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"reason":"` + longText(257) + `"}`, status: 400, code: "BAD_REQUEST"},
			scenario{name: "longest reason", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":1,"reason":"` + longText(256) + `"}`, status: 200},
			scenario{name: "longest", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":300}`, status: 200, facts: map[string]string{"expiresInMs": "300000"}},
		))
	})
}

// longText is n characters of four bytes.
func longText(n int) string {
	text := make([]rune, n)
	for i := range text {
		text[i] = '𝄞'
	}
	return string(text)
}

func TestQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":300}`)
		asked := w.do(request{as: beta, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"queue":true,"placeSeconds":40}`})
		if asked.status != 409 || asked.body["position"] != 1.0 || asked.body["waiters"] != 1.0 || asked.header.Get("Retry-After") != "20" {
			t.Errorf("asking for a place: %v with Retry-After %s", asked, asked.header.Get("Retry-After"))
		}
		queues := w.ok(vera, "GET", "/documents/paper/leases", "").body["queues"]
		if want := fmt.Sprintf("[map[sectionId:intro waiters:[map[agent:beta position:1 since:%s]]]]", until(0)); fmt.Sprint(queues) != want {
			t.Errorf("the queues are %v, want %s", queues, want)
		}
		w.ok(alpha, "DELETE", lease1, "")
		w.play(t, []scenario{
			{name: "kept for the first", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`, status: 409, code: "SECTION_LEASED", facts: map[string]string{"holder": beta, "reserved": "true", "expiresAt": until(40 * time.Second)}},
			{name: "nobody holds it", as: vera, method: "GET", path: lease1, status: 404, code: "NO_ACTIVE_LEASE", facts: map[string]string{"reservedFor": beta}},
			{name: "giving the place up", as: beta, method: "DELETE", path: lease1 + "/queue", status: 200, facts: map[string]string{"left": "true"}},
			{name: "having none", as: beta, method: "DELETE", path: lease1 + "/queue", status: 200, facts: map[string]string{"left": "false"}},
			{name: "a viewer", as: vera, method: "DELETE", path: lease1 + "/queue", status: 403, code: "FORBIDDEN"},
			{name: "now it is free", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`, status: 200},
		})
	})
}

func TestBounds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":300}`)
		for n := range 9 {
			name := fmt.Sprintf("waiter-%d", n)
			w.addKey(name, doc.Key{Agent: doc.Agent(name), Role: doc.Editor, Pattern: "*"})
			a := w.do(request{as: name, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"queue":true}`})
			switch {
			case n < 8 && a.status == 409 && a.str("error") == "SECTION_LEASED" && a.body["position"] == float64(n+1):
			case n == 8 && a.status == 409 && a.str("error") == "QUEUE_FULL" && a.body["limit"] == 8.0 && a.str("holder") == alpha && a.body["waitMs"] == 800.0:
			default:
				t.Errorf("waiter %d: %v", n, a)
			}
		}
		for n := range lease.DefaultPerAgent {
			w.ok(beta, "POST", fmt.Sprintf("/documents/paper/sections/s%d/lease", n), `{"leaseDurationSeconds":300}`)
		}
		a := w.do(request{as: beta, method: "POST", path: "/documents/paper/sections/more/lease", body: `{"leaseDurationSeconds":300}`})
		if a.status != 429 || a.str("error") != "TOO_MANY_LEASES" || a.body["limit"] != 256.0 || a.header.Get("Retry-After") == "" {
			t.Errorf("one more: %v", a)
		}
	})
}

func TestLongPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":50}`)
		begun := time.Now()
		late := w.do(request{as: beta, method: "POST", path: lease1 + "?wait=25s", body: `{"leaseDurationSeconds":60}`})
		if waited := time.Since(begun); late.status != 409 || waited != 25*time.Second {
			t.Errorf("after %v: %v", waited, late)
		}
		// Longer than a body may take to arrive: the limit for it must not end the poll.
		served := w.do(request{as: beta, method: "POST", path: lease1 + "?wait=60", body: `{"leaseDurationSeconds":60}`})
		if waited := time.Since(begun); served.status != 200 || waited != 50*time.Second {
			t.Errorf("after %v: %v", waited, served)
		}
		w.ok(beta, "DELETE", lease1, "")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":300}`)

		var wg sync.WaitGroup
		wg.Go(func() {
			if a := w.do(request{as: beta, method: "POST", path: lease1 + "?wait=60", body: `{"leaseDurationSeconds":60}`}); a.status != 503 || a.str("error") != "SHUTTING_DOWN" {
				t.Errorf("at the server's end a long poll is answered %v", a)
			}
		})
		synctest.Wait()
		w.stop()
		wg.Wait()
	})
}

func TestAClientThatHangsUpLosesItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":300}`)
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			resp, err := w.client.Do(w.newRequest(ctx, request{as: beta, method: "POST", path: lease1 + "?wait=60s", body: `{"leaseDurationSeconds":60}`}))
			if err == nil {
				resp.Body.Close()
				t.Errorf("answered %s", resp.Status)
			}
		})
		synctest.Wait()
		if queues := w.ok(vera, "GET", "/documents/paper/leases", "").body["queues"].([]any); len(queues) != 1 {
			t.Fatalf("the queues are %v", queues)
		}
		hangUp()
		wg.Wait()
		synctest.Wait()
		w.ok(alpha, "DELETE", lease1, "")
		w.play(t, []scenario{{name: "nothing was granted to who is gone", as: vera, method: "GET", path: lease1, status: 404, code: "NO_ACTIVE_LEASE"}})
	})
}

func TestForceAndTransfer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("team-paper")
		team := "/documents/team-paper/sections/intro/lease"
		held := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60}`)
		w.ok(alpha, "POST", team, `{"leaseDurationSeconds":60}`)
		w.play(t, []scenario{
			{name: "force as an editor", as: beta, method: "DELETE", path: lease1 + "?force=true", status: 403, code: "FORBIDDEN"},
			{name: "force as an admin of others", as: warden, method: "DELETE", path: lease1 + "?force=true", status: 403, code: "FORBIDDEN"},
			{name: "force as an admin of this", as: warden, method: "DELETE", path: team + "?force=true", status: 200},
			{name: "force what", as: root, method: "DELETE", path: lease1 + "?force=perhaps", status: 400, code: "BAD_REQUEST"},
			{name: "force another grant", as: root, method: "DELETE", path: lease1 + "?force=true", header: http.Header{"If-Match": {`"other"`}}, status: 409, code: "STALE_LEASE", facts: map[string]string{"holder": alpha}},
			{name: "force", as: root, method: "DELETE", path: lease1 + "?force=true&reason=stuck", header: http.Header{"If-Match": {held.str("leaseId")}}, status: 200, facts: map[string]string{"released": "true"}},
			{name: "force again", as: root, method: "DELETE", path: lease1 + "?force=true", status: 404, code: "NO_ACTIVE_LEASE"},
		})
		events := w.ok(vera, "GET", "/documents/paper/events?limit=1000", "").body["events"].([]any)
		if last := events[len(events)-1].(map[string]any); last["event_type"] != "section.lease_broken" || last["actor_id"] != root {
			t.Errorf("the log ends with %v", last)
		}

		first := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60,"reason":"mine"}`)
		w.play(t, []scenario{
			{name: "transfer what another holds", as: beta, method: "POST", path: lease1 + "/transfer", body: `{"to":"root"}`, status: 403, code: "NOT_HOLDER"},
			{name: "transfer to a viewer", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"vera"}`, status: 400, code: "INVALID_AGENT"},
			{name: "transfer to one of others", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"tom"}`, status: 400, code: "INVALID_AGENT"},
			{name: "transfer to nobody", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"stranger"}`, status: 400, code: "INVALID_AGENT"},
			{name: "transfer to oneself", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"alpha"}`, status: 400, code: "BAD_REQUEST"},
			{name: "transfer without a name", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{}`, status: 400, code: "INVALID_AGENT"},
			{name: "transfer", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"did:cowrite:beta"}`, status: 200, facts: map[string]string{"holder": beta, "expiresAt": first.str("expiresAt")}},
			{name: "transfer again", as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"beta"}`, status: 403, code: "NOT_HOLDER", facts: map[string]string{"holder": beta}},
			{name: "transfer nothing", as: alpha, method: "POST", path: "/documents/paper/sections/plan/lease/transfer", body: `{"to":"beta"}`, status: 404, code: "NO_ACTIVE_LEASE"},
		})
	})
}

func TestDeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		const lease2 = "/documents/paper/sections/plan/lease"
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60}`)
		w.ok(beta, "POST", lease2, `{"leaseDurationSeconds":60}`)
		w.play(t, []scenario{{name: "alpha waits for beta's", as: alpha, method: "POST", path: lease2, body: `{"leaseDurationSeconds":60,"queue":false}`, status: 409, code: "SECTION_LEASED"}})
		if a := w.do(request{as: alpha, method: "POST", path: lease2, body: `{"leaseDurationSeconds":60,"queue":true}`}); a.status != 409 {
			t.Fatal(a)
		}
		a := w.do(request{as: beta, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"queue":true}`})
		if a.status != 409 || a.str("error") != "DEADLOCK" || a.str("waitingOn") != "section:paper/plan" || a.header.Get("Retry-After") == "" {
			t.Errorf("closing the circle: %v", a)
		}
		if cycle := fmt.Sprint(a.body["cycle"]); cycle != "[map[agent:beta resource:section:paper/intro] map[agent:alpha resource:section:paper/plan]]" {
			t.Errorf("the circle is %s", cycle)
		}
	})
}

func TestAWriteTellsOfTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		held := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60,"reason":"rewriting"}`)
		const section = "/documents/paper/sections/intro"
		own := w.ok(alpha, "PUT", section, `{"text":"# mine\n","base":"current"}`)
		if _, ok := own.body["advisory"]; ok {
			t.Errorf("the holder is told of its own lease: %v", own)
		}
		for _, rq := range []request{
			{method: "PUT", path: section, body: `{"text":"# theirs\n","base":"current"}`},
			{method: "POST", path: section + "/move", body: `{"after":"plan"}`},
			{method: "DELETE", path: section},
			{method: "POST", path: section + "/restore"},
		} {
			a := w.ok(beta, rq.method, rq.path, rq.body)
			advisory, ok := a.body["advisory"].(map[string]any)
			if !ok || advisory["holder"] != alpha || advisory["leaseId"] != held.str("leaseId") || advisory["reason"] != "rewriting" || advisory["message"] == "" {
				t.Errorf("%s %s: %v", rq.method, rq.path, a)
			}
		}
	})
}

// A thousand agents ask at once, in five rounds: one is granted, and all others are told who it is.
func TestOneOfAThousandIsGranted(t *testing.T) {
	const agents, keys, rounds = 1000, 64, 5
	w := onTCP(t)
	w.document("paper")
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("agent-%d", i)
		w.addKey(names[i], doc.Key{Agent: doc.Agent(names[i]), Role: doc.Editor, Pattern: "*"})
	}
	for round := range rounds {
		path := fmt.Sprintf("/documents/paper/sections/s%d/lease", round)
		answers := make([]answer, agents)
		slots := make(chan struct{}, keys) // connections
		var wg sync.WaitGroup
		for i := range agents {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				answers[i] = w.do(request{as: names[i%keys], method: "POST", path: path, body: `{"leaseDurationSeconds":300}`})
			})
		}
		wg.Wait()
		granted, winner := map[string]int{}, ""
		for _, a := range answers {
			if a.status == 200 {
				granted[a.str("leaseId")]++
				winner = a.str("holder")
			}
		}
		if len(granted) != 1 {
			t.Fatalf("round %d: %d leases were granted", round, len(granted))
		}
		for i, a := range answers {
			mine := names[i%keys] == winner
			switch {
			case mine && a.status == 200:
			case !mine && a.status == 409 && a.str("error") == "SECTION_LEASED" && a.str("holder") == winner && a.str("expiresAt") != "":
			default:
				t.Fatalf("round %d: %s is answered %v; %s has the lease", round, names[i%keys], a, winner)
			}
		}
	}
}
