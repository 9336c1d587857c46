package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
)

const (
	// readTimeout is how long the body of a request may take to arrive.
	readTimeout = time.Minute
	// writeTimeout is how long what is written at once of an answer or a stream may take to be read.
	writeTimeout = 30 * time.Second
	// What a refused request still brings is read for so long and so far.
	drainTimeout = 5 * time.Second
	drainBytes   = 16 << 20
)

// call is what is known of the request that is being answered.
type call struct {
	id      string // in X-Request-Id and in the log
	request *http.Request
	key     doc.Key // the caller's; zero where the route is open
}

// door is what the log says of where a write came in.
func (c *call) door() string {
	if c.request != nil && c.request.URL.Path == MCPPath {
		return "mcp"
	}
	return "rest"
}

type callKey struct{}

// callOf gives the call that the context belongs to.
func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return &call{}
	}
	return c
}

// keyOf is the caller's key.
func keyOf(ctx context.Context) doc.Key { return callOf(ctx).key }

// ServeHTTP answers a request: what surrounds every handler is here.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.now()
	c := &call{id: rand.Text()[:16]}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	c.request = r
	out := &response{ResponseWriter: w, control: http.NewResponseController(w)}
	// What was written last on this connection left its deadline behind.
	_ = out.control.SetWriteDeadline(time.Time{})
	body := &timedBody{body: r.Body, control: out.control}
	if r.Body != nil {
		r.Body = body
	}

	header := w.Header()
	header.Set("X-Request-Id", c.id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")

	defer func() {
		if p := recover(); p != nil {
			s.recovered(out, r, p)
		}
		if out.status >= http.StatusBadRequest && r.Body != nil {
			body.drain(r.Header.Get("Expect") != "")
		}
		elapsed := s.now().Sub(start)
		s.metrics.observe(r, out.status, elapsed)
		s.log.LogAttrs(r.Context(), slog.LevelDebug, "request",
			slog.String("request", c.id), slog.String("method", r.Method), slog.String("url", redacted(r.URL)),
			slog.Int("status", out.status), slog.Duration("elapsed", elapsed), slog.String("agent", string(c.key.Agent)))
	}()

	if strings.HasPrefix(r.URL.Path, anyAPI) || r.URL.Path == MCPPath {
		allowOrigins(header)
		header.Set("Cache-Control", "private, no-cache")
		if r.Method == http.MethodOptions {
			preflight(out)
			return
		}
	}
	if !isClean(r.URL) {
		s.refuse(out, r, code.New(code.NotFound, "a path has no empty segments, . or .."))
		return
	}
	if bringsSaved(r) {
		s.importDocument(s.tellLost(out, r), r)
		return
	}
	s.mux.ServeHTTP(s.tellLost(out, r), r)
}

// recovered ends a request whose handler panicked.
func (s *Server) recovered(out *response, r *http.Request, p any) {
	err, _ := p.(error)
	switch {
	case errors.Is(err, http.ErrAbortHandler):
		panic(p)
	case errors.Is(err, os.ErrDeadlineExceeded): // huma panics when an answer cannot be written
		s.log.DebugContext(r.Context(), "answer not read", "request", callOf(r.Context()).id, "err", err)
		panic(http.ErrAbortHandler)
	}
	failure := fmt.Errorf("handler panicked: %v\n%s", p, debug.Stack())
	if out.status != 0 {
		s.log.ErrorContext(r.Context(), "request failed", "request", callOf(r.Context()).id, "err", failure)
		panic(http.ErrAbortHandler)
	}
	s.refuse(out, r, failure)
}

// isClean says whether the path is one that the mux would not rewrite. Its redirect would be no answer
// for a program, and the path that it leads to need not be the one that was meant.
func isClean(u *url.URL) bool {
	p := u.EscapedPath()
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// allowOrigins lets pages of other origins call the API with a key. Without credentials: the cookie is
// for the own page alone.
func allowOrigins(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Cowrite-Lease-Lost, ETag, Location, Retry-After, X-Request-Id")
}

func preflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

// redacted is the address for the log: without the token.
func redacted(u *url.URL) string {
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	query := u.Query()
	if query.Has(tokenParameter) {
		query.Set(tokenParameter, "redacted")
	}
	return u.EscapedPath() + "?" + query.Encode()
}

// response notes the status, and gives a reader that is stuck a limited time.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
}

func (w *response) WriteHeader(status int) {
	if w.status != 0 { // huma tries again where an answer could not be written
		return
	}
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	// Not every connection has deadlines: those of some tests have none, and are never stuck.
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController, and with it a WebSocket, reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// timedBody limits how long a body may take to arrive, and lifts the limit once it is there: a deadline
// left behind would end a long poll.
type timedBody struct {
	body    io.Reader
	control *http.ResponseController
	started bool
	ended   bool // there is no more to read, or no way to
}

// drain reads on before the answer is sent: a connection that is closed with something unread in it is reset, and who is still
// sending may never see why. One that waits to be asked for its body (Expect) and was not, does not send it.
func (b *timedBody) drain(expects bool) {
	if b.ended || expects && !b.started {
		return
	}
	b.started = true
	_ = b.control.SetReadDeadline(time.Now().Add(drainTimeout))
	_, _ = io.CopyN(io.Discard, b, drainBytes)
}

// Close leaves the body to drain; the server closes its own.
func (b *timedBody) Close() error { return nil }

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.started {
		b.started = true
		_ = b.control.SetReadDeadline(time.Now().Add(readTimeout))
	}
	n, err := b.body.Read(p)
	b.ended = err != nil
	if err == io.EOF { // after any other error the rest of the body is read to be thrown away, in what time is left
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
