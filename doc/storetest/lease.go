package storetest

import (
	"context"
	"errors"
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

var leasePromises = []promise{
	{"an empty store has no lease state", noLeases},
	{"the last record of a resource wins", lastRecordWins},
	{"an empty record is forgotten", emptyRecord},
	{"agents are remembered, the last record wins", agents},
	{"the fence only rises", fence},
	{"lease events are in the document's log, with the state", leaseEvents},
	{"lease events of an unknown document are dropped, the state stays", leaseEventsOfNone},
	{"lease state is saved by many at once", concurrentLeases},
	{"a save that is given up leaves state and event, or neither", givingUpLeases},
}

func saveLeases(t *testing.T, s doc.Store, commits ...doc.LeaseCommit) {
	t.Helper()
	if err := s.SaveLeases(t.Context(), commits); err != nil {
		t.Fatal(err)
	}
}

// loadLeases gives the state, sorted by name: the order is not promised.
func loadLeases(t *testing.T, s doc.Store) lease.State {
	t.Helper()
	state := must[lease.State](t)(s.LoadLeases(t.Context()))
	slices.SortFunc(state.Records, func(a, b lease.Record) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
	slices.SortFunc(state.Agents, func(a, b lease.AgentRecord) int { return strings.Compare(string(a.Agent), string(b.Agent)) })
	return state
}

func newLease(r lease.Resource, holder lease.Agent, fence lease.Fence, end time.Time) lease.Lease {
	return lease.Lease{ID: lease.ID(fmt.Sprintf("lease-%d", fence)), Resource: r, Holder: holder, Mode: lease.Exclusive, Operation: lease.Write,
		Reason: "why not", Fence: fence, AcquiredAt: end.Add(-time.Minute), ExpiresAt: end, Duration: time.Minute}
}

func newWaiter(r lease.Resource, agent lease.Agent) lease.Waiter {
	return lease.Waiter{Resource: r, Agent: agent, Mode: lease.Shared, Operation: lease.Read, Stays: true, Reason: "to read", Duration: time.Second,
		Since: day, Place: 30 * time.Second, Keep: 5 * time.Second, Until: day.Add(30 * time.Second), Reserved: day.Add(5 * time.Second)}
}

func record(r lease.Resource, leases []lease.Lease, queue ...lease.Waiter) doc.LeaseCommit {
	var last lease.Fence
	for _, l := range leases {
		last = max(last, l.Fence)
	}
	return doc.LeaseCommit{Commit: lease.Commit{Fence: last, Record: lease.Record{Resource: r, Leases: leases, Queue: queue}}}
}

func noLeases(t *testing.T, s doc.Store) {
	if got := loadLeases(t, s); got.Fence != 0 || len(got.Records) != 0 || len(got.Agents) != 0 {
		t.Errorf("got %+v", got)
	}
}

func lastRecordWins(t *testing.T, s doc.Store) {
	end := day.Add(time.Hour + 123_456_789) // ends are exact, not rounded
	section := doc.SectionResource(crdt.DocumentID(uuid.New()), "intro")
	odd := lease.Resource("any bytes: \xff\x00'\"é") // a resource is any string
	first := record(section, []lease.Lease{newLease(section, "ada", 1, end)})
	then := record(section, []lease.Lease{newLease(section, "bob", 2, end), newLease(section, "cyd", 3, end)}, newWaiter(section, "ada"), newWaiter(section, "eve"))
	last := record(odd, []lease.Lease{newLease(odd, "ada", 4, end)})
	saveLeases(t, s, first)
	saveLeases(t, s, then, record(odd, []lease.Lease{newLease(odd, "eve", 3, end)}), last)

	got := loadLeases(t, s)
	want := []lease.Record{last.Record, then.Record}
	sameJSON(t, "records", got.Records, want)
	for _, r := range got.Records {
		if r.Resource != odd && r.Resource != section {
			t.Errorf("resource %q", r.Resource)
		}
		for _, l := range r.Leases {
			if l.Resource != r.Resource {
				t.Errorf("a lease of %q says that it is of %q", r.Resource, l.Resource)
			}
			if !l.ExpiresAt.Equal(end) || l.ExpiresAt.Location() != time.UTC {
				t.Errorf("end is %v, want %v", l.ExpiresAt, end)
			}
		}
	}
}

func emptyRecord(t *testing.T, s doc.Store) {
	saveLeases(t, s,
		record("lock:a", []lease.Lease{newLease("lock:a", "ada", 1, day)}),
		record("lock:b", nil, newWaiter("lock:b", "bob")),
		record("lock:c", []lease.Lease{newLease("lock:c", "cyd", 2, day)}))
	saveLeases(t, s, record("lock:a", nil), record("lock:never", nil))
	saveLeases(t, s, record("lock:c", nil), record("lock:c", []lease.Lease{newLease("lock:c", "cyd", 3, day)}))
	got := loadLeases(t, s)
	if len(got.Records) != 2 || got.Records[0].Resource != "lock:b" || got.Records[1].Resource != "lock:c" {
		t.Errorf("got %+v", got.Records)
	}
	if got.Fence != 3 {
		t.Errorf("fence is %d, want 3", got.Fence)
	}
}

func agents(t *testing.T, s doc.Store) {
	ada := lease.AgentRecord{Agent: "ada", Trust: 101, Grants: 1, Releases: 2, Expiries: 3, Refusals: 4}
	bob := lease.AgentRecord{Agent: "bob", Trust: 0, Grants: 5}
	saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Agents: []lease.AgentRecord{ada, bob}}})
	ada.Trust, ada.Grants = 200, 9
	saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Agents: []lease.AgentRecord{ada}}})
	sameJSON(t, "agents", loadLeases(t, s).Agents, []lease.AgentRecord{ada, bob})
}

func fence(t *testing.T, s doc.Store) {
	for _, step := range []struct{ save, want lease.Fence }{{5, 5}, {0, 5}, {4, 5}, {6, 6}, {1 << 62, 1 << 62}} {
		saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Fence: step.save}})
		if got := loadLeases(t, s).Fence; got != step.want {
			t.Errorf("after %d the fence is %d, want %d", step.save, got, step.want)
		}
	}
}

func leased(id crdt.DocumentID, fence lease.Fence, events ...doc.NewEvent) doc.LeaseCommit {
	r := doc.SectionResource(id, "intro")
	c := record(r, []lease.Lease{newLease(r, "ada", fence, day.Add(time.Hour))})
	c.Commit.Events = []lease.Event{{Kind: lease.Granted, Resource: r, Actor: "ada", At: day, Lease: c.Record.Leases[0],
		Cycle: []lease.Edge{{Agent: "bob", Resource: "lock:b"}}}}
	c.Document, c.Events = id, events
	return c
}

func leaseEvents(t *testing.T, s doc.Store) {
	m, other := newDocument("plan"), newDocument("other")
	create(t, s, m, posted(1)...)
	create(t, s, other)
	granted := newEvent(doc.SectionLeased, "")
	granted.At = day.Add(2 * time.Hour)
	saveLeases(t, s, leased(m.ID, 1, granted), leased(other.ID, 2, posted(1)...), leased(m.ID, 3, posted(2)...))
	appendEvents(t, s, m.ID, posted(1)...)

	log := allEvents(t, s, m.ID)
	if len(log) != 5 || log[1].ID != granted.ID || log[1].Type != doc.SectionLeased {
		t.Fatalf("the log has %d events", len(log))
	}
	verifyChain(t, log)
	verifyChain(t, allEvents(t, s, other.ID))
	if got := metaOf(t, s, other.ID); got.LastSeq != 1 || !got.ChangedAt.Equal(day.Add(time.Minute)) {
		t.Errorf("meta is %+v", got)
	}
	_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: 1, Events: posted(1)})
	wantError(t, err, doc.ErrConflict)
}

func leaseEventsOfNone(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	unknown := crdt.DocumentID(uuid.New())
	saveLeases(t, s, leased(unknown, 7, posted(1)...), leased(m.ID, 8, posted(1)...))
	if got := loadLeases(t, s); got.Fence != 8 || len(got.Records) != 2 {
		t.Errorf("got %+v", got)
	}
	if log := allEvents(t, s, m.ID); len(log) != 1 {
		t.Errorf("%d events, want 1", len(log))
	}
	_, err := s.Events(t.Context(), unknown, 0, many)
	wantError(t, err, doc.ErrNotFound)
}

func concurrentLeases(t *testing.T, s doc.Store) {
	const savers, rounds = 8, 10
	m := newDocument("plan")
	create(t, s, m)
	together(savers, func(i int) {
		for r := range rounds {
			fence := lease.Fence(i*rounds + r + 1)
			name := lease.Resource(fmt.Sprintf("lock:%d", i))
			c := record(name, []lease.Lease{newLease(name, "ada", fence, day)})
			c.Document, c.Events = m.ID, posted(1)
			if err := s.SaveLeases(t.Context(), []doc.LeaseCommit{c}); err != nil {
				t.Errorf("save: %v", err)
			}
		}
	})
	got := loadLeases(t, s)
	if got.Fence != savers*rounds || len(got.Records) != savers {
		t.Errorf("fence %d and %d records, want %d and %d", got.Fence, len(got.Records), savers*rounds, savers)
	}
	for i, r := range got.Records {
		if want := lease.Fence((i + 1) * rounds); r.Leases[0].Fence != want {
			t.Errorf("%s has fence %d, want its saver's last, %d", r.Resource, r.Leases[0].Fence, want)
		}
	}
	log := allEvents(t, s, m.ID)
	if len(log) != savers*rounds {
		t.Errorf("%d events, want %d", len(log), savers*rounds)
	}
	verifyChain(t, log)
}

func givingUpLeases(t *testing.T, s doc.Store) {
	const savers = 64
	m := newDocument("plan")
	create(t, s, m)
	together(savers, func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go cancel()
		name := lease.Resource(fmt.Sprintf("lock:%d", i))
		c := record(name, []lease.Lease{newLease(name, "ada", 1, day)})
		c.Document, c.Events = m.ID, []doc.NewEvent{newEvent(doc.SectionLeased, "%s", name)}
		if err := s.SaveLeases(ctx, []doc.LeaseCommit{c}); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("save: %v", err)
		}
	})
	var states, events []string
	for _, r := range loadLeases(t, s).Records {
		states = append(states, fmt.Sprintf(`{"text":"%s"}`, r.Resource))
	}
	for _, e := range allEvents(t, s, m.ID) {
		events = append(events, string(e.Payload))
	}
	slices.Sort(states)
	slices.Sort(events)
	if !slices.Equal(states, events) {
		t.Errorf("states:\n %v\nevents:\n %v", states, events)
	}
}
