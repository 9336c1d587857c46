package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(server.URL, "cw_key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAddressIsChecked(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:8080", "ftp://host", "http://", "://", "http://a b"} {
		if _, err := New(address, ""); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}

// What a client names cannot reach another route.
func TestNamesAreEscaped(t *testing.T) {
	var asked string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		fmt.Fprint(w, `{}`)
	})
	if _, err := c.Section(t.Context(), "a/b?c", "../d#e"); err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/documents/a%2Fb%3Fc/sections/..%2Fd%23e"; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
}

func TestRefusalsComeBackWhole(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer cw_key" {
			t.Errorf("Authorization is %q", got)
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"SECTION_LEASED","message":"held","holder":"beta","expiresInMs":1500}`)
	})
	_, err := c.AcquireLease(t.Context(), "d", "s", 60, "")
	var refused *code.Error
	if !errors.As(err, &refused) {
		t.Fatalf("the error is %v", err)
	}
	if refused.Code != code.SectionLeased || refused.Message != "held" || refused.Facts["holder"] != "beta" || refused.Facts["expiresInMs"] != 1500.0 {
		t.Errorf("the refusal is %+v", refused)
	}
}

// A proxy's error page is no answer of ours, and is not to be taken for one.
func TestOtherAnswersAreErrors(t *testing.T) {
	for _, body := range []string{"<html>bad gateway</html>", "", "[]", `{"message":"no code"}`} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, body)
		})
		_, err := c.Section(t.Context(), "d", "s")
		var refused *code.Error
		if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "502") {
			t.Errorf("%q gave %v", body, err)
		}
	}
}

// frames is how a server says events from..to on a stream.
func frames(from, to doc.Seq) string {
	var b strings.Builder
	b.WriteString(": a comment\nretry: 1\n\n")
	for seq := from; seq <= to; seq++ {
		raw, err := json.Marshal(doc.Event{Seq: seq, NewEvent: doc.NewEvent{Payload: json.RawMessage(`{}`)}})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "id: %s\nevent: message.posted\ndata: %s\n\n", seq, raw)
	}
	return b.String()
}

func TestFollowResumesWithoutGapOrRepeat(t *testing.T) {
	var asked []string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		switch len(asked) {
		case 1: // ends in the middle of a frame
			all := frames(4, 6)
			fmt.Fprint(w, all[:len(all)-5])
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":"SHUTTING_DOWN","message":"soon back"}`)
		default:
			fmt.Fprint(w, frames(6, 9))
		}
	})
	done := errors.New("enough")
	var got []doc.Seq
	err := c.Follow(t.Context(), "d", 3, func(e doc.Event) error {
		if got = append(got, e.Seq); e.Seq == 9 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatalf("Follow: %v", err)
	}
	if want := []doc.Seq{4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := []string{"3", "5", "5", "5"}; !slices.Equal(asked, want) {
		t.Errorf("resumed behind %v, want %v", asked, want)
	}
}

func TestFollowSaysWhenAnEventIsMissing(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, frames(1, 2)+frames(4, 4))
	})
	n := 0
	err := c.Follow(t.Context(), "d", 0, func(doc.Event) error { n++; return nil })
	if n != 2 || err == nil || !strings.Contains(err.Error(), "4 behind 2") {
		t.Errorf("%d events, then %v", n, err)
	}
}

func TestFollowEndsWhenRefused(t *testing.T) {
	asked := 0
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked == 1 {
			fmt.Fprint(w, frames(1, 1))
			return
		}
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"error":"DOCUMENT_DELETED","message":"gone"}`)
	})
	err := c.Follow(t.Context(), "d", 0, func(doc.Event) error { return nil })
	if !code.Is(err, code.DocumentDeleted) || asked != 2 {
		t.Errorf("after %d calls: %v", asked, err)
	}
}

// A server that was never there is a mistake in the address, not a cut.
func TestFollowDoesNotRetryTheFirstCall(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c, err := New(server.URL, "cw_key")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Follow(t.Context(), "d", 0, func(doc.Event) error { return nil }); err == nil {
		t.Error("no error")
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, frames(1, 1))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := c.Follow(ctx, "d", 0, func(doc.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
}

// What leases the caller lost is said once, with an answer or a refusal of any kind, and the answer comes whole.
func TestLostLeasesAreTold(t *testing.T) {
	const field = `"leaseLost":[{"leaseId":"l1","resource":"lock:a","fence":7,"action":"force","by":"root","reason":"stuck","at":"2026-04-16T03:00:00.000Z"},{"leaseId":"l2","resource":"lock:b","fence":8,"action":"expire","at":"2026-04-16T03:00:01.000Z"}]`
	whole := []agent.LostLease{
		{LeaseID: "l1", Resource: "lock:a", Fence: 7, Action: lease.Broken, By: "root", Reason: "stuck", At: "2026-04-16T03:00:00.000Z"},
		{LeaseID: "l2", Resource: "lock:b", Fence: 8, Action: lease.Expired, At: "2026-04-16T03:00:01.000Z"},
	}
	ids := []agent.LostLease{{LeaseID: "l1"}, {LeaseID: "l2"}}
	for name, said := range map[string]struct {
		status      int
		media, body string
		told        []agent.LostLease
	}{
		"an answer":          {200, "application/json", `{` + field + `,"id":"s","text":"# S"}`, whole},
		"a refusal":          {409, "application/json", `{` + field + `,"error":"BUSY","message":"later"}`, whole},
		"Markdown":           {200, "text/markdown; charset=utf-8", "# S", ids},
		"JSON without more":  {200, "application/json", `{"text":"# S"}`, ids},
		"JSON that is none":  {200, "application/json", `[`, ids},
		"a proxy's own page": {502, "text/html", "<html>", ids},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", said.media)
				w.Header().Set("Cowrite-Lease-Lost", "l1, l2")
				w.WriteHeader(said.status)
				fmt.Fprint(w, said.body)
			})
			var told []agent.LostLease
			c.LeaseLost = func(lost agent.LostLease) { told = append(told, lost) }
			var got strings.Builder
			err := c.Download(t.Context(), "d", "", "text/markdown", &got)
			if !slices.Equal(told, said.told) {
				t.Errorf("told of %+v, want %+v", told, said.told)
			}
			if ok := said.status == 200; (err == nil) != ok || ok && got.String() != said.body {
				t.Errorf("the answer is %q, %v", got.String(), err)
			}
		})
	}
}
