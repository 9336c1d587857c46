package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A former holder hears with its next answer, of any kind and once, how its leases ended.
func TestAFormerHolderIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.document("paper").str("documentId")
		const plan = "/documents/paper/sections/plan/lease"
		// lose takes a lease from alpha without its doing and returns its id.
		lose := func() string {
			l := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60}`)
			w.ok(root, "DELETE", lease1+"?force=true&reason=stuck", "")
			return l.str("leaseId")
		}
		told := func(what string, a answer, ids ...string) {
			t.Helper()
			if got := a.header.Get(leaseLostHeader); got != strings.Join(ids, ", ") {
				t.Errorf("%s: the header says %q, want %v", what, got, ids)
			}
			var in []string
			lost, _ := a.body[leaseLostField].([]any)
			for _, l := range lost {
				in = append(in, l.(map[string]any)["leaseId"].(string))
			}
			if a.body != nil && fmt.Sprint(in) != fmt.Sprint(ids) {
				t.Errorf("%s: the body says %v, want %v", what, in, ids)
			}
		}
		for _, rq := range []request{
			{method: "GET", path: "/documents"},
			{method: "GET", path: "/documents/paper"},
			{method: "GET", path: "/documents/paper/sections/intro"},
			{method: "GET", path: "/documents/paper/leases"},
			{method: "PUT", path: "/documents/paper/sections/intro", body: `{"text":"# x\n","base":"current"}`},
			{method: "POST", path: "/documents/paper/events", body: `{"hello":"world"}`},
			{method: "POST", path: "/documents/paper/events", body: `{}`},
			{method: "GET", path: "/documents/nothing"},
			{method: "DELETE", path: lease1},
			{method: "PATCH", path: lease1, body: `{"leaseDurationSeconds":0}`},
			{method: "GET", path: coordination + "/ledger"},
			{method: "POST", path: coordination + "/release", body: asks(alpha, "lock:none", "")},
			{method: "GET", path: "/session"},
			{method: "GET", path: "/documents/paper", header: http.Header{"Accept": {"text/markdown"}}},
		} {
			lost := lose()
			rq.as = beta
			told("another's "+rq.method+" "+rq.path, w.do(rq))
			rq.as = alpha
			told(rq.method+" "+rq.path, w.do(rq), lost)
			told("again "+rq.method+" "+rq.path, w.do(rq))
		}

		lost := lose()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		stream, err := w.client.Do(w.newRequest(ctx, request{as: alpha, method: "GET", path: "/documents/paper/events/stream"}))
		w.must(err)
		leave()
		stream.Body.Close()
		told("an event stream", answer{header: stream.Header}, lost)

		expired := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":1}`)
		resource := w.granted(alpha, "lock:a", `"ttlMs":2000`)
		time.Sleep(2 * time.Second)
		section := w.ok(alpha, "POST", plan, `{"leaseDurationSeconds":60}`)
		told("two at once", section, expired.str("leaseId"), resource["leaseId"].(string))
		want := fmt.Sprintf("[map[action:expire at:%s fence:%v leaseId:%s resource:section:paper/intro sectionId:intro] map[action:expire at:%s fence:%v leaseId:%v resource:lock:a]]",
			until(-time.Second), expired.body["fence"], expired.str("leaseId"), until(0), resource["fence"], resource["leaseId"])
		if got := fmt.Sprint(section.body[leaseLostField]); got != want {
			t.Errorf("told is\n%s, want\n%s", got, want)
		}

		w.ok(root, "DELETE", "/documents/paper", "")
		a := w.do(request{as: alpha, method: "GET", path: coordination + "/agents/alpha"})
		want = fmt.Sprintf("[map[action:end at:%s by:did:cowrite:root fence:%v leaseId:%s reason:the document was deleted resource:section:paper/plan sectionId:plan]]",
			until(0), section.body["fence"], section.str("leaseId"))
		if got := fmt.Sprint(a.body[leaseLostField]); got != want {
			t.Errorf("of a deleted document %s is told\n%s, want\n%s", id, got, want)
		}
	})
}

// What a holder does itself is no news to it.
func TestNobodyIsToldOfItsOwnDoing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		for _, end := range []request{
			{method: "DELETE", path: lease1},
			{method: "DELETE", path: lease1 + "?force=true"},
			{method: "POST", path: lease1 + "/transfer", body: `{"to":"beta"}`},
		} {
			w.ok(root, "POST", lease1, `{"leaseDurationSeconds":60}`)
			end.as = root
			if a := w.do(end); a.status != 200 || a.header.Get(leaseLostHeader) != "" {
				t.Errorf("%s %s: %v", end.method, end.path, a)
			}
			if a := w.ok(root, "GET", "/documents", ""); a.header.Get(leaseLostHeader) != "" || a.body[leaseLostField] != nil {
				t.Errorf("after %s %s: %v", end.method, end.path, a)
			}
		}
	})
}
