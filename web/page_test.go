package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"cowrite/web/ui"
)

func getPage(h http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header = header
	if header == nil {
		r.Header = http.Header{}
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func TestThePage(t *testing.T) {
	index, script := "<!doctype html><title>x</title>", strings.Repeat("console.log('x');\n", 1000)
	server := New(Options{PageFS: fstest.MapFS{
		"index.html":          {Data: []byte(index)},
		"favicon.svg":         {Data: []byte("<svg/>")},
		"sw.js":               {Data: []byte("self.skipWaiting()")},
		"assets/app-12ab.js":  {Data: []byte(script)},
		"assets/am-34cd.wasm": {Data: []byte("\x00asm")},
		".keep":               {},
	}})
	for path, want := range map[string]struct{ kind, cache, body string }{
		"/":                    {"text/html; charset=utf-8", "no-cache", index},
		"/index.html":          {"text/html; charset=utf-8", "no-cache", index},
		"/d/paper":             {"text/html; charset=utf-8", "no-cache", index},
		"/d/paper?token=cw_x":  {"text/html; charset=utf-8", "no-cache", index},
		"/anything/else":       {"text/html; charset=utf-8", "no-cache", index},
		"/.keep":               {"text/html; charset=utf-8", "no-cache", index},
		"/favicon.svg":         {"image/svg+xml", "no-cache", "<svg/>"},
		"/sw.js":               {"text/javascript; charset=utf-8", "no-cache", "self.skipWaiting()"}, // beside all pages, so that it serves all of them
		"/assets/app-12ab.js":  {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable", script},
		"/assets/am-34cd.wasm": {"application/wasm", "public, max-age=31536000, immutable", "\x00asm"},
	} {
		rec := getPage(server, path, nil)
		h := rec.Header()
		if rec.Code != 200 || rec.Body.String() != want.body || h.Get("Content-Type") != want.kind || h.Get("Cache-Control") != want.cache {
			t.Errorf("%s: %d %v %.40q", path, rec.Code, h, rec.Body)
		}
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "style-src 'self';", "img-src 'self' data:;", "connect-src 'self' ws: wss:", "worker-src 'self';", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: %s is not in the policy %s", path, part, policy)
			}
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, h)
		}
		if again := getPage(server, path, http.Header{"If-None-Match": {h.Get("ETag")}}); again.Code != 304 {
			t.Errorf("%s again: %d", path, again.Code)
		}
	}
	if rec := getPage(server, "/assets/old-99ff.js", nil); rec.Code != 404 || !strings.Contains(rec.Body.String(), "NOT_FOUND") {
		t.Errorf("an asset of another build: %d %s", rec.Code, rec.Body)
	}

	rec := getPage(server, "/assets/app-12ab.js", http.Header{"Accept-Encoding": {"br, gzip;q=0.8"}})
	unzipped, err := gzip.NewReader(bytes.NewReader(rec.Body.Bytes()))
	if err != nil || rec.Header().Get("Content-Encoding") != "gzip" || rec.Header().Get("Vary") == "" || rec.Body.Len() > len(script)/2 {
		t.Fatalf("compressed: %v, %v, %d bytes", err, rec.Header(), rec.Body.Len())
	}
	if got, err := io.ReadAll(unzipped); err != nil || string(got) != script {
		t.Errorf("compressed: %v, %d bytes", err, len(got))
	}
	for path, coding := range map[string]string{"/assets/am-34cd.wasm": "gzip", "/assets/app-12ab.js": "gzip;q=0"} {
		if rec := getPage(server, path, http.Header{"Accept-Encoding": {coding}}); rec.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s with %s is compressed", path, coding)
		}
	}
}

func TestWithoutABuiltPage(t *testing.T) {
	for name, server := range map[string]*Server{
		"no files":     New(Options{}),
		"an empty one": New(Options{PageFS: fstest.MapFS{".keep": {}}}),
	} {
		if rec := getPage(server, "/", nil); rec.Code != 200 || !strings.Contains(rec.Body.String(), "make build") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	if rec := getPage(New(Options{PageFS: ui.Dist()}), "/d/x", nil); rec.Code != 200 || rec.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("what is compiled in: %d %v", rec.Code, rec.Header())
	}
}
