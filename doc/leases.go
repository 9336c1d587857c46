package doc

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"

	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/lease"
)

// LeaseStore is where a lease keeper over a document store keeps its state: what happens to a section's lease
// goes to its document's log in the same transaction. random nil is crypto/rand.
func LeaseStore(s Store, random io.Reader) lease.Store { return leaseStore{s, newIDs(random), nil} }

// LeaseStore is the same as the function of that name, and remembers calls with the grants that they came to.
func (i *Idempotency) LeaseStore(random io.Reader) lease.Store {
	return leaseStore{i.store, newIDs(random), i}
}

type leaseStore struct {
	store Store
	ids   ids
	calls *Idempotency // nil: none are remembered
}

func (s leaseStore) LoadLeases(ctx context.Context) (lease.State, error) {
	return s.store.LoadLeases(ctx)
}

func (s leaseStore) SaveLeases(ctx context.Context, commits []lease.Commit) error {
	out := make([]LeaseCommit, len(commits))
	var calls []LeaseCall
	for i, c := range commits {
		out[i].Commit = c
		if s.calls != nil {
			out[i].Calls = s.calls.riding(c.Events)
			calls = append(calls, out[i].Calls...)
		}
		id, sid, ok := ParseSectionResource(c.Record.Resource)
		if !ok {
			continue
		}
		out[i].Document = id
		for _, e := range c.Events {
			event, err := s.event(sid, e)
			if err != nil {
				return err
			}
			out[i].Events = append(out[i].Events, event)
		}
	}
	if err := s.store.SaveLeases(ctx, out); err != nil {
		return err
	}
	if len(calls) > 0 {
		s.calls.landed(calls)
	}
	return nil
}

// leasePayload is the payload of all lease events; each type has the fields that mean something for it.
type leasePayload struct {
	Event      string      `json:"event,omitempty"` // the classic name
	LeaseID    lease.ID    `json:"leaseId,omitempty"`
	SectionID  SectionID   `json:"sectionId"`
	Holder     Agent       `json:"holder,omitempty"`
	ExpiresAt  string      `json:"expiresAt,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Fence      lease.Fence `json:"fence,omitempty"`
	Mode       lease.Mode  `json:"mode,omitempty"`
	ReleasedBy Agent       `json:"releasedBy,omitempty"`
	BrokenBy   Agent       `json:"brokenBy,omitempty"`
	From       Agent       `json:"from,omitempty"`
	FromLease  lease.ID    `json:"previousLeaseId,omitempty"`
	Agent      Agent       `json:"agent,omitempty"`  // who waits
	Until      string      `json:"until,omitempty"`  // of a place or a reservation
	Circle     []Agent     `json:"agents,omitempty"` // of a deadlock: each would wait for the next, the last for the first
}

func (s leaseStore) event(sid SectionID, e lease.Event) (NewEvent, error) {
	held := func(name string) leasePayload {
		return leasePayload{
			Event: name, LeaseID: e.Lease.ID, SectionID: sid, Holder: e.Lease.Holder,
			ExpiresAt: FormatTime(e.Lease.ExpiresAt), Reason: e.Lease.Reason, Fence: e.Lease.Fence, Mode: e.Lease.Mode,
		}
	}
	gone := func(name string) leasePayload {
		return leasePayload{Event: name, LeaseID: e.Lease.ID, SectionID: sid, Holder: e.Lease.Holder, Reason: e.Reason}
	}
	place := leasePayload{SectionID: sid, Agent: e.Waiter.Agent, Mode: e.Waiter.Mode, Reason: e.Waiter.Reason}

	var (
		t EventType
		p leasePayload
	)
	switch e.Kind {
	case lease.Granted:
		t, p = SectionLeased, held("SECTION_LEASED")
	case lease.Renewed:
		t, p = SectionLeaseRenewed, held("SECTION_LEASE_RENEWED")
	case lease.Released:
		t, p = SectionLeaseReleased, gone("SECTION_LEASE_RELEASED")
		p.ReleasedBy, p.Holder = e.Actor, ""
	case lease.Expired:
		t, p = SectionLeaseExpired, gone("SECTION_LEASE_EXPIRED")
	case lease.Broken:
		t, p = SectionLeaseBroken, gone("SECTION_LEASE_BROKEN")
		p.BrokenBy = e.Actor
	case lease.Ended:
		t, p = SectionLeaseEnded, gone("SECTION_LEASE_ENDED")
	case lease.Handed:
		t, p = SectionLeaseHanded, held("SECTION_LEASE_TRANSFERRED")
		p.From, p.FromLease = e.Previous.Holder, e.Previous.ID
	case lease.Queued:
		t, p = SectionLeaseQueued, place
		if !e.Waiter.Until.IsZero() { // zero: a long poll stands behind the place
			p.Until = FormatTime(e.Waiter.Until)
		}
	case lease.Unqueued:
		t, p = SectionLeaseUnqueued, place
	case lease.Reserved:
		t, p = SectionLeaseReserved, place
		p.Until = FormatTime(e.Waiter.Reserved)
	case lease.Lapsed:
		t, p = SectionLeaseLapsed, place
	case lease.Deadlocked:
		t, p = SectionLeaseDeadlock, place
		// What they wait for is told in the ledger, to each reader as far as it is its business. Everybody who reads
		// this document has this log.
		for _, edge := range e.Cycle {
			p.Circle = append(p.Circle, edge.Agent)
		}
	default:
		return NewEvent{}, fmt.Errorf("record lease event: unknown kind %q", e.Kind)
	}
	id, err := s.ids.event()
	if err != nil {
		return NewEvent{}, err
	}
	return MakeEvent(id, t, e.Actor, e.At, p)
}

// ids draws the random names that documents need.
type ids struct{ random io.Reader }

func newIDs(random io.Reader) ids {
	if random == nil {
		random = rand.Reader
	}
	return ids{random}
}

func (g ids) event() (EventID, error) {
	u, err := uuid.NewRandomFromReader(g.random)
	if err != nil {
		return EventID{}, fmt.Errorf("name event: %w", err)
	}
	return EventID(u), nil
}

func (g ids) document() (crdt.DocumentID, error) {
	u, err := uuid.NewRandomFromReader(g.random)
	if err != nil {
		return crdt.DocumentID{}, fmt.Errorf("name document: %w", err)
	}
	return crdt.DocumentID(u), nil
}

// suffix draws six letters or digits, to tell equal headings apart.
func (g ids) suffix() (string, error) {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	var b [8]byte
	if _, err := io.ReadFull(g.random, b[:]); err != nil {
		return "", fmt.Errorf("draw suffix: %w", err)
	}
	out := make([]byte, 6)
	for i := range out {
		out[i] = digits[int(b[i])%len(digits)]
	}
	return string(out), nil
}
