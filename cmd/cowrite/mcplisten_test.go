package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"cowrite/doc/code"
)

const paper = "cowrite://documents/paper"

// upstream is a server that can be listened to, whose answers are the test's.
type upstream struct {
	began time.Time

	mu     sync.Mutex
	answer func(*http.Request) (*http.Response, error)
	asked  []time.Duration // when it was asked to be listened to, from the beginning
	told   int             // notices that came of it
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, time.Since(u.began))
	return u.answer(r)
}

// will says how it answers from now on.
func (u *upstream) will(answer func(*http.Request) (*http.Response, error)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer = answer
}

// requests gives how often it was asked, once all has happened that follows from what was done.
func (u *upstream) requests() int {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.asked)
}

// notices gives how many came since it was last called.
func (u *upstream) notices() int {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	told := u.told
	u.told = 0
	return told
}

func response(status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: body}
}

// refuse answers with a body and no more.
func refuse(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return response(status, io.NopCloser(strings.NewReader(body))), nil
	}
}

// unreached is a server that is away.
func unreached(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") }

// stream answers with an open line, which the test writes to.
func stream() (answer func(*http.Request) (*http.Response, error), line *io.PipeWriter) {
	read, line := io.Pipe()
	return func(r *http.Request) (*http.Response, error) {
		context.AfterFunc(r.Context(), func() { line.CloseWithError(r.Context().Err()) })
		return response(http.StatusOK, read), nil
	}, line
}

// say writes messages to a line.
func say(line *io.PipeWriter, messages ...string) {
	for _, m := range messages {
		_, _ = fmt.Fprintf(line, "event: message\ndata: %s\n\n", m) // its reader may have left
	}
}

const (
	acknowledgement = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["` + paper + `"]}}}`
	disagreement    = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`
	update          = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + paper + `"}}`
	gone            = `{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"it was deleted","data":{"error":"DOCUMENT_DELETED","message":"it was deleted"}}}`
	crowded         = `{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"too many","data":{"error":"TOO_MANY_SOCKETS","message":"too many"}}}`
	unknown         = `{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"Resource not found"}}`
	ended           = `{"jsonrpc":"2.0","id":"1","result":{}}`
)

func withUpstream(t *testing.T, test func(t *testing.T, u *upstream, l *listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{began: time.Now()}
		l := newListener(t.Context(), "http://upstream/mcp", &http.Client{Transport: u}, func(uri string) {
			u.mu.Lock()
			defer u.mu.Unlock()
			if u.told++; uri != paper {
				t.Errorf("told of %s", uri)
			}
		})
		defer l.close()
		test(t, u, l)
	})
}

// heard subscribes to the paper, with success.
func heard(t *testing.T, u *upstream, l *listener) *io.PipeWriter {
	t.Helper()
	answer, line := stream()
	u.will(answer)
	go say(line, acknowledgement)
	if err := l.subscribe(t.Context(), paper); err != nil {
		t.Fatal(err)
	}
	return line
}

func TestSubscribedIsWhoTheServerListensTo(t *testing.T) {
	withUpstream(t, func(t *testing.T, u *upstream, l *listener) {
		answer, line := stream()
		u.will(answer)
		done := make(chan error, 2)
		for range cap(done) {
			go func() { done <- l.subscribe(t.Context(), paper) }()
		}
		if n := u.requests(); n != 1 || len(done) != 0 {
			t.Fatalf("after %d requests, and before any acknowledgement, %d are subscribed", n, len(done))
		}
		say(line, acknowledgement)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := u.notices(); n != 0 {
			t.Errorf("%d notices of nothing", n)
		}
		say(line, update, update)
		if n := u.notices(); n != 2 {
			t.Errorf("%d notices of two changes", n)
		}
		l.unsubscribe(paper)
		time.Sleep(time.Hour)
		if n := u.requests(); n != 1 || len(l.streams) != 0 {
			t.Errorf("once it is unsubscribed there were %d requests, and %d streams are kept", n, len(l.streams))
		}
	})
}

func TestSubscribingIsRefused(t *testing.T) {
	answered := func(messages ...string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			answer, line := stream()
			go func() {
				say(line, messages...)
				line.Close()
			}()
			return answer(r)
		}
	}
	rpc := func(number int64, data string) func(error) bool {
		return func(err error) bool {
			refused, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && refused.Code == number && strings.Contains(string(refused.Data), data)
		}
	}
	for name, c := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		is     func(error) bool
	}{
		"by the server":           {answered(gone), rpc(-32000, "DOCUMENT_DELETED")},
		"for now":                 {answered(crowded), rpc(-32000, "TOO_MANY_SOCKETS")},
		"by the SDK":              {refuse(http.StatusBadRequest, unknown), rpc(jsonrpc.CodeInvalidParams, "")},
		"for the key":             {refuse(http.StatusUnauthorized, `{"error":"UNAUTHORIZED"}`), func(err error) bool { return code.Is(err, code.Unauthorized) }},
		"by silence about it":     {answered(disagreement), func(err error) bool { return code.Is(err, code.MethodNotAllowed) }},
		"by an end":               {answered(ended), func(err error) bool { return errors.Is(err, errStreamEnded) }},
		"by a line that breaks":   {answered(), func(err error) bool { return errors.Is(err, errStreamEnded) }},
		"by something in between": {refuse(http.StatusBadGateway, "<html>"), func(err error) bool { return strings.Contains(err.Error(), "Bad Gateway") }},
		"by nobody":               {unreached, func(err error) bool { return strings.Contains(err.Error(), "no route") }},
	} {
		t.Run(name, func(t *testing.T) {
			withUpstream(t, func(t *testing.T, u *upstream, l *listener) {
				u.will(c.answer)
				for asked := 1; asked <= 2; asked++ {
					if err := l.subscribe(t.Context(), paper); err == nil || !c.is(err) {
						t.Errorf("refused with %v", err)
					}
					time.Sleep(time.Hour)
					if n := u.requests(); n != asked || u.notices() != 0 || len(l.streams) != 0 {
						t.Errorf("an hour after subscription %d there were %d requests, and %d streams are kept", asked, n, len(l.streams))
					}
				}
			})
		})
	}
}

// A line that breaks is mended, after growing pauses, and one notice stands for all that may have changed meanwhile.
func TestListensAgain(t *testing.T) {
	withUpstream(t, func(t *testing.T, u *upstream, l *listener) {
		line := heard(t, u, l)
		for i, away := range []func(*http.Request) (*http.Response, error){
			unreached,
			refuse(http.StatusBadGateway, "<html>"),
			refuse(http.StatusServiceUnavailable, `{"error":"SHUTTING_DOWN"}`),
			refuse(http.StatusOK, "data: "+crowded+"\n\n"),
		} {
			u.will(away)
			u.asked, u.began = nil, time.Now()
			if i%2 == 0 {
				say(line, ended)
			}
			line.Close()
			time.Sleep(2 * time.Minute)
			u.requests()
			last, longest := time.Duration(0), firstPause
			for _, at := range u.asked {
				if pause := at - last; pause < longest/2 || pause > longest {
					t.Errorf("a pause of %v, which may be %v at the most", pause, longest)
				}
				last, longest = at, min(2*longest, lastPause)
			}
			if len(u.asked) < 8 || u.notices() != 0 {
				t.Errorf("within two minutes it was asked at %v", u.asked)
			}
			var answer func(*http.Request) (*http.Response, error)
			answer, line = stream()
			u.will(answer)
			say(line, acknowledgement)
			if n := u.notices(); n != 1 {
				t.Errorf("%d notices of what changed meanwhile", n)
			}
			say(line, update)
			if n := u.notices(); n != 1 {
				t.Errorf("%d notices of a change", n)
			}
		}
		if err := l.subscribe(t.Context(), paper); err != nil {
			t.Errorf("what is subscribed to, subscribed to: %v", err)
		}
	})
}

// What is refused on coming back is told, so that the host reads and sees why, and not asked for again.
func TestRefusedOnComingBack(t *testing.T) {
	for name, refusal := range map[string]func(*http.Request) (*http.Response, error){
		"by the server": refuse(http.StatusOK, "data: "+gone+"\n\n"),
		"by the SDK":    refuse(http.StatusBadRequest, unknown),
		"for the key":   refuse(http.StatusUnauthorized, `{"error":"UNAUTHORIZED"}`),
	} {
		t.Run(name, func(t *testing.T) {
			withUpstream(t, func(t *testing.T, u *upstream, l *listener) {
				line := heard(t, u, l)
				u.will(refusal)
				line.Close()
				time.Sleep(time.Hour)
				if n, told := u.requests(), u.notices(); n != 2 || told != 1 || len(l.streams) != 0 {
					t.Errorf("after %d requests, %d notices; %d streams are kept", n, told, len(l.streams))
				}
				if err := l.subscribe(t.Context(), paper); err == nil {
					t.Error("it is subscribed to again")
				}
				heard(t, u, l)
			})
		})
	}
}

func TestSubscribingIsGivenUp(t *testing.T) {
	withUpstream(t, func(t *testing.T, u *upstream, l *listener) {
		answer, line := stream()
		u.will(answer)
		ctx, giveUp := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.subscribe(ctx, paper) }()
		u.requests()
		giveUp()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		synctest.Wait()
		if _, err := io.WriteString(line, "\n"); err == nil || len(l.streams) != 0 {
			t.Errorf("the request goes on (%v), and %d streams are kept", err, len(l.streams))
		}
	})
}
