package sqlite

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/storetest"
	"cowrite/lease"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writeUntilKilled); dir != "" {
		os.Exit(untilKilled(dir))
	}
	if dir := os.Getenv(compactAndDie); dir != "" {
		os.Exit(compactUntilStep(dir))
	}
	goleak.VerifyTestMain(m)
}

func openStore(t testing.TB, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) doc.Store { return openStore(t, t.TempDir(), Options{}) })
}

func TestDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func() doc.Store {
		dir := t.TempDir()
		return func() doc.Store { return openStore(t, dir, Options{}) }
	})
}

// What every connection has to be set to, on every connection of the pool and not the first alone.
func TestPragmas(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	want := map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"}
	check := func(who, name, want string, scan func(query string, dest any) error) {
		t.Helper()
		var got string
		if err := scan("PRAGMA "+name, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %s is %s, want %s", who, name, got, want)
		}
	}
	for i := range 4 {
		conn, err := s.readers.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for name, value := range want {
			check(fmt.Sprintf("reader %d", i), name, value, func(q string, dest any) error { return conn.QueryRowContext(t.Context(), q).Scan(dest) })
		}
		if _, err := conn.ExecContext(t.Context(), `DELETE FROM keys`); err == nil {
			t.Errorf("reader %d can write", i)
		}
	}
	want["fullfsync"], want["checkpoint_fullfsync"], want["journal_size_limit"] = "1", "1", "67108864"
	err := s.write(t.Context(), func(tx tx) error {
		for name, value := range want {
			check("writer", name, value, func(q string, dest any) error { return tx.row(q).Scan(dest) })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newMeta() doc.Meta { return doc.Meta{ID: crdt.DocumentID(uuid.New()), CreatedAt: time.Now()} }

func events(n int) []doc.NewEvent {
	out := make([]doc.NewEvent, n)
	for i := range out {
		out[i] = doc.NewEvent{ID: doc.EventID(uuid.New()), Type: doc.MessagePosted, Actor: "ada", Payload: []byte(`{"text":"hello"}`), At: time.Now()}
	}
	return out
}

func anyAppend(n int) doc.Append { return doc.Append{Expect: doc.AnySeq, Events: events(n)} }

func mustCreate(t testing.TB, s *Store) crdt.DocumentID {
	t.Helper()
	m := newMeta()
	if _, err := s.Create(context.Background(), m, doc.Append{}); err != nil {
		t.Fatal(err)
	}
	return m.ID
}

// verify checks the document's whole log and returns it.
func verify(t testing.TB, s *Store, id crdt.DocumentID) []doc.Event {
	t.Helper()
	log, err := s.Events(context.Background(), id, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	var previous doc.EventHash
	for i, e := range log {
		if want := doc.Chain(previous, doc.Seq(i+1), e.NewEvent); e.Seq != want.Seq || e.Hash != want.Hash {
			t.Fatalf("event %d has seq %s and hash %s, want %s and %s", i+1, e.Seq, e.Hash, want.Seq, want.Hash)
		}
		previous = e.Hash
	}
	return log
}

// A document that was watched once costs nothing for ever after.
func TestStoppedWatchersAreForgotten(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	for range 100 {
		id := newMeta().ID
		_, stop := s.Watch(id)
		_, stopOther := s.Watch(id)
		stop()
		stopOther()
	}
	if n := len(s.watchers.of); n != 0 {
		t.Errorf("%d documents are still remembered", n)
	}
}

// A command makes and revokes keys while the server writes as fast as it can: each gets its turn, and the server notices.
func TestKeysBesideABusyServer(t *testing.T) {
	dir := t.TempDir()
	server, command := openStore(t, dir, Options{}), openStore(t, dir, Options{Beside: true})
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	for range 16 {
		id := mustCreate(t, server)
		writers.Go(func() {
			for ctx.Err() == nil {
				if _, err := server.Append(t.Context(), id, anyAppend(1)); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	version := func() int64 {
		v, err := server.KeysVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	last := version()
	for i := range 20 {
		k := doc.Key{ID: doc.KeyID(fmt.Sprint(i)), Digest: doc.Secret(fmt.Sprint(i)).Digest(), Agent: "ada", Kind: doc.Program, Role: doc.Editor, Pattern: "*", CreatedAt: time.Now()}
		if err := command.AddKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if err := command.RevokeKey(t.Context(), k.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		now := version()
		if now == last {
			t.Errorf("the server did not notice key %d", i)
		}
		last = now
		if got, err := server.Key(t.Context(), k.Digest); err != nil || got.RevokedAt.IsZero() {
			t.Errorf("the server finds %+v, %v", got, err)
		}
	}
}

// The ledger has every lease transition, of sections and of all else, in the order of the commits.
func TestLedger(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	id := mustCreate(t, s)
	at := time.Date(2026, 3, 4, 5, 6, 7, 891_234_567, time.UTC)
	section := doc.SectionResource(id, "intro")
	granted := lease.Event{Kind: lease.Granted, Resource: section, Actor: "ada", At: at, Trust: 101,
		Lease: lease.Lease{ID: "l1", Resource: section, Holder: "ada", Mode: lease.Exclusive, Operation: lease.Write, Fence: 7,
			AcquiredAt: at, ExpiresAt: at.Add(time.Minute), Duration: time.Minute}}
	deadlocked := lease.Event{Kind: lease.Deadlocked, Resource: "lock:\xff", Actor: "bob", At: at.Add(time.Second), Reason: "circle",
		Waiter: lease.Waiter{Resource: "lock:\xff", Agent: "bob", Mode: lease.Shared, Operation: lease.Read, Since: at, Until: at},
		Cycle:  []lease.Edge{{Agent: "bob", Resource: "lock:a"}, {Agent: "ada", Resource: "lock:b"}}}
	err := s.SaveLeases(t.Context(), []doc.LeaseCommit{
		{Commit: lease.Commit{Fence: 7, Events: []lease.Event{granted}}, Document: id, Events: events(1)},
		{Commit: lease.Commit{Fence: 7, Events: []lease.Event{deadlocked}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		seq             int64
		at              time.Time
		resource, event string
	}
	want := []row{
		{1, at.Truncate(time.Millisecond), string(section), `{"kind":"grant","actor":"ada","at":"2026-03-04T05:06:07.891234567Z",` +
			`"lease":{"id":"l1","holder":"ada","mode":"exclusive","operation":"write","fence":7,` +
			`"acquiredAt":"2026-03-04T05:06:07.891234567Z","expiresAt":"2026-03-04T05:07:07.891234567Z","durationNs":60000000000},"trustHalves":101}`},
		{2, at.Add(time.Second).Truncate(time.Millisecond), "lock:\xff", `{"kind":"deadlock","actor":"bob","at":"2026-03-04T05:06:08.891234567Z",` +
			`"waiter":{"agent":"bob","mode":"shared","operation":"read","durationNs":0,"since":"2026-03-04T05:06:07.891234567Z","placeNs":0,` +
			`"until":"2026-03-04T05:06:07.891234567Z"},"reason":"circle","cycle":[{"agent":"bob","resource":"lock:a"},{"agent":"ada","resource":"lock:b"}]}`},
	}
	rows, err := s.readers.QueryContext(t.Context(), `SELECT seq, at, resource, event FROM ledger ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.seq, instant{&r.at}, &r.resource, &r.event); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("the ledger has %d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d:\n got %+v\nwant %+v", i+1, got[i], want[i])
		}
	}
}
