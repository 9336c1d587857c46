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
