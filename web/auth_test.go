package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cowrite/doc"
)

// need is what a route asks of its caller.
type need int

const (
	open      need = iota // no key
	anyKey                // a key, whatever it covers
	reading               // of the document
	writing               // of the document
	operating             // the document: an admin of it
	keyKeeper             // an admin of all documents
)

// Every route, by every kind of caller: who is let in, and with which code the others are refused. A route that
// is registered and not in the table fails the test.
func TestWhoMay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		paper, team := w.document("paper"), w.document("team-paper")
		w.ok(alpha, "DELETE", "/documents/paper/sections/plan", "")
		w.ok(alpha, "DELETE", "/documents/team-paper/sections/plan", "")
		w.addKey("expired", doc.Key{Agent: "late", Role: doc.Admin, Pattern: "*", ExpiresAt: time.Now().Add(time.Minute)})
		w.addKey("revoked", doc.Key{Agent: "gone", Role: doc.Admin, Pattern: "*"})
		w.must(w.keyring.Revoke(t.Context(), w.ids["revoked"]))
		w.secrets["wrong"] = "cw_wrong"
		share := w.ok(alpha, "POST", "/documents/paper/shares", `{}`)
		w.secrets["guest"] = doc.Secret(share.str("key"))
		time.Sleep(time.Minute)

		routes := map[string]struct {
			need need
			body string
		}{
			"GET /documents":                                       {anyKey, ""},
			"GET /documents/{slug}":                                {reading, ""},
			"PATCH /documents/{slug}":                              {writing, `{"title":"x"}`},
			"GET /documents/{slug}/sections/{sid}":                 {reading, ""},
			"PUT /documents/{slug}/sections/{sid}":                 {writing, `{"text":"x","base":"current"}`},
			"PATCH /documents/{slug}/sections/{sid}":               {writing, `{"ops":[]}`},
			"GET /documents/{slug}/sections/{sid}/history":         {reading, ""},
			"POST /documents/{slug}/sections/{sid}/revert":         {writing, `{"to":"x"}`},
			"GET /documents/{slug}/diff":                           {reading, ""},
			"GET /documents/{slug}/sections/{sid}/blame":           {reading, ""},
			"POST /documents/{slug}/sections":                      {writing, `{"text":"x"}`},
			"POST /documents/{slug}/sections/{sid}/restore":        {writing, ""},
			"POST /documents/{slug}/restore":                       {writing, ""},
			"DELETE /deletions/{slug}":                             {operating, ""},
			"GET /deletions":                                       {anyKey, ""},
			"POST /documents/{slug}/sections/{sid}/move":           {writing, `{"after":""}`},
			"POST /documents/{slug}/sections/{sid}/lease":          {writing, `{"leaseDurationSeconds":1}`},
			"GET /documents/{slug}/sections/{sid}/lease":           {reading, ""},
			"PATCH /documents/{slug}/sections/{sid}/lease":         {writing, `{"leaseDurationSeconds":1}`},
			"POST /documents/{slug}/sections/{sid}/lease/transfer": {writing, `{"to":"root"}`},
			"DELETE /documents/{slug}/sections/{sid}/lease/queue":  {writing, ""},
			"DELETE /documents/{slug}/sections/{sid}/lease":        {writing, ""},
			"GET /documents/{slug}/leases":                         {reading, ""},
			"GET /documents/{slug}/events":                         {reading, ""},
			"POST /documents/{slug}/events":                        {writing, `{}`},
			"GET /documents/{slug}/events/stream":                  {reading, ""},
			"POST /documents/{slug}/shares":                        {writing, `{}`},
			"PUT /documents/{slug}/block":                          {operating, `{}`},
			"DELETE /documents/{slug}/block":                       {operating, ""},
			"GET /blocks":                                          {keyKeeper, ""},
			"GET /usage":                                           {keyKeeper, ""},
			"GET /sockets":                                         {keyKeeper, ""},
			"GET /people":                                          {anyKey, ""},
			"GET /keys":                                            {keyKeeper, ""},
			"POST /keys":                                           {keyKeeper, `{"agent":"x","role":"viewer"}`},
			"PATCH /keys/{id}":                                     {keyKeeper, `{"kind":"agent"}`},
			"DELETE /keys/{id}":                                    {keyKeeper, ""},
			"GET /session":                                         {anyKey, ""},
			"POST /session":                                        {open, `{"key":"cw_wrong"}`},
			"DELETE /session":                                      {open, ""},
			"POST /documents":                                      {anyKey, `{"slug":"paper"}`},
			"DELETE /documents/{slug}/sections/{sid}":              {writing, ""},
			"DELETE /documents/{slug}":                             {writing, ""},
		}
		for path, item := range w.server.api.OpenAPI().Paths {
			if onCoordination(Prefix + path) {
				continue // what a request is about is in its body: TestWhoMayCoordinate
			}
			for method, described := range map[string]bool{"GET": item.Get != nil, "PUT": item.Put != nil, "POST": item.Post != nil, "PATCH": item.Patch != nil, "DELETE": item.Delete != nil} {
				if _, ok := routes[method+" "+path]; described && !ok {
					t.Errorf("nothing says who may %s %s", method, path)
				}
			}
		}

		covers := map[string]bool{"paper": true, "team-paper": true}
		callers := map[string]struct {
			reads, writes map[string]bool
			operates      map[string]bool
			keeps         bool
			refused       string // of no live key: the code
		}{
			root:      {reads: covers, writes: covers, operates: covers, keeps: true},
			alpha:     {reads: covers, writes: covers},
			vera:      {reads: covers},
			tom:       {reads: map[string]bool{"team-paper": true}, writes: map[string]bool{"team-paper": true}},
			warden:    {reads: map[string]bool{"team-paper": true}, writes: map[string]bool{"team-paper": true}, operates: map[string]bool{"team-paper": true}},
			"guest":   {reads: map[string]bool{"paper": true}},
			nobody:    {refused: "UNAUTHORIZED"},
			"wrong":   {refused: "UNAUTHORIZED"},
			"expired": {refused: "KEY_REVOKED"},
			"revoked": {refused: "KEY_REVOKED"},
		}
		for route, rt := range routes {
			for _, slug := range []string{"paper", "team-paper"} {
				for as, c := range callers {
					allowed := map[need]bool{open: true, anyKey: c.refused == "", reading: c.reads[slug], writing: c.writes[slug], operating: c.operates[slug], keyKeeper: c.keeps}[rt.need]
					if allowed && (strings.HasPrefix(route, "DELETE") || rt.need == operating) { // what it does is for other tests
						continue
					}
					method, path, _ := strings.Cut(route, " ")
					path = strings.NewReplacer("{slug}", slug, "{sid}", "intro", "{id}", w.idOf(root)).Replace(path)
					status, code := w.answered(request{as: as, method: method, path: path, body: rt.body})
					switch {
					case allowed:
						if (status == 401 && rt.need != open) || (code == "FORBIDDEN" && route != "POST /documents") {
							t.Errorf("%s of %s by %q: %d %s", route, slug, as, status, code)
						}
					case c.refused != "":
						if status != 401 || code != c.refused {
							t.Errorf("%s of %s by %q: %d %s, want %s", route, slug, as, status, code, c.refused)
						}
					case status != 403 || code != "FORBIDDEN":
						t.Errorf("%s of %s by %q: %d %s, want FORBIDDEN", route, slug, as, status, code)
					}
				}
			}
		}
		for _, d := range []answer{paper, team} {
			w.ok(root, "GET", "/documents/"+d.str("documentId"), "")
		}
	})
}

func (w *world) idOf(as string) string { return string(w.ids[as]) }

// answered sends a request and reads no more than the beginning of its answer, which may be a stream.
func (w *world) answered(rq request) (status int, code string) {
	w.t.Helper()
	if !strings.HasSuffix(rq.path, "/stream") {
		a := w.do(rq)
		return a.status, a.str("error")
	}
	resp, err := w.client.Do(w.newRequest(w.t.Context(), rq))
	w.must(err)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		a := w.do(rq)
		return a.status, a.str("error")
	}
	return resp.StatusCode, ""
}

func TestUnauthorizedSaysHow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, header := range []string{"", "Basic cm9vdDp4", "Bearer", "Bearer ", "Bearer cw_x", string(w.secrets[root]), "Token " + string(w.secrets[root])} {
			a := w.do(request{method: "GET", path: "/documents", header: http.Header{"Authorization": {header}}})
			if a.status != 401 || a.str("error") != "UNAUTHORIZED" || a.header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%q: %v with %v", header, a, a.header)
			}
		}
		if a := w.do(request{method: "GET", path: "/documents", header: http.Header{"Authorization": {"bearer " + string(w.secrets[root])}}}); a.status != 200 {
			t.Errorf("bearer in lower case: %v", a)
		}
		if strings.Contains(w.log.String(), string(w.secrets[root])) {
			t.Error("a key is in the log")
		}
	})
}

func TestOtherOrigins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		asked := w.do(request{method: "OPTIONS", path: "/documents/paper/sections/x", header: http.Header{
			"Origin": {"https://agents.test"}, "Access-Control-Request-Method": {"PUT"}, "Access-Control-Request-Headers": {"authorization,content-type"}}})
		h := asked.header
		if asked.status != 204 || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" ||
			!strings.Contains(h.Get("Access-Control-Allow-Methods"), "PUT") || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("preflight: %v with %v", asked, h)
		}
		for _, rq := range []request{{as: root, method: "GET", path: "/documents"}, {method: "GET", path: "/documents"}, {as: root, method: "GET", path: "/nothing"}, {method: "GET", path: "//openapi.json"}} {
			if a := w.do(rq); a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: no other origin may read %v", rq.path, a)
			}
		}
		if a := w.do(request{method: "GET", path: "//"}); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("the page is open to other origins")
		}
	})
}

func TestProfilesAreForAdmins(t *testing.T) {
	w := onTCP(t)
	const heap = "//debug/pprof/heap?gc=1&debug=1"
	for as, want := range map[string]int{nobody: 401, vera: 403, alpha: 403, warden: 403, root: 200} {
		a := w.do(request{as: as, method: "GET", path: heap})
		if a.status != want {
			t.Errorf("to %q the heap's profile is %d, want %d", as, a.status, want)
		}
		if as == root && !bytes.Contains(a.raw, []byte("# HeapAlloc = ")) {
			t.Errorf("the profile is %.200s", a.raw)
		}
	}
}

func TestMetricsAreForAdmins(t *testing.T) {
	w := onTCP(t)
	server := New(Options{Library: w.library, Keyring: w.keyring, Gauges: []Gauge{{Name: "cowrite_sockets", Help: "Open sockets.", Value: func() float64 { return 7 }}}})
	get := func(as string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		server.ServeHTTP(rec, w.newRequest(t.Context(), request{as: as, method: "GET", path: "//metrics"}))
		return rec
	}
	if rec := get(nobody); rec.Code != 401 {
		t.Errorf("without a key: %d", rec.Code)
	}
	for _, as := range []string{alpha, warden} {
		if rec := get(as); rec.Code != 403 || !strings.Contains(rec.Body.String(), "an admin's key for all documents") {
			t.Errorf("to %q the metrics are %d %s", as, rec.Code, rec.Body)
		}
	}
	body := get(root).Body.String()
	for _, line := range []string{
		`cowrite_http_requests_total{route="GET /metrics",status="401"} 1`,
		`cowrite_http_requests_total{route="GET /metrics",status="403"} 2`,
		`cowrite_http_request_seconds_count{route="GET /metrics"} 3`,
		`cowrite_sockets 7`,
		`cowrite_event_streams 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is not in\n%s", line, body)
		}
	}
}
