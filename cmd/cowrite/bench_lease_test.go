package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"cowrite/lease"
)

func TestFigures(t *testing.T) {
	var f figures
	for ms := range 100 {
		f.add(figures{took: 10 * time.Millisecond, requests: []time.Duration{time.Duration(100-ms) * time.Millisecond}})
	}
	if f.perSecond() != 100 || f.percentile(50) != 51*time.Millisecond || f.percentile(99) != 100*time.Millisecond || f.percentile(0) != time.Millisecond {
		t.Errorf("%v", f)
	}
	if got, want := f.String(), "     100 requests/s   p50  51.00 ms   p99 100.00 ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if (figures{}).percentile(50) != 0 {
		t.Error("nothing was measured")
	}
}

// Of which resources two reads exclude each other is the operator's choice.
func TestNeverShared(t *testing.T) {
	for given, want := range map[string]map[lease.Resource]bool{
		"":           {"lock:a": false, "file:a": true}, // the default
		"file:,db":   {"lock:a": true, "file:a": false, "db/x": false, "a file:": true},
		"lock:,repo": {"lock:a": false, "file:a": true},
	} {
		t.Run(given, func(t *testing.T) {
			p, err := launch(t.TempDir(), []string{"COWRITE_ADMIN_KEY=" + adminKey, "COWRITE_NEVER_SHARED=" + given})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := p.end(syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			})
			for resource, shares := range want {
				if mode := leaseToRead(t, p, resource); (mode == lease.Shared) != shares {
					t.Errorf("a read of %s is %s", resource, mode)
				}
			}
		})
	}
}

func leaseToRead(t *testing.T, p *process, r lease.Resource) lease.Mode {
	t.Helper()
	body := fmt.Sprintf(`{"resource":%q,"actorDid":"admin","operation":"read"}`, r)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.address+"/api/v1/acp/coordination/lease", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+adminKey)
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		OK    bool
		Lease struct{ Mode lease.Mode }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || !answer.OK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return answer.Lease.Mode
}
