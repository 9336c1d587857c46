package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

var ledgerPromises = []promise{
	{"the ledger has every lease event as it was saved, in order", ledgerAsSaved},
	{"the ledger counts on over many savers without gaps", ledgerWithoutGaps},
	{"the ledger is asked for by any of its columns", ledgerQueries},
	{"lease calls are found by agent and key", leaseCalls},
	{"a lease call is saved with its grant or not at all", leaseCallWithGrant},
}

// transitions is the ledger of a small story, saved one commit an event.
func transitions(t *testing.T, s doc.Store) []lease.Event {
	t.Helper()
	section := doc.SectionResource(crdt.DocumentID(uuid.New()), "intro")
	first, second := newLease(section, "ada", 1, day.Add(time.Hour+123_456_789)), newLease("lock:a", "bob", 2, day)
	handed := newLease("lock:a", "cyd", 3, day)
	waiter := newWaiter(section, "bob")
	events := []lease.Event{
		{Kind: lease.Granted, Resource: section, Actor: "ada", At: day, Lease: first, Trust: 100},
		{Kind: lease.Granted, Resource: "lock:a", Actor: "bob", At: day.Add(time.Second), Lease: second},
		{Kind: lease.Queued, Resource: section, Actor: "bob", At: day.Add(2 * time.Second), Waiter: waiter},
		{Kind: lease.Deadlocked, Resource: "lock:a", Actor: "ada", At: day.Add(3 * time.Second), Waiter: newWaiter("lock:a", "ada"),
			Cycle: []lease.Edge{{Agent: "ada", Resource: "lock:a"}, {Agent: "bob", Resource: section}}},
		{Kind: lease.Handed, Resource: "lock:a", Actor: "bob", At: day.Add(4 * time.Second), Lease: handed, Previous: second},
		{Kind: lease.Expired, Resource: section, Actor: lease.System, At: day.Add(5 * time.Second), Lease: first, Reason: "why it ended", Trust: 90},
		{Kind: lease.Broken, Resource: "lock:a", Actor: "root", At: day.Add(6 * time.Second), Lease: handed},
	}
	for _, e := range events {
		c := record(e.Resource, nil)
		c.Commit.Events = []lease.Event{e}
		saveLeases(t, s, c)
	}
	return events
}

func ledger(t *testing.T, s doc.Store, q doc.LedgerQuery) []doc.LedgerEntry {
	t.Helper()
	return must[[]doc.LedgerEntry](t)(s.Ledger(t.Context(), q))
}

func ledgerAsSaved(t *testing.T, s doc.Store) {
	if got := ledger(t, s, doc.LedgerQuery{Limit: many}); len(got) != 0 {
		t.Errorf("an empty store has the ledger %+v", got)
	}
	events := transitions(t, s)
	got := ledger(t, s, doc.LedgerQuery{Limit: many})
	if len(got) != len(events) {
		t.Fatalf("the ledger has %d entries, want %d", len(got), len(events))
	}
	for i, e := range events {
		if got[i].Seq != doc.Seq(i+1) {
			t.Errorf("entry %d has seq %s", i+1, got[i].Seq)
		}
		sameJSON(t, fmt.Sprintf("entry %d", i+1), got[i].Event, e)
	}
}

func ledgerWithoutGaps(t *testing.T, s doc.Store) {
	const savers, rounds = 8, 20
	together(savers, func(i int) {
		for r := range rounds {
			name := lease.Resource(fmt.Sprintf("lock:%d", i))
			c := record(name, nil)
			c.Commit.Events = []lease.Event{{Kind: lease.Released, Resource: name, Actor: "ada", At: day, Reason: fmt.Sprint(r)}}
			if err := s.SaveLeases(t.Context(), []doc.LeaseCommit{c}); err != nil {
				t.Errorf("save: %v", err)
			}
		}
	})
	last := make(map[lease.Resource]int)
	for i, e := range ledger(t, s, doc.LedgerQuery{Limit: many}) {
		if e.Seq != doc.Seq(i+1) || e.Reason != fmt.Sprint(last[e.Resource]) {
			t.Fatalf("entry %d has seq %s and is the event %s of %s, want %d", i+1, e.Seq, e.Reason, e.Resource, last[e.Resource])
		}
		last[e.Resource]++
	}
	if len(last) != savers || last["lock:0"] != rounds {
		t.Errorf("the ledger has %v", last)
	}
}

func ledgerQueries(t *testing.T, s doc.Store) {
	section := transitions(t, s)[0].Resource
	for _, c := range []struct {
		what string
		ask  doc.LedgerQuery
		want string // seqs
	}{
		{"all", doc.LedgerQuery{Limit: many}, "1 2 3 4 5 6 7"},
		{"a page", doc.LedgerQuery{After: 2, Limit: 3}, "3 4 5"},
		{"behind the end", doc.LedgerQuery{After: 7, Limit: 3}, ""},
		{"none", doc.LedgerQuery{Limit: 0}, ""},
		{"less than none", doc.LedgerQuery{Limit: -1}, ""},
		{"the newest", doc.LedgerQuery{Newest: true, Limit: 2}, "7 6"},
		{"before", doc.LedgerQuery{Before: 3, Limit: many}, "1 2"},
		{"before the first", doc.LedgerQuery{Before: 1, Newest: true, Limit: many}, ""},
		{"before what is not there yet", doc.LedgerQuery{Before: 70, Newest: true, Limit: 2}, "7 6"},
		{"the newest before", doc.LedgerQuery{Before: 6, Newest: true, Limit: 2}, "5 4"},
		{"between", doc.LedgerQuery{After: 2, Before: 5, Limit: many}, "3 4"},
		{"between, the newest first", doc.LedgerQuery{After: 2, Before: 6, Newest: true, Limit: 2}, "5 4"},
		{"between neighbours", doc.LedgerQuery{After: 2, Before: 3, Limit: many}, ""},
		{"a section", doc.LedgerQuery{Resource: section, Limit: many}, "1 3 6"},
		{"a page of a lock", doc.LedgerQuery{Resource: "lock:a", After: 2, Limit: 2}, "4 5"},
		{"a resource that never was", doc.LedgerQuery{Resource: "lock:b", Limit: many}, ""},
		{"what an agent did or had", doc.LedgerQuery{Agent: "bob", Limit: many}, "2 3 5"},
		{"what happened to an agent", doc.LedgerQuery{Agent: "ada", Limit: many}, "1 4 6"},
		{"an administrator's", doc.LedgerQuery{Agent: "root", Limit: many}, "7"},
		{"an agent's newest", doc.LedgerQuery{Agent: "bob", Newest: true, Limit: 2}, "5 3"},
		{"an agent's newest before", doc.LedgerQuery{Agent: "bob", Before: 5, Newest: true, Limit: 1}, "3"},
		{"a lock's newest before", doc.LedgerQuery{Resource: "lock:a", Before: 7, Newest: true, Limit: 2}, "5 4"},
		{"an agent's page", doc.LedgerQuery{Agent: "bob", After: 2, Limit: 1}, "3"},
		{"an agent at a resource", doc.LedgerQuery{Agent: "bob", Resource: "lock:a", Limit: many}, "2 5"},
		{"a kind", doc.LedgerQuery{Kind: lease.Deadlocked, Limit: many}, "4"},
		{"another kind", doc.LedgerQuery{Kind: lease.Granted, Limit: many}, "1 2"},
		{"deadlocks since", doc.LedgerQuery{Kind: lease.Deadlocked, Since: day.Add(3 * time.Second), Limit: many}, "4"},
		{"deadlocks since later", doc.LedgerQuery{Kind: lease.Deadlocked, Since: day.Add(3001 * time.Millisecond), Limit: many}, ""},
		{"deadlocks before", doc.LedgerQuery{Kind: lease.Deadlocked, Before: 5, Newest: true, Limit: many}, "4"},
		{"deadlocks before the first", doc.LedgerQuery{Kind: lease.Deadlocked, Before: 4, Newest: true, Limit: many}, ""},
		{"since", doc.LedgerQuery{Since: day.Add(5 * time.Second), Limit: many}, "6 7"},
		{"grants and transfers from a fence", doc.LedgerQuery{MinFence: 2, Limit: many}, "2 5"},
		{"up to a fence", doc.LedgerQuery{MaxFence: 2, Limit: many}, "1 2"},
		{"of a resource, the newest first", doc.LedgerQuery{Resource: "lock:a", MinFence: 1, Newest: true, Limit: many}, "5 2"},
		{"from a fence, before", doc.LedgerQuery{MinFence: 1, Before: 5, Newest: true, Limit: many}, "2 1"},
		{"one fence elsewhere", doc.LedgerQuery{Resource: "lock:a", MinFence: 1, MaxFence: 1, Limit: many}, ""},
	} {
		var got []string
		for _, e := range ledger(t, s, c.ask) {
			got = append(got, e.Seq.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.what, got, c.want)
		}
	}
}

func newCall(agent doc.Agent, key doc.IdempotencyKey, n byte) doc.LeaseCall {
	return doc.LeaseCall{Agent: agent, Key: key, Request: doc.RequestDigest{n, 31: n}, Resource: "any: \xff", Lease: lease.ID(fmt.Sprint("lease-", n)),
		Granted: n%2 == 1, Released: n%2 == 0, At: day.Add(time.Duration(n) * time.Second)}
}

func leaseCalls(t *testing.T, s doc.Store) {
	calls := []doc.LeaseCall{newCall("ada", "k1", 1), newCall("ada", "k2", 2), newCall("bob", "k1", 3)}
	saveLeases(t, s, doc.LeaseCommit{Calls: calls[:2]}, doc.LeaseCommit{Calls: calls[2:]})
	find := func(c doc.LeaseCall, want error) {
		t.Helper()
		got, err := s.LeaseCall(t.Context(), c.Agent, c.Key)
		wantError(t, err, want)
		if want == nil && (got != c || got.At.Location() != time.UTC) {
			t.Errorf("found %+v, want %+v", got, c)
		}
	}
	for _, c := range calls {
		find(c, nil)
	}
	find(newCall("bob", "k2", 4), doc.ErrNotFound)
	find(newCall("cyd", "k1", 4), doc.ErrNotFound)

	calls[0] = newCall("ada", "k1", 5) // in place of the first
	saveLeases(t, s, doc.LeaseCommit{Calls: calls[:1]})
	for range 2 {
		if err := s.ForgetLeaseCall(t.Context(), "ada", "k2"); err != nil {
			t.Error(err)
		}
	}
	find(calls[0], nil)
	find(calls[1], doc.ErrNotFound)
	find(calls[2], nil)
	if state := loadLeases(t, s); len(state.Records) != 0 {
		t.Errorf("calls alone made the records %+v", state.Records)
	}
}

// Two calls under one key in one transaction: the last one counts. A save that fails whole leaves none.
func leaseCallWithGrant(t *testing.T, s doc.Store) {
	granted := record("lock:a", []lease.Lease{newLease("lock:a", "ada", 1, day)})
	granted.Calls = []doc.LeaseCall{newCall("ada", "k1", 1)}
	if err := s.SaveLeases(cancelled(t), []doc.LeaseCommit{granted}); err == nil {
		t.Fatal("a cancelled save succeeds")
	}
	_, err := s.LeaseCall(t.Context(), "ada", "k1")
	if state := loadLeases(t, s); len(state.Records) == 0 {
		wantError(t, err, doc.ErrNotFound)
	}
	last := granted
	last.Calls = []doc.LeaseCall{newCall("ada", "k1", 3)}
	saveLeases(t, s, granted, last)
	if got := must[doc.LeaseCall](t)(s.LeaseCall(t.Context(), "ada", "k1")); got != last.Calls[0] {
		t.Errorf("found %+v", got)
	}
	if state := loadLeases(t, s); len(state.Records) != 1 || !slices.Equal(state.Records[0].Leases, granted.Record.Leases) {
		t.Errorf("the state is %+v", state)
	}
}
