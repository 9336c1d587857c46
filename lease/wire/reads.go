package wire

import (
	"time"

	"cowrite/lease"
)

// ResourceQueues answers GET /wait.
type ResourceQueues struct {
	OK        bool            `json:"ok"`
	Queues    []ResourceQueue `json:"queues" nullable:"false"`
	Deadlocks []Deadlock      `json:"deadlocks" nullable:"false" doc:"At most the last 100."`
}

// ResourceQueue is who holds a resource and who waits for it.
type ResourceQueue struct {
	Resource    string           `json:"resource"`
	Holders     []DID            `json:"holders" nullable:"false"`
	ReservedFor []DID            `json:"reservedFor,omitempty" nullable:"false" doc:"The resource is free for these waiters, and kept for them."`
	Waiters     []ResourceWaiter `json:"waiters" nullable:"false" doc:"First come, first served."`
}

// ResourceWaiter is one place in a queue.
type ResourceWaiter struct {
	ActorDID DID        `json:"actorDid"`
	Position int        `json:"position" doc:"From 1."`
	Since    string     `json:"since" format:"date-time"`
	Mode     lease.Mode `json:"mode" enum:"exclusive,shared"`
}

// QueueOf says a resource's status; name is what its reader calls the resource.
func QueueOf(name string, status lease.Status) ResourceQueue {
	q := ResourceQueue{Resource: name, Holders: []DID{}, Waiters: []ResourceWaiter{}}
	for _, l := range status.Holders {
		q.Holders = append(q.Holders, DIDOf(l.Holder))
	}
	for i, w := range status.Queue {
		if !w.Reserved.IsZero() {
			q.ReservedFor = append(q.ReservedFor, DIDOf(w.Agent))
		}
		q.Waiters = append(q.Waiters, ResourceWaiter{DIDOf(w.Agent), i + 1, Time(w.Since), w.Mode})
	}
	return q
}

// Standing answers GET /resources.
type Standing struct {
	OK        bool               `json:"ok"`
	Resources []ResourceStanding `json:"resources" nullable:"false" doc:"Those that are waited for before the others, then by name; at most 1,000."`
	Total     int                `json:"total" doc:"How many there are."`
	Waits     []ResourceWait     `json:"waits" nullable:"false" doc:"Who waits for whom at these resources, with as few steps as lead from everybody to everybody they wait for."`
	Agents    []AgentTrust       `json:"agents" nullable:"false" doc:"Those who hold these resources or wait for them, by name."`
}

// ResourceStanding is a resource that is held or waited for.
type ResourceStanding struct {
	ResourceQueue
	Leases []ResourceLease `json:"leases" nullable:"false" doc:"Of the holders, the one that ends last first."`
}

// ResourceWait says that one waits for a resource that the other holds or is ahead for.
type ResourceWait struct {
	ActorDID DID    `json:"actorDid"`
	For      DID    `json:"for"`
	Resource string `json:"resource"`
}

// AgentTrust is an agent's trust.
type AgentTrust struct {
	ActorDID DID     `json:"actorDid"`
	Trust    float64 `json:"trust" doc:"0 to 100."`
}

// ResourceStandingOf says a resource's status at an instant; name is what its reader calls the resource.
func ResourceStandingOf(name string, status lease.Status, now time.Time) ResourceStanding {
	s := ResourceStanding{ResourceQueue: QueueOf(name, status), Leases: []ResourceLease{}}
	for _, l := range status.Holders {
		s.Leases = append(s.Leases, LeaseOf(l, name, now))
	}
	return s
}

// Deadlock is a circle of waiting that was refused: Actors[i] would have waited for Resources[i].
type Deadlock struct {
	Actors    []DID    `json:"actors" nullable:"false"`
	Resources []string `json:"resources" nullable:"false" doc:"Empty where the reader may not see it."`
	At        string   `json:"at" format:"date-time"`
}

// DeadlockOf says a refused circle.
func DeadlockOf(e lease.Event, circle []CircleStep) Deadlock {
	d := Deadlock{At: Time(e.At)}
	for _, step := range circle {
		d.Actors, d.Resources = append(d.Actors, step.ActorDID), append(d.Resources, step.Resource)
	}
	return d
}

// LeftResourceQueue answers DELETE /wait.
type LeftResourceQueue struct {
	OK   bool `json:"ok"`
	Left bool `json:"left" doc:"Whether there was a place to give up."`
}

// LedgerPage answers GET /ledger.
type LedgerPage struct {
	OK      bool          `json:"ok"`
	Entries []LedgerEntry `json:"entries" nullable:"false"`
	HasMore bool          `json:"hasMore"`
	Next    string        `json:"next" doc:"The after of the following page, or of the next look."`
}

// LedgerEntry is one transition. Lease, previous and waiter are there where the action is about one.
type LedgerEntry struct {
	Seq      string          `json:"seq" doc:"Position in the ledger of the whole server, from 1; a decimal string."`
	Event    string          `json:"event" enum:"coordination.lease"`
	Action   lease.Kind      `json:"action" enum:"grant,renew,release,expire,force,end,transfer,queue,unqueue,reserve,lapse,deadlock"`
	Resource string          `json:"resource"`
	ActorDID DID             `json:"actorDid" doc:"Who did it; did:cowrite:system where nobody did."`
	At       string          `json:"at" format:"date-time"`
	Holder   DID             `json:"holder,omitempty"`
	LeaseID  lease.ID        `json:"leaseId,omitempty"`
	Fence    lease.Fence     `json:"fence,omitempty"`
	Lease    *RecordedLease  `json:"lease,omitempty" doc:"As it was after the transition, or at its end."`
	Previous *RecordedLease  `json:"previous,omitempty" doc:"Of a transfer the former holder's lease; of an upgrade the read that it came from."`
	Waiter   *RecordedWaiter `json:"waiter,omitempty"`
	Cycle    []CircleStep    `json:"cycle,omitempty" nullable:"false" doc:"Of a deadlock."`
	Reason   string          `json:"reason,omitempty" doc:"Why it ended, where that is not plain."`
	Trust    *float64        `json:"trust,omitempty" doc:"Of a release or expiry: the holder's trust after it."`
}

// RecordedLease is a lease in the ledger.
type RecordedLease struct {
	LeaseID    lease.ID        `json:"leaseId"`
	Holder     DID             `json:"holder"`
	Mode       lease.Mode      `json:"mode" enum:"exclusive,shared"`
	Operation  lease.Operation `json:"operation" enum:"read,write,delete"`
	Reason     string          `json:"reason,omitempty"`
	Fence      lease.Fence     `json:"fence"`
	AcquiredAt string          `json:"acquiredAt" format:"date-time"`
	ExpiresAt  string          `json:"expiresAt" format:"date-time"`
	TTLMs      int64           `json:"ttlMs"`
}

// RecordedWaiter is a place in a queue in the ledger.
type RecordedWaiter struct {
	ActorDID      DID             `json:"actorDid"`
	Mode          lease.Mode      `json:"mode" enum:"exclusive,shared"`
	Operation     lease.Operation `json:"operation" enum:"read,write,delete"`
	Reason        string          `json:"reason,omitempty"`
	Since         string          `json:"since" format:"date-time"`
	ReservedUntil string          `json:"reservedUntil,omitempty" format:"date-time"`
}

// LedgerEntryOf says the transition at a position of the ledger, with its resource's name and its circle as the
// reader knows them.
func LedgerEntryOf(seq string, e lease.Event, name string, circle []CircleStep) LedgerEntry {
	entry := LedgerEntry{
		Seq: seq, Event: "coordination.lease", Action: e.Kind, Resource: name, ActorDID: DIDOf(e.Actor), At: Time(e.At),
		Lease: recordedLeaseOf(e.Lease), Previous: recordedLeaseOf(e.Previous), Cycle: circle, Reason: e.Reason,
	}
	if e.Lease.ID != "" {
		entry.Holder, entry.LeaseID, entry.Fence = DIDOf(e.Lease.Holder), e.Lease.ID, e.Lease.Fence
	}
	if e.Waiter.Agent != "" {
		w := e.Waiter
		entry.Waiter = &RecordedWaiter{DIDOf(w.Agent), w.Mode, w.Operation, w.Reason, Time(w.Since), Time(w.Reserved)}
	}
	if e.Kind == lease.Released || e.Kind == lease.Expired {
		points := Trust(e.Trust)
		entry.Trust = &points
	}
	return entry
}

func recordedLeaseOf(l lease.Lease) *RecordedLease {
	if l.ID == "" {
		return nil
	}
	return &RecordedLease{l.ID, DIDOf(l.Holder), l.Mode, l.Operation, l.Reason, l.Fence, Time(l.AcquiredAt), Time(l.ExpiresAt), l.Duration.Milliseconds()}
}

// AgentStanding answers GET /agents/{name}.
type AgentStanding struct {
	OK       bool            `json:"ok"`
	ActorDID DID             `json:"actorDid"`
	Agent    lease.Agent     `json:"agent"`
	Trust    float64         `json:"trust" doc:"0 to 100; who is not known has 50."`
	Grants   int64           `json:"grants"`
	Releases int64           `json:"releases"`
	Expiries int64           `json:"expiries"`
	Refusals int64           `json:"refusals"`
	Holds    []ResourceLease `json:"holds" nullable:"false"`
	WaitsFor []WaitingFor    `json:"waitsFor" nullable:"false"`
}

// WaitingFor is an agent's place in the queue of a resource.
type WaitingFor struct {
	Resource string     `json:"resource"`
	Position int        `json:"position" doc:"From 1."`
	Since    string     `json:"since" format:"date-time"`
	Mode     lease.Mode `json:"mode" enum:"exclusive,shared"`
}

// AgentSummary is an agent without what its leases and places are for.
type AgentSummary struct {
	ActorDID DID         `json:"actorDid"`
	Agent    lease.Agent `json:"agent"`
	Trust    float64     `json:"trust" doc:"0 to 100."`
	Grants   int64       `json:"grants"`
	Releases int64       `json:"releases"`
	Expiries int64       `json:"expiries"`
	Refusals int64       `json:"refusals"`
	Holds    int         `json:"holds" doc:"How many leases it has."`
	WaitsFor int         `json:"waitsFor" doc:"How many places in queues it has."`
	LastAt   string      `json:"lastAt,omitempty" format:"date-time" doc:"Of its last transition in the ledger."`
}

// AgentList answers GET /agents.
type AgentList struct {
	OK     bool           `json:"ok"`
	Agents []AgentSummary `json:"agents" nullable:"false"`
	Total  int            `json:"total" doc:"How many there are; at most 1,000 are told."`
}

// StandingOf says what is remembered of an agent, but for its leases and places.
func StandingOf(r lease.AgentRecord) AgentStanding {
	return AgentStanding{
		OK: true, ActorDID: DIDOf(r.Agent), Agent: r.Agent, Trust: Trust(r.Trust),
		Grants: r.Grants, Releases: r.Releases, Expiries: r.Expiries, Refusals: r.Refusals,
		Holds: []ResourceLease{}, WaitsFor: []WaitingFor{},
	}
}
