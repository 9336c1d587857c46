package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestChaos lets agents poll, hang up, hold and forget over a store that fails now and then. Whatever happens,
// state and events agree, every call ends in time, and when all have gone nothing is left behind: no lease, no
// place that lives for ever.
func TestChaos(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func chaos(t *testing.T, seed uint64) {
	s := newMemStore()
	k := open(t, s, Options{})
	faults := rand.New(rand.NewPCG(seed, 1000))
	if seed%2 == 1 {
		s.setFault(func(int) fault {
			return pick(faults.IntN, fails, failsLate, works, works, works, works, works, works, works, works)
		})
	}
	var wg sync.WaitGroup
	for client := range 12 {
		rnd := rand.New(rand.NewPCG(seed, uint64(client)))
		h := &history{throw: rnd.IntN, crowded: seed%3 == 0}
		wg.Go(func() {
			for range 60 {
				time.Sleep(h.pause() % time.Minute)
				chaosCall(t, k, h)
			}
		})
	}
	wg.Wait()
	s.setFault(nil)
	time.Sleep(20 * time.Minute)
	synctest.Wait()
	if left := k.List(""); left != nil {
		t.Errorf("left behind: %+v", left)
	}
	if state, _ := s.saved(); len(state.Records) > 0 {
		t.Errorf("left in the store: %+v", state.Records)
	}
	s.agrees(t)
}

func chaosCall(t *testing.T, k *Keeper, h *history) {
	cmd := h.command()
	var ask Acquire
	switch c := cmd.(type) { // the keeper names grants, and only a poll waits
	case Acquire:
		c.NewID, c.Waiting = "", false
		ask, cmd = c, c
	case Transfer:
		c.NewID = ""
		cmd = c
	}
	if ask.Agent == "" || h.throw(2) == 0 {
		if _, err := k.Do(t.Context(), cmd); err != nil && !expected(err) {
			t.Errorf("%#v: %v", cmd, err)
		}
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if h.throw(2) == 0 {
		hangUp := time.AfterFunc(time.Duration(h.throw(20_000))*time.Millisecond, cancel)
		defer hangUp.Stop()
	}
	wait := time.Duration(h.throw(30_000)) * time.Millisecond
	began := time.Now()
	_, err := k.Wait(ctx, ask, wait)
	if took := time.Since(began); took > wait {
		t.Errorf("a poll of %v took %v", wait, took)
	}
	if err != nil && !expected(err) && !errors.Is(err, context.Canceled) {
		t.Errorf("%#v: %v", ask, err)
	}
}

func expected(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	return refused || errors.Is(err, errDisk)
}
