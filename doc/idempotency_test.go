package doc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/doc/sqlite"
	"cowrite/lease"
)

// calls is a keeper over a store on disk, and lease calls that count once.
type calls struct {
	t      *testing.T
	dir    string
	store  *faultyStore
	keeper *lease.Keeper
	*doc.Idempotency
}

func (c *calls) open() {
	c.t.Helper()
	store, err := sqlite.Open(context.Background(), c.dir, sqlite.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.store = &faultyStore{Store: store}
	c.Idempotency = doc.NewIdempotency(c.store, nil)
	if c.keeper, err = lease.Open(context.Background(), c.LeaseStore(nil), lease.Options{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *calls) close() {
	c.t.Helper()
	if err := errors.Join(c.keeper.Close(), c.store.Close()); err != nil {
		c.t.Error(err)
	}
}

func inCalls(t *testing.T, test func(t *testing.T, c *calls)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{t: t, dir: dir}
		c.open()
		defer func() { c.close() }()
		test(t, c)
	})
}

// acquire leases a lock under a key.
func (c *calls) acquire(key doc.IdempotencyKey, d time.Duration) (lease.Lease, error) {
	answer, err := c.ask(key, d)
	return answer.Lease, err
}

func (c *calls) ask(key doc.IdempotencyKey, d time.Duration) (lease.Answer, error) {
	return c.Do(context.Background(), c.keeper, doc.Call{
		Agent: "ada", Key: key, Resource: "lock:a", Request: doc.RequestDigest{1},
		Do: func(id lease.ID) (lease.Answer, error) {
			return c.keeper.Do(context.Background(), lease.Acquire{Resource: "lock:a", Agent: "ada", Duration: d, NewID: id})
		},
	})
}

func (c *calls) must(key doc.IdempotencyKey, d time.Duration) lease.Lease {
	c.t.Helper()
	l, err := c.acquire(key, d)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// A server that dies between the grant and its answer has remembered both: the retry finds the same lease while it
// lives, and makes no second one when it is over.
func TestARetryAfterACrash(t *testing.T) {
	inCalls(t, func(t *testing.T, c *calls) {
		// What is not saved with the grant never is: the server dies at that moment.
		granted, err := c.Do(t.Context(), c.keeper, doc.Call{
			Agent: "ada", Key: "k", Resource: "lock:a", Request: doc.RequestDigest{1},
			Do: func(id lease.ID) (lease.Answer, error) {
				defer c.store.dead.Store(true)
				return c.keeper.Do(context.Background(), lease.Acquire{Resource: "lock:a", Agent: "ada", Duration: time.Minute, NewID: id})
			},
		})
		if err != nil {
			t.Fatalf("nothing was left to be written: %v", err)
		}
		c.close()
		c.open()
		if again := c.must("k", time.Minute); again.ID != granted.Lease.ID || again.Fence != granted.Lease.Fence {
			t.Errorf("the retry has %+v, the first call %+v", again, granted.Lease)
		}
		time.Sleep(time.Minute)
		if _, err := c.acquire("k", time.Minute); !code.Is(err, code.LeaseEnded) {
			t.Errorf("after its end: %v", err)
		}
		if second := c.must("k2", time.Minute); second.ID == granted.Lease.ID {
			t.Error("an id is used twice")
		}
	})
}

// A retry is told, as its call was, whether that made the lease or extended it: also after a restart.
func TestARetrySaysWhetherTheLeaseWasMade(t *testing.T) {
	inCalls(t, func(t *testing.T, c *calls) {
		for range 2 {
			c.saysGranted("first", true)
			c.saysGranted("first", true)
			c.saysGranted("second", false)
			c.saysGranted("second", false)
			c.close()
			c.open()
		}
	})
}

func (c *calls) saysGranted(key doc.IdempotencyKey, want bool) {
	c.t.Helper()
	answer, err := c.ask(key, time.Minute)
	if err != nil || answer.Granted != want {
		c.t.Errorf("%s says that it made the lease: %t, %v", key, answer.Granted, err)
	}
}

// A store that fails makes no grant and no memory of one, and no call is answered from what could not be read.
func TestACallOnAStoreThatFails(t *testing.T) {
	inCalls(t, func(t *testing.T, c *calls) {
		c.store.fail.Store(1)
		if _, err := c.acquire("k", time.Minute); !errors.Is(err, errDisk) {
			t.Errorf("on a full disk: %v", err)
		}
		if held := c.keeper.Status("lock:a").Holders; len(held) > 0 {
			t.Errorf("it is held: %v", held)
		}
		first := c.must("k", time.Minute)
		c.store.fail.Store(1)
		extend := func(err error) {
			t.Helper()
			if _, got := c.acquire("k2", 2*time.Minute); !errors.Is(got, err) {
				t.Errorf("extending: %v, want %v", got, err)
			}
		}
		extend(errDisk)
		extend(nil)
		if l := c.must("k2", time.Minute); l.ID != first.ID || l.Duration != 2*time.Minute {
			t.Errorf("extended to %+v", l)
		}
	})
}

// Calls are remembered for a day.
func TestACallIsForgottenAfterADay(t *testing.T) {
	inCalls(t, func(t *testing.T, c *calls) {
		first := c.must("k", time.Second)
		time.Sleep(doc.LeaseCallsKept - time.Millisecond)
		if _, err := c.acquire("k", time.Second); !code.Is(err, code.LeaseEnded) {
			t.Errorf("within a day: %v", err)
		}
		time.Sleep(time.Millisecond)
		if l := c.must("k", time.Second); l.ID == first.ID {
			t.Errorf("after a day there is %+v", l)
		}
	})
}

func TestParseIdempotencyKey(t *testing.T) {
	for s, ok := range map[string]bool{"": true, "a": true, "~!/=": true, "a b": false, "é": false, "\x7f": false, "\n": false,
		fmt.Sprintf("%0255d", 1): true, fmt.Sprintf("%0256d", 1): false} {
		if k, err := doc.ParseIdempotencyKey(s); (err == nil) != ok || ok && string(k) != s {
			t.Errorf("%q: %v", s, err)
		}
	}
}
