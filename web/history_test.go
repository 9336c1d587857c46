package web

import (
	"fmt"
	"net/http"
	"testing"

	"cowrite/doc"
)

func TestHistoryOfASection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "PATCH", intro, `{"ops":[{"at":0,"insert":"a"}]}`)
		w.ok(beta, "PATCH", "/documents/paper/sections/plan", `{"ops":[{"at":0,"insert":"b"}]}`)
		second := w.ok(beta, "PATCH", intro, `{"ops":[{"at":0,"insert":"c"}]}`)
		said := ""
		since := ""
		for more := true; more; {
			page := w.ok(vera, "GET", intro+"/history?limit=1&since="+since, "")
			for _, e := range page.body["events"].([]any) {
				e := e.(map[string]any)
				said += fmt.Sprint(e["event_type"], " ", e["actor_id"], "\n")
			}
			since, more = page.str("next_since"), page.body["has_more"] == true
		}
		if said != "section.created alpha\nsection.edited alpha\nsection.edited beta\n" {
			t.Errorf("the history is\n%s", said)
		}
		if again := w.ok(vera, "GET", intro+"/history?since="+since, ""); len(again.body["events"].([]any)) != 0 || again.str("next_since") != since {
			t.Errorf("behind its end: %v", again)
		}
		all := w.ok(vera, "GET", intro+"/history", "").body["events"].([]any)
		last := all[len(all)-1].(map[string]any)["payload"].(map[string]any)
		if last["version"] != second.str("version") {
			t.Errorf("the last edit made %v, its event says %v", second, last)
		}
	})
}

func TestEarlierVersions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.document("paper").str("version")
		w.ok(beta, "PATCH", intro, `{"replace":[{"find":"hello","with":"héllo wörld"}]}`)
		w.ok(beta, "POST", "/documents/paper/sections", `{"id":"end","text":"## End\n"}`)
		second := w.ok(beta, "PATCH", "/documents/paper", `{"title":"Renamed"}`).str("version")

		then := w.ok(vera, "GET", "/documents/paper?version="+first, "")
		if then.str("version") != first || then.str("title") != "Paper" || len(then.body["sections"].([]any)) != 2 {
			t.Errorf("at the first version: %v", then)
		}
		markdown := w.do(request{as: vera, method: "GET", path: "/documents/paper?version=" + first, header: http.Header{"Accept": {"text/markdown"}}})
		if string(markdown.raw) != "# Intro\nhello\n## Plan\nsteps\n" {
			t.Errorf("its Markdown: %q", markdown.raw)
		}

		diff := func(from, to string) (title string, sections map[string]map[string]any) {
			t.Helper()
			a := w.ok(vera, "GET", "/documents/paper/diff?from="+from+"&to="+to, "")
			sections = map[string]map[string]any{}
			for _, s := range a.body["sections"].([]any) {
				s := s.(map[string]any)
				sections[s["id"].(string)] = s
			}
			return a.str("title"), sections
		}
		apply := func(s map[string]any, text string) string {
			var ops []doc.TextOp
			for _, op := range s["ops"].([]any) {
				op := op.(map[string]any)
				deleted, _ := op["delete"].(float64)
				inserted, _ := op["insert"].(string)
				ops = append(ops, doc.TextOp{At: int(op["at"].(float64)), Delete: int(deleted), Insert: inserted})
			}
			return doc.ApplyOps(text, ops)
		}
		title, forth := diff(first, second)
		if text := apply(forth["intro"], "# Intro\nhello\n"); title != "Renamed" || text != "# Intro\nhéllo wörld\n" || forth["end"]["made"] != true || forth["end"]["text"] != "## End\n" || len(forth) != 2 {
			t.Errorf("there: %q, %q, %v", title, text, forth)
		}
		title, back := diff(second, first)
		if text := apply(back["intro"], "# Intro\nhéllo wörld\n"); title != "Paper" || text != "# Intro\nhello\n" || back["end"]["gone"] != true {
			t.Errorf("and back: %q, %q, %v", title, text, back)
		}
		if _, none := diff(second, ""); len(none) != 0 {
			t.Errorf("to the present version: %v", none)
		}
	})
}

// A revert is an edit like others: it is in the log, keeps what was there, and counts once.
func TestRevert(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.document("paper").str("version")
		second := w.ok(beta, "PATCH", intro, `{"replace":[{"find":"hello","with":"goodbye"}]}`)
		revert := request{as: alpha, method: "POST", path: intro + "/revert", body: fmt.Sprintf(`{"to":%q}`, first)}
		if a := w.do(keyed(revert, "k")); a.status != 200 || a.str("text") != "# Intro\nhello\n" {
			t.Fatalf("reverted to %v", a)
		}
		back := w.ok(alpha, "POST", intro+"/revert", fmt.Sprintf(`{"to":%q}`, second.str("version")))
		if back.str("text") != second.str("text") {
			t.Errorf("taken back: %v", back)
		}
		if a := w.do(keyed(revert, "k")); a.body["repeated"] != true || a.str("text") != second.str("text") {
			t.Errorf("the retry: %v", a)
		}
		end := w.ok(beta, "POST", "/documents/paper/sections", `{"id":"end","text":"## End\n"}`).str("version")
		w.play(t, []scenario{
			{name: "no version", as: alpha, method: "POST", path: intro + "/revert", body: `{}`, status: 400, code: "INVALID_VERSION"},
			{name: "an empty one", as: alpha, method: "POST", path: intro + "/revert", body: `{"to":""}`, status: 400, code: "INVALID_VERSION"},
			{name: "nonsense", as: alpha, method: "POST", path: intro + "/revert", body: `{"to":"nonsense"}`, status: 400, code: "INVALID_VERSION"},
			{name: "a number", as: alpha, method: "POST", path: intro + "/revert", body: `{"to":7}`, status: 400, code: "INVALID_VERSION"},
			{name: "before it was there", as: alpha, method: "POST", path: "/documents/paper/sections/end/revert", body: fmt.Sprintf(`{"to":%q}`, first), status: 400, code: "INVALID_VERSION"},
			{name: "no section", as: alpha, method: "POST", path: "/documents/paper/sections/none/revert", body: fmt.Sprintf(`{"to":%q}`, end), status: 404, code: "SECTION_NOT_FOUND"},
			{name: "a viewer", as: vera, method: "POST", path: intro + "/revert", body: fmt.Sprintf(`{"to":%q}`, first), status: 403, code: "FORBIDDEN"},
			{name: "a version that never was", as: vera, method: "GET", path: "/documents/paper?version=nonsense", status: 400, code: "INVALID_VERSION"},
			{name: "a difference from nothing", as: vera, method: "GET", path: "/documents/paper/diff", status: 400, code: "INVALID_VERSION"},
			{name: "a difference from nonsense", as: vera, method: "GET", path: "/documents/paper/diff?from=%00", status: 400, code: "INVALID_VERSION"},
			{name: "a history behind nonsense", as: vera, method: "GET", path: intro + "/history?since=-1", status: 400, code: "INVALID_CURSOR"},
			{name: "the history of no id", as: vera, method: "GET", path: "/documents/paper/sections/-/history", status: 400, code: "INVALID_SECTION_ID"},
		})
	})
}
