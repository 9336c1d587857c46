package client_test

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/storetest"
	"cowrite/lease"
	"cowrite/sync/agent"
	"cowrite/sync/agentsocket"
	"cowrite/sync/client"
	"cowrite/sync/hub"
	"cowrite/sync/line/linetest"
	"cowrite/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a whole server in this process, on a free port.
type server struct {
	url     string
	library *doc.Library
	keeper  *lease.Keeper
	keyring *doc.Keyring
	hub     *hub.Hub
	close   func()
}

// start starts a server. Whatever fails here panics: examples have no test to fail.
func start() *server {
	ctx := context.Background()
	s := &server{}
	store := storetest.NewMemory()
	losses := new(agentsocket.Losses)
	idempotency := doc.NewIdempotency(store, nil)
	var err error
	s.keeper, err = lease.Open(ctx, idempotency.LeaseStore(nil), lease.Options{Observe: losses.Observe})
	must(err)
	eng := engine.New(engine.Options{})
	s.library, err = doc.Open(doc.Options{Store: store, Engine: eng, Leases: s.keeper, Now: s.keeper.Now})
	must(err)
	s.keyring = doc.OpenKeyring(store, nil, nil)
	s.hub = hub.New(hub.Options{Documents: hub.Library(s.library)})
	authenticate := web.Authenticate(s.keyring)
	site := httptest.NewServer(web.New(web.Options{
		Library: s.library, Keyring: s.keyring, Idempotency: idempotency,
		Agent: agentsocket.Handler(agentsocket.Options{
			Hub: s.hub, Library: s.library, Idempotency: idempotency, Losses: losses, Authenticate: authenticate,
		}),
	}))
	s.url = site.URL
	s.close = func() {
		must(s.hub.Close(ctx))
		site.Close()
		must(s.library.Close(ctx))
		must(s.keeper.Close())
		must(eng.Close())
		must(store.Close())
	}
	return s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// key makes a key for an agent.
func (s *server) key(name string) string {
	_, secret, err := s.keyring.Create(context.Background(), doc.Key{Agent: doc.Agent(name), Role: doc.Editor, Pattern: "*"})
	must(err)
	return string(secret)
}

// document makes a document.
func (s *server) document(slug, markdown string) {
	c := s.connect("author")
	defer c.Close()
	_, err := c.CreateDocument(context.Background(), client.NewDocument{Slug: slug, Markdown: markdown})
	must(err)
}

// connect connects an agent.
func (s *server) connect(name string) *client.Client {
	c, err := client.Connect(context.Background(), client.Options{URL: s.url, Key: s.key(name), HTTP: fresh()})
	must(err)
	return c
}

// fresh is an HTTP client that keeps no idle connections, so that nothing of it is left at the end of a test.
func fresh() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// cuttable is an HTTP client whose lines a test can cut.
type cuttable struct {
	*http.Client
	mu    sync.Mutex
	lines []net.Conn
	down  bool   // new ones are refused
	moved string // where new ones lead instead; "": where they are asked to
}

func newCuttable() *cuttable {
	c := &cuttable{}
	var dialer net.Dialer
	c.Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c.mu.Lock()
		down := c.down
		address = cmp.Or(c.moved, address)
		c.mu.Unlock()
		if down {
			return nil, net.ErrClosed
		}
		line, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			c.mu.Lock()
			c.lines = append(c.lines, line)
			c.mu.Unlock()
		}
		return line, err
	}}}
	return c
}

// move has the lines lead to another server from now on.
func (c *cuttable) move(to *server) {
	c.mu.Lock()
	c.moved = strings.TrimPrefix(to.url, "http://")
	c.mu.Unlock()
	c.cut(false)
}

// cut ends all lines; down says whether new ones are refused from now on.
func (c *cuttable) cut(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
	for _, line := range c.lines {
		_ = line.Close()
	}
	c.lines = nil
}

// scripted is a server of agent sockets over lines in memory, for a test in a time of its own: what is done on a socket after its
// welcome the script says. It gives the options of a client, and what ends the server.
func scripted(script func(ws *websocket.Conn, say func(agent.Frame))) (opts client.Options, end func()) {
	network := linetest.New()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{agent.Subprotocol}})
		if err != nil {
			return
		}
		defer ws.CloseNow() //nolint:errcheck // it has ended
		say := func(f agent.Frame) {
			b, err := agent.Encode(f)
			must(err)
			_ = ws.Write(context.Background(), websocket.MessageText, b) // the client may have left
		}
		say(&agent.Welcome{Protocol: agent.Subprotocol, Agent: "alice", Role: "editor"})
		script(ws, say)
	})}
	go func() { _ = server.Serve(network) }() // ends with Close
	transport := &http.Transport{DisableKeepAlives: true, DialContext: network.Dial}
	return client.Options{URL: "http://server", Key: "cw_key", HTTP: &http.Client{Transport: transport}}, func() {
		must(server.Close())
		synctest.Wait()
	}
}

// atOnce is for clients whose lines break again and again: they come back without a pause.
func atOnce(time.Duration) <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}

// soon is the patience of a test: nothing in it takes so long.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
