package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// polled is how a long poll ended.
type polled struct {
	Answer
	err error
	at  time.Time
}

// startPoll begins a long poll, and returns once it stands.
func startPoll(ctx context.Context, k *Keeper, cmd Acquire, wait time.Duration) <-chan polled {
	ended := make(chan polled, 1)
	go func() {
		a, err := k.Wait(ctx, cmd, wait)
		ended <- polled{a, err, k.Now()}
	}()
	synctest.Wait()
	return ended
}

func TestWaitOnFreeResource(t *testing.T) {
	k := open(t, newMemStore(), Options{})
	a, err := k.Wait(t.Context(), write("file", "a", minute), minute)
	if err != nil || a.Lease.Holder != "a" {
		t.Fatalf("%+v, %v", a, err)
	}
	b, err := k.Wait(t.Context(), queued(write("file", "b", minute)), 0)
	if r := refusal(t, err, Held); r.Position != 1 {
		t.Fatalf("a poll of no length came to %+v, %+v", b, r)
	}
}

// The queue is woken by every way in which a lease can end, at once and not by the sweep.
func TestWakes(t *testing.T) {
	type wake struct {
		name string
		end  func(t *testing.T, k *Keeper)
		want func(p polled) error
	}
	granted := func(p polled) error {
		if p.err != nil || p.Lease.Holder != "b" {
			return fmt.Errorf("not granted: %+v, %v", p.Answer, p.err)
		}
		return nil
	}
	do := func(cmd Command) func(*testing.T, *Keeper) {
		return func(t *testing.T, k *Keeper) { must(t, k, cmd) }
	}
	for _, w := range []wake{
		{"release", do(Release{Resource: "file", Agent: "a"}), granted},
		{"expiry", func(_ *testing.T, k *Keeper) { time.Sleep(20*time.Second + 7*time.Millisecond) }, granted},
		{"force", do(Break{Resource: "file", By: "root"}), granted},
		{"key revoked", do(Retire{Agent: "a"}), granted},
		{"transfer", do(Transfer{Resource: "file", Agent: "a", To: "b"}), granted},
		{"transfer and release", func(t *testing.T, k *Keeper) {
			must(t, k, Transfer{Resource: "file", Agent: "a", To: "c"})
			must(t, k, Release{Resource: "file", Agent: "c"})
		}, granted},
		{"renewed to an earlier end", func(t *testing.T, k *Keeper) {
			must(t, k, Renew{"file", "a", time.Second})
			time.Sleep(time.Second)
		}, granted},
		{"taken by a plain ask", func(t *testing.T, k *Keeper) {
			must(t, k, Release{Resource: "file", Agent: "a"})
			must(t, k, write("file", "b", minute))
		}, granted},
		{"document deleted", do(Clear{Resource: "file", By: "root"}), func(p polled) error {
			if r, ok := errors.AsType[*Refusal](p.err); !ok || r.Why != NotQueued {
				return fmt.Errorf("ended with %+v, %v", p.Answer, p.err)
			}
			return nil
		}},
		{"own key revoked", do(Retire{Agent: "b"}), func(p polled) error {
			if r, ok := errors.AsType[*Refusal](p.err); !ok || r.Why != NotQueued {
				return fmt.Errorf("ended with %+v, %v", p.Answer, p.err)
			}
			return nil
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newMemStore()
				k := open(t, s, Options{})
				must(t, k, write("file", "a", 20*time.Second+7*time.Millisecond))
				ended := startPoll(t.Context(), k, write("file", "b", minute), minute)
				w.end(t, k)
				synctest.Wait()
				select {
				case p := <-ended:
					if err := w.want(p); err != nil {
						t.Error(err)
					}
				default:
					t.Error("the long poll sleeps on")
				}
				s.agrees(t)
			})
		})
	}
}

// The last reader to go wakes the writer, the writer wakes all readers that stand together.
func TestReadersWakeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, read("file", "r1", minute))
		must(t, k, read("file", "r2", minute))
		writer := startPoll(t.Context(), k, write("file", "w", minute), minute)
		r3 := startPoll(t.Context(), k, read("file", "r3", minute), minute)
		r4 := startPoll(t.Context(), k, read("file", "r4", minute), minute)
		must(t, k, Release{Resource: "file", Agent: "r1"})
		synctest.Wait()
		if len(writer) != 0 {
			t.Error("the writer does not wait for all readers")
		}
		must(t, k, Release{Resource: "file", Agent: "r2"})
		synctest.Wait()
		if len(writer) != 1 || len(r3) != 0 {
			t.Error("the writer does not come before the readers behind it")
		}
		must(t, k, Release{Resource: "file", Agent: "w"})
		synctest.Wait()
		if len(r3) != 1 || len(r4) != 1 {
			t.Error("the readers do not come together")
		}
		s.agrees(t)
	})
}

// Fifty agents and one file: eight stand in line. After each release the next is served, none twice and none
// passed, though newcomers try all the time for ten minutes.
func TestServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, write("file", "agent-0", minute))
		var mu sync.Mutex
		var served []Agent
		done := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(served)
		}
		var wg sync.WaitGroup
		var waits []time.Duration
		full := 0
		for i := range 49 {
			a := Agent(fmt.Sprintf("agent-%d", i+1))
			_, err := k.Do(t.Context(), queued(write("file", a, minute)))
			r, _ := errors.AsType[*Refusal](err)
			waits = append(waits, r.Wait)
			if r.Why == QueueFull {
				full++
				continue
			}
			wg.Go(func() {
				for {
					_, err := k.Wait(t.Context(), write("file", a, minute), 20*time.Second)
					if r, ok := errors.AsType[*Refusal](err); ok && r.Why == Held {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					break
				}
				mu.Lock()
				served = append(served, a)
				mu.Unlock()
				for range 3 { // works for 70 s
					time.Sleep(70 * time.Second / 3)
					try(t, k, Act{"file", a})
				}
				try(t, k, Release{Resource: "file", Agent: a})
			})
		}
		ms := time.Millisecond
		if want := []time.Duration{25 * ms, 50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 800 * ms, 800 * ms, 800 * ms}; !slices.Equal(waits[:9], want) || full != 41 {
			t.Errorf("told to wait %v, and %d turned away", waits[:9], full)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var newcomers sync.WaitGroup
		for i := range 20 {
			newcomers.Go(func() {
				for ctx.Err() == nil {
					if a, err := k.Do(ctx, write("file", Agent(fmt.Sprintf("newcomer-%d", i)), minute)); err == nil && done() < 8 {
						t.Errorf("%s got ahead", a.Lease.Holder)
					}
					time.Sleep(333 * time.Millisecond)
				}
			})
		}
		time.Sleep(10 * time.Second)
		must(t, k, Release{Resource: "file", Agent: "agent-0"})
		wg.Wait()
		cancel()
		newcomers.Wait()
		var want []Agent
		for i := range 8 {
			want = append(want, Agent(fmt.Sprintf("agent-%d", i+1)))
		}
		if !slices.Equal(served, want) {
			t.Errorf("served in the order %v", served)
		}
		s.agrees(t)
	})
}

// When the time is up the place lives on, for as long as after an ask, and the next poll finds it.
func TestTimeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, newMemStore(), Options{})
		must(t, k, write("file", "a", 300*time.Second))
		began := k.Now()
		b := startPoll(t.Context(), k, queued(write("file", "b", minute)), 25*time.Second)
		c := startPoll(t.Context(), k, write("file", "c", minute), MaxWait+time.Hour)
		p := <-b
		if r := refusal(t, p.err, Held); r.Position != 1 || holderOf(r.Status) != "a" || p.at.Sub(began) != 25*time.Second {
			t.Fatalf("after %v: %+v", p.at.Sub(began), r)
		}
		if q := k.Status("file").Queue; !q[0].Until.Equal(p.at.Add(DefaultPlace)) {
			t.Fatalf("the place lives until %v", q[0].Until.Sub(p.at))
		}
		time.Sleep(20 * time.Second)
		again := startPoll(t.Context(), k, write("file", "b", minute), 5*time.Second)
		if q := k.Status("file").Queue; q[0].Agent != "b" || !q[0].Until.IsZero() {
			t.Fatalf("the place was lost between two polls: %+v", q)
		}
		<-again
		if p := <-c; p.at.Sub(began) != MaxWait {
			t.Errorf("a poll may last %v", p.at.Sub(began))
		}
		time.Sleep(DefaultPlace)
		synctest.Wait()
		if q := k.Status("file").Queue; len(q) != 0 {
			t.Errorf("places stay for ever: %+v", q)
		}
	})
}

// When the time is up a place goes that no request asked for, whichever of several polls behind it ends first; one
// that was asked for stays.
func TestTimeUpLeavesNoPlaceUnasked(t *testing.T) {
	for name, polls := range map[string][]Acquire{
		"unasked":             {write("file", "b", minute)},
		"unasked twice":       {write("file", "b", minute), write("file", "b", minute)},
		"asked by the first":  {queued(write("file", "b", minute)), write("file", "b", minute)},
		"asked by the second": {write("file", "b", minute), queued(write("file", "b", minute))},
	} {
		asked := slices.ContainsFunc(polls, func(c Acquire) bool { return c.Queue })
		for _, waits := range [][]time.Duration{{5 * time.Second, 9 * time.Second}, {9 * time.Second, 5 * time.Second}} {
			t.Run(fmt.Sprint(name, waits), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newMemStore()
					k := open(t, s, Options{})
					must(t, k, write("file", "a", minute))
					var ends []<-chan polled
					for i, ask := range polls {
						ends = append(ends, startPoll(t.Context(), k, ask, waits[i]))
					}
					for _, end := range ends {
						refusal(t, (<-end).err, Held)
					}
					if q := k.Status("file").Queue; len(q) > 0 != asked {
						t.Errorf("in the queue stand %+v", q)
					}
					s.agrees(t)
				})
			})
		}
	}
}

// Who sends its long polls away for a while lets them keep their places, in order, as after an ask.
func TestTimeUpForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, newMemStore(), Options{})
		must(t, k, write("file", "a", 5*minute))
		up := make(chan struct{})
		var polls sync.WaitGroup
		for _, agent := range []Agent{"b", "c"} {
			polls.Go(func() {
				_, err := k.WaitUntil(t.Context(), queued(write("file", agent, minute)), minute, up)
				if r, ok := errors.AsType[*Refusal](err); !ok || r.Why != Held {
					t.Errorf("%s is sent away with %v", agent, err)
				}
			})
			synctest.Wait()
		}
		close(up)
		polls.Wait()
		for i, w := range k.Status("file").Queue {
			if w.Agent != []Agent{"b", "c"}[i] || !w.Until.Equal(k.Now().Add(DefaultPlace)) {
				t.Errorf("place %d is %+v", i+1, w)
			}
		}
		must(t, k, Release{Resource: "file", Agent: "a"})
		refused(t, k, write("file", "c", minute), Held)
		must(t, k, write("file", "b", minute))
	})
}

// A client that hangs up loses its place: nothing is granted to it, and the next one is served.
func TestHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, write("file", "a", minute))
		ctx, hangUp := context.WithCancel(t.Context())
		b := startPoll(ctx, k, write("file", "b", minute), minute)
		c := startPoll(t.Context(), k, write("file", "c", minute), minute)
		hangUp()
		if p := <-b; !errors.Is(p.err, context.Canceled) {
			t.Fatalf("hanging up came to %v", p.err)
		}
		if q := k.Status("file").Queue; len(q) != 1 || q[0].Agent != "c" {
			t.Fatalf("the place is still there: %+v", q)
		}
		must(t, k, Release{Resource: "file", Agent: "a"})
		if p := <-c; p.err != nil {
			t.Fatal(p.err)
		}
		if rec, _, _ := k.Agent("b"); rec.Grants != 0 {
			t.Errorf("b was granted something: %+v", rec)
		}
		s.agrees(t)
	})
}

// Hanging up in the moment of the grant leaves no lease behind: either the caller has it, or nobody.
func TestHangUpInTheMomentOfTheGrant(t *testing.T) {
	s := newMemStore()
	k := open(t, s, Options{})
	for i := range 1000 {
		r := Resource(fmt.Sprintf("file-%d", i))
		must(t, k, write(r, "a", minute))
		ctx, hangUp := context.WithCancel(t.Context())
		var p polled
		var wg sync.WaitGroup
		wg.Go(func() { p.Answer, p.err = k.Wait(ctx, write(r, "b", minute), minute) })
		wg.Go(func() { try(t, k, Release{Resource: r, Agent: "a"}) })
		wg.Go(hangUp)
		wg.Wait()
		st := k.Status(r)
		switch {
		case p.err == nil && holderOf(st) != "b":
			t.Fatalf("round %d: the caller was told that it has the lease, and the holder is %q", i, holderOf(st))
		case p.err != nil && len(st.Holders)+len(st.Queue) > 0:
			t.Fatalf("round %d: %v, and yet there is %+v", i, p.err, st)
		}
	}
	s.agrees(t)
}

// Who has hung up before the resource is free is granted nothing, though its withdrawal still waits to be heard.
func TestHangUpBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGate()
		k := open(t, s, Options{})
		save := func() { <-s.entered; s.let <- struct{}{} }
		go try(t, k, write("file", "a", minute))
		save()
		ctx, hangUp := context.WithCancel(t.Context())
		ended := startPoll(ctx, k, write("file", "b", minute), minute)
		save() // b's place
		go try(t, k, write("other", "c", minute))
		<-s.entered
		go try(t, k, Release{Resource: "file", Agent: "a"})
		synctest.Wait()
		hangUp()
		synctest.Wait()
		s.let <- struct{}{}
		save() // the release, and b's withdrawal behind it
		if p := <-ended; !errors.Is(p.err, context.Canceled) {
			t.Fatalf("hanging up came to %+v, %v", p.Answer, p.err)
		}
		if got, want := s.kinds("file"), []Kind{Granted, Queued, Released, Reserved, Unqueued}; !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
	})
}

// With the store between the grant and the answer, what was granted meanwhile is released again.
func TestHangUpWhileTheGrantIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGate()
		k := open(t, s, Options{})
		save := func() { <-s.entered; s.let <- struct{}{} }
		go try(t, k, write("file", "a", minute))
		save()
		ctx, hangUp := context.WithCancel(t.Context())
		ended := startPoll(ctx, k, write("file", "b", minute), minute)
		save() // b's place
		go try(t, k, Release{Resource: "file", Agent: "a"})
		<-s.entered // the release, and b's grant with it
		hangUp()
		synctest.Wait()
		s.let <- struct{}{}
		save() // what undoes the grant
		if p := <-ended; !errors.Is(p.err, context.Canceled) {
			t.Fatalf("hanging up came to %+v, %v", p.Answer, p.err)
		}
		if st := k.Status("file"); len(st.Holders)+len(st.Queue) > 0 {
			t.Fatalf("a lease was left behind: %+v", st)
		}
		if got, want := s.kinds("file"), []Kind{Granted, Queued, Released, Reserved, Granted, Released}; !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
		if rec, _, _ := k.Agent("b"); rec.Trust != StartTrust {
			t.Errorf("hanging up moved trust to %d", rec.Trust)
		}
	})
}

// Two polls of one agent stand behind one place. One that hangs up takes nothing from the other.
func TestTwoPollsOfOneAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, write("file", "a", minute))
		ctx, hangUp := context.WithCancel(t.Context())
		first := startPoll(ctx, k, write("file", "b", minute), minute)
		second := startPoll(t.Context(), k, write("file", "b", minute), minute)
		third := startPoll(t.Context(), k, write("file", "b", minute), minute)
		if q := k.Status("file").Queue; len(q) != 1 {
			t.Fatalf("one agent has %d places", len(q))
		}
		hangUp()
		<-first
		if q := k.Status("file").Queue; len(q) != 1 {
			t.Fatal("the place went with one of two polls")
		}
		must(t, k, Release{Resource: "file", Agent: "a"})
		p, q := <-second, <-third
		if p.err != nil || q.err != nil || p.Lease != q.Lease {
			t.Fatalf("%+v %v, %+v %v", p.Lease, p.err, q.Lease, q.err)
		}
		if got, want := s.kinds("file"), []Kind{Granted, Queued, Released, Reserved, Granted}; !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
	})
}

// Who waits is refused at once when waiting would close a cycle; the other one's poll goes on.
func TestDeadlockOfLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, newMemStore(), Options{})
		must(t, k, write("x", "a", 300*time.Second))
		must(t, k, write("y", "b", 300*time.Second))
		a := startPoll(t.Context(), k, write("y", "a", minute), minute)
		began := k.Now()
		_, err := k.Wait(t.Context(), write("x", "b", minute), minute)
		r := refusal(t, err, Deadlock)
		if want := []Edge{{"b", "x"}, {"a", "y"}}; !slices.Equal(r.Cycle, want) || r.WaitingOn != "y" || k.Now() != began {
			t.Errorf("after %v: %+v", k.Now().Sub(began), r)
		}
		must(t, k, Release{Resource: "y", Agent: "b"})
		if p := <-a; p.err != nil {
			t.Error(p.err)
		}
	})
}
