package lease

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A store that fails at any call, having saved or not, never yields a grant that it does not have; and once it
// is good again, state and events agree and everything works.
func TestFailingStore(t *testing.T) {
	for _, how := range []fault{fails, failsLate} {
		for call := 1; call <= 9; call++ {
			for length := 1; length <= 3; length++ {
				t.Run(fmt.Sprintf("%d/%d+%d", how, call, length), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { failingStore(t, how, call, length) })
				})
			}
		}
	}
}

func failingStore(t *testing.T, how fault, from, length int) {
	s := newMemStore()
	k := open(t, s, Options{})
	s.setFault(func(call int) fault {
		if call >= from && call < from+length {
			return how
		}
		return works
	})
	failed := 0
	// granted holds an answer against what is on the disk at that moment.
	granted := func(a Answer, err error) {
		t.Helper()
		switch _, isRefusal := errors.AsType[*Refusal](err); {
		case errors.Is(err, errDisk):
			failed++
		case isRefusal:
		case err != nil:
			t.Fatal(err)
		case a.Lease.ID != "":
			if state, _ := s.saved(); !saved(state, a.Lease) {
				t.Fatalf("%+v was granted, and the store has %+v", a.Lease, state)
			}
		}
	}
	granted(k.Do(t.Context(), write("file", "a", minute)))
	granted(k.Do(t.Context(), write("other", "b", minute)))
	poll := startPoll(t.Context(), k, write("file", "b", minute), 50*time.Second)
	if _, err := k.Do(t.Context(), Release{Resource: "file", Agent: "a"}); errors.Is(err, errDisk) {
		failed++
	}
	granted(k.Do(t.Context(), write("third", "c", minute)))
	granted(k.Do(t.Context(), Renew{"third", "c", 20 * time.Second}))
	if _, err := k.Do(t.Context(), Sweep{}); errors.Is(err, errDisk) {
		failed++
	}
	time.Sleep(10 * time.Second) // long enough for the keeper to come to itself
	s.setFault(nil)
	time.Sleep(10 * time.Second)
	p := <-poll
	granted(p.Answer, p.err)

	s.agrees(t)
	state, _ := s.saved()
	for _, rec := range state.Records {
		if st := k.Status(rec.Resource); len(st.Holders) > len(rec.Leases) {
			t.Errorf("shown is %+v, saved %+v", st, rec)
		}
	}
	must(t, k, write("after", "a", minute))
	s.agrees(t)
	if from <= 6 && failed == 0 {
		t.Error("no failure was felt")
	}
}

func saved(s State, l Lease) bool {
	for _, rec := range s.Records {
		for _, have := range rec.Leases {
			if have == l {
				return true
			}
		}
	}
	return false
}

// While the state is unknown nothing is granted, whoever asks for whatever.
func TestUnknownStateNeverGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, write("held", "a", 300*time.Second))
		poll := startPoll(t.Context(), k, write("held", "b", minute), minute)
		s.setFault(func(int) fault { return fails })
		for i := range 20 {
			for _, cmd := range []Command{write("free", "c", minute), write("held", "a", minute), Renew{"held", "a", minute}} {
				if _, err := k.Do(t.Context(), cmd); !errors.Is(err, errDisk) {
					t.Fatalf("try %d of %#v: %v", i, cmd, err)
				}
			}
			time.Sleep(time.Second)
		}
		if len(poll) != 0 {
			t.Fatalf("the long poll ended: %+v", <-poll)
		}
		s.setFault(nil)
		must(t, k, write("free", "c", minute))
		must(t, k, Release{Resource: "held", Agent: "a"})
		if p := <-poll; p.err != nil {
			t.Errorf("the poll that stood through it was not served: %v", p.err)
		}
		s.agrees(t)
	})
}

// What runs out while the store is down could not be released, and costs nothing.
func TestOutageCostsNoTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		k := open(t, s, Options{})
		must(t, k, write("file", "a", 10*time.Second))
		s.setFault(func(int) fault { return fails })
		if _, err := k.Do(t.Context(), Release{Resource: "file", Agent: "a"}); !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		s.setFault(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if rec, _, _ := k.Agent("a"); rec.Expiries != 1 || rec.Trust != StartTrust {
			t.Errorf("the outage cost %+v", rec)
		}
		s.agrees(t)
	})
}

func TestOpenOnFailingStore(t *testing.T) {
	s := newMemStore()
	k := open(t, s, Options{Now: func() time.Time { return epoch }})
	must(t, k, write("file", "a", minute))
	for call := 1; call <= 2; call++ {
		s.setFault(func(c int) fault {
			if c == call {
				return fails
			}
			return works
		})
		if _, err := Open(t.Context(), s, Options{Now: func() time.Time { return epoch.Add(time.Hour) }}); !errors.Is(err, errDisk) {
			t.Errorf("opening with call %d failing came to %v", call, err)
		}
	}
}
