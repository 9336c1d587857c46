package web

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const intro = "/documents/paper/sections/intro"

// The three ways to edit, each on a base that others have written after.
func TestThreeWaysToEdit(t *testing.T) {
	for name, edit := range map[string]string{
		"text":    `{"base":%q,"text":"# Intro\nhello there\n"}`,
		"ops":     `{"base":%q,"ops":[{"at":13,"insert":" there"}]}`,
		"replace": `{"base":%q,"replace":[{"find":"hello","with":"hello there"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				base := w.document("paper").str("version")
				w.ok(beta, "PATCH", intro, `{"ops":[{"at":2,"delete":5,"insert":"Début"},{"at":13,"insert":"!"}]}`)
				a := w.ok(alpha, "PATCH", intro, fmt.Sprintf(edit, base))
				text := a.str("text")
				if !strings.HasPrefix(text, "# Début\nhello") || !strings.Contains(text, " there") || !strings.Contains(text, "!") {
					t.Errorf("merged into %q", text)
				}
				from, _ := a.body["mergedFrom"].(map[string]any)
				if a.body["merged"] != true || fmt.Sprint(from["agents"]) != "[beta]" {
					t.Errorf("what was merged: %v", a)
				}
				changed := 0.0
				runes := []rune(text)
				for _, r := range from["ranges"].([]any) {
					r := r.(map[string]any)
					changed += r["length"].(float64)
					if at := int(r["at"].(float64)); at > len(runes) {
						t.Errorf("a range outside of the text: %v", r)
					}
				}
				if changed < 2 {
					t.Errorf("the ranges show nothing of the others': %v", from)
				}
				if now := w.ok(vera, "GET", intro, ""); now.str("text") != text || now.str("version") != a.str("version") {
					t.Errorf("the answer was %v, and it is %v", a, now)
				}
			})
		})
	}
}

// A passage that is not there, or more often than once, changes nothing, and the answer says where to look.
func TestReplaceThatDoesNotFit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		version := w.document("paper").str("version")
		w.play(t, []scenario{
			{name: "not there", as: alpha, method: "PATCH", path: intro, body: `{"replace":[{"find":"helo","with":"x"}]}`, status: 409, code: "TEXT_NOT_FOUND",
				facts: map[string]string{"near": "# Intro\nhello\n", "version": version, "find": "helo", "at": "*"}},
			{name: "often", as: alpha, method: "PATCH", path: intro, body: `{"replace":[{"find":"l","with":"x"}]}`, status: 409, code: "TEXT_AMBIGUOUS",
				facts: map[string]string{"near": "*", "version": version, "count": "2"}},
			{name: "too far", as: alpha, method: "PATCH", path: intro, body: `{"replace":[{"find":"l","with":"x","occurrence":3}]}`, status: 409, code: "TEXT_NOT_FOUND", facts: map[string]string{"version": version}},
			{name: "one of two", as: alpha, method: "PATCH", path: intro, body: `{"replace":[{"find":"Intro","with":"Start"},{"find":"nowhere","with":"x"}]}`, status: 409, code: "TEXT_NOT_FOUND"},
		})
		if a := w.ok(vera, "GET", intro, ""); a.str("version") != version {
			t.Errorf("something was written: %v", a)
		}
		if a := w.ok(alpha, "PATCH", intro, `{"replace":[{"find":"l","with":"L","occurrence":2}]}`); a.str("text") != "# Intro\nhelLo\n" {
			t.Errorf("the second: %v", a)
		}
	})
}

func TestEditsThatAreNone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("other")
		elsewhere := w.ok(alpha, "PUT", "/documents/other/sections/intro", `{"text":"# Else\n","base":"current"}`).str("version")
		refused := func(name, body string, status int, code string) scenario {
			return scenario{name: name, as: alpha, method: "PATCH", path: intro, body: body, status: status, code: code}
		}
		ops := strings.TrimSuffix(strings.Repeat(`{"at":0,"insert":""},`, 10_001), ",")
		w.play(t, []scenario{
			refused("none of the three", `{"base":"current"}`, 400, "BAD_REQUEST"),
			refused("two of the three", `{"text":"x","ops":[],"base":"current"}`, 400, "BAD_REQUEST"),
			refused("no object", `[]`, 400, "BAD_REQUEST"),
			refused("null as ops", `{"ops":null}`, 400, "BAD_REQUEST"),
			refused("no position", `{"ops":[{"insert":"x"}]}`, 400, "BAD_REQUEST"),
			refused("a negative position", `{"ops":[{"at":-1}]}`, 400, "BAD_REQUEST"),
			refused("a fraction", `{"ops":[{"at":0.5}]}`, 400, "BAD_REQUEST"),
			refused("a huge position", `{"ops":[{"at":1e300}]}`, 400, "BAD_REQUEST"),
			refused("an infinite length", `{"ops":[{"at":0,"delete":1e999}]}`, 400, "BAD_REQUEST"),
			refused("beyond the end", `{"ops":[{"at":2147483647}]}`, 400, "INVALID_RANGE"),
			refused("longer than the text", `{"ops":[{"at":1,"delete":2147483647}]}`, 400, "INVALID_RANGE"),
			refused("ranges that overlap", `{"ops":[{"at":0,"delete":3},{"at":2,"delete":1}]}`, 400, "INVALID_RANGE"),
			refused("too many operations", `{"ops":[`+ops+`]}`, 413, "TOO_LARGE"),
			refused("nothing to find", `{"replace":[{"find":"","with":"x"}]}`, 400, "BAD_REQUEST"),
			refused("no replacement", `{"replace":[{"find":"x"}]}`, 400, "BAD_REQUEST"),
			refused("occurrence 0", `{"replace":[{"find":"x","with":"y","occurrence":0}]}`, 400, "BAD_REQUEST"),
			refused("an unknown field", `{"text":"x","base":"current","force":true}`, 400, "BAD_REQUEST"),
			refused("a text without a base", `{"text":"x"}`, 428, "BASE_REQUIRED"),
			refused("a base from another document", fmt.Sprintf(`{"text":"x","base":%q}`, elsewhere), 400, "INVALID_VERSION"),
			refused("an empty base", `{"replace":[{"find":"hello","with":"x"}],"base":""}`, 400, "INVALID_VERSION"),
			refused("nonsense as a base", `{"ops":[],"base":"\u0000"}`, 400, "INVALID_VERSION"),
			refused("10 MB of text", `{"text":"`+strings.Repeat("x", 10<<20)+`","base":"current"}`, 413, "TOO_LARGE"),
			refused("2 MB of text", `{"text":"`+strings.Repeat("x", 2<<20)+`","base":"current"}`, 413, "TOO_LARGE"),
			{name: "a section that is not there", as: alpha, method: "PATCH", path: "/documents/paper/sections/none", body: `{"replace":[{"find":"x","with":"y"}]}`, status: 404, code: "SECTION_NOT_FOUND"},
			{name: "a viewer", as: vera, method: "PATCH", path: intro, body: `{"ops":[{"at":0,"insert":"x"}]}`, status: 403, code: "FORBIDDEN"},
			{name: "a bad key for it", as: alpha, method: "PATCH", path: intro, body: `{"ops":[{"at":0,"insert":"x"}]}`, header: http.Header{"Idempotency-Key": {strings.Repeat("k", 256)}}, status: 400, code: "BAD_REQUEST"},
			refused("a section made by a text", `{"text":"# Intro\nhello\n","base":"current"}`, 200, ""),
		})
	})
}

// An edit that is sent again under its key is in the text once, in whatever words it is said again.
func TestAnEditCountsOnce(t *testing.T) {
	for name, c := range map[string]struct{ edit, again, other request }{
		"patch": {
			edit:  request{as: alpha, method: "PATCH", path: intro, body: `{"ops":[{"at":0,"insert":"x"}],"fence":0}`},
			again: request{as: alpha, method: "PATCH", path: intro, body: ` { "ops" : [ { "insert":"x", "at":0 } ] } `},
			other: request{as: alpha, method: "PATCH", path: intro, body: `{"ops":[{"at":0,"insert":"y"}]}`},
		},
		"put": {
			edit:  request{as: alpha, method: "PUT", path: intro, body: `{"text":"x# Intro\nhello\n","base":"current"}`},
			again: request{as: alpha, method: "PUT", path: intro, body: `{"base":"current","text":"x# Intro\nhello\n"}`},
			other: request{as: alpha, method: "PUT", path: "/documents/paper/sections/plan", body: `{"text":"x# Intro\nhello\n","base":"current"}`},
		},
		"post": {
			edit:  request{as: alpha, method: "POST", path: "/documents/paper/sections", body: `{"text":"## x\n"}`},
			again: request{as: alpha, method: "POST", path: "/documents/paper/sections", body: `{ "text":"## x\n" }`},
			other: request{as: alpha, method: "POST", path: "/documents/paper/sections", body: `{"text":"## y\n"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.document("paper")
				first := w.do(keyed(c.edit, "k"))
				if first.status/100 != 2 || first.body["repeated"] != nil {
					t.Fatal(first)
				}
				w.ok(beta, "PATCH", intro, `{"ops":[{"at":0,"insert":"z"}]}`)
				before := w.ok(vera, "GET", "/documents/paper", "")
				again := w.do(keyed(c.again, "k"))
				if again.status != first.status || again.body["repeated"] != true || again.str("id") != first.str("id") {
					t.Errorf("sent again: %v", again)
				}
				if a := w.do(keyed(c.other, "k")); a.status != 422 || a.str("error") != "IDEMPOTENCY_MISMATCH" {
					t.Errorf("another edit under the key: %v", a)
				}
				if after := w.ok(vera, "GET", "/documents/paper", ""); after.str("version") != before.str("version") {
					t.Errorf("written again: %v", after)
				}
				theirs := c.edit
				theirs.as = beta
				if a := w.do(keyed(theirs, "k")); a.status/100 != 2 || a.body["repeated"] != nil {
					t.Errorf("another agent's key of the same name: %v", a)
				}
			})
		})
	}
}

// Documents and messages that are made under a key are made once, and sections removed, restored and moved under one only
// the first time, whatever became of them since.
func TestOtherWritesCountOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		create := request{as: alpha, method: "POST", path: "/documents", body: `{"title":"Made"}`}
		post := request{as: alpha, method: "POST", path: "/documents/paper/events", body: `{"text":"hello"}`}
		for name, c := range map[string]struct {
			write  request
			other  string
			same   string // of the answer
			status int
		}{
			"create": {create, `{"title":"Other"}`, "documentId", 201},
			"post":   {post, `{"text":"goodbye"}`, "id", 201},
		} {
			first := w.do(keyed(c.write, name))
			again := w.do(keyed(c.write, name))
			if first.status != c.status || again.status != c.status || first.str(c.same) == "" || again.str(c.same) != first.str(c.same) {
				t.Errorf("%s: %v, and again %v", name, first, again)
			}
			c.write.body = c.other
			if a := w.do(keyed(c.write, name)); a.status != 422 || a.str("error") != "IDEMPOTENCY_MISMATCH" {
				t.Errorf("%s: another under the key: %v", name, a)
			}
		}
		if list, _ := w.ok(vera, "GET", "/documents", "").body["documents"].([]any); len(list) != 2 {
			t.Errorf("the documents are %v", list)
		}
		for _, c := range []struct {
			method, path, body, key string
			repeated, removed       any
		}{
			{"DELETE", intro, "", "remove", nil, true},
			{"POST", intro + "/restore", "", "restore", nil, nil},
			{"DELETE", intro, "", "remove", true, false},
			{"DELETE", intro, "", "", nil, true},
			{"POST", intro + "/restore", "", "restore", true, true},
			{"POST", intro + "/move", `{"after":""}`, "move", nil, true},
			{"POST", intro + "/move", `{"after":""}`, "move", true, true},
		} {
			a := w.do(keyed(request{as: alpha, method: c.method, path: c.path, body: c.body}, c.key))
			if a.status != 200 || a.body["repeated"] != c.repeated || a.body["removed"] != c.removed {
				t.Errorf("%s %s under %q: %v", c.method, c.path, c.key, a)
			}
		}
	})
}

func TestRetriesOfAnEditAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				w.do(keyed(request{as: alpha, method: "PATCH", path: intro, body: `{"ops":[{"at":0,"insert":"x"}]}`}, "k"))
			})
		}
		wg.Wait()
		if a := w.ok(vera, "GET", intro, ""); a.str("text") != "x# Intro\nhello\n" {
			t.Errorf("the text is %v", a)
		}
	})
}

// Where two changed the same words, both texts are there and the log names both.
func TestAnOverlapIsInTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		base := w.document("paper").str("version")
		w.ok(beta, "PATCH", intro, fmt.Sprintf(`{"base":%q,"replace":[{"find":"hello","with":"goodbye"}]}`, base))
		a := w.ok(alpha, "PATCH", intro, fmt.Sprintf(`{"base":%q,"replace":[{"find":"hello","with":"welcome"}]}`, base))
		if text := a.str("text"); !strings.Contains(text, "goodbye") || !strings.Contains(text, "welcome") {
			t.Errorf("a text is gone: %q", text)
		}
		events := w.ok(vera, "GET", "/documents/paper/events?limit=1000", "").body["events"].([]any)
		last := events[len(events)-1].(map[string]any)
		payload := last["payload"].(map[string]any)
		if last["event_type"] != "section.overlap" || fmt.Sprint(payload["authors"]) != "[alpha beta]" {
			t.Errorf("the log ends with %v", last)
		}
	})
}
