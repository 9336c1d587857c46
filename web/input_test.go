package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

func TestBadBodies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		const section = "/documents/paper/sections/intro"
		as := func(media string) http.Header { return http.Header{"Content-Type": {media}} }
		w.play(t, []scenario{
			{name: "no body", as: alpha, method: "PUT", path: section, status: 400, code: "INVALID_JSON"},
			{name: "not JSON", as: alpha, method: "PUT", path: section, body: `text`, status: 400, code: "INVALID_JSON"},
			{name: "cut short", as: alpha, method: "PUT", path: section, body: `{"text":"x","base":"curr`, status: 400, code: "INVALID_JSON"},
			{name: "two bodies", as: alpha, method: "PUT", path: section, body: `{"text":"x","base":"current"}{}`, status: 400, code: "INVALID_JSON"},
			{name: "not UTF-8", as: alpha, method: "PUT", path: section, body: "{\"text\":\"\xff\",\"base\":\"current\"}", status: 400, code: "INVALID_JSON"},
			{name: "binary", as: alpha, method: "PUT", path: section, body: "\x00\x01\x02", status: 400, code: "INVALID_JSON"},
			{name: "deep", as: alpha, method: "POST", path: "/documents/paper/events", body: strings.Repeat("[", 100_000), status: 400, code: "INVALID_JSON"},
			{name: "a list", as: alpha, method: "PUT", path: section, body: `["x"]`, status: 400, code: "BAD_REQUEST"},
			{name: "null", as: alpha, method: "PUT", path: section, body: `null`, status: 400, code: "BAD_REQUEST"},
			{name: "a number as text", as: alpha, method: "PUT", path: section, body: `{"text":1,"base":"current"}`, status: 400, code: "BAD_REQUEST", facts: map[string]string{"problems": "*"}},
			{name: "an unknown field", as: alpha, method: "PUT", path: section, body: `{"text":"x","base":"current","force":true}`, status: 400, code: "BAD_REQUEST"},
			{name: "a form", as: alpha, method: "PUT", path: section, body: `text=x`, header: as("application/x-www-form-urlencoded"), status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
			{name: "plain text", as: alpha, method: "PUT", path: section, body: `{"text":"x","base":"current"}`, header: as("text/plain"), status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
			{name: "nonsense as a type", as: alpha, method: "PUT", path: section, body: `{"text":"x","base":"current"}`, header: as("a;b+c"), status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
			{name: "far too large", as: alpha, method: "PUT", path: section, body: `{"text":"` + strings.Repeat("x", sectionBody) + `","base":"current"}`, status: 413, code: "TOO_LARGE", facts: map[string]string{"limit": "*"}},
			{name: "a small one too large", as: alpha, method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"reason":"` + strings.Repeat("x", smallBody) + `"}`, status: 413, code: "TOO_LARGE"},
			{name: "JSON with a charset", as: alpha, method: "PUT", path: section, body: `{"text":"# x\n","base":"current"}`, header: as("application/json; charset=utf-8"), status: 200},
			{name: "JSON without a type", as: alpha, method: "PUT", path: section, body: `{"text":"# y\n","base":"current"}`, header: as(""), status: 200},
			{name: "a body that nobody asked for", as: alpha, method: "DELETE", path: section, body: `text`, status: 200},
			{name: "nonsense as Accept", as: alpha, method: "GET", path: section, header: http.Header{"Accept": {"a;,bcd"}}, status: 200},
		})
	})
}

// Whatever is in a path, it names this document, or none.
func TestBadPaths(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("other")
		for _, id := range []string{
			"..", "%2e%2e", "%2F", "..%2fother", "paper%2f..%2fother", "paper%2Fsections%2Fintro", ":", "*", "%2A", "paper*", "pap%00er", "%", "paper%20", "PAPER", "Paper", "-paper",
			"%C3%A9", "日本", "%F0%9F%98%80", "%FF%FE", strings.Repeat("a", 1024), strings.Repeat("%41", 1024), "automerge:", "automerge:paper",
			"00000000-0000-0000-0000-000000000000", "3bnkE1111111111111111111111", "'; drop table document; --", "paper;x", "paper%3Fx", "paper%23x", "none",
		} {
			for _, path := range []string{"/documents/%s", "/documents/%s/sections/intro", "/documents/%s/events", "/documents/%s/leases", "/documents/paper/sections/%s", "/documents/paper/sections/%s/lease"} {
				w.unharmed(t, request{as: root, method: "GET", path: fmt.Sprintf(path, id)})
			}
			w.unharmed(t, request{as: root, method: "DELETE", path: "/documents/" + id})
			w.unharmed(t, request{as: root, method: "DELETE", path: "/keys/" + id})
			w.unharmed(t, request{as: root, method: "PUT", path: "/documents/" + id + "/sections/intro", body: `{"text":"x","base":"current"}`})
		}
		w.play(t, []scenario{
			{name: "encoded, and meant", as: alpha, method: "GET", path: "/documents/%70aper/sections/%69ntro", status: 200, facts: map[string]string{"id": "intro"}},
			{name: "no route", as: alpha, method: "GET", path: "/nothing", status: 404, code: "NOT_FOUND"},
			{name: "no route without a key", method: "GET", path: "/nothing", status: 401, code: "UNAUTHORIZED"},
			{name: "a slash too many", as: alpha, method: "GET", path: "/documents/", status: 404, code: "NOT_FOUND"},
			{name: "two slashes", as: alpha, method: "GET", path: "/documents//sections", status: 404, code: "NOT_FOUND"},
			{name: "another method", as: alpha, method: "PUT", path: "/documents/paper", status: 405, code: "METHOD_NOT_ALLOWED", facts: map[string]string{"allow": "[GET PATCH DELETE]"}},
			{name: "another method of the page", method: "POST", path: "//d/paper", status: 405, code: "METHOD_NOT_ALLOWED"},
			{name: "a method of one's own", as: alpha, method: "BREW", path: "/documents", status: 405, code: "METHOD_NOT_ALLOWED"},
		})
		if allow := w.do(request{as: alpha, method: "POST", path: "/documents/paper"}).header.Get("Allow"); allow != "GET, PATCH, DELETE" {
			t.Errorf("Allow is %q", allow)
		}
	})
}

// unharmed sends a request that has to be refused with a code and to change nothing.
func (w *world) unharmed(t *testing.T, rq request) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), rq.method, w.url+Prefix+rq.path, strings.NewReader(rq.body))
	if err != nil {
		return // not even a client can say it
	}
	rq.path = "/" + strings.TrimPrefix(r.URL.RequestURI(), Prefix+"/")
	w.play(t, []scenario{}) // keeps the order of what is compared
	before := w.state()
	a := w.do(rq)
	if a.status/100 != 4 || a.str("error") == "" {
		t.Errorf("%s %s: %v", rq.method, rq.path, a)
	}
	if w.state() != before {
		t.Errorf("%s %s changed something", rq.method, rq.path)
	}
}

// A client that sends or reads nothing for too long is cut off; one that hangs up in the middle changes nothing.
func TestStuckClients(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "PUT", "/documents/paper/sections/plan", `{"base":"current","text":"`+strings.Repeat("x", 64<<10)+`"}`)
		say := func(format string, args ...any) net.Conn {
			conn, err := w.dial(t.Context())
			w.must(err)
			_, err = fmt.Fprintf(conn, format, args...)
			w.must(err)
			return conn
		}
		const half = "PUT /api/v1/documents/paper/sections/intro HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 30\r\n\r\n{\"text\":\"x\","
		begun, before := time.Now(), w.state()

		slow := say(half, w.secrets[alpha])
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		w.must(err)
		body, err := io.ReadAll(resp.Body)
		w.must(err)
		if waited := time.Since(begun); resp.StatusCode != 400 || !strings.Contains(string(body), "BAD_REQUEST") || waited != readTimeout {
			t.Errorf("half a body is answered after %v with %s %s", waited, resp.Status, body)
		}
		w.must(slow.Close())

		w.must(say(half, w.secrets[alpha]).Close())

		deaf := say("GET /api/v1/documents/paper HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", w.secrets[alpha])
		time.Sleep(writeTimeout + time.Second)
		synctest.Wait()
		if _, err := io.ReadAll(deaf); err != nil {
			t.Errorf("the line to who does not read ended with %v", err)
		}
		w.must(deaf.Close())
		if w.state() != before {
			t.Error("something changed")
		}
		if log := w.log.String(); strings.Contains(log, "level=ERROR") {
			t.Errorf("clients' faults are logged as errors:\n%s", log)
		}
	})
}

func TestMoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.document("old").str("documentId")
		w.ok(alpha, "PATCH", "/documents/old", `{"slug":"new"}`)
		parsed, err := crdt.ParseDocumentID(id)
		w.must(err)
		for _, c := range []struct{ method, path, location string }{
			{"GET", "/documents/old", "/documents/new"},
			{"GET", "/documents/old/events?since=1&limit=2", "/documents/new/events?since=1&limit=2"},
			{"PUT", "/documents/old/sections/intro", "/documents/new/sections/intro"},
			{"POST", "/documents/old/sections/intro/lease", "/documents/new/sections/intro/lease"},
			{"DELETE", "/documents/old", "/documents/new"},
			{"GET", "/documents/old/events/stream", "/documents/new/events/stream"},
		} {
			body := map[string]string{"PUT": `{"text":"x","base":"current"}`, "POST": `{"leaseDurationSeconds":1}`}[c.method]
			a := w.do(request{as: alpha, method: c.method, path: c.path, body: body})
			if a.status != 308 || a.header.Get("Location") != Prefix+c.location || a.str("slug") != "new" {
				t.Errorf("%s %s: %v to %q", c.method, c.path, a, a.header.Get("Location"))
			}
		}
		for _, ref := range []string{"new", id, "automerge:" + id, parsed.UUID(), strings.ToUpper(parsed.UUID())} {
			w.ok(vera, "GET", "/documents/"+ref, "")
		}
		if a := w.do(request{as: tom, method: "GET", path: "/documents/old"}); a.status != 403 {
			t.Errorf("who may not read it is told where it went: %v", a)
		}
	})
}

func TestMarkdownAndTags(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const markdown = "---\ntitle: x\n---\n\ufeff# A\r\n\r\n```\n# no\n```\nB\n===\n <b>&amp;\u2028 no newline"
		w.ok(alpha, "POST", "/documents", fmt.Sprintf(`{"slug":"paper","markdown":%s}`, quoted(markdown)))
		get := func(path string, header http.Header) answer {
			return w.do(request{as: vera, method: "GET", path: path, header: header})
		}
		accept := func(s string) http.Header { return http.Header{"Accept": {s}} }
		for _, s := range []string{"text/markdown", "text/*", "text/markdown;q=0.9, application/json;q=0.1", "application/json;q=0, */*", "image/png, text/markdown"} {
			a := get("/documents/paper", accept(s))
			if string(a.raw) != markdown || a.header.Get("Content-Type") != "text/markdown; charset=utf-8" || a.header.Get("Vary") == "" {
				t.Errorf("Accept %s: %v", s, a)
			}
		}
		for _, s := range []string{"", "*/*", "application/json", "text/html, */*;q=0.8", "application/json, text/markdown", ";;,"} {
			if a := get("/documents/paper", accept(s)); s != ";;," && a.str("slug") != "paper" {
				t.Errorf("Accept %s: %v", s, a)
			}
		}
		for _, c := range []struct {
			path   string
			header http.Header
		}{{"/documents/paper", nil}, {"/documents/paper", accept("text/markdown")}, {"/documents/paper/sections/intro", nil}} {
			w.ok(alpha, "PUT", "/documents/paper/sections/intro", fmt.Sprintf(`{"text":"# %s\n","base":"current"}`, time.Now()))
			first := get(c.path, c.header)
			with := c.header.Clone()
			if with == nil {
				with = http.Header{}
			}
			with.Set("If-None-Match", `"x", `+first.header.Get("ETag"))
			if again := get(c.path, with); again.status != 304 || len(again.raw) != 0 {
				t.Errorf("%s: nothing happened, and it says %v", c.path, again)
			}
			w.ok(beta, "PUT", "/documents/paper/sections/intro", fmt.Sprintf(`{"text":"# %s!\n","base":"current"}`, time.Now()))
			if again := get(c.path, with); again.status != 200 {
				t.Errorf("%s: it was written, and it says %v", c.path, again)
			}
		}
		first := get("/documents/paper/sections/intro", nil)
		w.ok(beta, "POST", lease1, `{"leaseDurationSeconds":60}`)
		if again := get("/documents/paper/sections/intro", http.Header{"If-None-Match": {first.header.Get("ETag")}}); again.status != 200 {
			t.Errorf("it was leased, and it says %v", again)
		}
		// A browser keeps one answer for all who sign in at it.
		readers := []string{alpha, beta, vera}
		for _, reader := range readers {
			tag := w.do(request{as: reader, method: "GET", path: "/documents/paper"}).header.Get("ETag")
			for _, next := range readers {
				a := w.do(request{as: next, method: "GET", path: "/documents/paper", header: http.Header{"If-None-Match": {tag}}})
				if reader == next {
					if a.status != 304 {
						t.Errorf("%s asks again, and it says %v", reader, a)
					}
				} else if a.status != 200 || a.body["me"].(map[string]any)["agent"] != next {
					t.Errorf("after %s it tells %s: %v", reader, next, a)
				}
			}
		}
	})
}

func quoted(s string) string {
	return `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
}

// What goes wrong inside is in the log once, under the request's id, and not in the answer.
func TestInternalErrorsStayInside(t *testing.T) {
	w := onTCP(t)
	secret := errors.New("the table sectionx is gone")
	w.server.authenticate = func(*http.Request) (doc.Key, error) { return doc.Key{}, fmt.Errorf("find key: %w", secret) }
	a := w.do(request{as: alpha, method: "GET", path: "/documents"})
	if a.status != 500 || a.str("error") != "INTERNAL" || strings.Contains(string(a.raw), "sectionx") {
		t.Errorf("answered %v", a)
	}
	log := w.log.String()
	if strings.Count(log, secret.Error()) != 1 || !strings.Contains(log, "request="+a.header.Get("X-Request-Id")+" err=\"find key: "+secret.Error()) {
		t.Errorf("the log is %s", log)
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	w := onTCP(t)
	w.server.authenticate = func(*http.Request) (doc.Key, error) { panic("a bug") }
	if a := w.do(request{as: alpha, method: "GET", path: "/documents"}); a.status != 500 || a.str("error") != "INTERNAL" || strings.Contains(string(a.raw), "bug") {
		t.Errorf("answered %v", a)
	}
	if log := w.log.String(); strings.Count(log, "a bug") != 1 {
		t.Errorf("the log is %s", log)
	}
}

func TestNotReady(t *testing.T) {
	w := onTCP(t)
	if a := w.do(request{method: "GET", path: "//readyz"}); a.status != 200 || a.str("status") != "ok" {
		t.Errorf("ready: %v", a)
	}
	w.server.opts.Ready = func(context.Context) error { return errors.New("the disk is full") }
	if a := w.do(request{method: "GET", path: "//readyz"}); a.status != 503 || strings.Contains(string(a.raw), "disk") {
		t.Errorf("not ready: %v", a)
	}
	w.server.opts.Ready = nil
	w.stop()
	if a := w.do(request{method: "GET", path: "//readyz"}); a.status != 503 {
		t.Errorf("stopping: %v", a)
	}
	if a := w.do(request{method: "GET", path: "//healthz"}); a.status != 200 {
		t.Errorf("stopping, but alive: %v", a)
	}
}

// Who sends all of a large body before it reads, as simple clients do, is told why it was refused: the connection
// is not reset under it.
func TestARefusalReachesWhoIsStillSending(t *testing.T) {
	w := onTCP(t)
	w.document("paper")
	text := `{"text":"` + strings.Repeat("x", 10<<20) + `","base":"current"}`
	for _, c := range []struct {
		as, method, path, media string
		status                  int
	}{
		{alpha, "PUT", Prefix + "/documents/paper/sections/intro", "application/json", 413},
		{alpha, "POST", Prefix + "/documents", "application/json", 400},
		{alpha, "POST", Prefix + "/documents/paper/events", "application/json", 413},
		{alpha, "POST", MCPPath, "application/json", 400},
		{alpha, "POST", Prefix + "/documents", "text/plain", 415},
		{nobody, "PUT", Prefix + "/documents/paper/sections/intro", "application/json", 401},
		{vera, "POST", Prefix + "/documents/paper/leases", "application/json", 405},
		{alpha, "POST", Prefix + "/nowhere", "application/json", 404},
	} {
		t.Run(fmt.Sprint(c.method, " ", c.path, " by ", c.as, " ", c.status), func(t *testing.T) {
			line, err := w.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer line.Close()
			if _, err := fmt.Fprintf(line, "%s %s HTTP/1.1\r\nHost: cowrite.test\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
				c.method, c.path, w.secrets[c.as], c.media, len(text), text); err != nil {
				t.Fatalf("it cannot send all: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(line), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("answered %s", resp.Status)
			}
		})
	}
}
