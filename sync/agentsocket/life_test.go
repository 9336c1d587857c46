package agentsocket

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// What waits of an agent whose key is revoked is written neither while it takes its leave nor afterwards.
func TestRevokedKeyWritesNoMore(t *testing.T) {
	inWorld(t, hub.Limits{OutboundMessages: 4}, func(w *world) {
		conn := w.raw("bob") // it reads nothing: once it has a few answers to take the rest of what it sends waits
		const sent = 10
		for i := range sent {
			w.sendRaw(conn, fmt.Sprintf(`{"type":"edit","id":"%d","document":"notes","section":"a","ops":[{"insert":"!"}]}`, i))
		}
		synctest.Wait()
		before := w.read().Markdown()
		if strings.Count(before, "!") == sent {
			t.Fatal("nothing waits")
		}
		w.hub.CloseKey(w.keys["bob"].ID, code.New(code.KeyRevoked, "revoked"))
		synctest.Wait()
		_, _ = io.Copy(io.Discard, conn)
		synctest.Wait()
		if after := w.read().Markdown(); after != before {
			t.Errorf("after the key was revoked %q became %q", before, after)
		}
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
		conn := w.raw("bob")
		w.sendRaw(conn, `{"type":"open","document":"notes"}`)
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
		conn := w.raw("bob")
		began := time.Now()
		_, _ = io.Copy(io.Discard, conn)
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

// A desk may end while a document is being opened: the feed is closed, whichever of the two is there first.
func TestAFeedIsClosedOnceTheDocumentIsGone(t *testing.T) {
	for name, goneFirst := range map[string]bool{"before the feed is kept": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, hub.Limits{}, func(w *world) {
				id := w.id()
				s := newSocket(&server{Options: Options{Hub: w.hub, Library: w.library}, rooms: newRooms()}, w.keys["alice"], nil, "")
				defer s.stopWork()
				defer s.die()
				f := &followed{s: s, name: slug, id: id, view: agent.Whole}
				f.life, f.die = context.WithCancel(s.life)
				f.room, _ = s.rooms.enter(f)
				_, feed, err := w.library.Follow(s.work, s.key, id, f)
				w.must(err)
				gone := func() {
					f.Gone(id, code.New(code.Busy, "the desk ended"))
					s.gone.Wait()
				}
				if goneFirst {
					gone()
				}
				f.keep(feed)
				if !goneFirst {
					gone()
				}
				time.Sleep(10 * time.Minute)
				if n := w.library.OpenDocuments(); n > 0 {
					t.Errorf("%d documents are open that nobody follows", n)
				}
			})
		})
	}
}
