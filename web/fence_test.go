package web

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A write with a fence that is not the newest is told so and logged so, and is merged all the same.
func TestAWriteWithAStaleFence(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		const section = "/documents/paper/sections/intro"
		old := w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":1}`).body["fence"].(float64)
		put := func(as, text string, fence float64) map[string]any {
			t.Helper()
			a := w.ok(as, "PUT", section, fmt.Sprintf(`{"text":%q,"base":"current","fence":%v}`, text, fence))
			if a.str("text") != text {
				t.Errorf("not merged: %v", a)
			}
			advisory, _ := a.body["advisory"].(map[string]any)
			return advisory
		}
		if advisory := put(alpha, "# one\n", old); advisory != nil {
			t.Errorf("with the current fence: %v", advisory)
		}
		time.Sleep(time.Minute)
		if advisory := put(alpha, "# two\n", old); advisory != nil {
			t.Errorf("nobody came after it: %v", advisory)
		}
		held := w.ok(beta, "POST", lease1, `{"leaseDurationSeconds":60}`)
		now := held.body["fence"].(float64)
		advisory := put(alpha, "# three\n", old)
		if advisory["kind"] != "stale_fence" || advisory["fence"] != old || advisory["supersededBy"] != now || advisory["holder"] != beta || advisory["leaseId"] != held.str("leaseId") || advisory["message"] == "" {
			t.Errorf("after another's grant: %v", advisory)
		}
		if advisory := put(beta, "# four\n", now); advisory != nil {
			t.Errorf("the holder's: %v", advisory)
		}
		if advisory := put(alpha, "# five\n", now+100); advisory["kind"] != "leased" || advisory["holder"] != beta {
			t.Errorf("a fence that never was is not stale: %v", advisory)
		}
		w.ok(beta, "DELETE", lease1, "")
		advisory = put(alpha, "# six\n", old)
		if advisory["kind"] != "stale_fence" || advisory["supersededBy"] != now || advisory["holder"] != nil {
			t.Errorf("after another's release: %v", advisory)
		}
		moved := w.ok(alpha, "POST", section+"/move", fmt.Sprintf(`{"after":"plan","fence":%v}`, old))
		if advisory, _ := moved.body["advisory"].(map[string]any); advisory["kind"] != "stale_fence" {
			t.Errorf("moved: %v", moved)
		}
		for _, call := range [][2]string{{"DELETE", section}, {"POST", section + "/restore"}} {
			done := w.ok(alpha, call[0], fmt.Sprintf("%s?fence=%v", call[1], old), "")
			if advisory, _ := done.body["advisory"].(map[string]any); advisory["kind"] != "stale_fence" || advisory["supersededBy"] != now {
				t.Errorf("%s: %v", call, done)
			}
		}
		reserved := w.ok(alpha, "POST", "/documents/paper/sections/new/lease", `{"leaseDurationSeconds":1}`)
		time.Sleep(time.Second)
		w.ok(beta, "POST", "/documents/paper/sections/new/lease", `{"leaseDurationSeconds":60}`)
		added := w.ok(alpha, "POST", "/documents/paper/sections", fmt.Sprintf(`{"id":"new","text":"# New\n","fence":%v}`, reserved.body["fence"]))
		if advisory, _ := added.body["advisory"].(map[string]any); advisory["kind"] != "stale_fence" || advisory["holder"] != beta {
			t.Errorf("added: %v", added)
		}

		var stale []string
		for _, e := range w.ok(vera, "GET", "/documents/paper/events?limit=1000", "").body["events"].([]any) {
			if event := e.(map[string]any); event["event_type"] == "section.fence_stale" {
				p := event["payload"].(map[string]any)
				stale = append(stale, fmt.Sprint(event["actor_id"], " ", p["sectionId"], " ", p["by"], " ", p["fence"], " ", p["supersededBy"]))
			}
		}
		want := fmt.Sprintf("alpha intro alpha %v %v", old, now)
		if fmt.Sprint(stale) != fmt.Sprint([]string{want, want, want, want, want, fmt.Sprintf("alpha new alpha %v %v", reserved.body["fence"], now+2)}) {
			t.Errorf("the log says %v", stale)
		}
	})
}

// Whether a fence is current, for what guards a resource: it lives, it is over while nobody came, or it is stale.
func TestCheckingAFence(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const file = "repo:x/file.go"
		check := func(fence any, current, stale bool, by any) {
			t.Helper()
			a := w.do(request{as: vera, method: "POST", path: coordination + "/check", body: fmt.Sprintf(`{"resource":%q,"fence":%v}`, file, fence)})
			if a.status != 200 || a.body["ok"] != true || a.body["current"] != current || a.body["stale"] != stale || a.body["supersededBy"] != by {
				t.Errorf("fence %v: %v, want current %t, stale %t by %v", fence, a, current, stale, by)
			}
			if lease, _ := a.body["lease"].(map[string]any); current && (lease["fence"] != fence || lease["resource"] != file) {
				t.Errorf("fence %v: %v", fence, a)
			}
		}
		check(1.0, false, false, nil)
		first := w.granted(alpha, file, `"operation":"read"`)["fence"]
		second := w.granted(beta, file, `"operation":"read","ttlMs":60000`)["fence"]
		check(first, true, false, nil)
		check(second, true, false, nil)
		time.Sleep(30 * time.Second)
		check(first, false, false, nil) // over, and readers together are never stale
		check(second, true, false, nil)
		upgraded := w.granted(beta, file, `"operation":"write","ttlMs":1000`)["fence"]
		check(first, false, true, upgraded)
		check(second, false, true, upgraded)
		check(upgraded, true, false, nil)
		time.Sleep(time.Minute)
		check(upgraded, false, false, nil)
		readers := w.granted(alpha, file, `"operation":"read"`)["fence"]
		check(upgraded, false, true, readers)
		check(first, false, true, upgraded)
		check(999.0, false, false, nil)
		if other := w.coordinate(alpha, "check", "repo:x/other.go", ""); other.status != 400 {
			t.Errorf("without a fence: %v", other)
		}
	})
}

// The longest chain of readers hides no writer among them.
func TestAFenceBehindManyReaders(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const file = "repo:x/file.go"
		check := func(fence any) answer {
			t.Helper()
			return w.do(request{as: vera, method: "POST", path: coordination + "/check", body: fmt.Sprintf(`{"resource":%q,"fence":%v}`, file, fence)})
		}
		turn := func(operation string) any {
			t.Helper()
			fence := w.granted(alpha, file, fmt.Sprintf(`"operation":%q`, operation))["fence"]
			if a := w.coordinate(alpha, "release", file, ""); a.status != 200 {
				t.Fatal(a)
			}
			return fence
		}
		first := turn("read")
		for range 70 {
			turn("read")
		}
		if a := check(first); a.body["stale"] != false {
			t.Errorf("behind readers alone: %v", a)
		}
		writer := turn("write")
		for range 70 {
			turn("read")
		}
		if a := check(first); a.body["stale"] != true || a.body["supersededBy"] != writer {
			t.Errorf("behind a writer: %v", a)
		}
	})
}

// What a request at the coordination door is about is in its body; who may is the same as at the section's own door.
func TestWhoMayCoordinate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("team-paper")
		type needs struct{ lock, paper, team []string } // who may
		writers, readers := []string{root, alpha, beta}, []string{root, alpha, beta, vera}
		for _, c := range []struct {
			method, path string
			body         bool
			may          needs
		}{
			{"POST", "/lease", true, needs{append(writers, tom, warden), writers, append(writers, tom, warden)}},
			{"POST", "/renew", true, needs{append(writers, tom, warden), writers, append(writers, tom, warden)}},
			{"POST", "/release", true, needs{append(writers, tom, warden), writers, append(writers, tom, warden)}},
			{"DELETE", "/wait", false, needs{append(writers, tom, warden), writers, append(writers, tom, warden)}},
			{"GET", "/wait", false, needs{append(readers, tom, warden), readers, append(readers, tom, warden)}},
			{"GET", "/ledger", false, needs{append(readers, tom, warden), readers, append(readers, tom, warden)}},
			{"POST", "/check", true, needs{append(readers, tom, warden), readers, append(readers, tom, warden)}},
		} {
			for resource, may := range map[string][]string{"lock:a": c.may.lock, "section:paper/intro": c.may.paper, "section:team-paper/intro": c.may.team} {
				for _, as := range []string{root, alpha, beta, vera, tom, warden} {
					rq := request{as: as, method: c.method, path: coordination + c.path}
					switch {
					case c.path == "/check":
						rq.body = fmt.Sprintf(`{"resource":%q,"fence":1}`, resource)
					case c.body:
						rq.body = asks(as, resource, "")
					default:
						rq.path += "?resource=" + resource
					}
					a := w.do(rq)
					if allowed := a.str("error") != "forbidden"; allowed != slices.Contains(may, as) {
						t.Errorf("%s %s of %s by %s: %v", c.method, c.path, resource, as, a)
					}
				}
			}
		}
	})
}
