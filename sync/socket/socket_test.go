package socket

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/fxamacker/cbor/v2"

	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/repo"
)

func TestTwoPeersShareADocument(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice", "a"), w.join("bob", "b")
		alice.sync("d", content("hello"))
		alice.wantSync("d", "ack")
		bob.request("d")
		bob.wantSync("d", "hello")
		bob.sync("d", content("world"))
		bob.wantSync("d", "ack")
		alice.wantSync("d", "world")
		alice.leave()
		bob.sync("d", content("anyone?"))
		bob.wantSync("d", "ack")
	})
}

// Whatever a socket sends, it alone ends, with a code.
func TestBadInputEndsThatSocketAlone(t *testing.T) {
	pack := func(v any) []byte {
		b, err := cbor.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	null := []byte{0xf6}
	for what, c := range map[string]struct {
		joined bool
		kind   websocket.MessageType
		bytes  []byte
		want   code.Code
	}{
		"null before join":           {false, websocket.MessageBinary, null, code.BadFrame},
		"an integer before join":     {false, websocket.MessageBinary, []byte{0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, code.BadFrame},
		"nothing before join":        {false, websocket.MessageBinary, nil, code.BadFrame},
		"text before join":           {false, websocket.MessageText, []byte(`{"type":"join","senderId":"a"}`), code.BadFrame},
		"junk before join":           {false, websocket.MessageBinary, bytes.Repeat([]byte{0xff}, 100), code.BadFrame},
		"a join of nobody":           {false, websocket.MessageBinary, pack(map[string]any{"type": "join"}), code.BadFrame},
		"versions that are none":     {false, websocket.MessageBinary, pack(map[string]any{"type": "join", "senderId": "x", "supportedProtocolVersions": 1}), code.BadFrame},
		"another version":            {false, websocket.MessageBinary, pack(map[string]any{"type": "join", "senderId": "x", "supportedProtocolVersions": []string{"2"}}), code.UnsupportedProtos},
		"too much before join":       {false, websocket.MessageBinary, make([]byte, 64<<10+1), code.TooLarge},
		"null":                       {true, websocket.MessageBinary, null, code.BadFrame},
		"a scalar":                   {true, websocket.MessageBinary, []byte{0x07}, code.BadFrame},
		"nothing":                    {true, websocket.MessageBinary, nil, code.BadFrame},
		"text":                       {true, websocket.MessageText, []byte("hello"), code.BadFrame},
		"a map that ends early":      {true, websocket.MessageBinary, []byte{0xb9, 0xff, 0xff}, code.BadFrame},
		"empty data":                 {true, websocket.MessageBinary, pack(map[string]any{"type": "sync", "senderId": "x", "documentId": name("d"), "data": []byte{}}), code.BadFrame},
		"a join as another":          {true, websocket.MessageBinary, pack(map[string]any{"type": "join", "senderId": "y"}), code.BadFrame},
		"more than a frame may have": {true, websocket.MessageBinary, make([]byte, 1<<20+1), code.TooLarge},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, hub.Limits{FrameBytes: 1 << 20}, func(w *world) {
				bystander := w.join("alice", "a")
				bystander.sync("d", content("hello"))
				bystander.wantSync("d", "ack")
				villain := w.open("villain")
				if villain.peer = "x"; c.joined {
					villain = w.join("villain", "x")
				}
				// The server may close before it has read all of it.
				_ = villain.ws.Write(w.Context(), c.kind, c.bytes)
				villain.wantClose(c.want)
				bystander.sync("d", content("still here"))
				bystander.wantSync("d", "ack")
			})
		})
	}
}

func TestFramesBeforeJoinAreIgnoredForAWhile(t *testing.T) {
	inWorld(t, hub.Limits{JoinFrames: 3}, func(w *world) {
		w.docs.create("d", "text")
		patient := w.open("alice")
		patient.peer = "a"
		for range 3 {
			patient.request("d")
		}
		patient.send(repo.Join{SenderID: "a"})
		if _, ok := patient.next().(repo.Peer); !ok {
			t.Error("the join behind three frames was not answered")
		}
		patient.wantQuiet()

		pusher := w.open("bob")
		pusher.peer = "b"
		for range 4 {
			pusher.request("d")
		}
		pusher.wantClose(code.BadFrame)
	})
}

func TestJoinTimeout(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		since := time.Now()
		silent := w.open("alice")
		joined := w.join("alice", "a")
		silent.wantClose(code.JoinTimeout)
		if took := time.Since(since); took != 5*time.Second {
			t.Errorf("closed after %v, want 5 s", took)
		}
		joined.wantQuiet()
	})
}

// Joining again on the same socket is answered again: no client may hang for want of an answer.
func TestJoinTwice(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		c := w.join("alice", "a")
		c.send(repo.Join{SenderID: "a"})
		if _, ok := c.next().(repo.Peer); !ok {
			t.Error("the second join was not answered")
		}
	})
}

// A stock Node client dies of a 401 to its upgrade: it is let in, told, and closed.
func TestRefusedKeys(t *testing.T) {
	for token, want := range map[string]code.Code{"": code.Unauthorized, "nobody": code.Unauthorized, "broken": code.Internal} {
		inWorld(t, hub.Limits{}, func(w *world) { w.open(token).wantClose(want) })
	}
}

func TestPlainGet(t *testing.T) {
	h := Handler(hub.New(hub.Options{Documents: newLibrary()}), authenticate)
	for token, want := range map[string]struct {
		status int
		word   code.Code
		header string
	}{
		"nobody": {http.StatusUnauthorized, code.Unauthorized, "WWW-Authenticate"},
		"broken": {http.StatusInternalServerError, code.Internal, "Content-Type"},
		"alice":  {http.StatusUpgradeRequired, code.BadRequest, "Upgrade"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/sync?token="+token, nil))
		var body struct{ Error, Message string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if w.Code != want.status || body.Error != string(want.word) || w.Header().Get(want.header) == "" {
			t.Errorf("%s: %d %q %v, want %d %s and a header %s", token, w.Code, body, w.Header(), want.status, want.word, want.header)
		}
		if strings.Contains(w.Body.String(), "fire") {
			t.Errorf("%s: the private cause was sent: %s", token, w.Body)
		}
	}
}

func TestSocketsPerKey(t *testing.T) {
	inWorld(t, hub.Limits{SocketsPerKey: 2}, func(w *world) {
		first := w.join("alice", "a1")
		w.join("alice", "a2")
		w.open("alice").wantClose(code.TooManySockets)
		w.join("bob", "b")
		first.leave()
		synctest.Wait()
		w.join("alice", "a3")
	})
}

func TestPeerIDsAreBoundToTheirKey(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		old := w.join("alice", "a")
		thief := w.open("bob")
		thief.peer = "a"
		thief.send(repo.Join{SenderID: "a"})
		thief.wantClose(code.ActorMismatch)
		old.wantQuiet()

		back := w.join("alice", "a")
		old.wantClose(code.ActorMismatch)
		back.sync("d", content("it is me"))
		back.wantSync("d", "ack")

		back.leave()
		synctest.Wait()
		w.join("bob", "a") // the name is free again
	})
}

func TestRevokedKeyLosesItsSockets(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		one, two, other := w.join("alice", "a1"), w.join("alice", "a2"), w.join("bob", "b")
		stubborn := w.raw("alice", "a3") // never answers the close frame
		life := make(chan time.Duration)
		go func() { life <- lifeOf(stubborn) }()
		w.docs.create("d", "text")
		stuck := w.raw("alice", "a4") // does not take its answer
		if _, err := stuck.Write(rawFrame(encode(t, repo.Request{SenderID: "a4", Document: name("d"), Data: asking("please")}))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.hub.CloseKey("alice", code.New(code.KeyRevoked, "this key was revoked"))
		one.wantClose(code.KeyRevoked)
		two.wantClose(code.KeyRevoked)
		if took := <-life; took > time.Second {
			t.Errorf("a socket that does not close lived for %v more", took)
		}
		synctest.Wait()
		if left := w.hub.Sockets(); len(left) != 1 {
			t.Errorf("%d sockets are left after a second, want Bob's alone", len(left))
		}
		_ = stuck.Close()
		w.open("alice").wantClose(code.KeyRevoked) // as one that was being opened meanwhile
		other.wantQuiet()
	})
}

// What waits of a peer that is thrown out is written neither while it takes its leave nor afterwards.
func TestWhoIsThrownOutWritesNoMore(t *testing.T) {
	for how, throwOut := range map[string]func(w *world, peer net.Conn){
		"its key is revoked": func(w *world, _ net.Conn) { w.hub.CloseKey("alice", code.New(code.KeyRevoked, "this key was revoked")) },
		"it sends no frame": func(w *world, peer net.Conn) {
			if _, err := peer.Write(rawFrame([]byte("no frame"))); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, hub.Limits{}, func(w *world) {
				hold := make(chan struct{})
				w.docs.create("d").hold = hold
				alice := w.raw("alice", "a") // it leaves the close frame unanswered
				ended := make(chan time.Duration, 1)
				go func() { ended <- lifeOf(alice) }()
				for i := range 5 {
					if _, err := alice.Write(rawFrame(encode(t, repo.Sync{SenderID: "a", Document: name("d"), Data: content(numbered(i))}))); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				throwOut(w, alice)
				synctest.Wait()
				close(hold)
				<-ended
				synctest.Wait()
				if got := w.docs.text("d"); len(got) > 0 {
					t.Errorf("after it was thrown out %q was written", got)
				}
			})
		})
	}
}

// At shutdown sockets are told to come back, and what they had sent is written first.
func TestShutdown(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		hold := make(chan struct{})
		w.docs.create("d").hold = hold
		alice := w.join("alice", "a")
		for i := range 5 {
			alice.sync("d", content(numbered(i)))
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- w.hub.Close(w.Context()) }()
		alice.wantClose(code.ShuttingDown)
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("the hub was closed (%v) while messages waited", err)
		default:
		}
		close(hold)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if got := w.docs.text("d"); len(got) != 5 {
			t.Errorf("%q was written, want all five", got)
		}
		w.open("alice").wantClose(code.ShuttingDown)
	})
}

// A stock client sends its last changes and closes: they count.
func TestWhatAPeerSentBeforeItWentIsWritten(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		hold := make(chan struct{})
		w.docs.create("d").hold = hold
		alice := w.join("alice", "a")
		for i := range 5 {
			alice.sync("d", content(numbered(i)))
		}
		alice.leave()
		close(hold)
		synctest.Wait()
		if got := w.docs.text("d"); len(got) != 5 {
			t.Errorf("%q was written, want all five", got)
		}
	})
}

func TestAnUnknownDocumentIsPushedWhenItAppears(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob, gone := w.join("alice", "a"), w.join("bob", "b"), w.join("carol", "c")
		for _, c := range []*client{alice, bob, gone} {
			c.request("d")
			c.wantUnavailable("d")
		}
		gone.leave()
		alice.wantQuiet()
		w.docs.create("d", "here it is")
		alice.wantSync("d", "here it is")
		bob.wantSync("d", "here it is")
		alice.sync("d", content("thanks"))
		alice.wantSync("d", "ack")
		bob.wantSync("d", "thanks")
	})
}

// The first to bring a document that others wait for may be one of those who asked.
func TestAPeerBringsWhatItAskedFor(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice", "a"), w.join("bob", "b")
		alice.request("d")
		alice.wantUnavailable("d")
		bob.request("d")
		bob.wantUnavailable("d")
		alice.sync("d", content("found it"))
		alice.wantSync("d", "ack")
		bob.wantSync("d", "found it")
	})
}

// A peer that may not see a document yet gets it once it may.
func TestAGrantIsFeltWithoutReconnecting(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		w.docs.create("d", "secret").refuse = code.New(code.Forbidden, "not for this key")
		alice := w.join("alice", "a")
		alice.request("d")
		alice.wantUnavailable("d")
		w.docs.change("d", func(d *document) { d.refuse = nil })
		w.hub.Appeared(docID("d"))
		alice.wantSync("d", "secret")
	})
}

func TestAwaitedDocumentsAreBounded(t *testing.T) {
	inWorld(t, hub.Limits{AwaitedDocuments: 2}, func(w *world) {
		alice, bob := w.join("alice", "a"), w.join("bob", "b")
		for _, word := range []string{"d1", "d2", "d3"} {
			alice.request(word)
			alice.wantUnavailable(word)
		}
		bob.request("d1") // one that is waited for anyway
		bob.wantUnavailable("d1")
		w.docs.create("d3", "not remembered")
		alice.wantQuiet()
		w.docs.create("d1", "remembered")
		alice.wantSync("d1", "remembered")
		bob.wantSync("d1", "remembered")
		alice.request("d4") // there is room again
		alice.wantUnavailable("d4")
		w.docs.create("d4", "remembered too")
		alice.wantSync("d4", "remembered too")
		alice.request("d3")
		alice.wantSync("d3", "not remembered")
	})
}

func TestViewersMakeNoDocuments(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		viewer := w.join("viewer", "v")
		viewer.sync("d", content("mine"))
		viewer.wantUnavailable("d")
		if got := w.docs.text("d"); got != nil {
			t.Errorf("a viewer made a document of %q", got)
		}
	})
}

// Names that are no ids lead nowhere, and cost the peer only that document.
func TestForeignDocumentNames(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		w.docs.create("d", "text")
		c := w.join("alice", "a")
		for _, foreign := range []repo.DocumentName{"a:b", "*", "../" + name("d"), "%2f", "ü", repo.DocumentName(docID("d").UUID()), repo.DocumentName(docID("d").URL())} {
			c.send(repo.Request{SenderID: "a", Document: foreign, Data: asking("please")})
			if got, ok := c.next().(repo.Unavailable); !ok || got.Document != foreign {
				t.Errorf("%q was answered with %#v", foreign, got)
			}
			c.send(repo.Ephemeral{SenderID: "a", Document: foreign, Count: 1, Data: []byte{1}})
		}
		c.request("d")
		c.wantSync("d", "text")
	})
}

func TestDocumentsPerSocketAreBounded(t *testing.T) {
	inWorld(t, hub.Limits{Documents: 2}, func(w *world) {
		c := w.join("alice", "a")
		for _, word := range []string{"d1", "d2"} {
			c.sync(word, content(word))
			c.wantSync(word, "ack")
		}
		c.sync("d3", content("one too many"))
		if e, ok := c.next().(repo.Error); !ok || !strings.HasPrefix(e.Message, string(code.TooManyDocuments)) {
			t.Errorf("a third document was answered with %#v", e)
		}
		c.wantUnavailable("d3")
		c.sync("d1", content("goes on"))
		c.wantSync("d1", "ack")
	})
}

func TestRefusalsOfADocument(t *testing.T) {
	for _, c := range []struct {
		why   code.Code
		stays bool
	}{
		{code.DocumentDeleted, true}, {code.Forbidden, true}, {code.TooLarge, true}, {code.DocumentFull, true}, {code.DocumentBlocked, true},
		{code.BadChange, false}, {code.BadFrame, false}, {code.Busy, false}, {code.ShuttingDown, false}, {code.Internal, false},
	} {
		why := code.New(c.why, "because")
		for how, happen := range map[string]func(w *world, peer *client){
			"attach":  func(w *world, peer *client) { peer.request("d") },
			"receive": func(w *world, peer *client) { peer.sync("open", content("more")) },
			"gone":    func(w *world, _ *client) { w.docs.gone("open", why) },
		} {
			t.Run(fmt.Sprintf("%s by %s", c.why, how), func(t *testing.T) {
				inWorld(t, hub.Limits{}, func(w *world) {
					w.docs.create("d")
					peer, other := w.join("alice", "a"), w.join("bob", "b")
					peer.sync("open", content("text"))
					peer.wantSync("open", "ack")
					for _, word := range []string{"d", "open"} {
						w.docs.change(word, func(d *document) { d.refuse = why })
					}
					happen(w, peer)
					if !c.stays {
						peer.wantClose(c.why)
						other.wantQuiet()
						return
					}
					frame := peer.next()
					if c.why == code.TooLarge || c.why == code.DocumentFull {
						if e, ok := frame.(repo.Error); !ok || !strings.HasPrefix(e.Message, string(c.why)) {
							t.Errorf("got %#v, want an error frame that says %s", frame, c.why)
						}
						frame = peer.next()
					}
					if _, ok := frame.(repo.Unavailable); !ok {
						t.Errorf("got %#v, want doc-unavailable", frame)
					}
					peer.sync("another", content("goes on"))
					peer.wantSync("another", "ack")
				})
			})
		}
	}
}

// A document that was blocked, deleted, or renamed to what the key does not cover is unavailable and no more. When it is back, who
// had it open is told to connect again, whether they have written in it meanwhile or not, and who asked for it meanwhile gets it.
func TestADocumentComesBackIntoService(t *testing.T) {
	for _, why := range []code.Code{code.DocumentBlocked, code.DocumentDeleted, code.Forbidden} {
		t.Run(string(why), func(t *testing.T) {
			inWorld(t, hub.Limits{}, func(w *world) {
				gone := code.New(why, "for now")
				idle, asker := w.join("alice", "a"), w.join("bob", "b")
				idle.sync("d", content("one"))
				idle.wantSync("d", "ack")
				writer := w.join("carol", "c")
				writer.request("d")
				writer.wantSync("d", "one")
				w.docs.change("d", func(d *document) { d.refuse = gone })
				w.docs.gone("d", gone)
				idle.wantUnavailable("d")
				writer.wantUnavailable("d")
				writer.sync("d", content("more"))
				writer.wantUnavailable("d")
				asker.request("d")
				asker.wantUnavailable("d")
				idle.sync("e", content("other")) // its other documents are not concerned
				idle.wantSync("e", "ack")
				w.hub.Appeared(docID("d")) // to others
				for _, c := range []*client{idle, writer, asker} {
					c.wantQuiet()
				}

				w.docs.change("d", func(d *document) { d.refuse = nil })
				w.hub.Appeared(docID("d"))
				asker.wantSync("d", "one")
				idle.wantClose(code.Busy)
				writer.wantClose(code.Busy)
				back := w.join("alice", "a")
				back.request("d")
				back.wantSync("d", "one")
			})
		})
	}
}

// A document may be restored while its end is still on its way to those who have it open: nobody tells them of that again.
func TestADocumentIsBackBeforeItsEndIsTold(t *testing.T) {
	for _, why := range []code.Code{code.DocumentBlocked, code.DocumentDeleted, code.Forbidden} {
		t.Run(string(why), func(t *testing.T) {
			inWorld(t, hub.Limits{}, func(w *world) {
				peer := w.join("alice", "a")
				peer.sync("d", content("one"))
				peer.wantSync("d", "ack")
				w.hub.Appeared(docID("d"))
				w.docs.gone("d", code.New(why, "for a moment"))
				peer.wantClose(code.Busy)
			})
			inWorld(t, hub.Limits{}, func(w *world) { // or who had it open writes before they are told that it is back
				peer := w.join("alice", "a")
				peer.sync("d", content("one"))
				peer.wantSync("d", "ack")
				gone := code.New(why, "for a moment")
				w.docs.change("d", func(d *document) { d.refuse = gone })
				w.docs.gone("d", gone)
				peer.wantUnavailable("d")
				w.docs.change("d", func(d *document) { d.refuse = nil })
				peer.sync("d", content("more"))
				peer.wantClose(code.Busy)
			})
		})
	}
}

// What happens to a document while it is busy is dealt with afterwards.
func TestADocumentThatGoesWhileItIsBusy(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		peer, other := w.join("alice", "a"), w.join("bob", "b")
		for _, c := range []*client{peer, other} {
			c.sync("d", content("one"))
			c.wantSync("d", "ack")
		}
		peer.wantSync("d", "one")
		hold := make(chan struct{})
		w.docs.change("d", func(d *document) { d.hold = hold })
		peer.sync("d", content("two"))
		synctest.Wait()
		gone := code.New(code.DocumentDeleted, "deleted")
		w.docs.change("d", func(d *document) { d.refuse = gone })
		w.docs.gone("d", gone)
		other.wantUnavailable("d")
		peer.wantQuiet()
		w.docs.change("d", func(d *document) { d.refuse = nil })
		close(hold)
		peer.wantClose(code.Busy)
		// Neither is in the room any more.
		other.send(repo.Ephemeral{SenderID: "b", Document: name("d"), Count: 1, Data: []byte{1}})
		other.wantQuiet()
		back := w.join("alice", "a")
		back.sync("d", content("three"))
		back.wantSync("d", "ack")
		back.send(repo.Ephemeral{SenderID: "a", Document: name("d"), Count: 1, Data: []byte{1}})
		other.wantQuiet()
	})
}

// Frames that the server has no use for are ignored, whatever they hold.
func TestUselessFramesAreIgnored(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		c := w.join("alice", "a")
		for _, frame := range []map[string]any{
			{"type": "leave", "senderId": "a"},
			{"type": "lease", "senderId": "a", "data": map[string]any{"x": []int{1}}},
			{"type": "doc-unavailable", "senderId": "a", "documentId": name("d")},
			{"type": "error", "senderId": "a", "message": "ouch"},
			{"type": "peer", "senderId": "a"},
			{"type": "remote-subscription-change", "senderId": "a", "add": []string{"s"}, "remove": cbor.RawMessage{0xf7}},
			{"type": "remote-heads-changed", "senderId": "a", "documentId": name("d"), "newHeads": map[string]any{"s": map[string]any{"heads": []string{"h"}, "timestamp": 1.5e12}}},
		} {
			b, err := cbor.Marshal(frame)
			if err != nil {
				t.Fatal(err)
			}
			c.sendBytes(b)
		}
		c.wantQuiet()
		c.sync("d", content("goes on"))
		c.wantSync("d", "ack")
	})
}

// The frames of the captured conversations are served as the reference server served them: no socket is closed,
// and the echoes go nowhere.
func TestTranscripts(t *testing.T) {
	for _, story := range []string{"edit", "unknown", "ephemeral", "heads"} {
		t.Run(story, func(t *testing.T) {
			inWorld(t, hub.Limits{}, func(w *world) {
				clients := make(map[string]*client)
				for _, c := range capturedFrames(t, story) {
					if clients[c.client] == nil {
						clients[c.client] = w.open(c.client)
						clients[c.client].peer = repo.PeerID(c.client)
					}
					if c.dir == ">" {
						clients[c.client].sendBytes(c.bytes)
					}
					synctest.Wait()
				}
				for who, c := range clients {
					relayed := 0
					for len(c.frames) > 0 {
						if e, ok := c.next().(repo.Ephemeral); ok {
							relayed++
							if e.SenderID == c.peer {
								t.Errorf("%s got its own message back", who)
							}
						}
					}
					if want := map[string]int{"ephemeral": 1}[story]; relayed != want {
						t.Errorf("%s got %d ephemeral messages, want %d", who, relayed, want)
					}
					c.wantQuiet()
				}
				for _, info := range w.hub.Sockets() {
					if len(info.Documents) != 1 || info.Queued != 0 {
						t.Errorf("at the end %+v, want one document and nothing queued", info)
					}
				}
			})
		})
	}
}

// A large message goes both ways whole.
func TestLargeMessages(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice", "a"), w.join("bob", "b")
		large := strings.Repeat("large ", 1<<20)
		alice.sync("d", content(large))
		alice.wantSync("d", "ack")
		bob.request("d")
		bob.wantSync("d", large)
	})
}

func TestAdministratorsSeeSockets(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		c := w.join("alice", "a")
		c.sync("d", content("x"))
		c.wantSync("d", "ack")
		infos := w.hub.Sockets()
		if len(infos) != 1 || infos[0].Agent != "alice" || infos[0].Key != "alice" || infos[0].Peer != "a" ||
			infos[0].Door != hub.SyncDoor || len(infos[0].Documents) != 1 {
			t.Errorf("sockets are %+v", infos)
		}
	})
}
