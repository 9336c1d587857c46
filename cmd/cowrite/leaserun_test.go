package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// answers is a server that answers renewals as told, one after the other, and the last for ever.
type answers struct {
	told  []answer
	asked []time.Duration // when, from the beginning
	began time.Time
}

type answer struct {
	lease lease.ID
	err   error
}

func (s *answers) RenewResource(_ context.Context, _ wire.DID, _ string, ttl time.Duration) (wire.ResourceLease, error) {
	s.asked = append(s.asked, time.Since(s.began))
	a := s.told[min(len(s.asked), len(s.told))-1]
	return wire.ResourceLease{LeaseID: a.lease, TTLMs: ttl.Milliseconds()}, a.err
}

// keeping renews a lease of 36 s until it is lost. It says at which seconds renewals were asked for, when the lease was
// lost, and why.
func keeping(t *testing.T, told ...answer) (asked []int, lostAt time.Duration, why error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 36 * time.Second
		now := time.Now()
		s := &answers{told: told, began: now}
		k := keeper{server: s, held: wire.ResourceLease{LeaseID: "mine", Resource: "x", Holder: "did:cowrite:a"}, ttl: ttl, end: now.Add(ttl), next: now}
		why = k.keep(t.Context())
		lostAt = time.Since(now)
		for _, at := range s.asked {
			asked = append(asked, int(at.Seconds()))
		}
	})
	return asked, lostAt, why
}

func TestALeaseIsKeptThroughFailures(t *testing.T) {
	mine, busy := answer{lease: "mine"}, answer{err: code.New(code.ShuttingDown, "no")}
	asked, _, why := keeping(t, mine, busy, busy, mine, answer{err: code.New(code.NoActiveLease, "no")})
	if !slices.Equal(asked, []int{0, 12, 15, 18, 30}) || !code.Is(why, code.NoActiveLease) {
		t.Errorf("after renewals at %v s: %v", asked, why)
	}
}

func TestALeaseThatRanOutIsLost(t *testing.T) {
	asked, lostAt, why := keeping(t, answer{err: code.New(code.Internal, "no")})
	if len(asked) != 13 || lostAt != 36*time.Second || !strings.Contains(why.Error(), "ran out") {
		t.Errorf("after renewals at %v s, and at %v: %v", asked, lostAt, why)
	}
}

// A renewal that comes to another grant renews what somebody with the same key took since: this one's lease is over.
func TestAnotherGrantIsNoRenewal(t *testing.T) {
	if asked, _, why := keeping(t, answer{lease: "another"}); len(asked) != 1 || !strings.Contains(why.Error(), "another grant") {
		t.Errorf("after renewals at %v s: %v", asked, why)
	}
}

func TestFreshLeases(t *testing.T) {
	l := wire.ResourceLease{AcquiredAt: "2026-04-16T03:00:00.000Z", ExpiresAt: "2026-04-16T03:00:30.000Z", TTLMs: 30_000}
	if !fresh(l) {
		t.Error("a lease that was just granted is fresh")
	}
	l.ExpiresAt = "2026-04-16T03:00:30.001Z"
	if fresh(l) {
		t.Error("one that was extended is not")
	}
}
