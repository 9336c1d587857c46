package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/goleak"

	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/sqlite"
	"cowrite/doc/storetest"
	"cowrite/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server over real parts: an SQLite store on disk, the Automerge engine, library, keeper and keyring.
type world struct {
	t       *testing.T
	server  *Server
	library *doc.Library
	keyring *doc.Keyring
	keeper  *lease.Keeper
	store   *faultyStore
	crowd   *storetest.Crowded // the library's
	url     string
	dial    func(context.Context) (net.Conn, error) // a connection to speak HTTP by hand on
	client  *http.Client
	secrets map[string]doc.Secret
	ids     map[string]doc.KeyID
	log     *syncBuffer
	stop    context.CancelFunc // tells the server that it is about to end
	ends    []func()
}

// The callers that every world knows.
const (
	root   = "root"   // admin
	alpha  = "alpha"  // editor
	beta   = "beta"   // editor
	vera   = "vera"   // viewer
	tom    = "tom"    // editor of team-*
	warden = "warden" // admin of team-*
	nobody = ""       // no key
)

// inBubble runs a test on a world in a bubble of its own time, with connections in memory.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		defer w.close()
		w.serve(newPipes())
		test(t, w)
	})
}

// onTCP is a world with real connections and real time.
func onTCP(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, t.TempDir())
	t.Cleanup(w.close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.serve(tcp{listener})
	return w
}

func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, secrets: map[string]doc.Secret{}, ids: map[string]doc.KeyID{}, log: new(syncBuffer)}
	ctx := context.Background()
	store, err := sqlite.Open(ctx, dir, sqlite.Options{})
	w.must(err)
	w.onClose(store.Close)
	w.store, w.crowd = &faultyStore{Store: store}, &storetest.Crowded{Store: store}
	idempotency := doc.NewIdempotency(w.store, nil)
	w.keeper, err = lease.Open(ctx, idempotency.LeaseStore(nil), lease.Options{})
	w.must(err)
	w.onClose(w.keeper.Close)
	eng := engine.New(engine.Options{})
	w.onClose(eng.Close)
	w.library, err = doc.Open(doc.Options{Store: w.crowd, Engine: eng, Leases: w.keeper})
	w.must(err)
	w.onClose(func() error { return w.library.Close(ctx) })
	w.keyring = doc.OpenKeyring(store, nil, nil)
	for _, k := range []doc.Key{
		{Agent: root, Role: doc.Admin, Pattern: "*"}, {Agent: alpha, Role: doc.Editor, Pattern: "*"},
		{Agent: beta, Role: doc.Editor, Pattern: "*"}, {Agent: vera, Role: doc.Viewer, Pattern: "*"},
		{Agent: tom, Role: doc.Editor, Pattern: "team-*"}, {Agent: warden, Role: doc.Admin, Pattern: "team-*"},
	} {
		w.addKey(string(k.Agent), k)
	}
	stopped, stop := context.WithCancel(ctx)
	w.stop = stop
	w.server = New(Options{
		Library: w.library, Keyring: w.keyring, Idempotency: idempotency, Stop: stopped,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		w.keyring.Run(stopped, w.server.KeyEnded, func(doc.Agent) {}, func(err error) {
			if stopped.Err() == nil {
				t.Error(err)
			}
		})
	})
	w.onClose(func() error { stop(); wg.Wait(); return nil })
	return w
}

func (w *world) addKey(name string, k doc.Key) {
	w.t.Helper()
	k, secret, err := w.keyring.Create(context.Background(), k)
	w.must(err)
	w.secrets[name], w.ids[name] = secret, k.ID
}

func (w *world) serve(lines interface {
	net.Listener
	dial(ctx context.Context) (net.Conn, error)
}) {
	var wg sync.WaitGroup
	server := &http.Server{
		Handler:  http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.server.ServeHTTP(rw, r) }),
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(w.log, nil), slog.LevelError),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				wg.Add(1)
			case http.StateClosed, http.StateHijacked:
				wg.Done()
			}
		},
	}
	wg.Go(func() { _ = server.Serve(lines) }) // ends with Close
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return lines.dial(ctx) },
		MaxIdleConnsPerHost: 64,
	}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.url, w.dial = "http://cowrite.test", lines.dial
	w.onClose(func() error {
		transport.CloseIdleConnections()
		err := server.Close()
		wg.Wait()
		return err
	})
}

func (w *world) onClose(end func() error) {
	w.ends = append(w.ends, func() { w.must(end()) })
}

func (w *world) close() {
	w.stop()
	for i := len(w.ends) - 1; i >= 0; i-- {
		w.ends[i]()
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// request is one HTTP request of a test.
type request struct {
	as     string // whose key
	method string
	path   string // behind Prefix, unless it begins with "//"
	body   string // JSON
	header http.Header
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any // of JSON
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.raw) }

// str gives a string in the body.
func (a answer) str(name string) string {
	s, _ := a.body[name].(string)
	return s
}

func (w *world) newRequest(ctx context.Context, rq request) *http.Request {
	w.t.Helper()
	path, ok := strings.CutPrefix(rq.path, "//")
	if ok {
		path = "/" + path
	} else {
		path = Prefix + rq.path
	}
	r, err := http.NewRequestWithContext(ctx, rq.method, w.url+path, strings.NewReader(rq.body))
	w.must(err)
	if rq.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if rq.as != nobody {
		r.Header.Set("Authorization", "Bearer "+string(w.secrets[rq.as]))
	}
	for name, values := range rq.header {
		r.Header[name] = values
	}
	return r
}

// do sends a request, and checks its answer against what the API's description says.
func (w *world) do(rq request) answer {
	w.t.Helper()
	r := w.newRequest(context.Background(), rq)
	resp, err := w.client.Do(r)
	w.must(err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	w.must(err)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: raw}
	if resp.Header.Get("Content-Type") == "application/json" && resp.StatusCode != http.StatusNotModified {
		w.must(json.Unmarshal(raw, &a.body))
	}
	if id := resp.Header.Get("X-Request-Id"); id == "" {
		w.t.Errorf("%s %s has no request id", rq.method, rq.path)
	}
	w.described(r, a)
	return a
}

// described checks that the answer is one that the description of the operation tells of.
func (w *world) described(r *http.Request, a answer) {
	w.t.Helper()
	_, pattern := w.server.mux.Handler(httptest.NewRequest(r.Method, r.URL.EscapedPath(), nil))
	method, path, _ := strings.Cut(pattern, " ")
	item := w.server.api.OpenAPI().Paths[strings.TrimPrefix(path, Prefix)]
	if item == nil || !isClean(r.URL) {
		return
	}
	op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "PATCH": item.Patch, "DELETE": item.Delete}[method]
	response := op.Responses[strconv.Itoa(a.status)]
	if response == nil {
		w.t.Errorf("%s: the answer %v is not described", pattern, a)
		return
	}
	if a.status == http.StatusNotModified {
		return
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content := response.Content[media]
	if content == nil {
		w.t.Errorf("%s: the answer %v is described without %s", pattern, a, media)
		return
	}
	if media != jsonType {
		return
	}
	var result huma.ValidateResult
	huma.Validate(w.server.api.OpenAPI().Components.Schemas, content.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, any(a.body), &result)
	for _, err := range result.Errors {
		w.t.Errorf("%s: the answer %v is not as described: %v", pattern, a, err)
	}
	if code := a.str("error"); code != "" && !strings.Contains(", "+response.Description+", ", ", "+code+", ") {
		w.t.Errorf("%s: %d %s is not described", pattern, a.status, code)
	}
}

// ok sends a request that has to succeed.
func (w *world) ok(as, method, path, body string) answer {
	w.t.Helper()
	a := w.do(request{as: as, method: method, path: path, body: body})
	if a.status/100 != 2 {
		w.t.Fatalf("%s %s by %q: %v", method, path, as, a)
	}
	return a
}

// document makes a document with the sections intro and plan.
func (w *world) document(slug string) answer {
	w.t.Helper()
	w.ok(alpha, "POST", "/documents", fmt.Sprintf(`{"slug":%q,"title":"Paper"}`, slug))
	w.ok(alpha, "POST", "/documents/"+slug+"/sections", `{"id":"intro","text":"# Intro\nhello\n"}`)
	w.ok(alpha, "POST", "/documents/"+slug+"/sections", `{"id":"plan","text":"## Plan\nsteps\n"}`)
	return w.ok(alpha, "GET", "/documents/"+slug, "")
}

// pipes is a listener whose connections are in memory, so that a bubble's time governs them.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

type tcp struct{ net.Listener }

func (l tcp) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", l.Addr().String())
}

// syncBuffer collects the log.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// until is a moment in the future of the bubble.
func until(d time.Duration) string { return doc.FormatTime(time.Now().Add(d)) }
