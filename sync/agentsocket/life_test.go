package agentsocket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
)

func TestWhoMayOpenASocket(t *testing.T) {
	inWorld(t, hub.Limits{SocketsPerKey: 1}, func(w *world) {
		w.open("nonsense", agent.Subprotocol).wantClose(code.Unauthorized)
		w.open(string(w.secrets["alice"]), "another.v9").wantClose(code.UnsupportedProtos)
		plain := w.open(string(w.secrets["alice"]))
		want[*agent.Welcome](plain)
		w.open(string(w.secrets["alice"]), agent.Subprotocol).wantClose(code.TooManySockets)
		plain.leave()
	})
}

func TestNoUpgrade(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		refuse := func(*http.Request) (doc.Key, error) {
			return doc.Key{}, code.New(code.Unauthorized, "a key is needed")
		}
		for _, c := range []struct {
			auth func(*http.Request) (doc.Key, error)
			want int
		}{{refuse, http.StatusUnauthorized}, {func(*http.Request) (doc.Key, error) { return w.keys["alice"], nil }, http.StatusUpgradeRequired}} {
			answer := httptest.NewRecorder()
			Handler(Options{Hub: w.hub, Authenticate: c.auth}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
			if answer.Code != c.want {
				t.Errorf("answered %d, want %d", answer.Code, c.want)
			}
		}
	})
}

func TestRevokedKey(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		alice.openDocument(agent.Open{})
		w.hub.CloseKey(w.keys["alice"].ID, code.New(code.KeyRevoked, "revoked"))
		alice.wantClose(code.KeyRevoked)
		bob.openDocument(agent.Open{})
	})
}

// What was sent before the server stops counts, and its sender is told to come back.
func TestShutdown(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice := w.join("alice")
		alice.openDocument(agent.Open{})
		alice.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 60, Queue: true})
		want[*agent.Ack](alice)
		w.must(w.hub.Close(context.Background()))
		alice.wantClose(code.ShuttingDown)
	})
}

func TestBrokenProtocol(t *testing.T) {
	inWorld(t, hub.Limits{FrameBytes: 1000}, func(w *world) {
		alice := w.join("alice")
		w.must(alice.ws.Write(context.Background(), websocket.MessageBinary, []byte("{}")))
		alice.wantClose(code.BadFrame)
		bob := w.join("bob")
		bob.sendText(string(make([]byte, 1001)))
		bob.wantClose(code.TooLarge)
	})
}

// A peer that does not read is closed with a code that says "come back", and holds up nobody.
func TestSlowReader(t *testing.T) {
	inWorld(t, hub.Limits{OutboundMessages: 20, WriteTime: time.Minute, PingEvery: time.Hour}, func(w *world) {
		conn, err := w.lines.Dial(context.Background(), "", "")
		w.must(err)
		r := httptest.NewRequest(http.MethodGet, "/?token="+string(w.secrets["bob"]), nil)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
		w.must(r.Write(conn))
		answer := make([]byte, 4096)
		_, err = conn.Read(answer) // the upgrade, and nothing after it
		w.must(err)
		frame := []byte(`{"type":"open","document":"notes"}`)
		_, err = conn.Write(append([]byte{0x81, 0x80 | byte(len(frame)), 0, 0, 0, 0}, frame...))
		w.must(err)
		synctest.Wait()
		alice := w.join("alice")
		for range 30 {
			alice.send(&agent.Edit{Document: slug, Section: "a", Ops: []agent.TextOp{{Insert: "!"}}})
			want[*agent.Ack](alice)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, info := range w.hub.Sockets() {
			if info.Agent == "bob" {
				t.Errorf("a socket that does not read is still there: %+v", info)
			}
		}
		_ = conn.Close()
	})
}

// A dead line is noticed within ten seconds.
func TestDeadLine(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		conn, err := w.lines.Dial(context.Background(), "", "")
		w.must(err)
		r := httptest.NewRequest(http.MethodGet, "/?token="+string(w.secrets["bob"]), nil)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
		w.must(r.Write(conn))
		began := time.Now()
		for b := make([]byte, 4096); err == nil; {
			_, err = conn.Read(b)
		}
		if took := time.Since(began); took > 10*time.Second || took < 5*time.Second {
			t.Errorf("the line was cut after %v", took)
		}
		_ = conn.Close()
	})
}

// Two agents that want what the other has: the second is refused with the circle, by section names.
func TestDeadlockIsToldByName(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		take := func(c *client, section agent.SectionID, queue bool) {
			c.send(&agent.LeaseRequest{Document: slug, Section: section, Action: agent.Acquire, LeaseDurationSeconds: 60, Queue: queue})
		}
		take(alice, "a", false)
		want[*agent.Ack](alice)
		take(bob, "b", false)
		want[*agent.Ack](bob)
		take(alice, "b", true)
		want[*agent.Queued](alice)
		synctest.Wait()
		take(bob, "a", true)
		want[*agent.Queued](bob)
		refused := bob.wantError("", code.Deadlock)
		if refused.Facts["waitingOn"] != "section:notes/b" {
			t.Errorf("refused with %v", refused.Facts)
		}
	})
}
