package doc

import (
	"context"
	"fmt"
	"math"
	"time"

	"cowrite/doc/code"
	"cowrite/lease"
)

const leasesAreAdvisory = "Leases are advisory: this one asks others to keep off, and blocks nobody's writes."

// LeaseAnswer is a section's lease as it is granted and shown at every door for sections.
type LeaseAnswer struct {
	LeaseID     lease.ID    `json:"leaseId" doc:"Names the grant. It is no credential: the key decides who the holder is."`
	Granted     bool        `json:"granted,omitempty" doc:"This request made the lease. Left out where it was there before, and is extended, renewed or shown."`
	Holder      Agent       `json:"holder"`
	ExpiresAt   string      `json:"expiresAt" format:"date-time" doc:"The lease is absent from this instant on."`
	ExpiresInMs int64       `json:"expiresInMs" doc:"The same as a remaining time, for clients whose clock is wrong."`
	AcquiredAt  string      `json:"acquiredAt" format:"date-time"`
	Fence       lease.Fence `json:"fence" doc:"Rises with each grant and never falls."`
	Reason      string      `json:"reason,omitempty"`
	Mode        lease.Mode  `json:"mode" enum:"exclusive,shared"`
	SectionID   SectionID   `json:"sectionId"`
	Holders     []Agent     `json:"holders,omitempty" nullable:"false" doc:"All holders, where several share it; holder is the one whose lease ends last."`
	Advisory    string      `json:"advisory"`
}

// LeaseAnswer says what a request for a section's lease came to; a lease that is only shown is an answer that granted nothing.
func (l *Library) LeaseAnswer(a lease.Answer) LeaseAnswer {
	_, sid, _ := ParseSectionResource(a.Lease.Resource)
	return LeaseAnswer{
		LeaseID: a.Lease.ID, Granted: a.Granted, Holder: a.Lease.Holder,
		ExpiresAt: FormatTime(a.Lease.ExpiresAt), ExpiresInMs: l.Remaining(a.Lease.ExpiresAt).Milliseconds(), AcquiredAt: FormatTime(a.Lease.AcquiredAt),
		Fence: a.Lease.Fence, Reason: a.Lease.Reason, Mode: a.Lease.Mode, SectionID: sid, Advisory: leasesAreAdvisory,
	}
}

// Remaining is the time until an instant of the keeper's clock, 0 when it is over.
func (l *Library) Remaining(end time.Time) time.Duration { return max(0, end.Sub(l.leases.Now())) }

// Seconds is a duration as the doors are given it. It was checked to be small: beyond 292 years it is not defined.
func Seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// Writer finds the agent of that name to whom a lease of the document may be handed: who has a live key that may write to
// it. INVALID_AGENT.
func (l *Library) Writer(ctx context.Context, m Meta, name string) (Agent, error) {
	agent, err := ParseAgent(name)
	if err != nil {
		return "", err
	}
	keys, err := l.store.Keys(ctx)
	if err != nil {
		return "", fmt.Errorf("list keys: %w", err)
	}
	for _, k := range keys {
		if k.Agent == agent && k.Live(l.now()) && k.CanWrite(m) {
			return agent, nil
		}
	}
	return "", code.New(code.InvalidAgent, "nobody called %s may write to this document", agent)
}
