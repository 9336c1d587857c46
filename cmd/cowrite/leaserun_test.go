package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// keeping renews a lease of 600 ms at a server that answers as told, one answer after the other, and says how many
// renewals were asked for and why the lease was lost.
func keeping(t *testing.T, answers ...http.HandlerFunc) (asked int, lost error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		answers[min(asked, len(answers))-1](w, r)
	}))
	defer server.Close()
	c, err := client.New(server.URL, "cw_key")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const ttl = 600 * time.Millisecond
	now := time.Now()
	k := keeper{server: c, held: wire.ResourceLease{LeaseID: "mine", Resource: "x", Holder: "did:cowrite:a"}, ttl: ttl, end: now.Add(ttl), next: now}
	lost = k.keep(ctx)
	if ctx.Err() != nil {
		t.Fatal("the lease was never lost")
	}
	return asked, lost
}

func renewed(id lease.ID) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"ok":true,"lease":{"leaseId":%q}}`, id)
	}
}

func answered(status int, word string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"ok":false,"error":%q,"message":"no"}`, word)
	}
}

func TestALeaseIsKeptThroughFailures(t *testing.T) {
	busy := answered(http.StatusServiceUnavailable, "shutting_down")
	asked, lost := keeping(t, renewed("mine"), busy, busy, renewed("mine"), answered(http.StatusNotFound, "no_active_lease"))
	if asked != 5 || !strings.Contains(lost.Error(), "NO_ACTIVE_LEASE") {
		t.Errorf("after %d renewals: %v", asked, lost)
	}
}

func TestALeaseThatRanOutIsLost(t *testing.T) {
	began := time.Now()
	asked, lost := keeping(t, answered(http.StatusInternalServerError, "internal"))
	if asked < 2 || !strings.Contains(lost.Error(), "ran out") || time.Since(began) < 600*time.Millisecond {
		t.Errorf("after %d renewals and %v: %v", asked, time.Since(began), lost)
	}
}

// A renewal that comes to another grant renews what somebody with the same key took since: this one's lease is over.
func TestAnotherGrantIsNoRenewal(t *testing.T) {
	if asked, lost := keeping(t, renewed("another")); asked != 1 || !strings.Contains(lost.Error(), "another grant") {
		t.Errorf("after %d renewals: %v", asked, lost)
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
