package web

import (
	"fmt"
	"testing"
	"time"

	"cowrite/doc"
)

// shape gives what the list of resources says as lines.
func (w *world) shape(as string) []string {
	w.t.Helper()
	a := w.ok(as, "GET", coordination+"/resources", "")
	out := []string{fmt.Sprint(a.body["total"])}
	for _, item := range a.body["resources"].([]any) {
		r := item.(map[string]any)
		line := fmt.Sprint(r["resource"], " held by ", r["holders"])
		for _, l := range r["leases"].([]any) {
			line += fmt.Sprint(" for ", l.(map[string]any)["expiresInMs"])
		}
		for _, q := range r["waiters"].([]any) {
			line += fmt.Sprint(", then ", q.(map[string]any)["actorDid"])
		}
		if r["reservedFor"] != nil {
			line += fmt.Sprint(", kept for ", r["reservedFor"])
		}
		out = append(out, line)
	}
	for _, item := range a.body["waits"].([]any) {
		e := item.(map[string]any)
		out = append(out, fmt.Sprint(e["actorDid"], " waits for ", e["for"], " over ", e["resource"]))
	}
	for _, item := range a.body["agents"].([]any) {
		agent := item.(map[string]any)
		out = append(out, fmt.Sprint(agent["actorDid"], " ", agent["trust"]))
	}
	return out
}

func (w *world) wantShape(as string, want ...string) {
	w.t.Helper()
	if got := w.shape(as); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s is told\n%q, want\n%q", as, got, want)
	}
}

func TestWhoHoldsWhatAndWhoWaitsForWhom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wantShape(vera, "0")
		w.document("paper")
		w.document("team-paper")
		share := w.ok(alpha, "POST", "/documents/paper/shares", `{}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		w.granted(alpha, "file:a", "")
		w.granted(beta, "lock:b", "")
		w.granted(alpha, "section:paper/intro", `"ttlMs":60000`)
		w.granted(tom, "section:team-paper/intro", "")
		w.refused(beta, "section:paper/intro", "", "lease_held")
		w.refused(root, "section:paper/intro", "", "lease_held")
		w.refused(root, "lock:b", "", "lease_held")
		w.wantShape(vera, "4",
			"lock:b held by [did:cowrite:beta] for 30000, then did:cowrite:root",
			"section:paper/intro held by [did:cowrite:alpha] for 60000, then did:cowrite:beta, then did:cowrite:root",
			"file:a held by [did:cowrite:alpha] for 30000",
			"section:team-paper/intro held by [did:cowrite:tom] for 30000",
			"did:cowrite:root waits for did:cowrite:beta over lock:b",
			"did:cowrite:beta waits for did:cowrite:alpha over section:paper/intro",
			"did:cowrite:root waits for did:cowrite:beta over section:paper/intro",
			"did:cowrite:alpha 50", "did:cowrite:beta 50", "did:cowrite:root 50", "did:cowrite:tom 50")
		w.wantShape(tom, "3",
			"lock:b held by [did:cowrite:beta] for 30000, then did:cowrite:root",
			"file:a held by [did:cowrite:alpha] for 30000",
			"section:team-paper/intro held by [did:cowrite:tom] for 30000",
			"did:cowrite:root waits for did:cowrite:beta over lock:b",
			"did:cowrite:alpha 50", "did:cowrite:beta 50", "did:cowrite:root 50", "did:cowrite:tom 50")
		w.wantShape("guest", "1",
			"section:paper/intro held by [did:cowrite:alpha] for 60000, then did:cowrite:beta, then did:cowrite:root",
			"did:cowrite:beta waits for did:cowrite:alpha over section:paper/intro",
			"did:cowrite:root waits for did:cowrite:beta over section:paper/intro",
			"did:cowrite:alpha 50", "did:cowrite:beta 50", "did:cowrite:root 50")

		time.Sleep(2 * time.Second)
		w.coordinate(alpha, "release", "section:paper/intro", "")
		w.wantShape("guest", "1",
			"section:paper/intro held by [], then did:cowrite:beta, then did:cowrite:root, kept for [did:cowrite:beta]",
			"did:cowrite:root waits for did:cowrite:beta over section:paper/intro",
			"did:cowrite:beta 50", "did:cowrite:root 50")
		time.Sleep(5 * time.Minute)
		w.wantShape(vera, "0")
	})
}

func TestTheListOfAgents(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if a := w.ok(root, "GET", coordination+"/agents", ""); fmt.Sprint(a.body["agents"], a.body["total"]) != "[] 0" {
			t.Errorf("nobody asked for a lease: %v", a)
		}
		w.granted(alpha, "file:a", "")
		w.refused(beta, "file:a", "", "lease_held")
		then := until(0)
		time.Sleep(time.Second)
		w.granted(alpha, "file:b", "")
		w.coordinate(alpha, "release", "file:b", "")
		last := until(0)
		var got []string
		for _, item := range w.ok(root, "GET", coordination+"/agents", "").body["agents"].([]any) {
			a := item.(map[string]any)
			got = append(got, fmt.Sprintf("%v trust %v, %v grants, %v releases, %v refusals, holds %v, waits for %v, last %v",
				a["agent"], a["trust"], a["grants"], a["releases"], a["refusals"], a["holds"], a["waitsFor"], a["lastAt"]))
		}
		want := []string{
			"alpha trust 50, 2 grants, 1 releases, 0 refusals, holds 1, waits for 0, last " + last,
			"beta trust 50, 0 grants, 0 releases, 1 refusals, holds 0, waits for 1, last " + then,
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the agents are %q, want %q", got, want)
		}
		w.play(t, []scenario{
			{name: "as an editor", as: alpha, method: "GET", path: coordination + "/agents", status: 403, code: "forbidden"},
			{name: "as an admin of some", as: warden, method: "GET", path: coordination + "/agents", status: 403, code: "forbidden"},
		})
	})
}
