package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// keyed is a request with an Idempotency-Key.
func keyed(rq request, key string) request {
	rq.header = http.Header{"Idempotency-Key": {key}}
	return rq
}

func TestALeaseCallCountsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		acquire, other, renew, release request
		id                             func(answer) string
		ended, mismatch                string
	}{
		"section": {
			acquire:  request{as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60}`},
			other:    request{as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":61}`},
			renew:    request{as: alpha, method: "PATCH", path: lease1, body: `{"leaseDurationSeconds":60}`},
			release:  request{as: alpha, method: "DELETE", path: lease1},
			id:       func(a answer) string { return a.str("leaseId") },
			ended:    "LEASE_ENDED",
			mismatch: "IDEMPOTENCY_MISMATCH",
		},
		"resource": {
			acquire: request{as: alpha, method: "POST", path: coordination + "/lease", body: asks(alpha, "lock:a", `"ttlMs":60000`)},
			other:   request{as: alpha, method: "POST", path: coordination + "/lease", body: asks(alpha, "lock:b", `"ttlMs":60000`)},
			renew:   request{as: alpha, method: "POST", path: coordination + "/renew", body: asks(alpha, "lock:a", `"ttlMs":60000`)},
			release: request{as: alpha, method: "POST", path: coordination + "/release", body: asks(alpha, "lock:a", "")},
			id: func(a answer) string {
				l, _ := a.body["lease"].(map[string]any)
				return fmt.Sprint(l["leaseId"])
			},
			ended:    "lease_ended",
			mismatch: "idempotency_mismatch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.document("paper")
				ask := func(rq request, key string, status int, code string) answer {
					t.Helper()
					a := w.do(keyed(rq, name+key))
					if a.status != status || a.str("error") != code {
						t.Fatalf("%s %s under %s: %v, want %d %s", rq.method, rq.path, key, a, status, code)
					}
					return a
				}
				first := ask(c.acquire, "one", 200, "")
				time.Sleep(10 * time.Second)
				again := ask(c.acquire, "one", 200, "")
				if again.body["granted"] != first.body["granted"] || first.body["granted"] != true {
					t.Errorf("the retry says that it made the lease: %v, the first %v", again.body["granted"], first.body["granted"])
				}
				if extended := ask(c.acquire, "extended", 200, ""); extended.body["granted"] == true {
					t.Errorf("another request for the lease says that it made it: %v", extended)
				}
				if c.id(again) != c.id(first) || !strings.Contains(again.String(), `"expiresInMs":50000`) {
					t.Errorf("the retry is answered %v, the first was %v", again, first)
				}
				spaced := c.acquire
				spaced.body = strings.ReplaceAll(spaced.body, ",", " , ")
				ask(spaced, "one", 200, "") // the same request in other words
				ask(c.other, "one", 422, c.mismatch)
				ask(c.renew, "one", 422, c.mismatch)
				ask(c.acquire, strings.Repeat("k", 256), 400, map[bool]string{true: "BAD_REQUEST", false: "bad_request"}[name == "section"])

				ask(c.renew, "two", 200, "")
				time.Sleep(10 * time.Second)
				if a := ask(c.renew, "two", 200, ""); !strings.Contains(a.String(), `"expiresInMs":50000`) {
					t.Errorf("a renewal counts twice: %v", a)
				}
				ask(c.release, "three", 200, "")
				if a := ask(c.release, "three", 200, ""); a.body["released"] != true {
					t.Errorf("the release again: %v", a)
				}
				ended := ask(c.acquire, "one", 409, c.ended)
				if ended.str("leaseId") != c.id(first) {
					t.Errorf("after its end: %v", ended)
				}
				ask(c.renew, "two", 409, c.ended)

				second := ask(c.acquire, "four", 200, "")
				if a := ask(c.release, "three", 200, ""); a.body["released"] != true {
					t.Errorf("the release again: %v", a)
				}
				if a := ask(c.acquire, "four", 200, ""); c.id(a) != c.id(second) {
					t.Errorf("an old release ended a new lease: %v", a)
				}
				time.Sleep(time.Minute)
				ask(c.acquire, "four", 409, c.ended)
			})
		})
	}
}

func TestTransferCountsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60}`)
		hand := keyed(request{as: alpha, method: "POST", path: lease1 + "/transfer", body: `{"to":"beta"}`}, "k")
		first, again := w.do(hand), w.do(hand)
		if first.status != 200 || again.status != 200 || again.str("leaseId") != first.str("leaseId") || again.str("holder") != beta {
			t.Errorf("handed on: %v, then %v", first, again)
		}
		w.ok(beta, "DELETE", lease1, "")
		if a := w.do(hand); a.status != 409 || a.str("error") != "LEASE_ENDED" {
			t.Errorf("after its end: %v", a)
		}
	})
}

// A refusal is not remembered, a key is its agent's own, and a caller who hung up asks anew under the same key.
func TestWhatIsNotRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ask := func(as string) request {
			return keyed(request{as: as, method: "POST", path: coordination + "/lease", body: asks(as, "lock:a", "")}, "k")
		}
		w.granted(root, "lock:a", `"ttlMs":10000`)
		if a := w.do(ask(alpha)); a.str("error") != "lease_held" {
			t.Fatal(a)
		}
		time.Sleep(10 * time.Second)
		if a := w.do(ask(alpha)); a.status != 200 {
			t.Errorf("a refusal is remembered: %v", a)
		}
		if a := w.do(ask(beta)); a.str("error") != "lease_held" || a.str("holder") != "did:cowrite:alpha" {
			t.Errorf("another agent's key: %v", a)
		}

		poll := keyed(request{as: root, method: "POST", path: coordination + "/lease", body: asks(root, "lock:b", `"waitMs":60000`)}, "poll")
		w.granted(alpha, "lock:b", `"ttlMs":300000`)
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if resp, err := w.client.Do(w.newRequest(ctx, poll)); err == nil {
				resp.Body.Close()
			}
		})
		synctest.Wait()
		hangUp()
		wg.Wait()
		synctest.Wait()
		if a := w.coordinate(alpha, "release", "lock:b", ""); a.status != 200 {
			t.Fatal(a)
		}
		if a := w.do(poll); a.status != 200 {
			t.Errorf("asked anew: %v", a)
		}
	})
}

// Of retries that come at once, one is done and the others wait for it; of long polls too.
func TestRetriesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const retries = 20
		w.granted(alpha, "lock:a", `"ttlMs":20000`)
		poll := keyed(request{as: beta, method: "POST", path: coordination + "/lease", body: asks(beta, "lock:a", `"waitMs":60000`)}, "poll")
		answers := make([]answer, retries)
		var wg sync.WaitGroup
		for i := range retries {
			wg.Go(func() { answers[i] = w.do(poll) })
		}
		wg.Wait()
		for _, a := range answers {
			if a.status != 200 || fmt.Sprint(a.body["lease"]) != fmt.Sprint(answers[0].body["lease"]) {
				t.Errorf("%v, and %v", a, answers[0])
			}
		}
		if grants := w.ok(root, "GET", coordination+"/agents/beta", "").body["grants"]; grants != 1.0 {
			t.Errorf("%v grants", grants)
		}
		release := keyed(request{as: beta, method: "POST", path: coordination + "/release", body: asks(beta, "lock:a", "")}, "release")
		for i := range retries {
			wg.Go(func() { answers[i] = w.do(release) })
		}
		wg.Wait()
		for _, a := range answers {
			if a.status != 200 {
				t.Errorf("released: %v", a)
			}
		}
		if standing := w.ok(root, "GET", coordination+"/agents/beta", ""); standing.body["releases"] != 1.0 || standing.body["trust"] != 50.0 {
			t.Errorf("after the release: %v", standing)
		}
	})
}
