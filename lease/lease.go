// Package lease says who holds what, who waits, and what it cost them. A [Kernel] is a pure state machine:
// time, ids and chance are arguments, what happened is returned as data. A [Keeper] wraps it for concurrent
// use: it owns the clock, the sweep, durable storage and long polls.
//
// A lease is advisory. It tells, it queues, it is recorded; it never blocks a write.
package lease

import "time"

// Agent is the name of an agent or a person: [a-z0-9][a-z0-9._-]{0,62}.
type Agent string

// System is the actor of what happens by itself, such as the end of a lease.
const System Agent = "system"

// Resource names what can be leased: any string of 1 to 512 bytes.
type Resource string

// ID names a grant. It is never reused, and no credential.
type ID string

// Fence numbers grants over the whole server; it only rises.
type Fence uint64

// Mode is how a lease excludes others.
type Mode string

const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
)

// Operation is what the holder means to do: read, write or delete. Only a read may share.
type Operation string

const (
	Read   Operation = "read"
	Write  Operation = "write"
	Delete Operation = "delete"
)

// Lease is one grant.
type Lease struct {
	ID         ID
	Resource   Resource
	Holder     Agent
	Mode       Mode
	Operation  Operation
	Reason     string
	Fence      Fence
	AcquiredAt time.Time
	ExpiresAt  time.Time     // the lease is absent from this instant on
	Duration   time.Duration // asked for when the end was last set
}

// Waiter is one place in a queue.
type Waiter struct {
	Resource  Resource
	Agent     Agent
	Mode      Mode
	Operation Operation
	Reason    string
	Duration  time.Duration // of the lease asked for
	Since     time.Time
	Place     time.Duration // how long the place lives after the last ask
	Keep      time.Duration // how long the freed resource is kept for it
	Stays     bool          // it was asked for: it lives on when no long poll stands behind it any more
	Until     time.Time     // when the place lapses; zero while a long poll stands behind it
	Reserved  time.Time     // not zero: the resource is kept for this waiter until then, and the place ends with it
}

// Status is what is to be said of one resource at one instant. Expired leases and lapsed places are not in it.
type Status struct {
	Resource Resource
	Holders  []Lease // the one that ends last first
	Queue    []Waiter
}

// Kind is what happened to a lease or a place in a queue.
type Kind string

const (
	Granted    Kind = "grant"
	Renewed    Kind = "renew"
	Released   Kind = "release"
	Expired    Kind = "expire"
	Broken     Kind = "force"    // ended by an administrator
	Ended      Kind = "end"      // its holder's last key was revoked, or its document deleted
	Handed     Kind = "transfer" // the old lease's end; the new one's grant is in the same event
	Queued     Kind = "queue"
	Unqueued   Kind = "unqueue"
	Reserved   Kind = "reserve" // the freed resource is kept for a waiter
	Lapsed     Kind = "lapse"   // a place or a reservation ran out
	Deadlocked Kind = "deadlock"
)

// Event is one transition, as it is recorded. Replaying all events gives the present state, but for how long
// the places in queues still live, which each ask moves: a grant or a transfer takes away its holder's place
// and former lease there, and a waiter queues at the end, or behind the reservations if it holds a lease there.
type Event struct {
	Kind     Kind
	Resource Resource
	Actor    Agent       // who caused it; System where nobody did
	At       time.Time   // when it was noticed; of Expired the end itself is in Lease
	Lease    Lease       // the lease granted, renewed or ended; of Handed the new one
	Previous Lease       // of Handed the old one, of an upgrade's Granted the read it came from
	Waiter   Waiter      // of the kinds about queues
	Reason   string      // given by who forced, or why it ended
	Cycle    []Edge      // of Deadlocked
	Trust    TrustHalves // of Released and Expired: the holder's trust after it
}

// Edge is one step of a cycle of waiting: Agent waits for Resource, which the next edge's agent holds or
// is ahead for.
type Edge struct {
	Agent    Agent
	Resource Resource
}

// TrustHalves is trust in halves of a point, so that +0.5 is an integer.
type TrustHalves int

// Trust begins in the middle. A release after at least a second raises it, an expiry lowers it, nothing else
// moves it.
const (
	StartTrust TrustHalves = 100
	MaxTrust   TrustHalves = 200

	releaseGain TrustHalves = 1
	expiryCost  TrustHalves = 10
	gainAfter               = time.Second
)

// Record is all that is to be remembered of one resource: the last one saved is its state.
type Record struct {
	Resource Resource
	Leases   []Lease
	Queue    []Waiter
}

// AgentRecord is all that is to be remembered of one agent.
type AgentRecord struct {
	Agent    Agent
	Trust    TrustHalves
	Grants   int64
	Releases int64
	Expiries int64
	Refusals int64 // saved with the agent's next transition: a refusal alone writes nothing
}

// State is everything a keeper needs to go on after a restart.
type State struct {
	Fence   Fence
	Records []Record
	Agents  []AgentRecord
}

// Commit is what one command changed at one resource. A Record without leases and queue is to be forgotten.
// Without a Record.Resource it only counts a refusal, and need not be saved.
type Commit struct {
	Fence  Fence // the counter after the command
	Record Record
	Agents []AgentRecord
	Events []Event
}
