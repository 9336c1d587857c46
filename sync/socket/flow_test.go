package socket

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"pgregory.net/rapid"

	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/repo"
)

// Frames of one document stay in order; a document that is slow holds up no other.
func TestASlowDocumentHoldsUpNoOther(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		hold := make(chan struct{})
		w.docs.create("slow").hold = hold
		c := w.join("alice", "a")
		for i := range 50 {
			c.sync("slow", content(numbered(i)))
			c.sync("quick", content(numbered(i)))
		}
		for range 50 {
			c.wantSync("quick", "ack")
		}
		c.wantQuiet()
		close(hold)
		for range 50 {
			c.wantSync("slow", "ack")
		}
		for _, word := range []string{"slow", "quick"} {
			for i, m := range w.docs.text(word) {
				if m != numbered(i) {
					t.Fatalf("message %d of the %s document is %s", i, word, m)
				}
			}
		}
	})
}

// So many slow documents that no worker is left hold up the others of that socket, but no other socket.
func TestWorkersAreBounded(t *testing.T) {
	inWorld(t, hub.Limits{Workers: 3}, func(w *world) {
		hold := make(chan struct{})
		alice, bob := w.join("alice", "a"), w.join("bob", "b")
		for i := range 3 {
			word := fmt.Sprint("slow", i)
			w.docs.create(word).hold = hold
			alice.sync(word, content("x"))
		}
		alice.sync("quick", content("x"))
		alice.wantQuiet()
		bob.sync("quick", content("y"))
		bob.wantSync("quick", "ack")
		close(hold)
		for range 4 {
			if m, ok := alice.next().(repo.Sync); !ok || string(m.Data) != "ack" {
				t.Errorf("Alice got %#v, want an ack", m)
			}
		}
	})
}

// A peer that sends faster than its documents can take is read no further; nothing is lost.
func TestInboundIsBounded(t *testing.T) {
	for what, limits := range map[string]hub.Limits{
		"frames": {InboundFrames: 10},
		"bytes":  {InboundBytes: 10 * len(content(numbered(0)))},
	} {
		t.Run(what, func(t *testing.T) { inWorld(t, limits, takeNoMore) })
	}
}

func takeNoMore(w *world) {
	t := w.T
	hold := make(chan struct{})
	w.docs.create("d").hold = hold
	eager := w.raw("alice", "a")
	go lifeOf(eager)
	const all = 100
	sent := make(chan error, 1)
	go func() {
		for i := range all {
			frame := encode(t, repo.Sync{SenderID: "a", Document: name("d"), Data: content(numbered(i))})
			if _, err := eager.Write(rawFrame(frame)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	// Longer than a ping goes unanswered: a reader that waits for room does not see the pongs.
	time.Sleep(time.Minute)
	select {
	case err := <-sent:
		t.Errorf("all was taken (%v)", err)
	default:
	}
	close(hold)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	synctest.Wait()
	if got := w.docs.text("d"); len(got) != all {
		t.Errorf("%d of %d messages arrived", len(got), all)
	}
	_ = eager.Close()
}

// A reader that falls behind is told to come back, and those who publish to it never wait.
func TestSlowReader(t *testing.T) {
	for what, limits := range map[string]hub.Limits{
		"messages": {OutboundMessages: 20, PingEvery: time.Hour, WriteTime: time.Hour},
		"bytes":    {OutboundBytes: 20 * 300, PingEvery: time.Hour, WriteTime: time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, limits, func(w *world) {
				slow := w.raw("bob", "b")
				if _, err := slow.Write(rawFrame(encode(t, repo.Sync{SenderID: "b", Document: name("d"), Data: content("I am here")}))); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				writer := w.join("alice", "a")
				writer.request("d")
				writer.wantSync("d", "I am here")
				since := time.Now()
				for i := range 40 {
					writer.sync("d", content(fmt.Sprint(numbered(i), strings.Repeat(".", 100))))
					writer.wantSync("d", "ack")
				}
				if took := time.Since(since); took > 0 {
					t.Errorf("the writer waited %v", took)
				}
				lifeOf(slow)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.closed) != 1 || w.closed[0] != code.SlowReader {
					t.Errorf("sockets closed with %v, want one %s", w.closed, code.SlowReader)
				}
			})
		})
	}
}

// A peer that takes no answers is not listened to, so that its own requests cannot fill its outbox.
func TestAPeerThatTakesNoAnswersIsNotListenedTo(t *testing.T) {
	inWorld(t, hub.Limits{OutboundMessages: 20, PingEvery: time.Hour, WriteTime: time.Hour}, func(w *world) {
		w.docs.create("d", "text")
		deaf := w.raw("bob", "b")
		request := rawFrame(encode(t, repo.Request{SenderID: "b", Document: name("d"), Data: asking("please")}))
		var sending sync.WaitGroup
		sending.Go(func() {
			for range 500 {
				if _, err := deaf.Write(request); err != nil {
					t.Errorf("the socket was closed: %v", err)
					return
				}
			}
		})
		time.Sleep(time.Minute)
		for _, info := range w.hub.Sockets() {
			if info.Queued > 20*300 {
				t.Errorf("%d bytes are queued", info.Queued)
			}
		}
		answers := 0
		buf := make([]byte, 1<<16)
		for answers < 501 { // the greeting too: each is written at once
			if _, err := deaf.Read(buf); err != nil {
				t.Fatalf("after %d answers: %v", answers, err)
			}
			answers++
		}
		sending.Wait()
		_ = deaf.Close()
	})
}

// What is answered without a document's help is bounded too.
func TestAFloodOfQuestions(t *testing.T) {
	inWorld(t, hub.Limits{OutboundMessages: 20, PingEvery: time.Hour, WriteTime: time.Hour}, func(w *world) {
		deaf := w.raw("bob", "b")
		for range 100 {
			frame := encode(t, repo.Request{SenderID: "b", Document: "none of ours", Data: asking("please")})
			if _, err := deaf.Write(rawFrame(frame)); err != nil {
				break // it was closed
			}
		}
		lifeOf(deaf)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.closed) != 1 || w.closed[0] != code.SlowReader {
			t.Errorf("sockets closed with %v, want one %s", w.closed, code.SlowReader)
		}
	})
}

func TestADeadLineIsNoticedWithinTenSeconds(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		w.join("alice", "a")
		mute := w.raw("bob", "b") // takes everything and says nothing
		took := make(chan time.Duration)
		go func() { took <- lifeOf(mute) }()
		if took := <-took; took != 10*time.Second {
			t.Errorf("a mute peer lived for %v", took)
		}
		stuck := w.raw("carol", "c") // does not even take anything
		since := time.Now()
		for len(w.hub.Sockets()) > 1 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(since); took > 11*time.Second {
			t.Errorf("a stuck peer lived for %v", took)
		}
		_ = stuck.Close()
		time.Sleep(time.Hour)
		if left := w.hub.Sockets(); len(left) != 1 || left[0].Peer != "a" {
			t.Errorf("after an hour of pings %+v are left", left)
		}
	})
}

// A message that takes longer to arrive than a ping may go unanswered proves that the line is alive.
func TestALongUploadIsNoDeadLine(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		slow := w.raw("bob", "b")
		go lifeOf(slow)
		frame := rawFrame(encode(t, repo.Sync{SenderID: "b", Document: name("d"), Data: content(strings.Repeat("x", 30_000))}))
		for len(frame) > 0 {
			n, err := slow.Write(frame[:min(len(frame), 500)])
			if err != nil {
				t.Fatalf("the socket was closed with %d bytes to go: %v", len(frame), err)
			}
			frame = frame[n:]
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := w.docs.text("d"); len(got) != 1 {
			t.Errorf("%d messages arrived", len(got))
		}
		_ = slow.Close()
	})
}

// A message that takes longer to be taken than a ping may go unanswered does not end the socket either.
func TestALongDownloadIsNoDeadLine(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		large := strings.Repeat("y", 2<<20)
		w.docs.create("d", large)
		slow := w.raw("bob", "b")
		if _, err := slow.Write(rawFrame(encode(t, repo.Request{SenderID: "b", Document: name("d"), Data: asking("please")}))); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 32<<10)
		for taken := 0; taken < len(large); {
			n, err := slow.Read(buf)
			if err != nil {
				t.Fatalf("the socket was closed after %d of %d bytes: %v", taken, len(large), err)
			}
			taken += n
			time.Sleep(time.Second)
		}
		_ = slow.Close()
	})
}

func TestEphemeralMessages(t *testing.T) {
	inWorld(t, hub.Limits{EphemeralBytes: 100}, func(w *world) {
		alice, bob, viewer, stranger := w.join("alice", "a"), w.join("bob", "b"), w.join("viewer", "v"), w.join("carol", "c")
		alice.sync("d", content("text"))
		alice.wantSync("d", "ack")
		for _, c := range []*client{bob, viewer} {
			c.request("d")
			c.wantSync("d", "text")
		}
		say := func(from *client, as repo.PeerID, count uint64, data []byte) {
			from.send(repo.Ephemeral{SenderID: as, TargetID: "server", Document: name("d"), Session: "s", Count: count, Data: data})
		}
		hear := func(c *client, from repo.PeerID, count uint64) {
			t.Helper()
			frame := c.next()
			if m, ok := frame.(repo.Ephemeral); !ok || m.SenderID != from || m.TargetID != c.peer || m.Count != count || m.Session != "s" || m.Document != name("d") {
				t.Errorf("%s heard %#v, want message %d of %s", c.peer, frame, count, from)
			}
		}
		say(alice, "a", 1, []byte{0xff}) // no CBOR: the data is nobody's business
		hear(bob, "a", 1)
		hear(viewer, "a", 1)
		say(bob, "a", 1, []byte{0xff}) // the echo of a stock client
		say(viewer, "v", 1, []byte{1})
		hear(alice, "v", 1)
		hear(bob, "v", 1)
		say(stranger, "c", 1, []byte{1}) // has not opened the document
		say(stranger, "a", 2, []byte{1}) // and lies
		say(alice, "a", 3, make([]byte, 101))
		for _, c := range []*client{alice, bob, viewer, stranger} {
			c.wantQuiet()
		}
		w.mu.Lock()
		got := strings.Join(w.dropped, " ")
		w.mu.Unlock()
		if strings.Count(got, "echo") != 2 || strings.Count(got, "large") != 1 {
			t.Errorf("dropped %q, want two echoes and a large one", got)
		}
		viewer.leave()
		synctest.Wait()
		say(alice, "a", 4, []byte{1})
		hear(bob, "a", 4)
	})
}

// What a peer says about a document it has just sent is not lost on the way.
func TestEphemeralMessagesKeepTheirPlace(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		bob := w.join("bob", "b")
		bob.request("d")
		bob.wantUnavailable("d")
		hold := make(chan struct{})
		alice := w.join("alice", "a")
		alice.sync("d", content("text"))
		alice.wantSync("d", "ack")
		bob.wantSync("d", "text")
		w.docs.change("d", func(d *document) { d.hold = hold })
		alice.sync("d", content("more"))
		alice.send(repo.Ephemeral{SenderID: "a", Document: name("d"), Count: 1, Data: []byte{1}})
		bob.wantQuiet()
		close(hold)
		bob.wantSync("d", "more")
		if m, ok := bob.next().(repo.Ephemeral); !ok || m.Count != 1 {
			t.Errorf("Bob got %#v behind the text, want the message", m)
		}
	})
}

// A flood of presence never costs a slow reader its socket.
func TestEphemeralMessagesAreDroppedFirst(t *testing.T) {
	inWorld(t, hub.Limits{OutboundMessages: 20, PingEvery: time.Hour, WriteTime: time.Hour}, func(w *world) {
		slow := w.raw("bob", "b")
		if _, err := slow.Write(rawFrame(encode(t, repo.Sync{SenderID: "b", Document: name("d"), Data: content("hi")}))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		writer := w.join("alice", "a")
		writer.request("d")
		writer.wantSync("d", "hi")
		for i := range uint64(100) {
			writer.send(repo.Ephemeral{SenderID: "a", Document: name("d"), Count: i, Data: []byte{1}})
		}
		writer.wantQuiet()
		for range 9 { // there is room for what must not be lost
			writer.sync("d", content("text"))
			writer.wantSync("d", "ack")
		}
		time.Sleep(2 * time.Second) // more than an end takes
		if n := len(w.hub.Sockets()); n != 2 {
			t.Errorf("%d sockets are left, want 2", n)
		}
		w.mu.Lock()
		if n := len(w.dropped); n < 80 {
			t.Errorf("%d messages were dropped", n)
		}
		w.mu.Unlock()
		_ = slow.Close()
	})
}

func encode(t *testing.T, frame repo.Frame) []byte {
	t.Helper()
	b, err := repo.Encode(frame)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Sockets come, write, are ended and go in any order: nothing deadlocks, races or is left behind, and what a peer
// was acknowledged is in the document.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(rt, "steps")
		who := rapid.SliceOfN(rapid.IntRange(0, 4), len(steps), len(steps)).Draw(rt, "who")
		inWorld(t, hub.Limits{OutboundMessages: 64, InboundFrames: 8, Workers: 2}, func(w *world) {
			clients := make([]*client, 5)
			acked, sent := make([]int, 5), 0
			collect := func(i int) {
				for c := clients[i]; len(c.frames) > 0; {
					if m, ok := (<-c.frames).(repo.Sync); ok && string(m.Data) == "ack" {
						acked[i]++
					}
				}
			}
			for n, step := range steps {
				i := who[n]
				if clients[i] == nil {
					clients[i] = w.join(fmt.Sprint("key", i%2), repo.PeerID(fmt.Sprint("peer", i)))
				}
				c := clients[i]
				switch step {
				case 0, 1, 2, 3:
					_ = c.ws.Write(w.Context(), websocket.MessageBinary, encode(t, repo.Sync{SenderID: c.peer, Document: name("d"), Data: content("x")}))
					sent++
				case 4:
					_ = c.ws.Write(w.Context(), websocket.MessageBinary, encode(t, repo.Request{SenderID: c.peer, Document: name("e"), Data: asking("x")}))
				case 5:
					_ = c.ws.Write(w.Context(), websocket.MessageBinary, []byte{0xf6})
				case 6:
					_ = c.ws.Close(websocket.StatusNormalClosure, "")
				case 7:
					w.docs.create("e", "it")
				case 8:
					w.docs.gone("d", code.New(code.Busy, "put away"))
				case 9:
					synctest.Wait()
				}
				select {
				case <-c.done:
					for frame := range c.frames {
						if m, ok := frame.(repo.Sync); ok && string(m.Data) == "ack" {
							acked[i]++
						}
					}
					clients[i] = nil
				default:
				}
			}
			synctest.Wait()
			total := 0
			for i := range clients {
				if clients[i] != nil {
					collect(i)
				}
				total += acked[i]
			}
			if have := len(w.docs.text("d")); total > have || have > sent {
				rt.Fatalf("%d acknowledged, %d in the document, %d sent", total, have, sent)
			}
		})
	})
}
