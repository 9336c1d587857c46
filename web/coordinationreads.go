package web

import (
	"context"
	"errors"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

const (
	deadlocksFor  = time.Hour // how far back refused circles of waiting are told
	deadlocksMost = 100       // how many of them
	ledgerPages   = 16        // how many pages of a ledger are looked through for one that a narrow key may see
)

type readQueuesInput struct {
	Resource string `query:"resource" doc:"The queue of this resource alone."`
}

type readQueuesOutput struct {
	Body struct {
		OK        bool            `json:"ok"`
		Queues    []resourceQueue `json:"queues" nullable:"false"`
		Deadlocks []deadlock      `json:"deadlocks" nullable:"false" doc:"At most the last 100."`
	} `nameHint:"ResourceQueues"`
}

type resourceQueue struct {
	Resource    string           `json:"resource"`
	Holders     []did            `json:"holders" nullable:"false"`
	ReservedFor []did            `json:"reservedFor,omitempty" nullable:"false" doc:"The resource is free for these waiters, and kept for them."`
	Waiters     []resourceWaiter `json:"waiters" nullable:"false" doc:"First come, first served."`
}

type resourceWaiter struct {
	ActorDID did        `json:"actorDid"`
	Position int        `json:"position" doc:"From 1."`
	Since    string     `json:"since" format:"date-time"`
	Mode     lease.Mode `json:"mode" enum:"exclusive,shared"`
}

// deadlock is a circle of waiting that was refused: actors[i] would have waited for resources[i].
type deadlock struct {
	Actors    []did    `json:"actors" nullable:"false"`
	Resources []string `json:"resources" nullable:"false"`
	At        string   `json:"at" format:"date-time"`
}

func (s *Server) readQueues(ctx context.Context, in *readQueuesInput) (*readQueuesOutput, error) {
	var only lease.Resource
	statuses := s.leases.List
	if in.Resource != "" {
		var err error
		if only, err = s.coordinated(ctx, in.Resource, false); err != nil {
			return nil, err
		}
		statuses = func(string) []lease.Status { return []lease.Status{s.leases.Status(only)} }
	}
	sight := s.library.Sight(keyOf(ctx))
	out := new(readQueuesOutput)
	out.Body.OK, out.Body.Queues, out.Body.Deadlocks = true, []resourceQueue{}, []deadlock{}
	for _, status := range statuses("") {
		if only == "" && len(status.Queue) == 0 {
			continue
		}
		name, mine, err := sight.Name(ctx, status.Resource)
		if err != nil {
			return nil, err
		}
		if mine {
			out.Body.Queues = append(out.Body.Queues, queueOf(name, status))
		}
	}
	refused, err := s.library.Ledger(ctx, doc.LedgerQuery{
		Kind: lease.Deadlocked, Resource: only, Since: s.leases.Now().Add(-deadlocksFor), Newest: true, Limit: deadlocksMost,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range refused {
		if _, mine, err := sight.Name(ctx, e.Resource); err != nil {
			return nil, err
		} else if !mine {
			continue
		}
		steps, err := circle(ctx, sight, e.Cycle)
		if err != nil {
			return nil, err
		}
		d := deadlock{At: doc.FormatTime(e.At)}
		for _, step := range steps {
			d.Actors, d.Resources = append(d.Actors, step.ActorDID), append(d.Resources, step.Resource)
		}
		out.Body.Deadlocks = append(out.Body.Deadlocks, d)
	}
	return out, nil
}

func queueOf(name string, status lease.Status) resourceQueue {
	q := resourceQueue{Resource: name, Holders: []did{}, Waiters: []resourceWaiter{}}
	for _, l := range status.Holders {
		q.Holders = append(q.Holders, didOf(l.Holder))
	}
	for i, w := range status.Queue {
		if !w.Reserved.IsZero() {
			q.ReservedFor = append(q.ReservedFor, didOf(w.Agent))
		}
		q.Waiters = append(q.Waiters, resourceWaiter{didOf(w.Agent), i + 1, doc.FormatTime(w.Since), w.Mode})
	}
	return q
}

type leaveResourceQueueInput struct {
	Resource string `query:"resource" required:"true"`
}

type leaveResourceQueueOutput struct {
	Body struct {
		OK   bool `json:"ok"`
		Left bool `json:"left" doc:"Whether there was a place to give up."`
	} `nameHint:"LeftResourceQueue"`
}

func (s *Server) leaveResourceQueue(ctx context.Context, in *leaveResourceQueueInput) (*leaveResourceQueueOutput, error) {
	resource, err := s.coordinated(ctx, in.Resource, true)
	if err != nil {
		return nil, err
	}
	_, err = s.leases.Do(ctx, lease.Leave{Resource: resource, Agent: keyOf(ctx).Agent})
	refused, ok := errors.AsType[*lease.Refusal](err)
	if err != nil && !(ok && refused.Why == lease.NotQueued) {
		return nil, s.coordinationRefusal(ctx, err)
	}
	out := new(leaveResourceQueueOutput)
	out.Body.OK, out.Body.Left = true, err == nil
	return out, nil
}

type readLedgerInput struct {
	After    string `query:"after" doc:"A seq: only what comes behind it." example:"0"`
	Resource string `query:"resource" doc:"What happened to this resource."`
	Actor    string `query:"actor" doc:"What this agent did, and what happened to its leases and places."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type readLedgerOutput struct {
	Body struct {
		OK      bool          `json:"ok"`
		Entries []ledgerEntry `json:"entries" nullable:"false"`
		HasMore bool          `json:"hasMore"`
		Next    string        `json:"next" doc:"The after of the following page, or of the next look."`
	} `nameHint:"LedgerPage"`
}

// ledgerEntry is one transition. Lease, previous and waiter are there where the action is about one.
type ledgerEntry struct {
	Seq      string          `json:"seq" doc:"Position in the ledger of the whole server, from 1; a decimal string."`
	Event    string          `json:"event" enum:"coordination.lease"`
	Action   lease.Kind      `json:"action" enum:"grant,renew,release,expire,force,end,transfer,queue,unqueue,reserve,lapse,deadlock"`
	Resource string          `json:"resource"`
	ActorDID did             `json:"actorDid" doc:"Who did it; did:cowrite:system where nobody did."`
	At       string          `json:"at" format:"date-time"`
	Holder   did             `json:"holder,omitempty"`
	LeaseID  lease.ID        `json:"leaseId,omitempty"`
	Fence    lease.Fence     `json:"fence,omitempty"`
	Lease    *recordedLease  `json:"lease,omitempty" doc:"As it was after the transition, or at its end."`
	Previous *recordedLease  `json:"previous,omitempty" doc:"Of a transfer the former holder's lease; of an upgrade the read that it came from."`
	Waiter   *recordedWaiter `json:"waiter,omitempty"`
	Cycle    []circleStep    `json:"cycle,omitempty" nullable:"false" doc:"Of a deadlock."`
	Reason   string          `json:"reason,omitempty" doc:"Why it ended, where that is not plain."`
	Trust    *float64        `json:"trust,omitempty" doc:"Of a release or expiry: the holder's trust after it."`
}

type recordedLease struct {
	LeaseID    lease.ID        `json:"leaseId"`
	Holder     did             `json:"holder"`
	Mode       lease.Mode      `json:"mode" enum:"exclusive,shared"`
	Operation  lease.Operation `json:"operation" enum:"read,write,delete"`
	Reason     string          `json:"reason,omitempty"`
	Fence      lease.Fence     `json:"fence"`
	AcquiredAt string          `json:"acquiredAt" format:"date-time"`
	ExpiresAt  string          `json:"expiresAt" format:"date-time"`
	TTLMs      int64           `json:"ttlMs"`
}

type recordedWaiter struct {
	ActorDID      did             `json:"actorDid"`
	Mode          lease.Mode      `json:"mode" enum:"exclusive,shared"`
	Operation     lease.Operation `json:"operation" enum:"read,write,delete"`
	Reason        string          `json:"reason,omitempty"`
	Since         string          `json:"since" format:"date-time"`
	ReservedUntil string          `json:"reservedUntil,omitempty" format:"date-time"`
}

func (s *Server) readLedger(ctx context.Context, in *readLedgerInput) (*readLedgerOutput, error) {
	after, err := parseSince(in.After)
	if err != nil {
		return nil, err
	}
	q := doc.LedgerQuery{After: after, Limit: in.Limit + 1}
	if in.Resource != "" {
		if q.Resource, err = s.coordinated(ctx, in.Resource, false); err != nil {
			return nil, err
		}
	}
	if in.Actor != "" {
		if q.Agent, err = doc.ParseAgent(in.Actor); err != nil {
			return nil, err
		}
	}
	sight := s.library.Sight(keyOf(ctx))
	out := new(readLedgerOutput)
	out.Body.OK, out.Body.Entries, out.Body.HasMore = true, []ledgerEntry{}, true
	for range ledgerPages {
		page, err := s.library.Ledger(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			if len(out.Body.Entries) == in.Limit {
				out.Body.Next = q.After.String()
				return out, nil
			}
			q.After = e.Seq
			name, mine, err := sight.Name(ctx, e.Resource)
			if err != nil {
				return nil, err
			}
			if !mine {
				continue
			}
			entry, err := ledgerEntryOf(ctx, sight, e, name)
			if err != nil {
				return nil, err
			}
			out.Body.Entries = append(out.Body.Entries, entry)
		}
		if len(page) < q.Limit {
			out.Body.HasMore = false
			break
		}
	}
	out.Body.Next = q.After.String()
	return out, nil
}

func ledgerEntryOf(ctx context.Context, sight *doc.Sight, e doc.LedgerEntry, name string) (ledgerEntry, error) {
	entry := ledgerEntry{
		Seq: e.Seq.String(), Event: "coordination.lease", Action: e.Kind, Resource: name, ActorDID: didOf(e.Actor), At: doc.FormatTime(e.At),
		Lease: recordedLeaseOf(e.Lease), Previous: recordedLeaseOf(e.Previous), Reason: e.Reason,
	}
	if e.Lease.ID != "" {
		entry.Holder, entry.LeaseID, entry.Fence = didOf(e.Lease.Holder), e.Lease.ID, e.Lease.Fence
	}
	if e.Waiter.Agent != "" {
		w := e.Waiter
		entry.Waiter = &recordedWaiter{didOf(w.Agent), w.Mode, w.Operation, w.Reason, doc.FormatTime(w.Since), formatOptional(w.Reserved)}
	}
	if e.Kind == lease.Released || e.Kind == lease.Expired {
		points := trust(e.Trust)
		entry.Trust = &points
	}
	if len(e.Cycle) > 0 {
		var err error
		if entry.Cycle, err = circle(ctx, sight, e.Cycle); err != nil {
			return ledgerEntry{}, err
		}
	}
	return entry, nil
}

func recordedLeaseOf(l lease.Lease) *recordedLease {
	if l.ID == "" {
		return nil
	}
	return &recordedLease{l.ID, didOf(l.Holder), l.Mode, l.Operation, l.Reason, l.Fence, doc.FormatTime(l.AcquiredAt), doc.FormatTime(l.ExpiresAt), l.Duration.Milliseconds()}
}

type readAgentInput struct {
	Name string `path:"name" doc:"An agent's name, bare or as did:cowrite:<name>."`
}

type readAgentOutput struct {
	Body struct {
		OK       bool            `json:"ok"`
		ActorDID did             `json:"actorDid"`
		Agent    doc.Agent       `json:"agent"`
		Trust    float64         `json:"trust" doc:"0 to 100; who is not known has 50."`
		Grants   int64           `json:"grants"`
		Releases int64           `json:"releases"`
		Expiries int64           `json:"expiries"`
		Refusals int64           `json:"refusals"`
		Holds    []resourceLease `json:"holds" nullable:"false"`
		WaitsFor []waitingFor    `json:"waitsFor" nullable:"false"`
	} `nameHint:"AgentStanding"`
}

type waitingFor struct {
	Resource string     `json:"resource"`
	Position int        `json:"position" doc:"From 1."`
	Since    string     `json:"since" format:"date-time"`
	Mode     lease.Mode `json:"mode" enum:"exclusive,shared"`
}

func (s *Server) readAgent(ctx context.Context, in *readAgentInput) (*readAgentOutput, error) {
	agent, err := doc.ParseAgent(in.Name)
	if err != nil {
		return nil, err
	}
	sight := s.library.Sight(keyOf(ctx))
	record, leases, waiters := s.leases.Agent(agent)
	out := new(readAgentOutput)
	b := &out.Body
	b.OK, b.ActorDID, b.Agent, b.Trust = true, didOf(agent), agent, trust(record.Trust)
	b.Grants, b.Releases, b.Expiries, b.Refusals = record.Grants, record.Releases, record.Expiries, record.Refusals
	b.Holds, b.WaitsFor = []resourceLease{}, []waitingFor{}
	for _, l := range leases {
		name, mine, err := sight.Name(ctx, l.Resource)
		if err != nil {
			return nil, err
		}
		if mine {
			b.Holds = append(b.Holds, s.resourceLease(l, name))
		}
	}
	for _, w := range waiters {
		name, mine, err := sight.Name(ctx, w.Resource)
		if err != nil {
			return nil, err
		}
		for i, other := range s.leases.Status(w.Resource).Queue {
			if mine && other.Agent == agent {
				b.WaitsFor = append(b.WaitsFor, waitingFor{name, i + 1, doc.FormatTime(w.Since), w.Mode})
			}
		}
	}
	return out, nil
}

type checkFenceInput struct {
	Body struct {
		Resource string      `json:"resource"`
		Fence    lease.Fence `json:"fence" minimum:"1" doc:"As a grant of the resource said."`
	} `nameHint:"FenceCheck"`
}

type checkFenceOutput struct {
	Body struct {
		OK           bool           `json:"ok"`
		Current      bool           `json:"current" doc:"The lease with this fence lives."`
		Stale        bool           `json:"stale" doc:"A later grant that conflicts with it was made."`
		SupersededBy lease.Fence    `json:"supersededBy,omitempty" doc:"Where stale: the newest such grant's fence."`
		Lease        *resourceLease `json:"lease,omitempty" doc:"Where current: the lease."`
	} `nameHint:"FenceState"`
}

func (s *Server) checkFence(ctx context.Context, in *checkFenceInput) (*checkFenceOutput, error) {
	resource, err := s.coordinated(ctx, in.Body.Resource, false)
	if err != nil {
		return nil, err
	}
	status, err := s.library.Fence(ctx, resource, in.Body.Fence)
	if err != nil {
		return nil, err
	}
	out := new(checkFenceOutput)
	out.Body.OK, out.Body.Stale, out.Body.SupersededBy = true, status.SupersededBy > 0, status.SupersededBy
	if status.Live != nil {
		name, _, err := s.library.Sight(keyOf(ctx)).Name(ctx, resource)
		if err != nil {
			return nil, err
		}
		held := s.resourceLease(*status.Live, name)
		out.Body.Current, out.Body.Lease = true, &held
	}
	return out, nil
}
