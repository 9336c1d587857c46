package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
	"cowrite/sync/client"
	"cowrite/sync/line/linetest"
)

// landlord is a server of leases alone, over lines in memory, so that time is the test's. Its clock is wrong by ten years.
type landlord struct {
	http.Server
	network *linetest.Network

	mu       sync.Mutex
	grant    lease.ID
	requests []agent.LeaseAction
	at       []time.Duration // of the requests, from the beginning
	began    time.Time
	refuse   *code.Error // what is asked for
	silent   bool        // nothing is answered
	socket   *websocket.Conn
}

func newLandlord() *landlord {
	s := &landlord{network: linetest.New(), grant: "grant-1", began: time.Now()}
	s.Handler = http.HandlerFunc(s.serve)
	go func() { _ = s.Serve(s.network) }() // ends with Close
	return s
}

// options are those of a client of the landlord.
func (s *landlord) options(lost func(agent.LostLease)) client.Options {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: s.network.Dial}
	return client.Options{URL: "http://landlord", Key: "cw_key", HTTP: &http.Client{Transport: transport}, LeaseLost: lost}
}

func (s *landlord) serve(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{agent.Subprotocol}})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // it has ended
	s.mu.Lock()
	s.socket = ws
	s.mu.Unlock()
	s.say(&agent.Welcome{Protocol: agent.Subprotocol, Agent: "alice", Role: "editor"})
	for {
		_, b, err := ws.Read(context.Background())
		if err != nil {
			return
		}
		request, id, err := agent.DecodeRequest(b)
		asked, ok := request.(*agent.LeaseRequest)
		if err != nil || !ok {
			panic(string(b))
		}
		if f := s.answer(asked, id); f != nil {
			s.say(f)
		}
	}
}

func (s *landlord) say(f agent.Frame) {
	b, err := agent.Encode(f)
	if err != nil {
		panic(err)
	}
	_ = s.socket.Write(context.Background(), websocket.MessageText, b) // the client may have left
}

func (s *landlord) answer(r *agent.LeaseRequest, id agent.RequestID) agent.Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.at = append(s.requests, r.Action), append(s.at, time.Since(s.began))
	switch {
	case s.silent:
		return nil
	case s.refuse != nil:
		return &agent.Error{Header: agent.Header{ID: id}, Code: s.refuse.Code, Message: s.refuse.Message, Facts: s.refuse.Facts}
	case r.Action == agent.Release:
		return &agent.Ack{Header: agent.Header{ID: id}, Released: true}
	}
	return &agent.Ack{Header: agent.Header{ID: id}, Lease: &agent.Lease{
		LeaseID: s.grant, Holder: "alice", Fence: 7, ExpiresAt: "2016-01-01T00:00:00.000Z", ExpiresInMs: int64(r.LeaseDurationSeconds * 1000),
	}}
}

// will says how requests are answered from now on.
func (s *landlord) will(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// asked gives the times of requests, in whole seconds, and forgets them.
func (s *landlord) asked(action agent.LeaseAction) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []int
	for i, a := range s.requests {
		if a == action {
			at = append(at, int(s.at[i].Round(time.Second).Seconds()))
		}
	}
	s.requests, s.at = nil, nil
	return at
}

// withLandlord runs a test in a time of its own.
func withLandlord(t *testing.T, test func(t *testing.T, s *landlord, m *client.LeaseManager, lost chan agent.LostLease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newLandlord()
		lost := make(chan agent.LostLease, 8)
		m := client.NewLeaseManager(s.options(func(l agent.LostLease) { lost <- l }))
		test(t, s, m, lost)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// after lets so much time pass, and what follows from that happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func equal(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s at %v s, want %v", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s at %v s, want %v", what, got, want)
			return
		}
	}
}

func TestManagerRenewsBeforeTheEnd(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, lost chan agent.LostLease) {
		l, err := m.Acquire(t.Context(), "my-doc", "intro", time.Minute, "Rewriting introduction")
		if err != nil {
			t.Fatal(err)
		}
		if l.ID != "grant-1" || m.LeaseID() != "grant-1" || l.Fence != 7 || l.Left() != time.Minute {
			t.Errorf("the lease is %s, fence %d, for %v", l.ID, l.Fence, l.Left())
		}
		must(m.StartAutoRenew(10 * time.Second))
		after(155 * time.Second)
		equal(t, "renewals, ten seconds before the end", s.asked(agent.Renew), 50, 100, 150)
		must(m.StartAutoRenew(time.Hour)) // as soon as after a third of the time left
		after(40 * time.Second)
		equal(t, "renewals, after thirds", s.asked(agent.Renew), 173, 193)
		must(m.Renew(t.Context(), 5*time.Minute))
		after(99 * time.Second)
		equal(t, "renewals, of a lease that is longer now", s.asked(agent.Renew), 195)
		must(m.Release(t.Context()))
		after(10 * time.Minute)
		equal(t, "requests for a lease that was released", s.asked(agent.Renew))
		if m.LeaseID() != "" || l.Held() || len(lost) > 0 {
			t.Errorf("after the release the lease is %q, held %t, lost %d", m.LeaseID(), l.Held(), len(lost))
		}
		if err := m.Release(t.Context()); !errors.Is(err, client.ErrNoLease) {
			t.Errorf("the second release: %v", err)
		}
	})
}

func TestManagerDoesNotRenewUnasked(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, _ chan agent.LostLease) {
		if err := m.StartAutoRenew(0); !errors.Is(err, client.ErrNoLease) {
			t.Errorf("renewing what is not there: %v", err)
		}
		l, err := m.Acquire(t.Context(), "my-doc", "intro", 30*time.Second, "")
		if err != nil {
			t.Fatal(err)
		}
		after(29 * time.Second)
		if !l.Held() {
			t.Error("a second before its end the lease is over")
		}
		after(time.Second)
		select {
		case <-l.Lost():
		default:
			t.Error("the lease ran out, and that is not told")
		}
		equal(t, "renewals", s.asked(agent.Renew))
	})
}

// Renewals that get no answer are tried again, in ever shorter pauses; the lease is lost when its time is up, which no
// clock of the server's has a say in.
func TestLeaseIsLostWhenNoRenewalGetsThrough(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, _ chan agent.LostLease) {
		l, err := m.Acquire(t.Context(), "my-doc", "intro", 27*time.Second, "")
		if err != nil {
			t.Fatal(err)
		}
		s.will(func() { s.silent = true })
		must(m.StartAutoRenew(0))
		after(26 * time.Second)
		if tries := s.asked(agent.Renew); len(tries) < 3 || tries[0] != 9 || !l.Held() {
			t.Errorf("a second before its end it was tried to renew at %v s, held %t", tries, l.Held())
		}
		after(time.Second)
		select {
		case <-l.Lost():
		default:
			t.Error("the lease is over, and that is not told")
		}
	})
}

// What fails at the server is over some time: the lease is kept, and its renewal tried again.
func TestLeaseOutlivesFailuresOfTheServer(t *testing.T) {
	for word, entry := range code.Table {
		if entry.HTTP < 500 && entry.HTTP != 429 {
			continue
		}
		t.Run(string(word), func(t *testing.T) {
			withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, lost chan agent.LostLease) {
				l, err := m.Acquire(t.Context(), "my-doc", "intro", 27*time.Second, "")
				if err != nil {
					t.Fatal(err)
				}
				s.will(func() { s.refuse = code.New(word, "no") })
				must(m.StartAutoRenew(0))
				after(20 * time.Second)
				if tries := s.asked(agent.Renew); len(tries) < 2 || tries[0] != 9 || !l.Held() {
					t.Errorf("renewals at %v s, held %t", tries, l.Held())
				}
				s.will(func() { s.refuse = nil })
				after(time.Minute)
				if len(lost) > 0 || !l.Held() {
					t.Errorf("lost %d, held %t", len(lost), l.Held())
				}
			})
		})
	}
}

func TestLeaseIsLostWhenARenewalIsRefused(t *testing.T) {
	for name, change := range map[string]func(*landlord){
		"refused":       func(s *landlord) { s.refuse = code.New(code.NoActiveLease, "nobody holds it") },
		"another grant": func(s *landlord) { s.grant = "grant-2" },
	} {
		t.Run(name, func(t *testing.T) {
			withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, _ chan agent.LostLease) {
				l, err := m.Acquire(t.Context(), "my-doc", "intro", 30*time.Second, "")
				if err != nil {
					t.Fatal(err)
				}
				s.will(func() { change(s) })
				must(m.StartAutoRenew(0))
				after(10 * time.Second)
				select {
				case <-l.Lost():
				default:
					t.Error("the lease is over, and that is not told")
				}
				after(time.Minute)
				equal(t, "renewals", s.asked(agent.Renew), 10)
			})
		})
	}
}

// What the server says is lost is told at once, and renewed no longer.
func TestLostLeaseIsToldAtOnce(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, lost chan agent.LostLease) {
		l, err := m.Acquire(t.Context(), "my-doc", "intro", 30*time.Second, "")
		if err != nil {
			t.Fatal(err)
		}
		must(m.StartAutoRenew(0))
		s.say(&agent.LeaseLost{LeaseLost: []agent.LostLease{{LeaseID: "grant-1", Action: "force", Reason: "it hangs"}}})
		synctest.Wait()
		select {
		case <-l.Lost():
		default:
			t.Error("the lease does not know that it is lost")
		}
		if told := <-lost; told.LeaseID != "grant-1" || told.Reason != "it hangs" {
			t.Errorf("the callback was told %+v", told)
		}
		after(time.Minute)
		equal(t, "renewals", s.asked(agent.Renew))
	})
}

// Who asks a manager what it holds, or gives up waiting, does not wait for one who acquires.
func TestNobodyWaitsForAnAcquiring(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, _ chan agent.LostLease) {
		if _, err := m.Acquire(t.Context(), "my-doc", "intro", time.Minute, ""); err != nil {
			t.Fatal(err)
		}
		s.will(func() { s.silent = true })
		first, giveUp := context.WithCancel(t.Context())
		acquired := make(chan error, 1)
		go func() {
			_, err := m.Acquire(first, "my-doc", "end", time.Minute, "")
			acquired <- err
		}()
		synctest.Wait()
		if id := m.LeaseID(); id != "grant-1" {
			t.Errorf("the lease is %q", id)
		}
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Acquire(second, "my-doc", "end", time.Minute, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits for its turn no longer is told %v", err)
		}
		giveUp()
		if err := <-acquired; !errors.Is(err, context.Canceled) {
			t.Errorf("who gives up is told %v", err)
		}
		s.will(func() { s.silent = false })
	})
}

func TestConflictSaysWhoAndUntilWhen(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, _ chan agent.LostLease) {
		s.will(func() {
			s.refuse = &code.Error{Code: code.SectionLeased, Message: "held", Facts: map[string]any{
				"holder": "beta", "expiresAt": "2016-01-01T00:00:30.000Z", "expiresInMs": 30_000, "reason": "rewording",
			}}
		})
		_, err := m.Acquire(t.Context(), "my-doc", "intro", time.Minute, "")
		conflict, ok := errors.AsType[*client.LeaseConflictError](err)
		if !ok || conflict.Holder != "beta" || conflict.ExpiresAt != "2016-01-01T00:00:30.000Z" || conflict.ExpiresIn != 30*time.Second {
			t.Errorf("the conflict is %+v", err)
		}
		if refusal, ok := errors.AsType[*code.Error](err); !ok || refusal.Code != code.SectionLeased || refusal.Facts["reason"] != "rewording" {
			t.Errorf("the refusal in it is %+v", refusal)
		}
		s.will(func() { s.refuse = code.New(code.Forbidden, "no") })
		if _, err := m.Acquire(t.Context(), "my-doc", "intro", time.Minute, ""); !code.Is(err, code.Forbidden) || errors.As(err, &conflict) {
			t.Errorf("a refusal that is no conflict: %v", err)
		}
	})
}

// A manager that ends gives back what it holds.
func TestCloseReleases(t *testing.T) {
	withLandlord(t, func(t *testing.T, s *landlord, m *client.LeaseManager, _ chan agent.LostLease) {
		must(m.Close())
		if _, err := m.Acquire(t.Context(), "my-doc", "intro", 30*time.Second, ""); err != nil {
			t.Fatal(err)
		}
		after(2 * time.Second)
		must(m.Close())
		equal(t, "releases", s.asked(agent.Release), 2)
	})
}
