package web

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

// page reads a page of the ledger and gives its entries as "seq action resource".
func (w *world) page(as, query string) (entries []string, next string, more bool) {
	w.t.Helper()
	a := w.ok(as, "GET", coordination+"/ledger?"+query, "")
	for _, e := range a.body["entries"].([]any) {
		entry := e.(map[string]any)
		entries = append(entries, fmt.Sprint(entry["seq"], " ", entry["action"], " ", entry["resource"]))
	}
	return entries, a.str("next"), a.body["hasMore"].(bool)
}

func TestTheLedgerInPages(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("team-paper")
		share := w.ok(alpha, "POST", "/documents/paper/shares", `{}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		w.granted(alpha, "section:paper/intro", "")        // 1
		w.granted(tom, "section:team-paper/intro", "")     // 2
		w.granted(alpha, "lock:a", `"reason":"to deploy"`) // 3
		w.refused(beta, "lock:a", "", "lease_held")        // 4
		w.coordinate(alpha, "release", "lock:a", "")       // 5, and 6 reserves it for beta
		w.ok(root, "DELETE", lease1+"?force=true", "")     // 7
		w.ok(alpha, "PATCH", "/documents/paper", `{"slug":"essay"}`)
		for _, c := range []struct {
			as, query, entries string
			next               string
			more               bool
		}{
			{root, "", "[1 grant section:essay/intro 2 grant section:team-paper/intro 3 grant lock:a 4 queue lock:a 5 release lock:a 6 reserve lock:a 7 force section:essay/intro]", "7", false},
			{vera, "limit=7", "[1 grant section:essay/intro 2 grant section:team-paper/intro 3 grant lock:a 4 queue lock:a 5 release lock:a 6 reserve lock:a 7 force section:essay/intro]", "7", false},
			{vera, "limit=2", "[1 grant section:essay/intro 2 grant section:team-paper/intro]", "2", true},
			{vera, "after=5&limit=2", "[6 reserve lock:a 7 force section:essay/intro]", "7", false},
			{vera, "after=7", "[]", "7", false},
			{vera, "after=700", "[]", "700", false},
			{tom, "limit=2", "[2 grant section:team-paper/intro 3 grant lock:a]", "3", true},
			{tom, "after=5&limit=1", "[6 reserve lock:a]", "6", true},
			{tom, "after=6&limit=1", "[]", "7", false},
			{"guest", "limit=1", "[1 grant section:essay/intro]", "1", true},
			{"guest", "after=1", "[7 force section:essay/intro]", "7", false},
			{vera, "resource=lock:a", "[3 grant lock:a 4 queue lock:a 5 release lock:a 6 reserve lock:a]", "6", false},
			{vera, "resource=section:paper/intro", "[1 grant section:essay/intro 7 force section:essay/intro]", "7", false},
			{vera, "actor=did:cowrite:alpha", "[1 grant section:essay/intro 3 grant lock:a 5 release lock:a 7 force section:essay/intro]", "7", false},
			{vera, "actor=beta", "[4 queue lock:a 6 reserve lock:a]", "6", false},
			{vera, "actor=root", "[7 force section:essay/intro]", "7", false},
			{vera, "actor=alpha&resource=lock:a&limit=1", "[3 grant lock:a]", "3", true},
			{vera, "actor=stranger", "[]", "0", false},
			{vera, "last=true&limit=2", "[6 reserve lock:a 7 force section:essay/intro]", "7", true},
			{vera, "last=true&limit=7&actor=alpha", "[1 grant section:essay/intro 3 grant lock:a 5 release lock:a 7 force section:essay/intro]", "7", false},
			{vera, "last=true&limit=1&actor=alpha&resource=lock:a", "[5 release lock:a]", "5", true},
			{vera, "last=true&after=6", "[7 force section:essay/intro]", "7", false},
			{vera, "last=true&after=7", "[]", "7", false},
			{tom, "last=true&limit=2", "[5 release lock:a 6 reserve lock:a]", "7", true},
			{tom, "last=true&limit=5", "[2 grant section:team-paper/intro 3 grant lock:a 4 queue lock:a 5 release lock:a 6 reserve lock:a]", "7", false},
			{tom, "last=true&limit=1&after=5", "[6 reserve lock:a]", "7", false},
			{"guest", "last=true&limit=1", "[7 force section:essay/intro]", "7", true},
			{"guest", "last=true&limit=2", "[1 grant section:essay/intro 7 force section:essay/intro]", "7", false},
		} {
			entries, next, more := w.page(c.as, c.query)
			if fmt.Sprint(entries) != c.entries || next != c.next || more != c.more {
				t.Errorf("%s asks for %q: %v, next %s, more %t", c.as, c.query, entries, next, more)
			}
		}
		first := w.ok(vera, "GET", coordination+"/ledger?resource=lock:a&limit=2", "").body["entries"].([]any)
		granted, queued := first[0].(map[string]any), first[1].(map[string]any)
		lease, waiter := granted["lease"].(map[string]any), queued["waiter"].(map[string]any)
		if granted["event"] != "coordination.lease" || granted["actorDid"] != "did:cowrite:alpha" || granted["holder"] != "did:cowrite:alpha" || granted["at"] != until(0) ||
			granted["leaseId"] != lease["leaseId"] || granted["fence"] != 3.0 || lease["reason"] != "to deploy" || lease["expiresAt"] != until(30*time.Second) {
			t.Errorf("the grant is told as %v", granted)
		}
		if queued["actorDid"] != "did:cowrite:beta" || queued["lease"] != nil || waiter["actorDid"] != "did:cowrite:beta" || waiter["mode"] != "exclusive" {
			t.Errorf("the place is told as %v", queued)
		}
	})
}

// A key that may see next to nothing of a long ledger gets what it may see, page by page, and each page is found
// without reading everything at once.
func TestTheLedgerOfANarrowKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("team-paper")
		w.addKey("narrow", doc.Key{Agent: "narrow", Role: doc.Viewer, Document: must(w.library.Find(t.Context(), doc.Key{Role: doc.Admin, Pattern: "*"}, "team-paper")).ID})
		want := 0
		for n := range 300 {
			sid := "intro"
			document := "paper"
			if n%100 == 99 {
				document = "team-paper"
				want++
			}
			w.granted(alpha, "section:"+document+"/"+sid, "")
			w.coordinate(alpha, "release", "section:"+document+"/"+sid, "")
		}
		var got, pages int
		for after, more := "0", true; more; pages++ {
			entries, next, again := w.page("narrow", "limit=1&after="+after)
			got, after, more = got+len(entries), next, again
			if pages > 100 {
				t.Fatal("the pages do not end")
			}
		}
		if got != 2*want {
			t.Errorf("%d entries in %d pages, want %d", got, pages, 2*want)
		}
	})
}

// save writes a transition to the ledger n times.
func (w *world) save(n int, e lease.Event) {
	w.t.Helper()
	e.At = time.Now()
	w.must(w.store.SaveLeases(w.t.Context(), []doc.LeaseCommit{{Commit: lease.Commit{Record: lease.Record{Resource: e.Resource}, Events: slices.Repeat([]lease.Event{e}, n)}}}))
}

// The last entries that a key may see are found behind many that it may not; how far behind is bounded, and told.
func TestTheEndOfTheLedgerForANarrowKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("team-paper")
		share := w.ok(alpha, "POST", "/documents/team-paper/shares", `{}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		w.granted(alpha, "section:team-paper/intro", "")               // 1
		w.coordinate(alpha, "release", "section:team-paper/intro", "") // 2
		hidden := lease.Event{Kind: lease.Released, Resource: "lock:a", Actor: alpha}
		check := func(query, entries, next string, more bool) {
			t.Helper()
			if got, end, again := w.page("guest", "last=true&"+query); fmt.Sprint(got) != entries || end != next || again != more {
				t.Errorf("%s: %v, next %s, more %t", query, got, end, again)
			}
		}
		const released, both = "[2 release section:team-paper/intro]", "[1 grant section:team-paper/intro 2 release section:team-paper/intro]"
		w.save(5000, hidden)
		check("limit=1", released, "5002", true)
		check("limit=2", both, "5002", false)
		check("limit=100", both, "5002", false)
		check("limit=2&actor=alpha", both, "5002", false)
		check("limit=2&after=1", released, "5002", false)
		check("limit=2&after=2", "[]", "5002", false)

		w.save(10_001, hidden) // with a page of 2 and 15 of 1000 all of these and one more are looked through
		check("limit=1", released, "15003", true)
		w.save(1, hidden)
		check("limit=1", "[]", "15004", true)
	})
}

// So are the circles of waiting that were refused.
func TestDeadlocksForANarrowKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("team-paper")
		w.document("paper")
		told := func() []any { return w.ok(tom, "GET", coordination+"/wait", "").body["deadlocks"].([]any) }
		circle := func(slug string) lease.Event {
			r := doc.SectionResource(must(w.library.Find(t.Context(), doc.Key{Role: doc.Admin, Pattern: "*"}, slug)).ID, "intro")
			return lease.Event{Kind: lease.Deadlocked, Resource: r, Actor: alpha, Cycle: []lease.Edge{{Agent: alpha, Resource: r}}}
		}
		w.save(1, circle("team-paper"))
		w.save(1500, circle("paper"))
		if got := told(); len(got) != 1 || fmt.Sprint(got[0].(map[string]any)["resources"]) != "[section:team-paper/intro]" {
			t.Errorf("told %v", got)
		}
		w.save(deadlocksMost, circle("team-paper"))
		if got := told(); len(got) != deadlocksMost {
			t.Errorf("told %d", len(got))
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAnAgentsStanding(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.granted(alpha, "file:a", `"operation":"read","reason":"to look"`)
		w.granted(beta, "file:b", "")
		w.refused(root, "file:b", "", "lease_held")
		w.refused(alpha, "file:b", "", "lease_held")
		a := w.ok(vera, "GET", coordination+"/agents/alpha", "")
		holds, waits := a.body["holds"].([]any), a.body["waitsFor"].([]any)
		if a.str("agent") != alpha || a.str("actorDid") != "did:cowrite:alpha" || a.body["trust"] != 50.0 || a.body["grants"] != 1.0 || a.body["refusals"] != 1.0 || len(holds) != 1 || len(waits) != 1 {
			t.Fatalf("%v", a)
		}
		if h := holds[0].(map[string]any); h["resource"] != "file:a" || h["mode"] != "shared" || h["reason"] != "to look" {
			t.Errorf("it holds %v", h)
		}
		if want := fmt.Sprintf("map[mode:exclusive position:2 resource:file:b since:%s]", until(0)); fmt.Sprint(waits[0]) != want {
			t.Errorf("it waits for %v", waits[0])
		}
		if unknown := w.ok(vera, "GET", coordination+"/agents/stranger", ""); unknown.body["trust"] != 50.0 || fmt.Sprint(unknown.body["holds"]) != "[]" {
			t.Errorf("nobody: %v", unknown)
		}
	})
}
