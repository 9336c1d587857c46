package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/repo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSocket notes what the hub asks of it.
type fakeSocket struct {
	key doc.KeyID

	mu       sync.Mutex
	ended    *code.Error
	heard    []repo.Ephemeral
	appeared []crdt.DocumentID
}

func (s *fakeSocket) Key() doc.Key { return doc.Key{ID: s.key} }
func (s *fakeSocket) Info() Info   { return Info{Key: s.key} }

func (s *fakeSocket) End(why *code.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = why
	}
}

func (s *fakeSocket) Ephemeral(m repo.Ephemeral) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, m)
}

func (s *fakeSocket) Appeared(id crdt.DocumentID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appeared = append(s.appeared, id)
}

func (s *fakeSocket) endedWith() code.Code {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		return ""
	}
	return s.ended.Code
}

func add(t testing.TB, h *Hub, key doc.KeyID) *fakeSocket {
	t.Helper()
	s := &fakeSocket{key: key}
	if err := h.Add(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCloseKey(t *testing.T) {
	h := New(Options{})
	a1, a2, b := add(t, h, "a"), add(t, h, "a"), add(t, h, "b")
	h.CloseKey("a", code.New(code.KeyRevoked, "revoked"))
	if a1.endedWith() != code.KeyRevoked || a2.endedWith() != code.KeyRevoked || b.endedWith() != "" {
		t.Errorf("ended with %q, %q and %q", a1.endedWith(), a2.endedWith(), b.endedWith())
	}
	if err := h.Add(&fakeSocket{key: "a"}); !code.Is(err, code.KeyRevoked) {
		t.Errorf("a socket of a revoked key was answered %v", err)
	}
}

func TestSocketsOfAKeyAreBounded(t *testing.T) {
	h := New(Options{Limits: Limits{SocketsPerKey: 2}})
	a := add(t, h, "a")
	add(t, h, "a")
	if err := h.Add(&fakeSocket{key: "a"}); !code.Is(err, code.TooManySockets) {
		t.Errorf("a third socket was answered %v", err)
	}
	add(t, h, "b")
	h.Remove(a, "")
	add(t, h, "a")
}

func TestClaim(t *testing.T) {
	h := New(Options{})
	old, back, thief := add(t, h, "a"), add(t, h, "a"), add(t, h, "b")
	for _, c := range []struct {
		s    Socket
		want code.Code
	}{{old, ""}, {old, ""}, {thief, code.ActorMismatch}, {back, ""}, {thief, code.ActorMismatch}} {
		err := h.Claim("p", c.s)
		if (err == nil) != (c.want == "") || err != nil && !code.Is(err, c.want) {
			t.Errorf("claim gave %v, want %q", err, c.want)
		}
	}
	if old.endedWith() != code.ActorMismatch || back.endedWith() != "" {
		t.Errorf("the old socket ended with %q, the new one with %q", old.endedWith(), back.endedWith())
	}
	h.Remove(old, "p") // late: the name is not its any more
	if err := h.Claim("p", thief); !code.Is(err, code.ActorMismatch) {
		t.Errorf("the name was free while its owner lived: %v", err)
	}
	h.Remove(back, "p")
	if err := h.Claim("p", thief); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
}

func TestCloseWaitsForAllSockets(t *testing.T) {
	h := New(Options{})
	a, b := add(t, h, "a"), add(t, h, "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close before its sockets have gone gave %v", err)
	}
	if a.endedWith() != code.ShuttingDown || b.endedWith() != code.ShuttingDown {
		t.Errorf("ended with %q and %q", a.endedWith(), b.endedWith())
	}
	closed := make(chan error)
	go func() { closed <- h.Close(t.Context()) }()
	h.Remove(a, "")
	select {
	case err := <-closed:
		t.Errorf("closed with a socket left: %v", err)
	default:
	}
	h.Remove(b, "")
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := h.Add(&fakeSocket{key: "c"}); !code.Is(err, code.ShuttingDown) {
		t.Errorf("a late socket was answered %v", err)
	}
	if err := New(Options{}).Close(t.Context()); err != nil {
		t.Errorf("close of an empty hub gave %v", err)
	}
}

// Against a twin that is a plain list: rooms and waiting sets hold exactly who entered and did not leave.
func TestRoomsAndWaiting(t *testing.T) {
	type membership struct{ document, socket int }
	rapid.Check(t, func(t *rapid.T) {
		const most = 2
		h := New(Options{Limits: Limits{AwaitedDocuments: most}})
		sockets := make([]*fakeSocket, 4)
		for i := range sockets {
			sockets[i] = &fakeSocket{key: doc.KeyID(fmt.Sprint(i))}
			if err := h.Add(sockets[i]); err != nil {
				t.Fatal(err)
			}
		}
		in, waits := map[membership]bool{}, map[membership]bool{}
		awaited := func(d int) bool {
			for m := range waits {
				if m.document == d {
					return true
				}
			}
			return false
		}
		awaitedDocuments := func() (n int) {
			for d := range 3 {
				if awaited(d) {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m := membership{rapid.IntRange(0, 2).Draw(t, "document"), rapid.IntRange(0, 3).Draw(t, "socket")}
			id, s := crdt.DocumentID{byte(m.document)}, sockets[m.socket]
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				h.Enter(id, s)
				in[m] = true
			case 1:
				h.Leave(id, s)
				delete(in, m)
			case 2:
				want := awaited(m.document) || awaitedDocuments() < most
				if got := h.Wait(id, s); got != want {
					t.Fatalf("Wait gave %v, want %v", got, want)
				}
				if want {
					waits[m] = true
				}
			case 3:
				h.StopWaiting(id, s)
				delete(waits, m)
			case 4:
				h.Relay(id, s, repo.Ephemeral{SenderID: "x"})
				for i, other := range sockets {
					want := 0
					if in[m] && i != m.socket && in[membership{m.document, i}] {
						want = 1
					}
					if len(other.heard) != want {
						t.Fatalf("socket %d heard %d messages, want %d", i, len(other.heard), want)
					}
					other.heard = nil
				}
			case 5:
				h.Appeared(id)
				for i, other := range sockets {
					want := waits[membership{m.document, i}]
					if (len(other.appeared) == 1) != want {
						t.Fatalf("socket %d was told of %v, want %v", i, other.appeared, want)
					}
					other.appeared = nil
				}
			}
		}
		for m := range in {
			h.Leave(crdt.DocumentID{byte(m.document)}, sockets[m.socket])
		}
		for m := range waits {
			h.StopWaiting(crdt.DocumentID{byte(m.document)}, sockets[m.socket])
		}
		for _, s := range sockets {
			h.Remove(s, "")
		}
		if len(h.sockets)+len(h.byKey)+len(h.byPeer)+len(h.rooms)+len(h.waiting) != 0 {
			t.Fatal("something is left in an empty hub")
		}
	})
}

// Everything at once, for the race detector; at the end nobody is left.
func TestConcurrentUse(t *testing.T) {
	h := New(Options{})
	var all sync.WaitGroup
	for n := range uint64(8) {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(n, 1))
			for range 300 {
				s := &fakeSocket{key: doc.KeyID(fmt.Sprint(chance.IntN(3)))}
				peer, id := repo.PeerID(fmt.Sprint(chance.IntN(5))), crdt.DocumentID{byte(chance.IntN(3))}
				if h.Add(s) != nil {
					continue
				}
				_ = h.Claim(peer, s)
				h.Enter(id, s)
				h.Wait(id, s)
				h.Relay(id, s, repo.Ephemeral{})
				h.Appeared(id)
				_ = h.Sockets()
				if chance.IntN(50) == 0 {
					h.CloseKey(doc.KeyID(fmt.Sprint(chance.IntN(3))), code.New(code.KeyRevoked, "revoked"))
				}
				h.Leave(id, s)
				h.StopWaiting(id, s)
				h.Remove(s, peer)
			}
		})
	}
	all.Wait()
	if n := len(h.Sockets()); n != 0 {
		t.Errorf("%d sockets are left", n)
	}
}

// Every limit has a default, which gives way to what was chosen.
func TestLimitsHaveDefaults(t *testing.T) {
	limits := reflect.ValueOf(Limits{}.withDefaults())
	for i := range limits.NumField() {
		if limits.Field(i).IsZero() {
			t.Errorf("%s has no default", limits.Type().Field(i).Name)
		}
	}
	kept := Limits{FrameBytes: 1, JoinTime: time.Minute}.withDefaults()
	if kept.FrameBytes != 1 || kept.JoinTime != time.Minute {
		t.Errorf("what was chosen became %d and %v", kept.FrameBytes, kept.JoinTime)
	}
}
