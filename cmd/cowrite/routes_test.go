package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// forPrograms are the routes that no command needs.
var forPrograms = []string{
	"POST /session",   // the page's cookie
	"DELETE /session", // the same
	"POST /documents/{slug}/sections/{sid}/lease",         // the coordination door leases sections, too
	"PATCH /documents/{slug}/sections/{sid}/lease",        // the same
	"GET /documents/{slug}/sections/{sid}/lease",          // the same
	"DELETE /documents/{slug}/sections/{sid}/lease/queue", // the same
}

// commandLines are those that between them call every route for people.
var commandLines = []string{
	"doc create --title T", "doc list", "doc show d", "doc diff d v", "doc rename d --title T", "doc share d", "doc delete d --yes",
	"doc deleted", "doc restore d", "doc purge d --yes",
	"section add d", "section get d s", "section edit d s --find a", "section put d s", "section move d s --first", "section remove d s",
	"section restore d s", "section revert d s v", "section history d s", "section blame d s",
	"lease acquire r", "lease renew r", "lease release r", "lease release d s --force", "lease transfer d s a", "lease leave r", "lease status",
	"lease wait", "lease list d", "lease ledger", "lease check r 1",
	"events list d", "events tail d", "events post d text", "agent show a", "agent list", "agent people a", "whoami",
	"keys create --remote --agent a --role editor", "keys list --remote", "keys set --remote i --kind agent", "keys revoke --remote i",
	"admin usage", "admin blocks", "admin sockets", "admin block d", "admin unblock d",
}

// routes are the server's, as its description has them.
func routes(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("../../web/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &api); err != nil {
		t.Fatal(err)
	}
	var all []string
	for path, methods := range api.Paths {
		for method := range methods {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	return all
}

// Everything that a person may do over REST there is a command for. Each gives back the answer of the route that it
// calls last, as it is.
func TestEveryRouteHasACommand(t *testing.T) {
	mux := http.NewServeMux()
	missing := map[string]bool{}
	for _, route := range routes(t) {
		missing[route] = true
		method, path, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" /api/v1"+path, func(w http.ResponseWriter, r *http.Request) {
			delete(missing, route)
			if strings.HasSuffix(path, "/stream") {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprintf(w, `{"error":"NOT_FOUND","message":"of the test","route":%q}`, route)
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	p := &process{address: server.URL}
	streaming := []string{"events tail", "events list", "doc list", "doc deleted", "doc diff", "lease acquire", "lease renew"} // these read their answers
	for _, line := range commandLines {
		stdout, stderr, exit := p.exec(t, "text", append(strings.Fields(line), "--json")...)
		asIs := strings.HasPrefix(stdout, `{"error":"NOT_FOUND","message":"of the test","route":"`)
		reads := slices.ContainsFunc(streaming, func(s string) bool { return strings.HasPrefix(line, s) })
		if !asIs && !reads {
			t.Errorf("cowrite %s --json: exit code %d, %q, %q", line, exit, stdout, stderr)
		}
	}
	for _, route := range forPrograms {
		if !missing[route] {
			t.Errorf("%s is called by a command, or is not there: it needs no exception", route)
		}
		delete(missing, route)
	}
	if len(missing) > 0 {
		t.Errorf("there is no command for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
}

// A person reads times where that person is.
func TestTimesAreTheReaders(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"documents":[{"slug":"plan","title":"The plan","url":"automerge:x","changedAt":"2026-11-29T22:30:00.000Z"}]}`)
	}))
	defer server.Close()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("cw_key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	program := Program{Stdout: &out, Stderr: &errs, Env: func(string) string { return "" }, Zone: time.FixedZone("", 9*3600)}
	exit := program.Run(t.Context(), []string{"doc", "list", "--url", server.URL, "--key-file", key})
	if want := "plan  automerge:x  2026-11-30 07:30:00  The plan\n"; exit != 0 || out.String() != want {
		t.Errorf("exit code %d, %q, %q, want %q", exit, out.String(), errs.String(), want)
	}
}
