package agentsocket

import (
	"context"
	"encoding/json"
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

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/doc/storetest"
	"cowrite/lease"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
	"cowrite/sync/line/linetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server in memory: real HTTP and WebSocket over pipes before a real library, keeper and keyring, on the
// store of the contract's twin. It lives in a synctest bubble.
type world struct {
	*testing.T
	store   *storetest.Crowded
	library *doc.Library
	keeper  *lease.Keeper
	hub     *hub.Hub
	lines   *linetest.Network
	keys    map[string]doc.Key
	secrets map[string]doc.Secret
}

const slug = "notes"

const firstText = "# Notes\n\nIt is a truth.\n"

// inWorld runs a story in a world of its own, with one document of two sections, and ends both.
func inWorld(t *testing.T, limits hub.Limits, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { withWorld(t, limits, story) })
}

func withWorld(t *testing.T, limits hub.Limits, story func(w *world)) {
	ctx := context.Background()
	w := &world{T: t, lines: linetest.New(), keys: map[string]doc.Key{}, secrets: map[string]doc.Secret{}}
	w.store = &storetest.Crowded{Store: storetest.NewMemory()}
	losses := new(Losses)
	idempotency := doc.NewIdempotency(w.store, nil)
	var err error
	w.keeper, err = lease.Open(ctx, idempotency.LeaseStore(nil), lease.Options{Observe: losses.Observe})
	w.must(err)
	eng := engine.New(engine.Options{})
	w.library, err = doc.Open(doc.Options{Store: w.store, Engine: eng, Leases: w.keeper, Now: w.keeper.Now})
	w.must(err)
	keyring := doc.OpenKeyring(w.store, nil, nil)
	for name, role := range map[string]doc.Role{"alice": doc.Editor, "bob": doc.Editor, "carol": doc.Editor, "vera": doc.Viewer} {
		w.keys[name], w.secrets[name], err = keyring.Create(ctx, doc.Key{Agent: doc.Agent(name), Role: role, Pattern: "*"})
		w.must(err)
	}
	w.hub = hub.New(hub.Options{Documents: hub.Library(w.library), Limits: limits})
	handler := Handler(Options{
		Hub: w.hub, Library: w.library, Idempotency: idempotency, Losses: losses,
		Authenticate: func(r *http.Request) (doc.Key, error) {
			return keyring.Authenticate(r.Context(), doc.Secret(r.URL.Query().Get("token")))
		},
	})
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(w.lines) })
	defer func() {
		w.must(w.hub.Close(ctx))
		_ = server.Close()
		serving.Wait()
		if left := w.hub.Sockets(); len(left) > 0 {
			t.Errorf("sockets are left: %+v", left)
		}
		w.must(w.library.Close(ctx))
		w.must(w.keeper.Close())
		w.must(eng.Close())
		w.must(w.store.Close())
	}()
	_, err = w.library.Create(ctx, w.keys["alice"], doc.NewDocument{Slug: slug, Markdown: ""})
	w.must(err)
	w.section("a", firstText)
	w.section("b", "## More\n\nEnd.\n")
	story(w)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) id() crdt.DocumentID {
	w.Helper()
	meta, err := w.library.Find(context.Background(), w.keys["alice"], slug)
	w.must(err)
	return meta.ID
}

func (w *world) section(sid doc.SectionID, text string) {
	w.Helper()
	_, err := w.library.AddSection(context.Background(), w.keys["alice"], w.id(), sid, "", text)
	w.must(err)
}

// read is the document as every door shows it.
func (w *world) read() doc.Snapshot {
	w.Helper()
	snap, err := w.library.Read(context.Background(), w.keys["alice"], w.id())
	w.must(err)
	return snap
}

// client is a peer that reads all the time.
type client struct {
	w      *world
	name   string
	ws     *websocket.Conn
	frames chan received
	end    error // why reading ended; set before frames is closed
}

// received is a frame and its bytes.
type received struct {
	frame agent.Frame
	raw   []byte
}

// open connects with a key. What the server says first is still to be read.
func (w *world) open(token string, subprotocols ...string) *client {
	w.Helper()
	transport := &http.Transport{DialContext: w.lines.Dial}
	ws, _, err := websocket.Dial(context.Background(), "ws://cowrite/api/v1/agent?token="+token, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: subprotocols,
	})
	w.must(err)
	ws.SetReadLimit(-1)
	c := &client{w: w, name: token, ws: ws, frames: make(chan received, 10_000)}
	go func() {
		defer close(c.frames)
		defer ws.CloseNow() //nolint:errcheck // closing twice is no error here
		for {
			_, b, err := ws.Read(context.Background())
			if err != nil {
				c.end = err
				return
			}
			frame, err := agent.DecodeAnswer(b)
			if err != nil {
				c.end = err
				return
			}
			c.frames <- received{frame, b}
		}
	}()
	return c
}

// raw upgrades a bare line with an agent's key, for a peer that takes no part in what a client does by itself. What the server
// says first is still to be read.
func (w *world) raw(name string) net.Conn {
	w.Helper()
	conn, err := w.lines.Dial(context.Background(), "", "")
	w.must(err)
	r := httptest.NewRequest(http.MethodGet, "/?token="+string(w.secrets[name]), nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
	w.must(r.Write(conn))
	_, err = conn.Read(make([]byte, 4096)) // the upgrade, and nothing after it
	w.must(err)
	return conn
}

// sendRaw writes a text of less than 126 bytes as a client does, masked with zeros.
func (w *world) sendRaw(conn net.Conn, text string) {
	w.Helper()
	_, err := conn.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))
	w.must(err)
}

// join connects an agent and takes in its welcome.
func (w *world) join(name string) *client {
	w.Helper()
	c := w.open(string(w.secrets[name]), agent.Subprotocol)
	c.name = name
	if hello := want[*agent.Welcome](c); hello.Agent != doc.Agent(name) || hello.Protocol != agent.Subprotocol {
		w.Fatalf("%s was welcomed with %+v", name, hello)
	}
	return c
}

func (c *client) send(f agent.Frame) {
	c.w.Helper()
	b, err := agent.Encode(f)
	c.w.must(err)
	c.sendText(string(b))
}

func (c *client) sendText(text string) {
	c.w.Helper()
	if err := c.ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		c.w.Fatalf("%s cannot send: %v", c.name, err)
	}
}

// next waits for a frame.
func (c *client) next() received {
	c.w.Helper()
	select {
	case r, ok := <-c.frames:
		if !ok {
			c.w.Fatalf("%s was closed: %v", c.name, c.end)
		}
		return r
	case <-time.After(time.Hour):
		c.w.Fatalf("%s waits for ever", c.name)
	}
	return received{}
}

// want waits for a frame of a kind, which must be the next one.
func want[F agent.Frame](c *client) F {
	c.w.Helper()
	r := c.next()
	f, ok := r.frame.(F)
	if !ok {
		c.w.Fatalf("%s got %s, want a %T", c.name, r.raw, f)
	}
	return f
}

// await waits for a frame of a kind, whatever comes before.
func await[F agent.Frame](c *client) F {
	c.w.Helper()
	for {
		if f, ok := c.next().frame.(F); ok {
			return f
		}
	}
}

// wantError waits for a refusal.
func (c *client) wantError(id agent.RequestID, expected code.Code) *agent.Error {
	c.w.Helper()
	e := await[*agent.Error](c)
	if e.ID != id || e.Code != expected {
		c.w.Fatalf("%s got %s %q of request %q, want %s of %q", c.name, e.Code, e.Message, e.ID, expected, id)
	}
	return e
}

// wantQuiet lets everyone do what there is to do and checks that nothing came of it.
func (c *client) wantQuiet() {
	c.w.Helper()
	synctest.Wait()
	select {
	case r, ok := <-c.frames:
		if !ok {
			c.w.Fatalf("%s was closed: %v", c.name, c.end)
		}
		c.w.Fatalf("%s got %s, want nothing", c.name, r.raw)
	default:
	}
}

// wantClose waits for the end, which must be announced by an error frame of the same code.
func (c *client) wantClose(want code.Code) {
	c.w.Helper()
	var last received
	for r := range c.frames {
		last = r
	}
	if got := int(websocket.CloseStatus(c.end)); got != code.Table[want].Close {
		c.w.Errorf("%s was closed with %d (%v), want %d", c.name, got, c.end, code.Table[want].Close)
	}
	if e, ok := last.frame.(*agent.Error); !ok || e.Code != want {
		c.w.Errorf("the last frame of %s is %s, want an error of %s", c.name, last.raw, want)
	}
}

// leave closes from the client's side.
func (c *client) leave() {
	c.w.Helper()
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	for range c.frames {
	}
}

// openDocument opens the document and returns the mirror that begins there.
func (c *client) openDocument(o agent.Open) (*agent.Opened, *agent.Mirror) {
	c.w.Helper()
	o.Document = slug
	c.send(&o)
	opened := await[*agent.Opened](c)
	m := new(agent.Mirror)
	m.Version = o.Version
	m.Begin(opened)
	return opened, m
}

// wantSame checks that a mirror is what every reader gets.
func (w *world) wantSame(m *agent.Mirror) {
	w.Helper()
	snap := w.read()
	if m.Version != snap.Version || m.Markdown() != snap.Markdown() || m.Title != snap.Meta.Title || len(m.Removed()) != len(snap.Removed) {
		w.Fatalf("the mirror at %s has %q (title %q, %d removed), the document at %s %q (%q, %d)",
			m.Version, m.Markdown(), m.Title, len(m.Removed()), snap.Version, snap.Markdown(), snap.Meta.Title, len(snap.Removed))
	}
	for _, s := range m.Sections() {
		for _, is := range snap.Sections {
			if string(is.ID) == string(s.ID) && (is.Heading != s.Heading || is.Level != s.Level || is.Position != s.Position) {
				w.Fatalf("the mirror has section %+v, the document %+v", s, is)
			}
		}
	}
}

// follow applies what arrives until the mirror is at the document's version.
func (c *client) follow(m *agent.Mirror) {
	c.w.Helper()
	for target := c.w.read().Version; m.Version != target; {
		c.w.must(m.Apply(await[*agent.Changed](c)))
	}
	c.w.wantSame(m)
}

func text(s string) *string { return &s }

func jsonOf(v any) string {
	b, _ := json.Marshal(v) //nolint:errchkjson // of test values
	return strings.TrimSpace(string(b))
}
