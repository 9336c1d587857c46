package socket

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/line/linetest"
	"cowrite/sync/repo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server in memory, with real HTTP and WebSocket over pipes, before documents that are a fake. It
// lives in a synctest bubble: its clock stands still while anyone has something to do.
type world struct {
	*testing.T
	docs  *library
	hub   *hub.Hub
	lines *linetest.Network

	mu      sync.Mutex
	dropped []string
	closed  []code.Code
}

// inWorld runs a story in a world of its own and ends both.
func inWorld(t *testing.T, limits hub.Limits, story func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, docs: newLibrary(), lines: linetest.New()}
		w.hub = hub.New(hub.Options{Documents: w.docs, Limits: limits, Metrics: hub.Metrics{
			Dropped: func(what string) { w.mu.Lock(); w.dropped = append(w.dropped, what); w.mu.Unlock() },
			Closed:  func(why code.Code) { w.mu.Lock(); w.closed = append(w.closed, why); w.mu.Unlock() },
		}})
		w.docs.appeared = w.hub.Appeared
		server := &http.Server{Handler: Handler(w.hub, authenticate)}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(w.lines) })
		story(w)
		if err := w.hub.Close(t.Context()); err != nil {
			t.Errorf("close hub: %v", err)
		}
		_ = server.Close()
		serving.Wait()
		if left := w.hub.Sockets(); len(left) > 0 {
			t.Errorf("sockets are left: %+v", left)
		}
		if n := w.docs.attached(); n > 0 {
			t.Errorf("%d replicas are still attached", n)
		}
	})
}

// authenticate takes the query's token for the id of the key and the name of its agent. The keys "nobody" and
// "broken" are refused.
func authenticate(r *http.Request) (doc.Key, error) {
	switch token := r.URL.Query().Get("token"); token {
	case "", "nobody":
		return doc.Key{}, code.New(code.Unauthorized, "a key is needed")
	case "broken":
		return doc.Key{}, errors.New("the store is on fire")
	case "viewer":
		return doc.Key{ID: "viewer", Agent: "viewer", Role: doc.Viewer, Pattern: "*"}, nil
	default:
		return doc.Key{ID: doc.KeyID(token), Agent: doc.Agent(token), Role: doc.Editor, Pattern: "*"}, nil
	}
}

// docID names a document by a word.
func docID(word string) crdt.DocumentID {
	sum := sha256.Sum256([]byte(word))
	return crdt.DocumentID(sum[:16])
}

func name(word string) repo.DocumentName { return repo.NameOf(docID(word)) }

// content is a sync message of the fake's: it looks like one that brings something.
func content(text string) []byte { return append([]byte{0x42, 1}, text...) }

// asking is one that brings nothing.
func asking(text string) []byte { return append([]byte{0x42, 0}, text...) }

// client is a peer that reads all the time.
type client struct {
	w      *world
	peer   repo.PeerID
	ws     *websocket.Conn
	frames chan repo.Frame
	done   chan struct{} // closed with frames
	end    error         // why reading ended; set before frames is closed
}

// open connects without joining.
func (w *world) open(token string) *client {
	w.Helper()
	transport := &http.Transport{DialContext: w.lines.Dial}
	ws, _, err := websocket.Dial(w.Context(), "ws://cowrite/api/v1/sync?token="+token, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		w.Fatal(err)
	}
	ws.SetReadLimit(-1)
	c := &client{w: w, ws: ws, frames: make(chan repo.Frame, 10_000), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer close(c.frames)
		defer ws.CloseNow() //nolint:errcheck // closing twice is no error here
		for {
			_, b, err := ws.Read(context.Background())
			if err != nil {
				c.end = err
				return
			}
			frame, err := repo.Decode(b)
			if err != nil {
				c.end = err
				return
			}
			c.frames <- frame
		}
	}()
	return c
}

// join connects as a peer.
func (w *world) join(token string, peer repo.PeerID) *client {
	w.Helper()
	c := w.open(token)
	c.peer = peer
	c.send(repo.Join{SenderID: peer, Versions: []string{"1"}})
	if greeting, ok := c.next().(repo.Peer); !ok || greeting.TargetID != peer || greeting.Version != "1" {
		w.Fatalf("%s was greeted with %#v", peer, greeting)
	}
	return c
}

func (c *client) send(frame repo.Frame) {
	c.w.Helper()
	b, err := repo.Encode(frame)
	if err != nil {
		c.w.Fatal(err)
	}
	c.sendBytes(b)
}

func (c *client) sendBytes(b []byte) {
	c.w.Helper()
	if err := c.ws.Write(c.w.Context(), websocket.MessageBinary, b); err != nil {
		c.w.Fatalf("%s cannot send: %v", c.peer, err)
	}
}

func (c *client) sync(word string, message []byte) {
	c.w.Helper()
	c.send(repo.Sync{SenderID: c.peer, TargetID: "server", Document: name(word), Data: message})
}

func (c *client) request(word string) {
	c.w.Helper()
	c.send(repo.Request{SenderID: c.peer, TargetID: "server", Document: name(word), Data: asking("please")})
}

// next waits for a frame.
func (c *client) next() repo.Frame {
	c.w.Helper()
	select {
	case frame, ok := <-c.frames:
		if !ok {
			c.w.Fatalf("%s was closed: %v", c.peer, c.end)
		}
		return frame
	case <-time.After(5 * time.Minute):
		c.w.Fatalf("%s waits for ever", c.peer)
	}
	return nil
}

// wantSync waits for a sync message of a document.
func (c *client) wantSync(word, text string) {
	c.w.Helper()
	frame := c.next()
	got, ok := frame.(repo.Sync)
	if !ok || got.Document != name(word) || got.TargetID != c.peer || string(got.Data) != text {
		c.w.Fatalf("%s got %#v, want %q of %s", c.peer, frame, text, word)
	}
}

func (c *client) wantUnavailable(word string) {
	c.w.Helper()
	frame := c.next()
	got, ok := frame.(repo.Unavailable)
	if !ok || got.Document != name(word) || got.TargetID != c.peer {
		c.w.Fatalf("%s got %#v, want doc-unavailable of %s", c.peer, frame, word)
	}
}

// wantQuiet lets everyone do what there is to do and checks that nothing came of it.
func (c *client) wantQuiet() {
	c.w.Helper()
	synctest.Wait()
	select {
	case frame, ok := <-c.frames:
		if !ok {
			c.w.Fatalf("%s was closed: %v", c.peer, c.end)
		}
		c.w.Fatalf("%s got %#v, want nothing", c.peer, frame)
	default:
	}
}

// wantClose waits for the end, which must be announced by an error frame of the same code.
func (c *client) wantClose(want code.Code) {
	c.w.Helper()
	var last repo.Frame
	for frame := range c.frames {
		last = frame
	}
	if got := int(websocket.CloseStatus(c.end)); got != code.Table[want].Close {
		c.w.Errorf("%s was closed with %d (%v), want %d", c.peer, got, c.end, code.Table[want].Close)
	}
	if e, ok := last.(repo.Error); !ok || len(e.Message) < len(want) || e.Message[:len(want)] != string(want) {
		c.w.Errorf("the last frame of %s is %#v, want an error that begins with %s", c.peer, last, want)
	}
}

// leave closes from the client's side, as stock clients do: without a code.
func (c *client) leave() {
	c.w.Helper()
	if err := c.ws.Close(websocket.StatusNoStatusRcvd, ""); err != nil {
		c.w.Fatal(err)
	}
	for range c.frames {
	}
}

// raw upgrades a bare line and joins, for peers that do not keep the rules of WebSocket.
func (w *world) raw(token string, peer repo.PeerID) net.Conn {
	w.Helper()
	conn, err := w.lines.Dial(w.Context(), "", "")
	if err != nil {
		w.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/?token="+token, nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
	if err := r.Write(conn); err != nil {
		w.Fatal(err)
	}
	answer := make([]byte, 4096)
	if n, err := conn.Read(answer); err != nil || !slices.Contains([]string{"HTTP/1.1 101"}, string(answer[:min(n, 12)])) {
		w.Fatalf("upgrade answered %q, %v", answer[:n], err)
	}
	b, err := repo.Encode(repo.Join{SenderID: peer})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := conn.Write(rawFrame(b)); err != nil {
		w.Fatal(err)
	}
	return conn
}

// rawFrame is a binary message of less than 64 KiB as a client writes it, masked with zeros.
func rawFrame(payload []byte) []byte {
	n := len(payload)
	return append([]byte{0x82, 0x80 | 126, byte(n >> 8), byte(n), 0, 0, 0, 0}, payload...)
}

// lifeOf discards what arrives on a line and says how long it took until the line ended.
func lifeOf(conn io.Reader) time.Duration {
	since := time.Now()
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(since)
}

// library is a fake of doc.Library. Its documents are lists of messages: what one replica sends is delivered to
// all others, and answered with "ack"; a replica that brings nothing is answered with all that there is.
type library struct {
	appeared func(crdt.DocumentID)

	mu        sync.Mutex
	documents map[crdt.DocumentID]*document
}

type document struct {
	messages []string
	replicas map[*attachment]bool
	refuse   *code.Error   // to whatever is asked
	hold     chan struct{} // not nil: Receive waits for it
}

type attachment struct {
	l  *library
	id crdt.DocumentID
	k  doc.Key
	r  doc.Replica
}

func newLibrary() *library { return &library{documents: make(map[crdt.DocumentID]*document)} }

// create makes a document as somebody else would.
func (l *library) create(word string, messages ...string) *document {
	l.mu.Lock()
	d := &document{messages: messages, replicas: make(map[*attachment]bool)}
	l.documents[docID(word)] = d
	l.mu.Unlock()
	l.appeared(docID(word))
	return d
}

// change alters a document that exists.
func (l *library) change(word string, with func(*document)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	with(l.documents[docID(word)])
}

func (l *library) text(word string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.documents[docID(word)]; d != nil {
		return slices.Clone(d.messages)
	}
	return nil
}

func (l *library) attached() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.documents {
		n += len(d.replicas)
	}
	return n
}

// gone ends the conversations of a document, if there are any, as its desk would.
func (l *library) gone(word string, why *code.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.documents[docID(word)]
	if d == nil {
		return
	}
	for a := range d.replicas {
		a.r.Gone(a.id, why)
	}
}

func (l *library) Attach(_ context.Context, k doc.Key, id crdt.DocumentID, r doc.Replica, create bool) (hub.Attachment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.documents[id]
	switch {
	case d == nil && (!create || k.Role == doc.Viewer):
		return nil, code.New(code.DocumentNotFound, "there is no such document")
	case d == nil:
		d = &document{replicas: make(map[*attachment]bool)}
		l.documents[id] = d
	case d.refuse != nil:
		return nil, d.refuse
	}
	a := &attachment{l, id, k, r}
	d.replicas[a] = true
	return a, nil
}

func (a *attachment) Receive(ctx context.Context, message []byte) error {
	a.l.mu.Lock()
	d := a.l.documents[a.id]
	hold := d.hold
	a.l.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if d.refuse != nil {
		return d.refuse
	}
	if !repo.HasContent(message) {
		for _, m := range d.messages {
			a.deliver(d, m)
		}
		return nil
	}
	first := len(d.messages) == 0
	d.messages = append(d.messages, string(message[2:]))
	a.deliver(d, "ack")
	for other := range d.replicas {
		if other != a {
			other.deliver(d, string(message[2:]))
		}
	}
	if first {
		defer a.l.appeared(a.id)
	}
	return nil
}

func (a *attachment) deliver(d *document, message string) {
	if d.replicas[a] && !a.r.Deliver(a.id, []byte(message)) {
		delete(d.replicas, a)
	}
}

func (a *attachment) Detach() {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	delete(a.l.documents[a.id].replicas, a)
}

func numbered(i int) string { return fmt.Sprintf("%04d", i) }
