package lease

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const minute = time.Minute

func write(r Resource, a Agent, d time.Duration) Acquire {
	return Acquire{Resource: r, Agent: a, Duration: d}
}

func read(r Resource, a Agent, d time.Duration) Acquire {
	return Acquire{Resource: r, Agent: a, Duration: d, Operation: Read}
}

func queued(c Acquire) Acquire {
	c.Queue = true
	return c
}

// must runs a command that is to succeed.
func must(t *testing.T, k *Keeper, cmd Command) Answer {
	t.Helper()
	a, err := k.Do(t.Context(), cmd)
	if err != nil {
		t.Fatalf("%#v: %v", cmd, err)
	}
	return a
}

// try is must for other goroutines than the test's.
func try(t *testing.T, k *Keeper, cmd Command) {
	if _, err := k.Do(t.Context(), cmd); err != nil {
		t.Errorf("%#v: %v", cmd, err)
	}
}

// refused runs a command that is to be refused, and why.
func refused(t *testing.T, k *Keeper, cmd Command, why Why) *Refusal {
	t.Helper()
	_, err := k.Do(t.Context(), cmd)
	return refusal(t, err, why)
}

func refusal(t *testing.T, err error, why Why) *Refusal {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Why != why {
		t.Fatalf("want %s, got %v", why, err)
	}
	return r
}

func holderOf(s Status) Agent {
	if len(s.Holders) == 0 {
		return ""
	}
	return s.Holders[0].Holder
}

func TestOneGrantAmongAThousand(t *testing.T) {
	const agents, rounds = 1000, 100
	k := open(t, newMemStore(), Options{})
	for round := range rounds {
		r := Resource(fmt.Sprintf("file-%d", round))
		var wg sync.WaitGroup
		answers, errs := make([]Answer, agents), make([]error, agents)
		for i := range agents {
			wg.Go(func() {
				answers[i], errs[i] = k.Do(t.Context(), write(r, Agent(fmt.Sprintf("agent-%d", i)), minute))
			})
		}
		wg.Wait()
		var winners []Lease
		for i := range agents {
			if errs[i] == nil {
				winners = append(winners, answers[i].Lease)
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: %d grants", round, len(winners))
		}
		for i := range agents {
			if errs[i] == nil {
				continue
			}
			if ref := refusal(t, errs[i], Held); !slices.Equal(ref.Status.Holders, winners) {
				t.Fatalf("round %d: refusal %+v does not name %+v", round, ref, winners[0])
			}
		}
	}
}

// A lease that runs out is taken back at its exact end though nobody calls, and costs its holder trust once.
func TestExpiryIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		l := must(t, k, write("file", "a", 10*time.Second)).Lease
		must(t, k, write("other", "a", 60*time.Second))

		time.Sleep(10*time.Second - time.Millisecond)
		synctest.Wait()
		if h := holderOf(k.Status("file")); h != "a" {
			t.Fatalf("a millisecond before its end the lease is %q's", h)
		}
		time.Sleep(time.Millisecond)
		if h := holderOf(k.Status("file")); h != "" {
			t.Fatalf("at its end the lease is %q's", h)
		}
		synctest.Wait()
		_, events := s.saved()
		last := events[len(events)-1]
		if last.Kind != Expired || last.Lease != l || !last.At.Equal(l.ExpiresAt) || last.Actor != System {
			t.Fatalf("the last event is %+v", last)
		}
		refused(t, k, Renew{"file", "a", minute}, NoActiveLease)
		refused(t, k, Release{Resource: "file", Agent: "a"}, NoActiveLease)
		if rec, _, _ := k.Agent("a"); rec.Trust != StartTrust-10 || rec.Expiries != 1 || rec.Releases != 0 {
			t.Fatalf("the holder's record is %+v", rec)
		}
	})
}

// The sweep ends what has ended by the state as it is, so a lease renewed in time lives on.
func TestRenewedLeaseOutlivesItsFirstEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		first := must(t, k, write("file", "a", 10*time.Second)).Lease
		time.Sleep(10*time.Second - time.Millisecond)
		must(t, k, Renew{"file", "a", 20 * time.Second})
		time.Sleep(20*time.Second - time.Millisecond)
		if st := k.Status("file"); holderOf(st) != "a" || st.Holders[0].ID != first.ID {
			t.Fatalf("the renewed lease is gone: %+v", st)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if got, want := s.kinds("file"), []Kind{Granted, Renewed, Expired}; !slices.Equal(got, want) {
			t.Fatalf("the log has %v, want %v", got, want)
		}
	})
}

// Commands that come in while the store is busy are saved together, in one call.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGate()
		k := open(t, s, Options{})
		var wg sync.WaitGroup
		ask := func(r Resource) {
			wg.Go(func() {
				if _, err := k.Do(t.Context(), write(r, "a", minute)); err != nil {
					t.Error(err)
				}
			})
		}
		ask("first")
		<-s.entered
		for i := range 100 {
			ask(Resource(fmt.Sprintf("file-%d", i)))
		}
		synctest.Wait()
		s.let <- struct{}{}
		if together := len(<-s.entered); together != 100 {
			t.Errorf("%d commits were saved together", together)
		}
		s.let <- struct{}{}
		wg.Wait()
	})
}

// Of requests of one agent that are answered together, at one instant, one made the lease: the others extend it, and
// are told so.
func TestOneOfAnAgentsRequestsIsGranted(t *testing.T) {
	for name, resource := range map[string]Resource{"by itself": "file", "over a read": "read"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGate()
				k := open(t, s, Options{})
				var wg sync.WaitGroup
				var made atomic.Int64
				ask := func(cmd Acquire) {
					wg.Go(func() {
						a, err := k.Do(t.Context(), cmd)
						if err != nil {
							t.Error(err)
						}
						if a.Granted {
							made.Add(1)
						}
					})
				}
				ask(read("read", "a", minute)) // which an upgrade makes no second lease of
				<-s.entered
				for range 8 {
					ask(write(resource, "a", minute))
				}
				synctest.Wait()
				s.let <- struct{}{}
				if together := len(<-s.entered); together != 1 {
					t.Errorf("%d commits were saved together", together)
				}
				s.let <- struct{}{}
				wg.Wait()
				want := int64(2)
				if resource == "read" {
					want = 1
				}
				if n := made.Load(); n != want {
					t.Errorf("%d leases were made, want %d", n, want)
				}
			})
		})
	}
}

// What is not durable yet is not to be seen, and reading does not wait for the store.
func TestReadsShowWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGate()
		k := open(t, s, Options{})
		done := make(chan error)
		go func() {
			_, err := k.Do(t.Context(), write("file", "a", minute))
			done <- err
		}()
		<-s.entered
		if st := k.Status("file"); len(st.Holders) > 0 {
			t.Errorf("a grant that is not saved is shown: %+v", st)
		}
		if _, leases, _ := k.Agent("a"); len(leases) > 0 || len(k.List("")) > 0 {
			t.Error("a grant that is not saved is listed")
		}
		s.let <- struct{}{}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		_, leases, _ := k.Agent("a")
		if holderOf(k.Status("file")) != "a" || len(leases) != 1 || len(k.List("fi")) != 1 || len(k.List("x")) != 0 {
			t.Error("a grant that was answered is not shown")
		}
	})
}

// A store that does not come back fails the command after SaveTimeout, and the keeper lives on.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGate()
		k := open(t, s, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := k.Do(ctx, write("file", "a", minute)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		go func() {
			<-s.entered // the save that hangs
			<-s.entered // the next one
			s.let <- struct{}{}
		}()
		if _, err := k.Do(t.Context(), write("file", "b", minute)); err != nil {
			t.Fatal(err)
		}
		if since := time.Since(began); since != SaveTimeout {
			t.Fatalf("the save was given up after %v", since)
		}
	})
}

// A wall clock that is set by an hour ends nothing and makes nothing immortal: only its first reading counts.
func TestWallClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		var wall, elapsed atomic.Int64 // since epoch, since the start
		now := newClock(
			func() time.Time { return epoch.Add(time.Duration(wall.Load())) },
			func() time.Duration { return time.Duration(elapsed.Load()) })
		k := open(t, newMemStore(), Options{Now: now})
		must(t, k, write("file", "a", minute))
		wall.Add(int64(jump))
		elapsed.Add(int64(minute - time.Millisecond))
		if h := holderOf(k.Status("file")); h != "a" {
			t.Errorf("a jump of %v ended the lease", jump)
		}
		elapsed.Add(int64(time.Millisecond))
		if h := holderOf(k.Status("file")); h != "" {
			t.Errorf("a jump of %v made the lease immortal", jump)
		}
		if got := k.Now(); !got.Equal(epoch.Add(minute)) {
			t.Errorf("after a jump of %v the clock shows %v", jump, got)
		}
	}
}

func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k, err := Open(t.Context(), s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		long := must(t, k, write("long", "a", 300*time.Second)).Lease
		must(t, k, write("short", "b", 10*time.Second))
		refused(t, k, queued(write("long", "c", minute)), Held)
		refused(t, k, queued(write("short", "d", minute)), Held)
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}

		time.Sleep(100 * time.Second)
		k = open(t, s, Options{})
		if st := k.Status("long"); len(st.Holders) != 1 || st.Holders[0] != long {
			t.Errorf("the lease is not what it was: %+v", st)
		}
		if rec, _, _ := k.Agent("b"); rec.Trust != StartTrust || rec.Expiries != 1 {
			t.Errorf("what ran out while nobody served cost %+v", rec)
		}
		if q := k.Status("short").Queue; len(q) != 1 || !q[0].Reserved.Equal(k.Now().Add(Reservation)) {
			t.Errorf("the waiter is not offered what is free: %+v", q)
		}
		if q := k.Status("long").Queue; len(q) != 1 || !q[0].Until.Equal(k.Now().Add(DefaultPlace)) {
			t.Errorf("the place has no fresh life: %+v", q)
		}
		if l := must(t, k, write("short", "d", minute)).Lease; l.Fence <= long.Fence {
			t.Errorf("the fence fell to %d", l.Fence)
		}
		if got, want := s.kinds("short"), []Kind{Granted, Queued, Expired, Reserved, Granted}; !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
		s.agrees(t)
	})
}

// A clock that was set back while the server was down makes no lease longer than any may be.
func TestRestartWithClockSetBack(t *testing.T) {
	s := newMemStore()
	k, err := Open(t.Context(), s, Options{Now: func() time.Time { return epoch }})
	if err != nil {
		t.Fatal(err)
	}
	must(t, k, write("file", "a", minute))
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	earlier := epoch.Add(-time.Hour)
	k = open(t, s, Options{Now: func() time.Time { return earlier }})
	if l := k.Status("file").Holders[0]; !l.ExpiresAt.Equal(earlier.Add(MaxDuration)) {
		t.Errorf("the lease ends %v from now", l.ExpiresAt.Sub(earlier))
	}
	s.agrees(t)
}

// The former holder is told on its next call, once.
func TestLostLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, write("expires", "a", time.Second))
		must(t, k, write("broken", "a", minute))
		must(t, k, write("cleared", "a", minute))
		must(t, k, write("released", "a", minute))
		must(t, k, write("broken by itself", "a", minute))
		must(t, k, Break{Resource: "broken", By: "root", Reason: "stuck"})
		must(t, k, Break{Resource: "broken by itself", By: "a"})
		must(t, k, Clear{Resource: "cleared", By: "root", Reason: "deleted"})
		must(t, k, Release{Resource: "released", Agent: "a"})
		time.Sleep(time.Second)
		synctest.Wait()
		var got []Resource
		for _, e := range k.TakeLost("a") {
			got = append(got, e.Resource)
		}
		if want := []Resource{"broken", "cleared", "expires"}; !slices.Equal(got, want) {
			t.Errorf("the holder is told of %v, want %v", got, want)
		}
		if again := k.TakeLost("a"); again != nil {
			t.Errorf("the holder is told twice: %v", again)
		}

		for i := range lostPerAgent + 4 {
			must(t, k, write(Resource(fmt.Sprintf("file-%d", i)), "b", minute))
		}
		must(t, k, Retire{Agent: "b", Reason: "key revoked"})
		if n := len(k.TakeLost("b")); n != lostPerAgent {
			t.Errorf("%d losses are remembered", n)
		}
		must(t, k, write("forgotten", "c", time.Second))
		time.Sleep(2*lostFor + minute)
		synctest.Wait()
		if e := k.TakeLost("c"); e != nil {
			t.Errorf("after two hours there is still %v", e)
		}
	})
}

// Observers see what is durable, all of it, in order.
func TestObserve(t *testing.T) {
	var seen []Event
	s := newMemStore()
	k, err := Open(t.Context(), s, Options{Observe: func(c Commit) { seen = append(seen, c.Events...) }})
	if err != nil {
		t.Fatal(err)
	}
	must(t, k, write("file", "a", minute))
	refused(t, k, write("file", "b", minute), Held)
	must(t, k, Release{Resource: "file", Agent: "a"})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if _, events := s.saved(); len(events) != 2 || !reflect.DeepEqual(events, seen) {
		t.Errorf("observed %v, saved %v", seen, events)
	}
}

// A refusal that changes nothing writes nothing; the count is saved with the next thing that happens.
func TestRefusalWritesNothing(t *testing.T) {
	s := newMemStore()
	k := open(t, s, Options{})
	must(t, k, write("file", "a", minute))
	for range 5 {
		refused(t, k, write("file", "b", minute), Held)
	}
	if s.saves != 1 {
		t.Errorf("the store was called %d times", s.saves)
	}
	if rec, _, _ := k.Agent("b"); rec.Refusals != 5 {
		t.Errorf("%d refusals are counted", rec.Refusals)
	}
	must(t, k, write("other", "b", minute))
	state, _ := s.saved()
	if i := slices.IndexFunc(state.Agents, func(a AgentRecord) bool { return a.Agent == "b" }); state.Agents[i].Refusals != 5 {
		t.Errorf("saved is %+v", state.Agents[i])
	}
}

func TestCapPerAgent(t *testing.T) {
	k := open(t, newMemStore(), Options{})
	for i := range DefaultPerAgent {
		must(t, k, write(Resource(fmt.Sprintf("file-%d", i)), "greedy", minute))
	}
	if r := refused(t, k, write("one more", "greedy", minute), TooMany); r.Limit != DefaultPerAgent {
		t.Errorf("the limit is said to be %d", r.Limit)
	}
	must(t, k, write("file-0", "greedy", minute)) // what it has it may extend
	must(t, k, write("one more", "other", minute))
	refused(t, k, queued(write("one more", "greedy", minute)), TooMany) // nor take a place
	refused(t, k, Transfer{Resource: "one more", Agent: "other", To: "greedy"}, TooMany)
	must(t, k, Release{Resource: "file-0", Agent: "greedy"})
	must(t, k, Transfer{Resource: "one more", Agent: "other", To: "greedy"})
}

// A retry after a lost answer finds the lease that the first try made.
func TestRetryMakesNoSecondLease(t *testing.T) {
	s := newMemStore()
	k := open(t, s, Options{})
	first := must(t, k, write("file", "a", minute)).Lease
	again := must(t, k, write("file", "a", minute)).Lease
	if again.ID != first.ID || again.Fence != first.Fence {
		t.Errorf("a retry made %+v out of %+v", again, first)
	}
	must(t, k, Release{Resource: "file", Agent: "a"})
	refused(t, k, Release{Resource: "file", Agent: "a"}, NoActiveLease)
}

// An id of a former grant opens nothing, whoever shows it.
func TestStaleID(t *testing.T) {
	k := open(t, newMemStore(), Options{})
	old := must(t, k, write("file", "a", minute)).Lease
	must(t, k, Break{Resource: "file", By: "root"})
	must(t, k, write("file", "b", minute))
	refused(t, k, Release{Resource: "file", Agent: "a", IfID: old.ID}, NotHolder)
	refused(t, k, Release{Resource: "file", Agent: "b", IfID: old.ID}, StaleLease)
	if h := holderOf(k.Status("file")); h != "b" {
		t.Errorf("the file is %q's", h)
	}
}

func TestInvalidCommands(t *testing.T) {
	long := string(make([]byte, MaxReason+1))
	k := open(t, newMemStore(), Options{})
	for _, cmd := range []Command{
		write("", "a", minute), write(Resource(make([]byte, MaxResource+1)), "a", minute), write("file", "", minute),
		write("file", "a", 0), write("file", "a", -1), write("file", "a", MinDuration-1), write("file", "a", MaxDuration+1),
		Acquire{Resource: "file", Agent: "a", Duration: minute, Operation: "steal"},
		Acquire{Resource: "file", Agent: "a", Duration: minute, Place: MaxPlace + 1},
		Acquire{Resource: "file", Agent: "a", Duration: minute, Place: -1},
		Acquire{Resource: "file", Agent: "a", Duration: minute, Reason: long},
		Renew{"file", "a", MaxDuration + 1}, Renew{"", "a", minute}, Act{"file", ""}, Release{Resource: "file"},
		Break{Resource: "file"}, Break{Resource: "file", By: "root", Reason: long}, Transfer{Resource: "file", Agent: "a", To: "a"},
		Transfer{Resource: "file", Agent: "a"}, Leave{}, Detach{}, Retire{}, Clear{Resource: "file"}, nil,
	} {
		if _, err := k.Do(t.Context(), cmd); !errors.Is(err, ErrInvalid) {
			t.Errorf("%#v: %v", cmd, err)
		}
	}
	for _, cmd := range []Command{write("file", "a", time.Second), Transfer{Resource: "file", Agent: "a", To: "b"}} {
		if _, _, err := NewKernel(KernelOptions{}).Do(epoch, cmd); !errors.Is(err, ErrInvalid) {
			t.Errorf("a grant without an id: %v", err)
		}
	}
	if list := k.List(""); list != nil {
		t.Errorf("something is held: %v", list)
	}
}

func TestClosedKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, newMemStore(), Options{})
		must(t, k, write("file", "a", minute))
		polled := make(chan error)
		go func() {
			_, err := k.Wait(t.Context(), write("file", "b", minute), minute)
			polled <- err
		}()
		synctest.Wait()
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-polled; !errors.Is(err, ErrClosed) {
			t.Errorf("the long poll ended with %v", err)
		}
		if _, err := k.Do(t.Context(), write("file", "c", minute)); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed keeper answers %v", err)
		}
		if _, err := k.Wait(t.Context(), write("file", "c", minute), minute); !errors.Is(err, ErrClosed) {
			t.Errorf("a closed keeper answers %v", err)
		}
	})
}
