// Package wire is how leases look at the coordination door, under /api/v1/acp/coordination: its requests and
// answers, and how what the kernel says becomes them. Agents are named by DID, instants are ISO 8601 in UTC with
// milliseconds, durations are milliseconds, trust is in points. The server's routes, its clients and the
// playground share it; it decides nothing and knows no HTTP.
package wire

import (
	"strings"
	"time"

	"cowrite/lease"
)

// didPrefix is what comes before an agent's name in its DID.
const didPrefix = "did:cowrite:"

// DID is an agent's name at this door: did:cowrite:<name>.
type DID string

// DIDOf gives an agent's DID.
func DIDOf(a lease.Agent) DID { return DID(didPrefix + a) }

// DIDsOf gives the DIDs of agents, never nil.
func DIDsOf(agents []lease.Agent) []DID {
	out := make([]DID, 0, len(agents))
	for _, a := range agents {
		out = append(out, DIDOf(a))
	}
	return out
}

// AgentOf is the bare name in a DID, or the name itself where it is bare already. It is not checked.
func AgentOf(name string) lease.Agent { return lease.Agent(strings.TrimPrefix(name, didPrefix)) }

// Time is how an instant looks, "" where there is none.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Milliseconds is a duration that came as a number of them.
func Milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Trust is in points from 0 to 100, not in halves.
func Trust(t lease.TrustHalves) float64 { return float64(t) / 2 }

// The defaults and bounds of requests, as their tags say them to the schema.
const (
	DefaultTTL     = 30 * time.Second
	MaxWait        = 60 * time.Second
	MaxReasonRunes = 256
)

// ResourceLeaseRequest is the body of POST /lease.
type ResourceLeaseRequest struct {
	Resource  string          `json:"resource" doc:"Any name of 1 to 512 bytes; section:<slug>/<section id> for a section." example:"lock:deploy/production"`
	ActorDID  string          `json:"actorDid" doc:"The key's own agent, as did:cowrite:<name> or by its name." example:"did:cowrite:alpha"`
	TTLMs     int64           `json:"ttlMs,omitempty" minimum:"1000" maximum:"300000" default:"30000"`
	Operation lease.Operation `json:"operation,omitempty" enum:"read,write,delete" default:"write"`
	Reason    string          `json:"reason,omitempty" maxLength:"256" doc:"What for; shown to everybody."`
	WaitMs    int64           `json:"waitMs,omitempty" minimum:"0" maximum:"60000" doc:"Wait in the queue for at most this long."`
	Queue     *bool           `json:"queue,omitempty" doc:"false takes no place in the queue if refused; with waitMs none that is left when the wait is over."`
}

// Command is what the request asks of the kernel, for a resource and an agent that were checked.
func (r ResourceLeaseRequest) Command(resource lease.Resource, agent lease.Agent, id lease.ID) lease.Acquire {
	return lease.Acquire{
		Resource: resource, Agent: agent, Operation: r.Operation, Duration: Milliseconds(r.TTLMs),
		Reason: r.Reason, Queue: r.Queue == nil || *r.Queue, NewID: id,
	}
}

// ResourceLeaseRelease is the body of POST /release.
type ResourceLeaseRelease struct {
	Resource string `json:"resource"`
	ActorDID string `json:"actorDid"`
	LeaseID  string `json:"leaseId,omitempty" doc:"Refuse with stale_lease if the present lease is another one."`
}

// ResourceLeaseRenewal is the body of POST /renew.
type ResourceLeaseRenewal struct {
	Resource string `json:"resource"`
	ActorDID string `json:"actorDid"`
	TTLMs    int64  `json:"ttlMs,omitempty" minimum:"1000" maximum:"300000" default:"30000"`
}

// ResourceLease is a lease.
type ResourceLease struct {
	LeaseID     lease.ID        `json:"leaseId" doc:"Names the grant. It is no credential: the key decides who the holder is."`
	Resource    string          `json:"resource"`
	Holder      DID             `json:"holder"`
	Mode        lease.Mode      `json:"mode" enum:"exclusive,shared"`
	Operation   lease.Operation `json:"operation" enum:"read,write,delete"`
	Reason      string          `json:"reason,omitempty"`
	Fence       lease.Fence     `json:"fence" doc:"Rises with each grant on the server and never falls."`
	AcquiredAt  string          `json:"acquiredAt" format:"date-time"`
	ExpiresAt   string          `json:"expiresAt" format:"date-time" doc:"The lease is absent from this instant on."`
	ExpiresInMs int64           `json:"expiresInMs" doc:"The same as a remaining time, for clients whose clock is wrong."`
	TTLMs       int64           `json:"ttlMs" doc:"What was asked for when the end was last set."`
}

// LeaseOf says a lease at an instant; name is what its reader calls the resource.
func LeaseOf(l lease.Lease, name string, now time.Time) ResourceLease {
	return ResourceLease{
		LeaseID: l.ID, Resource: name, Holder: DIDOf(l.Holder), Mode: l.Mode, Operation: l.Operation, Reason: l.Reason, Fence: l.Fence,
		AcquiredAt: Time(l.AcquiredAt), ExpiresAt: Time(l.ExpiresAt),
		ExpiresInMs: Remaining(l.ExpiresAt, now).Milliseconds(), TTLMs: l.Duration.Milliseconds(),
	}
}

// Remaining is how long it is from now to an end, never less than nothing.
func Remaining(end, now time.Time) time.Duration { return max(0, end.Sub(now)) }

// ResourceLeaseGrant answers POST /lease and POST /renew.
type ResourceLeaseGrant struct {
	OK      bool          `json:"ok"`
	Granted bool          `json:"granted" doc:"Whether this request made the lease. false: the agent had it already, and it was extended, upgraded or renewed."`
	Lease   ResourceLease `json:"lease"`
}

// ResourceLeaseReleased answers POST /release.
type ResourceLeaseReleased struct {
	OK       bool    `json:"ok"`
	Released bool    `json:"released"`
	Trust    float64 `json:"trust" doc:"The holder's, 0 to 100."`
}
