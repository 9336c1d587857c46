package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/sync/hub"
)

// scenario is a request and what has to come back. Unless it succeeds, nothing may have changed.
type scenario struct {
	name   string
	as     string
	method string
	path   string
	body   string
	header http.Header
	status int
	code   string            // of a refusal
	facts  map[string]string // in the body, as fmt.Sprint gives them; "*" is anything
}

func (w *world) play(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		before := w.state()
		a := w.do(request{as: s.as, method: s.method, path: s.path, body: s.body, header: s.header})
		if a.status != s.status || a.str("error") != s.code {
			t.Errorf("%s: got %v, want %d %s", s.name, a, s.status, s.code)
			continue
		}
		if s.code != "" && a.str("message") == "" {
			t.Errorf("%s: a refusal without a sentence: %v", s.name, a)
		}
		for name, want := range s.facts {
			got, ok := a.body[name]
			if !ok || (want != "*" && fmt.Sprint(got) != want) {
				t.Errorf("%s: %s is %v, want %s, in %v", s.name, name, got, want, a)
			}
		}
		if s.status >= 300 && w.state() != before {
			t.Errorf("%s: a refused request changed something", s.name)
		}
	}
}

// state sums up what a request may change: keys, and all documents with the ends of their logs and their leases.
func (w *world) state() string {
	w.t.Helper()
	var b strings.Builder
	keys, err := w.keyring.List(w.t.Context())
	w.must(err)
	for _, k := range keys {
		fmt.Fprintln(&b, k.ID, k.RevokedAt)
	}
	docs, _, err := w.library.List(w.t.Context(), doc.Key{Role: doc.Admin, Pattern: "*"}, 0, 1000)
	w.must(err)
	for _, m := range docs {
		fmt.Fprintln(&b, m.ID, m.Slug, m.Title, m.LastSeq, w.keeper.List(doc.SectionsPrefix(m.ID)))
	}
	return b.String()
}

func TestDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		d := w.document("paper")
		id := d.str("documentId")
		w.document("gone")
		w.ok(alpha, "DELETE", "/documents/gone", "")
		w.document("old")
		w.ok(alpha, "PATCH", "/documents/old", `{"slug":"new"}`)
		one := func(slug string) map[string]string {
			return map[string]string{"slug": slug, "documentId": "*", "version": "*"}
		}
		w.play(t, []scenario{
			{name: "list", as: vera, method: "GET", path: "/documents?limit=2", status: 200, facts: map[string]string{"documents": "*"}},
			{name: "list badly", as: vera, method: "GET", path: "/documents?limit=0", status: 400, code: "BAD_REQUEST"},
			{name: "list too many", as: vera, method: "GET", path: "/documents?limit=201", status: 400, code: "BAD_REQUEST"},
			{name: "list behind nothing", as: vera, method: "GET", path: "/documents?after=x", status: 400, code: "INVALID_CURSOR"},
			{name: "create", as: alpha, method: "POST", path: "/documents", body: `{"slug":"a1","markdown":"# A\n"}`, status: 201, facts: one("a1")},
			{name: "create with nothing", as: alpha, method: "POST", path: "/documents", body: `{}`, status: 201},
			{name: "create again", as: alpha, method: "POST", path: "/documents", body: `{"slug":"paper"}`, status: 409, code: "SLUG_TAKEN"},
			{name: "create under a former slug", as: alpha, method: "POST", path: "/documents", body: `{"slug":"old"}`, status: 409, code: "SLUG_TAKEN"},
			{name: "create under a deleted slug", as: alpha, method: "POST", path: "/documents", body: `{"slug":"gone"}`, status: 409, code: "SLUG_TAKEN"},
			{name: "create with a bad slug", as: alpha, method: "POST", path: "/documents", body: `{"slug":"A b"}`, status: 400, code: "INVALID_SLUG"},
			{name: "create with a bad level", as: alpha, method: "POST", path: "/documents", body: `{"level":7}`, status: 400, code: "BAD_REQUEST"},
			{name: "create as a viewer", as: vera, method: "POST", path: "/documents", body: `{}`, status: 403, code: "FORBIDDEN"},
			{name: "create beside one's pattern", as: tom, method: "POST", path: "/documents", body: `{"slug":"other"}`, status: 403, code: "FORBIDDEN"},
			{name: "read", as: vera, method: "GET", path: "/documents/paper", status: 200, facts: one("paper")},
			{name: "read by id", as: vera, method: "GET", path: "/documents/" + id, status: 200, facts: one("paper")},
			{name: "read by URL", as: vera, method: "GET", path: "/documents/automerge:" + id, status: 200, facts: one("paper")},
			{name: "read by a former slug", as: vera, method: "GET", path: "/documents/old", status: 308, code: "DOCUMENT_MOVED", facts: map[string]string{"slug": "new"}},
			{name: "read what is gone", as: vera, method: "GET", path: "/documents/gone", status: 410, code: "DOCUMENT_DELETED"},
			{name: "read what never was", as: vera, method: "GET", path: "/documents/nothing", status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "read as a picture", as: vera, method: "GET", path: "/documents/paper", header: http.Header{"Accept": {"image/png"}}, status: 406, code: "NOT_ACCEPTABLE"},
			{name: "retitle", as: alpha, method: "PATCH", path: "/documents/paper", body: `{"title":"Essay"}`, status: 200, facts: map[string]string{"title": "Essay"}},
			{name: "rename to a taken slug", as: alpha, method: "PATCH", path: "/documents/paper", body: `{"slug":"new"}`, status: 409, code: "SLUG_TAKEN"},
			{name: "rename to a bad slug", as: alpha, method: "PATCH", path: "/documents/paper", body: `{"slug":""}`, status: 400, code: "INVALID_SLUG"},
			{name: "rename as a viewer", as: vera, method: "PATCH", path: "/documents/paper", body: `{"title":"x"}`, status: 403, code: "FORBIDDEN"},
			{name: "title too long", as: alpha, method: "PATCH", path: "/documents/paper", body: `{"title":"` + strings.Repeat("x", 513) + `"}`, status: 413, code: "TOO_LARGE", facts: map[string]string{"limit": "512"}},
			{name: "delete as a viewer", as: vera, method: "DELETE", path: "/documents/paper", status: 403, code: "FORBIDDEN"},
			{name: "delete", as: alpha, method: "DELETE", path: "/documents/paper", header: http.Header{"Content-Type": {"application/json"}}, status: 200, facts: map[string]string{"deleted": "true"}},
			{name: "delete again", as: alpha, method: "DELETE", path: "/documents/paper", status: 410, code: "DOCUMENT_DELETED"},
			{name: "restore as a viewer", as: vera, method: "POST", path: "/documents/paper/restore", status: 403, code: "FORBIDDEN"},
			{name: "restore beside one's pattern", as: tom, method: "POST", path: "/documents/paper/restore", status: 403, code: "FORBIDDEN"},
			{name: "restore what never was", as: alpha, method: "POST", path: "/documents/nothing/restore", status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "restore", as: beta, method: "POST", path: "/documents/paper/restore", header: http.Header{"Content-Type": {"application/json"}}, status: 200, facts: map[string]string{"slug": "paper", "documentId": id, "title": "Essay", "lastSeq": "6"}},
			{name: "restore again", as: alpha, method: "POST", path: "/documents/" + id + "/restore", status: 200, facts: map[string]string{"slug": "paper", "lastSeq": "6"}},
			{name: "read it again", as: vera, method: "GET", path: "/documents/paper", status: 200, facts: one("paper")},
			{name: "purge what is not deleted", as: root, method: "DELETE", path: "/deletions/paper", status: 409, code: "NOT_DELETED"},
			{name: "delete once more", as: alpha, method: "DELETE", path: "/documents/paper", status: 200},
			{name: "purge as an editor", as: alpha, method: "DELETE", path: "/deletions/paper", status: 403, code: "FORBIDDEN"},
			{name: "purge beside one's pattern", as: warden, method: "DELETE", path: "/deletions/paper", status: 403, code: "FORBIDDEN"},
			{name: "purge what never was", as: root, method: "DELETE", path: "/deletions/nothing", status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "purge", as: root, method: "DELETE", path: "/deletions/paper", status: 200, facts: map[string]string{"purged": "true", "documentId": id}},
			{name: "purge again", as: root, method: "DELETE", path: "/deletions/" + id, status: 200, facts: map[string]string{"purged": "true", "documentId": id}},
			{name: "read what was purged", as: vera, method: "GET", path: "/documents/" + id, status: 410, code: "DOCUMENT_DELETED", facts: map[string]string{"purgedBy": root, "purgedAt": "*"}},
			{name: "restore what was purged", as: root, method: "POST", path: "/documents/" + id + "/restore", status: 410, code: "DOCUMENT_DELETED"},
			{name: "its name is free", as: vera, method: "GET", path: "/documents/paper", status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "and taken", as: alpha, method: "POST", path: "/documents", body: `{"slug":"paper"}`, status: 201, facts: map[string]string{"slug": "paper"}},
			{name: "list deletions behind nothing", as: alpha, method: "GET", path: "/deletions?after=x", status: 400, code: "INVALID_CURSOR"},
			{name: "list no deletions", as: alpha, method: "GET", path: "/deletions?limit=0", status: 400, code: "BAD_REQUEST"},
		})
	})
}

func TestTheListOfDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for n := range 5 {
			w.ok(alpha, "POST", "/documents", fmt.Sprintf(`{"slug":"paper-%d"}`, n))
		}
		w.ok(alpha, "POST", "/documents/paper-3/sections/a/lease", `{"leaseDurationSeconds":60}`)
		w.ok(beta, "POST", "/documents/paper-3/sections/b/lease", `{"leaseDurationSeconds":60}`)
		var slugs, leases []any
		for path := "/documents?limit=2"; ; {
			page := w.ok(vera, "GET", path, "")
			for _, d := range page.body["documents"].([]any) {
				slugs = append(slugs, d.(map[string]any)["slug"])
				leases = append(leases, d.(map[string]any)["leases"])
			}
			if page.str("next") == "" {
				break
			}
			path = "/documents?limit=2&after=" + page.str("next")
		}
		if got := fmt.Sprint(slugs, leases); got != "[paper-4 paper-3 paper-2 paper-1 paper-0] [0 2 0 0 0]" {
			t.Errorf("the list is %s", got)
		}
	})
}

func TestTheListOfDeletions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, slug := range []string{"b", "team-a", "lives", "c"} {
			w.ok(alpha, "POST", "/documents", `{"slug":"`+slug+`"}`)
		}
		for _, slug := range []string{"c", "b", "team-a"} {
			time.Sleep(time.Second)
			w.ok(beta, "DELETE", "/documents/"+slug, "")
		}
		for as, want := range map[string]string{alpha: "[team-a b c]", tom: "[team-a]", vera: "[]"} {
			slugs := []any{}
			for path := "/deletions?limit=1"; ; {
				page := w.ok(as, "GET", path, "")
				for _, d := range page.body["documents"].([]any) {
					d := d.(map[string]any)
					slugs = append(slugs, d["slug"])
					if d["deletedBy"] != "beta" || d["createdBy"] != "alpha" || d["slug"] == "team-a" && d["deletedAt"] != doc.FormatTime(time.Now()) {
						t.Errorf("listed: %v", d)
					}
				}
				if page.str("next") == "" {
					break
				}
				path = "/deletions?limit=1&after=" + page.str("next")
			}
			if got := fmt.Sprint(slugs); got != want {
				t.Errorf("%s may restore %s, want %s", as, got, want)
			}
		}
	})
}

func TestSections(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		version := w.document("paper").str("version")
		const sections = "/documents/paper/sections"
		text := func(s string) map[string]string { return map[string]string{"text": s, "version": "*"} }
		w.play(t, []scenario{
			{name: "read", as: vera, method: "GET", path: sections + "/intro", status: 200, facts: text("# Intro\nhello\n")},
			{name: "read nothing", as: vera, method: "GET", path: sections + "/none", status: 404, code: "SECTION_NOT_FOUND"},
			{name: "read a bad id", as: vera, method: "GET", path: sections + "/Intro", status: 400, code: "INVALID_SECTION_ID"},
			{name: "write", as: alpha, method: "PUT", path: sections + "/intro", body: `{"text":"# Intro\nhello there\n","base":"` + version + `"}`, status: 200, facts: map[string]string{"merged": "false", "text": "# Intro\nhello there\n"}},
			{name: "write on the older version", as: beta, method: "PUT", path: sections + "/intro", body: `{"text":"# Intro!\nhello\n","base":"` + version + `"}`, status: 200, facts: map[string]string{"merged": "true", "text": "# Intro!\nhello there\n"}},
			{name: "write without a base", as: alpha, method: "PUT", path: sections + "/intro", body: `{"text":"x"}`, status: 428, code: "BASE_REQUIRED", facts: text("# Intro!\nhello there\n")},
			{name: "write on null", as: alpha, method: "PUT", path: sections + "/intro", body: `{"text":"x","base":null}`, status: 428, code: "BASE_REQUIRED"},
			{name: "write on nonsense", as: alpha, method: "PUT", path: sections + "/intro", body: `{"text":"x","base":"zzz"}`, status: 400, code: "INVALID_VERSION"},
			{name: "write on a number", as: alpha, method: "PUT", path: sections + "/intro", body: `{"text":"x","base":7}`, status: 400, code: "INVALID_VERSION"},
			{name: "write knowingly", as: alpha, method: "PUT", path: sections + "/intro", body: `{"text":"# New\n","base":"current"}`, status: 200, facts: map[string]string{"text": "# New\n", "heading": "New", "level": "1"}},
			{name: "write without text", as: alpha, method: "PUT", path: sections + "/intro", body: `{"base":"current"}`, status: 400, code: "BAD_REQUEST"},
			{name: "write as a viewer", as: vera, method: "PUT", path: sections + "/intro", body: `{"text":"x","base":"current"}`, status: 403, code: "FORBIDDEN"},
			{name: "write a new one", as: alpha, method: "PUT", path: sections + "/extra", body: `{"text":"### Extra\n"}`, status: 200, facts: map[string]string{"id": "extra"}},
			{name: "write too much", as: alpha, method: "PUT", path: sections + "/intro", body: `{"base":"current","text":"` + strings.Repeat("x", 1<<20+1) + `"}`, status: 413, code: "TOO_LARGE", facts: map[string]string{"limit": "*"}},
			{name: "add", as: alpha, method: "POST", path: sections, body: `{"id":"second","after":"intro","text":"## Two\n"}`, status: 201, facts: map[string]string{"id": "second", "heading": "Two"}},
			{name: "add without an id", as: alpha, method: "POST", path: sections, body: `{"text":"## Three\n"}`, status: 201, facts: map[string]string{"id": "*"}},
			{name: "add again", as: alpha, method: "POST", path: sections, body: `{"id":"second","text":""}`, status: 409, code: "SECTION_EXISTS"},
			{name: "add behind nothing", as: alpha, method: "POST", path: sections, body: `{"after":"none","text":""}`, status: 404, code: "SECTION_NOT_FOUND"},
			{name: "add with a bad id", as: alpha, method: "POST", path: sections, body: `{"id":"../x","text":""}`, status: 400, code: "INVALID_SECTION_ID"},
			{name: "add as a viewer", as: vera, method: "POST", path: sections, body: `{"text":""}`, status: 403, code: "FORBIDDEN"},
			{name: "move", as: alpha, method: "POST", path: sections + "/plan/move", body: `{"after":""}`, status: 200, facts: map[string]string{"id": "plan"}},
			{name: "move nothing", as: alpha, method: "POST", path: sections + "/none/move", body: `{"after":""}`, status: 404, code: "SECTION_NOT_FOUND"},
			{name: "move nowhere", as: alpha, method: "POST", path: sections + "/plan/move", body: `{}`, status: 400, code: "INVALID_SECTION_ID"},
			{name: "move as a viewer", as: vera, method: "POST", path: sections + "/plan/move", body: `{"after":""}`, status: 403, code: "FORBIDDEN"},
			{name: "remove", as: alpha, method: "DELETE", path: sections + "/plan", header: http.Header{"Content-Type": {"application/json"}}, status: 200, facts: map[string]string{"removed": "true", "id": "plan", "version": "*"}},
			{name: "read what is removed", as: vera, method: "GET", path: sections + "/plan", status: 200, facts: map[string]string{"removed": "true"}},
			{name: "remove nothing", as: alpha, method: "DELETE", path: sections + "/none", status: 404, code: "SECTION_NOT_FOUND"},
			{name: "remove as a viewer", as: vera, method: "DELETE", path: sections + "/intro", status: 403, code: "FORBIDDEN"},
			{name: "restore", as: alpha, method: "POST", path: sections + "/plan/restore", status: 200, facts: map[string]string{"id": "plan", "text": "## Plan\nsteps\n"}},
			{name: "restore nothing", as: alpha, method: "POST", path: sections + "/none/restore", status: 404, code: "SECTION_NOT_FOUND"},
			{name: "restore as a viewer", as: vera, method: "POST", path: sections + "/plan/restore", status: 403, code: "FORBIDDEN"},
		})
		if got := string(w.do(request{as: vera, method: "GET", path: "/documents/paper", header: http.Header{"Accept": {"text/markdown"}}}).raw); !strings.HasPrefix(got, "## Plan\nsteps\n# New\n## Two\n") {
			t.Errorf("the document is %q", got)
		}
	})
}

func TestKeysAndShares(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		gamma := w.ok(root, "POST", "/keys", `{"agent":"did:cowrite:gamma","role":"editor","documents":"paper*","expiresIn":60}`)
		w.secrets["gamma"] = doc.Secret(gamma.str("key"))
		if gamma.str("agent") != "gamma" || gamma.str("documents") != "paper*" || gamma.str("expiresAt") != until(60e9) {
			t.Errorf("created %v", gamma)
		}
		w.play(t, []scenario{
			{name: "list", as: root, method: "GET", path: "/keys", status: 200, facts: map[string]string{"keys": "*"}},
			{name: "list as an editor", as: alpha, method: "GET", path: "/keys", status: 403, code: "FORBIDDEN"},
			{name: "list as an admin of some", as: warden, method: "GET", path: "/keys", status: 403, code: "FORBIDDEN"},
			{name: "create as an editor", as: alpha, method: "POST", path: "/keys", body: `{"agent":"x","role":"admin"}`, status: 403, code: "FORBIDDEN"},
			{name: "create as an admin of some", as: warden, method: "POST", path: "/keys", body: `{"agent":"x","role":"admin"}`, status: 403, code: "FORBIDDEN"},
			{name: "create without a name", as: root, method: "POST", path: "/keys", body: `{"role":"editor"}`, status: 400, code: "INVALID_AGENT"},
			{name: "create with a bad name", as: root, method: "POST", path: "/keys", body: `{"agent":"Bob!","role":"editor"}`, status: 400, code: "INVALID_AGENT"},
			{name: "create for the system", as: root, method: "POST", path: "/keys", body: `{"agent":"system","role":"editor"}`, status: 400, code: "INVALID_AGENT"},
			{name: "create with a bad role", as: root, method: "POST", path: "/keys", body: `{"agent":"x","role":"boss"}`, status: 400, code: "INVALID_ROLE"},
			{name: "create with a bad kind", as: root, method: "POST", path: "/keys", body: `{"agent":"x","role":"editor","kind":"robot"}`, status: 400, code: "BAD_REQUEST"},
			{name: "create with a bad pattern", as: root, method: "POST", path: "/keys", body: `{"agent":"x","role":"editor","documents":"[a]"}`, status: 400, code: "BAD_REQUEST"},
			{name: "create for no time", as: root, method: "POST", path: "/keys", body: `{"agent":"x","role":"editor","expiresIn":0}`, status: 400, code: "INVALID_DURATION"},
			{name: "create for ever", as: root, method: "POST", path: "/keys", body: `{"agent":"x","role":"editor","expiresIn":1e400}`, status: 400, code: "INVALID_DURATION"},
			{name: "revoke nothing", as: root, method: "DELETE", path: "/keys/none", status: 404, code: "KEY_NOT_FOUND"},
			{name: "revoke as an editor", as: alpha, method: "DELETE", path: "/keys/" + gamma.str("id"), status: 403, code: "FORBIDDEN"},
			{name: "the key works", as: "gamma", method: "GET", path: "/documents/paper", status: 200},
			{name: "revoke", as: root, method: "DELETE", path: "/keys/" + gamma.str("id"), status: 200, facts: map[string]string{"revoked": "true", "id": gamma.str("id")}},
			{name: "the key works no longer", as: "gamma", method: "GET", path: "/documents/paper", status: 401, code: "KEY_REVOKED"},

			{name: "share as a viewer", as: vera, method: "POST", path: "/documents/paper/shares", body: `{}`, status: 403, code: "FORBIDDEN"},
			{name: "share too short", as: alpha, method: "POST", path: "/documents/paper/shares", body: `{"expiresIn":59}`, status: 400, code: "INVALID_DURATION"},
			{name: "share too long", as: alpha, method: "POST", path: "/documents/paper/shares", body: `{"expiresIn":2592001}`, status: 400, code: "INVALID_DURATION"},
			{name: "share nothing", as: alpha, method: "POST", path: "/documents/none/shares", body: `{}`, status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "share without a body", as: alpha, method: "POST", path: "/documents/paper/shares", status: 201},
		})

		share := w.ok(alpha, "POST", "/documents/paper/shares", `{"expiresIn":60}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		if want := "http://cowrite.test/d/paper?token=" + share.str("key"); share.str("url") != want || share.str("expiresAt") != until(60e9) {
			t.Errorf("shared %v, want %s", share, want)
		}
		w.document("other")
		w.play(t, []scenario{
			{name: "a guest reads", as: "guest", method: "GET", path: "/documents/paper", status: 200},
			{name: "a guest's session", as: "guest", method: "GET", path: "/session", status: 200, facts: map[string]string{"role": "viewer", "share": "paper"}},
			{name: "a guest writes", as: "guest", method: "PUT", path: "/documents/paper/sections/intro", body: `{"text":"","base":"current"}`, status: 403, code: "FORBIDDEN"},
			{name: "a guest reads another", as: "guest", method: "GET", path: "/documents/other", status: 403, code: "FORBIDDEN"},
			{name: "a guest shares", as: "guest", method: "POST", path: "/documents/paper/shares", body: `{}`, status: 403, code: "FORBIDDEN"},
		})
		if list := w.ok("guest", "GET", "/documents", ""); len(list.body["documents"].([]any)) != 1 {
			t.Errorf("a guest is shown %v", list)
		}
		log := w.ok("guest", "GET", "/documents/paper/events", "").raw
		if !bytes.Contains(log, []byte(`"event_type":"document.shared"`)) || !bytes.Contains(log, []byte(share.str("id"))) || bytes.Contains(log, []byte("cw_")) {
			t.Errorf("the log says of the links %s", log)
		}
		shown := 0
		for _, k := range w.ok(root, "GET", "/keys", "").body["keys"].([]any) {
			k := k.(map[string]any)
			if k["share"] == "paper" && k["maker"] == alpha && k["id"] == share.str("id") {
				shown++
			}
			if _, ok := k["key"]; ok {
				t.Errorf("a secret is listed: %v", k)
			}
		}
		if shown != 1 {
			t.Errorf("the share link is listed %d times", shown)
		}
		w.document("team-paper")
		for _, as := range []string{tom, warden} { // who made it, and who administers its document
			link := w.ok(tom, "POST", "/documents/team-paper/shares", "")
			w.secrets["team-guest"] = doc.Secret(link.str("key"))
			w.ok("team-guest", "GET", "/documents/team-paper", "")
			w.ok(as, "DELETE", "/keys/"+link.str("id"), "")
			if a := w.do(request{as: "team-guest", method: "GET", path: "/documents/team-paper"}); a.str("error") != "KEY_REVOKED" {
				t.Errorf("a link that %s ended: %v", as, a)
			}
		}
		for range w.library.Limits().Shares {
			w.ok(tom, "POST", "/documents/team-paper/shares", "")
		}
		w.play(t, []scenario{{name: "share too often", as: tom, method: "POST", path: "/documents/team-paper/shares", status: 409, code: "TOO_MANY_SHARES", facts: map[string]string{"limit": "100"}}})
		w.server.opts.PublicURL = "https://docs.test/"
		if link := w.ok(alpha, "POST", "/documents/paper/shares", `{}`).str("url"); !strings.HasPrefix(link, "https://docs.test/d/paper?token=cw_") {
			t.Errorf("under another origin the link is %s", link)
		}
		id := w.ok(vera, "GET", "/documents/paper", "").str("documentId")
		w.ok(alpha, "DELETE", "/documents/paper", "")
		if list := w.ok(root, "GET", "/keys", ""); !strings.Contains(string(list.raw), `"share":"`+id+`"`) {
			t.Errorf("the link to a deleted document is not listed by the document's id: %v", list)
		}
		w.play(t, []scenario{
			{name: "a guest reads what is gone", as: "guest", method: "GET", path: "/documents/" + id, status: 410, code: "DOCUMENT_DELETED"},
			{name: "another revokes a link", as: beta, method: "DELETE", path: "/keys/" + share.str("id"), status: 403, code: "FORBIDDEN"},
			{name: "an admin of other documents does", as: warden, method: "DELETE", path: "/keys/" + share.str("id"), status: 403, code: "FORBIDDEN"},
			{name: "an editor revokes nothing", as: alpha, method: "DELETE", path: "/keys/none", status: 403, code: "FORBIDDEN"},
			{name: "its maker revokes a link", as: alpha, method: "DELETE", path: "/keys/" + share.str("id"), status: 200},
			{name: "a guest without a link", as: "guest", method: "GET", path: "/documents/" + id, status: 401, code: "KEY_REVOKED"},
		})
	})
}

// Who an author is, is known of those whose key says so, of who read by a share link and of who signed in at the page; until an administrator says otherwise.
func TestPeople(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		share := w.ok(alpha, "POST", "/documents/paper/shares", "")
		w.secrets["guest"] = doc.Secret(share.str("key"))
		guest := w.ok("guest", "GET", "/session", "").str("agent")
		ann := w.ok(root, "POST", "/keys", `{"agent":"ann","role":"editor","kind":"person"}`)
		if bot := w.ok(root, "POST", "/keys", `{"agent":"bot","role":"editor"}`); ann.str("kind") != "person" || bot.str("kind") != "agent" {
			t.Errorf("made %v and %v", ann, bot)
		}
		people := func(want string) {
			t.Helper()
			names := url.Values{"name": {"vera", "ann", "beta", guest, "bot", "nobody", "'"}}
			if got := fmt.Sprint(w.ok("guest", "GET", "/people?"+names.Encode(), "").body["people"]); got != want {
				t.Errorf("people are %s, want %s", got, want)
			}
		}
		people("[ann " + guest + "]")
		signIn := func(as string, header http.Header) {
			t.Helper()
			if out := w.do(request{method: "POST", path: "/session", body: fmt.Sprintf(`{"key":%q}`, w.secrets[as]), header: header}); out.status != 200 {
				t.Errorf("signing in: %v", out)
			}
		}
		signIn(beta, nil) // a program
		signIn(vera, http.Header{"Origin": {"http://cowrite.test"}})
		w.ok(root, "DELETE", "/keys/"+ann.str("id"), "") // and so it stays
		people("[ann " + guest + " vera]")
		w.play(t, []scenario{
			{name: "as an editor", as: alpha, method: "PATCH", path: "/keys/" + ann.str("id"), body: `{"kind":"agent"}`, status: 403, code: "FORBIDDEN"},
			{name: "of no kind", as: root, method: "PATCH", path: "/keys/" + ann.str("id"), body: `{"kind":"robot"}`, status: 400, code: "BAD_REQUEST"},
			{name: "of no key", as: root, method: "PATCH", path: "/keys/none", body: `{"kind":"agent"}`, status: 404, code: "KEY_NOT_FOUND"},
			{name: "a revoked key's", as: root, method: "PATCH", path: "/keys/" + ann.str("id"), body: `{"kind":"agent"}`, status: 200, facts: map[string]string{"agent": "ann", "kind": "agent", "revokedAt": "*"}},
		})
		people("[" + guest + " vera]")
		w.play(t, []scenario{
			{name: "nobody", as: vera, method: "GET", path: "/people", status: 400, code: "BAD_REQUEST"},
			{name: "too many", as: vera, method: "GET", path: "/people?name=a" + strings.Repeat("&name=a", 100), status: 400, code: "BAD_REQUEST"},
			{name: "none", as: vera, method: "GET", path: "/people?name=bot", status: 200, facts: map[string]string{"people": "[]"}},
		})
	})
}

func TestSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		signedIn := w.do(request{method: "POST", path: "/session", body: fmt.Sprintf(`{"key":%q}`, w.secrets[alpha])})
		cookies := (&http.Response{Header: signedIn.header}).Cookies()
		if signedIn.status != 200 || signedIn.str("agent") != alpha || signedIn.str("documents") != "*" || len(cookies) != 1 {
			t.Fatalf("signing in: %v with %v", signedIn, signedIn.header)
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure {
			t.Errorf("the cookie is %v", c)
		}
		behindTLS := w.do(request{method: "POST", path: "/session", body: fmt.Sprintf(`{"key":%q}`, w.secrets[alpha]), header: http.Header{"X-Forwarded-Proto": {"https"}}})
		if !strings.Contains(behindTLS.header.Get("Set-Cookie"), "; Secure") {
			t.Errorf("behind TLS the cookie is %s", behindTLS.header.Get("Set-Cookie"))
		}
		with := func(more ...string) http.Header {
			h := http.Header{"Cookie": {c.Name + "=" + c.Value}}
			for i := 0; i < len(more); i += 2 {
				h.Set(more[i], more[i+1])
			}
			return h
		}
		const put, section, body = "PUT", "/documents/paper/sections/intro", `{"text":"# x\n","base":"current"}`
		w.play(t, []scenario{
			{name: "a wrong key", method: "POST", path: "/session", body: `{"key":"cw_nothing"}`, status: 401, code: "UNAUTHORIZED"},
			{name: "no key", method: "POST", path: "/session", body: `{}`, status: 400, code: "BAD_REQUEST"},
			{name: "sign in from elsewhere", method: "POST", path: "/session", body: `{"key":"x"}`, header: http.Header{"Origin": {"https://evil.test"}}, status: 403, code: "BAD_ORIGIN"},
			{name: "sign out from elsewhere", method: "DELETE", path: "/session", header: http.Header{"Origin": {"https://evil.test"}}, status: 403, code: "BAD_ORIGIN"},
			{name: "no session", method: "GET", path: "/session", status: 401, code: "UNAUTHORIZED"},
			{name: "session", method: "GET", path: "/session", header: with(), status: 200, facts: map[string]string{"agent": alpha, "role": "editor"}},
			{name: "read from the page", method: "GET", path: section, header: with(), status: 200},
			{name: "write from the page", method: put, path: section, body: body, header: with("Origin", "http://cowrite.test"), status: 200},
			{name: "write from the page behind TLS", method: put, path: section, body: body, header: with("Origin", "https://cowrite.test"), status: 200},
			{name: "write, says the browser, from the page", method: put, path: section, body: body, header: with("Sec-Fetch-Site", "same-origin"), status: 200},
			{name: "write from nowhere", method: put, path: section, body: body, header: with(), status: 403, code: "BAD_ORIGIN"},
			{name: "write from elsewhere", method: put, path: section, body: body, header: with("Origin", "https://evil.test"), status: 403, code: "BAD_ORIGIN"},
			{name: "write from another port", method: put, path: section, body: body, header: with("Origin", "http://cowrite.test:81"), status: 403, code: "BAD_ORIGIN"},
			{name: "write from a sandbox", method: put, path: section, body: body, header: with("Origin", "null"), status: 403, code: "BAD_ORIGIN"},
			{name: "write from a sister site", method: put, path: section, body: body, header: with("Sec-Fetch-Site", "same-site"), status: 403, code: "BAD_ORIGIN"},
			{name: "read from elsewhere", method: "GET", path: section, header: with("Origin", "https://evil.test"), status: 403, code: "BAD_ORIGIN"},
			{name: "a key counts from anywhere", as: beta, method: put, path: section, body: body, header: http.Header{"Origin": {"https://agents.test"}}, status: 200},
			{name: "sign out", method: "DELETE", path: "/session", header: with(), status: 200, facts: map[string]string{"ended": "true"}},
		})
		if out := w.do(request{method: "DELETE", path: "/session"}); !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("signing out sets %q", out.header.Get("Set-Cookie"))
		}
	})
}

func TestWhoHasADocumentOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := must(crdt.ParseDocumentID(w.document("paper").str("documentId")))
		w.document("alone")
		w.server.opts.Sockets = func() []hub.Info {
			return []hub.Info{
				{Agent: vera, Documents: []crdt.DocumentID{id}, Page: true},
				{Agent: beta, Documents: []crdt.DocumentID{id}},
				{Agent: vera, Documents: []crdt.DocumentID{id}},
				{Agent: alpha},
			}
		}
		var got []string
		for _, d := range w.ok(tom, "GET", "/documents", "").body["documents"].([]any) {
			got = append(got, fmt.Sprint(d.(map[string]any)["slug"], d.(map[string]any)["present"]))
		}
		if len(got) != 0 {
			t.Errorf("a key that covers neither is told %v", got)
		}
		for _, d := range w.ok(alpha, "GET", "/documents", "").body["documents"].([]any) {
			got = append(got, fmt.Sprint(d.(map[string]any)["slug"], d.(map[string]any)["present"]))
		}
		if want := "[alone[] paper[map[agent:beta page:false] map[agent:vera page:true]]]"; fmt.Sprint(got) != want {
			t.Errorf("in the documents are %v, want %v", got, want)
		}
	})
}
