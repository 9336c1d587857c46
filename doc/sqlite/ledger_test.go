package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

// No question that a door asks reads the whole ledger or sorts it.
func TestLedgerQueriesHaveIndexes(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	for name, c := range map[string]struct {
		ask   doc.LedgerQuery
		index string
	}{
		"all":                {doc.LedgerQuery{After: 5}, "INTEGER PRIMARY KEY"},
		"the newest":         {doc.LedgerQuery{Newest: true}, "INTEGER PRIMARY KEY"},
		"the newest before":  {doc.LedgerQuery{Before: 5, Newest: true}, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		"a resource":         {doc.LedgerQuery{Resource: "r", After: 5}, "ledger_by_resource"},
		"a resource before":  {doc.LedgerQuery{Resource: "r", Before: 5, Newest: true}, "ledger_by_resource (resource=? AND rowid>? AND rowid<?)"},
		"a resource's agent": {doc.LedgerQuery{Resource: "r", Agent: "a"}, "ledger_by_resource"},
		"an agent":           {doc.LedgerQuery{Agent: "a", After: 5}, "ledger_by_agent"},
		"an agent before":    {doc.LedgerQuery{Agent: "a", Before: 5, Newest: true}, "ledger_by_agent (agent=? AND rowid>? AND rowid<?)"},
		"an agent's deeds":   {doc.LedgerQuery{Agent: "a"}, "ledger_by_actor"},
		"deadlocks":          {doc.LedgerQuery{Kind: lease.Deadlocked, Since: time.Now(), Newest: true}, "ledger_of_deadlocks"},
		"deadlocks before":   {doc.LedgerQuery{Kind: lease.Deadlocked, Before: 5, Since: time.Now(), Newest: true}, "ledger_of_deadlocks"},
		"a fence":            {doc.LedgerQuery{Resource: "r", MinFence: 1, MaxFence: 1}, "ledger_by_fence"},
		"later grants":       {doc.LedgerQuery{Resource: "r", MinFence: 2, Newest: true}, "ledger_by_fence"},
	} {
		query, args := ledgerQuery(c.ask)
		var plan []string
		err := s.read(t.Context(), func(v view) error {
			return v.each("EXPLAIN QUERY PLAN "+query, args, func(rows *sql.Rows) error {
				var id, parent, unused int
				var detail string
				err := rows.Scan(&id, &parent, &unused, &detail)
				plan = append(plan, detail)
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(plan, "; ")
		sorts := strings.Contains(all, "TEMP B-TREE") && c.ask.Kind == "" && c.ask.Agent == ""
		if !strings.Contains(all, c.index) && !(c.index == "INTEGER PRIMARY KEY" && strings.Contains(all, "SCAN ledger")) || sorts {
			t.Errorf("%s: %s", name, all)
		}
	}
}

// A ledger of before the second migration is there after it.
func TestLedgerOfBefore(t *testing.T) {
	dir := t.TempDir()
	w, err := openWriter(t.Context(), filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	if err := applyMigration(t.Context(), w.conn, "0001_begin"); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	granted := lease.Event{Kind: lease.Granted, Resource: "lock:a", Actor: "ada", At: at,
		Lease: lease.Lease{ID: "l1", Resource: "lock:a", Holder: "ada", Mode: lease.Exclusive, Operation: lease.Write, Fence: 7, AcquiredAt: at, ExpiresAt: at.Add(time.Minute), Duration: time.Minute}}
	ended := granted
	ended.Kind, ended.Actor = lease.Expired, lease.System
	waiting := lease.Event{Kind: lease.Queued, Resource: "lock:a", Actor: "bob", At: at, Waiter: lease.Waiter{Resource: "lock:a", Agent: "bob", Mode: lease.Shared, Since: at}}
	for _, e := range []lease.Event{granted, ended, waiting} {
		event, err := marshalEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := (tx{w.conn}).exec(`INSERT INTO lease_events (at, resource, event) VALUES (?, ?, ?)`, e.At.UnixMilli(), e.Resource, string(event)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.closeConnection(); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Options{})
	for ask, want := range map[doc.LedgerQuery]string{
		{Agent: "ada", Limit: 9}:                        "[1 2]",
		{Agent: "bob", Limit: 9}:                        "[3]",
		{Resource: "lock:a", MinFence: 7, Limit: 9}:     "[1]",
		{Kind: lease.Expired, Since: at, Limit: 9}:      "[2]",
		{Resource: "lock:a", After: 1, Limit: 1}:        "[2]",
		{Kind: lease.Deadlocked, Since: at, Limit: 9}:   "[]",
		{Agent: "ada", Resource: "lock:a", Limit: 9}:    "[1 2]",
		{Resource: "lock:b", Limit: 9}:                  "[]",
		{Agent: "ada", Newest: true, Limit: 1}:          "[2]",
		{MinFence: 1, MaxFence: 6, Limit: 9}:            "[]",
		{After: 2, Limit: 9}:                            "[3]",
		{Agent: lease.System, Resource: "x", Limit: 9}:  "[]",
		{Kind: lease.Granted, Agent: "ada", Limit: 9}:   "[1]",
		{Kind: lease.Granted, Newest: true, Limit: 100}: "[1]",
	} {
		entries, err := s.Ledger(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		seqs := []doc.Seq{}
		for _, e := range entries {
			seqs = append(seqs, e.Seq)
		}
		if fmt.Sprint(seqs) != want {
			t.Errorf("%+v: %v, want %s", ask, seqs, want)
		}
	}
	entries, err := s.Ledger(t.Context(), doc.LedgerQuery{Limit: 1})
	if err != nil || entries[0].Lease != granted.Lease {
		t.Errorf("%+v, %v", entries, err)
	}
}

// Of an agent's lease calls the last ten thousand are remembered, and none for longer than a day.
func TestLeaseCallsAreBounded(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	call := func(agent doc.Agent, n int) doc.LeaseCall {
		return doc.LeaseCall{Agent: agent, Key: doc.IdempotencyKey(fmt.Sprint(n)), Resource: "lock:a", Lease: "l", At: at}
	}
	save := func(calls ...doc.LeaseCall) {
		t.Helper()
		if err := s.SaveLeases(t.Context(), []doc.LeaseCommit{{Calls: calls}}); err != nil {
			t.Fatal(err)
		}
	}
	known := func(agent doc.Agent, n int) bool {
		t.Helper()
		_, err := s.LeaseCall(context.Background(), agent, doc.IdempotencyKey(fmt.Sprint(n)))
		if err != nil && !errors.Is(err, doc.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	var calls []doc.LeaseCall
	for n := range doc.LeaseCallsPerAgent {
		calls = append(calls, call("ada", n))
	}
	save(call("bob", 0))
	save(calls...)
	if !known("ada", 0) || !known("bob", 0) {
		t.Error("not all are remembered")
	}
	save(call("ada", -1))
	if known("ada", 0) || !known("ada", 1) || !known("ada", -1) || !known("bob", 0) {
		t.Error("not just the oldest was forgotten")
	}
	late := call("cyd", 0)
	late.At = at.Add(doc.LeaseCallsKept)
	save(late)
	if !known("bob", 0) {
		t.Error("forgotten within a day")
	}
	late.At = late.At.Add(time.Millisecond)
	save(late)
	if known("bob", 0) || known("ada", 1) || !known("cyd", 0) {
		t.Error("remembered for longer than a day")
	}
}
