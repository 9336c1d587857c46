package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cowrite/crdt"
	"cowrite/doc"
)

func TestEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		const events = "/documents/paper/events"
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":60,"reason":"<b> & \u2028"}`)
		posted := w.ok(alpha, "POST", events, `{ "to": "beta", "n": 12345678901234567890, "html": "<b>" }`)
		if posted.status != 201 || posted.str("event_type") != "message.posted" || posted.str("actor_id") != alpha || posted.str("seq") != "5" {
			t.Errorf("posted %v", posted)
		}
		if !strings.Contains(string(posted.raw), `"payload":{"to":"beta","n":12345678901234567890,"html":"`) {
			t.Errorf("the payload came back as %s", posted.raw)
		}
		var chain doc.EventHash
		for _, e := range w.ok(vera, "GET", events, "").events(t) {
			if e.Hash != doc.Chain(chain, e.Seq, e.NewEvent).Hash {
				t.Errorf("the chain breaks at %+v", e)
			}
			chain = e.Hash
		}
		w.play(t, []scenario{
			{name: "all", as: vera, method: "GET", path: events, status: 200, facts: map[string]string{"has_more": "false", "next_since": "5"}},
			{name: "a page", as: vera, method: "GET", path: events + "?since=1&limit=2", status: 200, facts: map[string]string{"has_more": "true", "next_since": "3"}},
			{name: "the end", as: vera, method: "GET", path: events + "?since=5", status: 200, facts: map[string]string{"has_more": "false", "next_since": "5", "events": "[]"}},
			{name: "behind the end", as: vera, method: "GET", path: events + "?since=99", status: 400, code: "INVALID_CURSOR", facts: map[string]string{"lastSeq": "5"}},
			{name: "just behind the end", as: vera, method: "GET", path: events + "?since=6", status: 400, code: "INVALID_CURSOR", facts: map[string]string{"lastSeq": "5"}},
			{name: "a section, behind the end", as: vera, method: "GET", path: "/documents/paper/sections/intro/history?since=6", status: 400, code: "INVALID_CURSOR", facts: map[string]string{"lastSeq": "5"}},
			{name: "stream behind the end", as: vera, method: "GET", path: events + "/stream?since=6", status: 400, code: "INVALID_CURSOR", facts: map[string]string{"lastSeq": "5"}},
			{name: "resume behind the end", as: vera, method: "GET", path: events + "/stream", header: http.Header{"Last-Event-Id": {"99999"}}, status: 400, code: "INVALID_CURSOR", facts: map[string]string{"lastSeq": "5"}},
			{name: "from nowhere", as: vera, method: "GET", path: events + "?since=-1", status: 400, code: "INVALID_CURSOR"},
			{name: "from text", as: vera, method: "GET", path: events + "?since=first", status: 400, code: "INVALID_CURSOR"},
			{name: "none", as: vera, method: "GET", path: events + "?limit=0", status: 400, code: "BAD_REQUEST"},
			{name: "too many", as: vera, method: "GET", path: events + "?limit=1001", status: 400, code: "BAD_REQUEST"},
			{name: "nothing", as: vera, method: "GET", path: "/documents/none/events", status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "post a list", as: alpha, method: "POST", path: events, body: `[1]`, status: 400, code: "BAD_REQUEST"},
			{name: "post null", as: alpha, method: "POST", path: events, body: `null`, status: 400, code: "BAD_REQUEST"},
			{name: "post nothing", as: alpha, method: "POST", path: events, body: ``, status: 400, code: "INVALID_JSON"},
			{name: "post too much", as: alpha, method: "POST", path: events, body: `{"x":"` + strings.Repeat("x", 64<<10) + `"}`, status: 413, code: "TOO_LARGE", facts: map[string]string{"limit": "65536"}},
			{name: "post far too much", as: alpha, method: "POST", path: events, body: `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, status: 413, code: "TOO_LARGE", facts: map[string]string{"limit": "*"}},
			{name: "post as a viewer", as: vera, method: "POST", path: events, body: `{}`, status: 403, code: "FORBIDDEN"},
			{name: "stream from text", as: vera, method: "GET", path: events + "/stream?since=x", status: 400, code: "INVALID_CURSOR"},
			{name: "stream from a bad header", as: vera, method: "GET", path: events + "/stream?since=1", header: http.Header{"Last-Event-Id": {"x"}}, status: 400, code: "INVALID_CURSOR"},
			{name: "stream nothing", as: vera, method: "GET", path: "/documents/none/events/stream", status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "stream without a key", method: "GET", path: events + "/stream", status: 401, code: "UNAUTHORIZED"},
			{name: "stream with a wrong token", method: "GET", path: events + "/stream?token=x", status: 401, code: "UNAUTHORIZED"},
			{name: "a token elsewhere", method: "GET", path: events + "?token=" + string(w.secrets[alpha]), status: 401, code: "UNAUTHORIZED"},
		})
	})
}

// events reads a page of the log.
func (a answer) events(t *testing.T) []doc.Event {
	t.Helper()
	var page struct{ Events []doc.Event }
	if err := json.Unmarshal(a.raw, &page); err != nil {
		t.Fatal(err)
	}
	return page.Events
}

// frame is one event as it came over a stream.
type frame struct {
	id, kind string
	data     doc.Event
}

// reader reads a stream.
type reader struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// stream opens a document's event stream. It is to be closed.
func (w *world) stream(ctx context.Context, rq request) *reader {
	w.t.Helper()
	rq.method = "GET"
	resp, err := w.client.Do(w.newRequest(ctx, rq))
	w.must(err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		w.t.Fatalf("the stream %s is %s %s", rq.path, resp.Status, body)
	}
	r := &reader{w.t, resp, bufio.NewReader(resp.Body)}
	if first := r.block(); first != "retry: 5000\n" {
		w.t.Errorf("the stream begins with %q", first)
	}
	return r
}

func (r *reader) close() { r.resp.Body.Close() }

// block reads up to the next empty line; at the stream's end it is "".
func (r *reader) block() string {
	r.t.Helper()
	var b strings.Builder
	for {
		line, err := r.in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" && b.Len() == 0 {
			return ""
		}
		if err != nil {
			r.t.Fatalf("reading the stream: %v behind %q", err, b.String()+line)
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

// next reads the next event, over heartbeats.
func (r *reader) next() frame {
	r.t.Helper()
	for {
		block := r.block()
		if strings.HasPrefix(block, ":") {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "id: ") || !strings.HasPrefix(lines[1], "event: ") || !strings.HasPrefix(lines[2], "data: ") {
			r.t.Fatalf("not a frame: %q", block)
		}
		f := frame{id: lines[0][4:], kind: lines[1][7:]}
		if err := json.Unmarshal([]byte(lines[2][6:]), &f.data); err != nil {
			r.t.Fatal(err)
		}
		if f.data.Seq.String() != f.id || string(f.data.Type) != f.kind || f.kind == "error" {
			r.t.Fatalf("id and event do not say what data does: %q", block)
		}
		return f
	}
}

func TestAStreamIsTheLogAndThenLive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		const path = "/documents/paper/events/stream"
		all := w.stream(t.Context(), request{as: vera, path: path})
		defer all.close()
		for i, want := range []string{"document.created", "section.created", "section.created"} {
			if f := all.next(); f.kind != want || f.data.Seq != doc.Seq(i+1) {
				t.Errorf("event %d is %+v", i+1, f)
			}
		}
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":5}`)
		if f := all.next(); f.kind != "section.leased" || f.data.Actor != alpha {
			t.Errorf("the lease is %+v", f)
		}
		time.Sleep(5 * time.Second)
		if f := all.next(); f.kind != "section.lease_expired" || f.data.Actor != doc.System {
			t.Errorf("its end is %+v", f)
		}
		for _, c := range []struct {
			rq   request
			want string
		}{
			{request{as: vera, path: path + "?since=2"}, "3"},
			{request{as: vera, path: path + "?since=0"}, "1"},
			{request{as: vera, path: path, header: http.Header{"Last-Event-Id": {"3"}}}, "4"},
			{request{as: vera, path: path + "?since=1", header: http.Header{"Last-Event-Id": {"4"}}}, "5"},
			{request{path: path + "?since=4&token=" + string(w.secrets[vera])}, "5"},
		} {
			r := w.stream(t.Context(), c.rq)
			if f := r.next(); f.id != c.want {
				t.Errorf("%s with %v begins with %s, want %s", c.rq.path, c.rq.header, f.id, c.want)
			}
			r.close()
		}
		synctest.Wait() // the requests are in the log
		if log := w.log.String(); strings.Contains(log, string(w.secrets[vera])) || !strings.Contains(log, "token=redacted") {
			t.Error("a token is in the log")
		}
	})
}

// What happened before a document was restored is no end of its log.
func TestAStreamGoesOnWhereADocumentCameBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "DELETE", "/documents/paper", "")
		w.ok(alpha, "POST", "/documents/paper/restore", "")
		w.ok(root, "PUT", "/documents/paper/block", `{}`)
		w.ok(root, "DELETE", "/documents/paper/block", "")
		r := w.stream(t.Context(), request{as: vera, path: "/documents/paper/events/stream?since=3"})
		defer r.close()
		for _, want := range []string{"document.deleted", "document.restored", "document.blocked", "document.unblocked"} {
			if f := r.next(); f.kind != want {
				t.Errorf("the stream says %s, want %s", f.kind, want)
			}
		}
		w.ok(alpha, "POST", "/documents/paper/events", `{}`)
		if f := r.next(); f.kind != "message.posted" {
			t.Errorf("then the stream says %s", f.kind)
		}
	})
}

func TestAStreamBeatsEvery15Seconds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		r := w.stream(t.Context(), request{as: vera, path: "/documents/paper/events/stream?since=3"})
		defer r.close()
		begun := time.Now()
		for n := range 8 {
			if block := r.block(); !strings.HasPrefix(block, ":") || time.Since(begun) != time.Duration(n+1)*15*time.Second {
				t.Errorf("after %v: %q", time.Since(begun), block)
			}
		}
	})
}

func TestAStreamEnds(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"when its key is revoked":      func(w *world) { w.must(w.keyring.Revoke(w.t.Context(), w.ids[vera])) },
		"when the document is deleted": func(w *world) { w.ok(alpha, "DELETE", "/documents/paper", "") },
		"when the document is blocked": func(w *world) { w.ok(root, "PUT", "/documents/paper/block", `{}`) },
		"when the server stops":        func(w *world) { w.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.document("paper")
				r := w.stream(t.Context(), request{as: vera, path: "/documents/paper/events/stream?since=3"})
				defer r.close()
				begun := time.Now()
				end(w)
				for block := r.block(); block != ""; block = r.block() {
					if !strings.HasPrefix(block, "id: 4\nevent: document.") {
						t.Errorf("the stream says %q", block)
					}
				}
				if took := time.Since(begun); took > time.Second {
					t.Errorf("the stream ended after %v", took)
				}
				synctest.Wait()
				if open := w.server.streams.count(); open != 0 {
					t.Errorf("%d streams are open", open)
				}
			})
		})
	}
}

func TestAStuckReaderIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		r := w.stream(t.Context(), request{as: vera, path: "/documents/paper/events/stream?since=3"})
		defer r.close()
		payload := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 60<<10))
		w.ok(alpha, "POST", "/documents/paper/events", payload)
		w.ok(alpha, "POST", "/documents/paper/events", payload)
		synctest.Wait()
		if open := w.server.streams.count(); open != 1 {
			t.Fatalf("%d streams are open", open)
		}
		time.Sleep(writeTimeout + heartbeat)
		synctest.Wait()
		if open := w.server.streams.count(); open != 0 {
			t.Error("the stream is still open")
		}
	})
}

func TestStreamsOfAKeyAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		const path = "/documents/paper/events/stream"
		var open []*reader
		for range w.server.opts.Streams {
			open = append(open, w.stream(t.Context(), request{as: vera, path: path}))
		}
		a := w.do(request{as: vera, method: "GET", path: path})
		if a.status != 429 || a.str("error") != "TOO_MANY_SOCKETS" || a.body["limit"] != 64.0 || a.header.Get("Retry-After") == "" {
			t.Errorf("one more: %v", a)
		}
		w.stream(t.Context(), request{as: alpha, path: path}).close()
		if a := w.do(request{as: alpha, method: "HEAD", path: path}); a.status != 200 || a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %v", a)
		}
		open[0].close()
		synctest.Wait()
		w.stream(t.Context(), request{as: vera, path: path}).close()
		for _, r := range open[1:] {
			r.close()
		}
	})
}

// Whatever the moments at which a reader is cut off, what it read in the end is the log: no gap, no repeat.
func TestACutStreamIsResumedExactly(t *testing.T) {
	w := onTCP(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		slug := fmt.Sprintf("paper-%d", runs)
		id, err := crdt.ParseDocumentID(w.ok(alpha, "POST", "/documents", fmt.Sprintf(`{"slug":%q}`, slug)).str("documentId"))
		w.must(err)
		messages := rapid.IntRange(1, 40).Draw(rt, "messages")
		cuts := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 8).Draw(rt, "events read before each cut")
		total := 1 + messages
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := range messages {
				if _, err := w.library.Post(t.Context(), doc.Key{Agent: alpha, Role: doc.Editor, Pattern: "*"}, id, fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
					t.Error(err)
				}
			}
		})
		var read []frame
		for connection := 0; len(read) < total; connection++ {
			rq := request{as: vera, path: "/documents/" + slug + "/events/stream"}
			if len(read) > 0 {
				last := read[len(read)-1].id
				if connection%2 == 0 {
					rq.path += "?since=" + last
				} else {
					rq.path += "?since=0" // the header wins
					rq.header = http.Header{"Last-Event-Id": {last}}
				}
			}
			want := total - len(read)
			if connection < len(cuts) {
				want = min(want, cuts[connection])
			}
			ctx, cut := context.WithCancel(t.Context())
			r := w.stream(ctx, rq)
			for range want {
				read = append(read, r.next())
			}
			cut()
			r.close()
		}
		wg.Wait()
		for i, f := range read {
			if f.data.Seq != doc.Seq(i+1) {
				rt.Fatalf("event %d that was read is %s", i+1, f.id)
			}
		}
		page := w.ok(vera, "GET", "/documents/"+slug+"/events?limit=1000", "")
		if got := len(page.body["events"].([]any)); got != total {
			rt.Fatalf("the log has %d events, %d were read", got, total)
		}
	})
}
