package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/cmd/cowrite/client"
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
	hangs bool // for as long as it is waited for
}

func (s *answers) RenewResource(ctx context.Context, _ wire.DID, _ string, ttl time.Duration) (client.Grant, error) {
	s.asked = append(s.asked, time.Since(s.began))
	a := s.told[min(len(s.asked), len(s.told))-1]
	if a.hangs {
		<-ctx.Done()
		return client.Grant{}, ctx.Err()
	}
	return client.Grant{ResourceLeaseGrant: wire.ResourceLeaseGrant{OK: true, Lease: wire.ResourceLease{LeaseID: a.lease, TTLMs: ttl.Milliseconds()}}}, a.err
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

// A renewal that gets no answer is given up after a third of the time that is left, and asked for again: one that hangs
// does not cost the lease.
func TestARenewalThatHangsIsAskedForAgain(t *testing.T) {
	mine, hung := answer{lease: "mine"}, answer{hangs: true}
	asked, _, why := keeping(t, hung, hung, mine, answer{err: code.New(code.NoActiveLease, "no")})
	if !slices.Equal(asked, []int{0, 15, 25, 37}) || !code.Is(why, code.NoActiveLease) {
		t.Errorf("after renewals at %v s: %v", asked, why)
	}
	asked, lostAt, why := keeping(t, hung)
	if len(asked) < 5 || lostAt != 36*time.Second || !strings.Contains(why.Error(), "ran out") {
		t.Errorf("after renewals at %v s, and at %v: %v", asked, lostAt, why)
	}
}

// Of many commands that are to run under one lease at once, one is started, also where all have the same key: the
// others say that there is no lease for them.
func TestOneCommandRunsUnderALease(t *testing.T) {
	p := start(t, t.TempDir())
	const commands = 8
	for round := range 3 {
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		ended := make(chan int, commands)
		for range commands {
			go func() {
				_, _, exit := p.exec(t, "", "lease", "run", fmt.Sprint("lock:", round), "--", "cat", gate)
				ended <- exit
			}()
		}
		enough := time.After(patience)
		running := commands
		for running > 1 && !t.Failed() {
			select {
			case exit := <-ended:
				running--
				if exit != exitNoLease {
					t.Errorf("a command ended with %d", exit)
				}
			case <-enough:
				t.Errorf("%d commands run at once", running)
			}
		}
		open, err := os.OpenFile(gate, os.O_WRONLY, 0) // the commands that run end
		if err != nil {
			t.Fatal(err)
		}
		open.Close()
		for range running {
			if exit := <-ended; exit != 0 {
				t.Errorf("the one that ran ended with %d", exit)
			}
		}
	}
}

// Who interrupts a command is told nothing, and not to try again.
func TestAnInterruptedCommand(t *testing.T) {
	p := start(t, t.TempDir())
	admin := p.client(t)
	if _, err := admin.AcquireResource(t.Context(), wire.ResourceLeaseRequest{Resource: "lock:a", ActorDID: "admin", TTLMs: 300_000}); err != nil {
		t.Fatal(err)
	}
	key, _, _ := p.exec(t, "", "keys", "create", "--remote", "--agent", "beta", "--role", "editor")
	for _, args := range [][]string{{"acquire", "lock:a", "--wait", "60s"}, {"run", "lock:a", "--wait", "60s", "--", "true"}} {
		ctx, interrupt := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		program := Program{Stdout: &out, Stderr: &errs, Env: func(name string) string {
			return map[string]string{"COWRITE_URL": p.address, "COWRITE_KEY": strings.TrimSpace(key)}[name]
		}}
		exit := make(chan int, 1)
		go func() { exit <- program.Run(ctx, append([]string{"lease"}, args...)) }()
		waits := func() bool {
			queues, _, _ := p.exec(t, "", "lease", "wait")
			return strings.Contains(queues, "beta")
		}
		for end := time.Now().Add(patience); !waits() && time.Now().Before(end); {
		}
		interrupt()
		if got := <-exit; got != 130 || out.Len()+errs.Len() > 0 {
			t.Errorf("lease %s ended with %d: %s%s", args, got, &out, &errs)
		}
		for end := time.Now().Add(patience); waits(); { // the server sees the line end
			if time.Now().After(end) {
				t.Fatal("the place is still there")
			}
		}
	}
}
