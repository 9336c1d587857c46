package web

import (
	"context"
	"errors"
	"slices"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

const (
	deadlocksFor  = time.Hour // how far back refused circles of waiting are told
	deadlocksMost = 100       // how many of them
	ledgerPages   = 16        // how many pages of a ledger are looked through for one that a narrow key may see
	ledgerMost    = 1000      // how many entries the longest page has
)

type readQueuesInput struct {
	Resource string `query:"resource" doc:"The queue of this resource alone."`
}

type readQueuesOutput struct{ Body wire.ResourceQueues }

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
	out.Body.OK, out.Body.Queues, out.Body.Deadlocks = true, []wire.ResourceQueue{}, []wire.Deadlock{}
	for _, status := range statuses("") {
		if only == "" && len(status.Queue) == 0 {
			continue
		}
		name, mine, err := sight.Name(ctx, status.Resource)
		if err != nil {
			return nil, err
		}
		if mine {
			out.Body.Queues = append(out.Body.Queues, wire.QueueOf(name, status))
		}
	}
	refused, err := s.lookBack(ctx, sight, doc.LedgerQuery{
		Kind: lease.Deadlocked, Resource: only, Since: s.leases.Now().Add(-deadlocksFor),
	}, deadlocksMost)
	if err != nil {
		return nil, err
	}
	for _, e := range refused.entries {
		steps, err := wire.Circle(e.Cycle, circleNamer(ctx, sight))
		if err != nil {
			return nil, err
		}
		out.Body.Deadlocks = append(out.Body.Deadlocks, wire.DeadlockOf(e.Event, steps))
	}
	return out, nil
}

// circleNamer calls the resources of a circle that a key reads of: one that is no business of the key is "".
func circleNamer(ctx context.Context, sight *doc.Sight) wire.Namer {
	return func(r lease.Resource) (string, error) {
		name, mine, err := sight.Name(ctx, r)
		if !mine {
			name = ""
		}
		return name, err
	}
}

type leaveResourceQueueInput struct {
	Resource string `query:"resource" required:"true"`
}

type leaveResourceQueueOutput struct{ Body wire.LeftResourceQueue }

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
	Last     bool   `query:"last" doc:"The last entries and not the first. hasMore says that others are before them or, after a long look through what the key may not see, that they may be."`
}

type readLedgerOutput struct{ Body wire.LedgerPage }

func (s *Server) readLedger(ctx context.Context, in *readLedgerInput) (*readLedgerOutput, error) {
	after, err := parseSince(in.After)
	if err != nil {
		return nil, err
	}
	q := doc.LedgerQuery{After: after}
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
	out.Body.OK, out.Body.Entries, out.Body.HasMore = true, []wire.LedgerEntry{}, true
	if in.Last {
		return out, s.readLastLedger(ctx, sight, q, in.Limit, out)
	}
	q.Limit = in.Limit + 1
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
			if err := out.add(ctx, sight, e); err != nil {
				return nil, err
			}
		}
		if len(page) < q.Limit {
			out.Body.HasMore = false
			break
		}
	}
	out.Body.Next = q.After.String()
	return out, nil
}

// readLastLedger gives the end, at most limit entries, of what a query asks for.
func (s *Server) readLastLedger(ctx context.Context, sight *doc.Sight, q doc.LedgerQuery, limit int, out *readLedgerOutput) error {
	last, err := s.lookBack(ctx, sight, q, limit)
	if err != nil {
		return err
	}
	out.Body.HasMore, out.Body.Next = last.more, last.end.String()
	for _, e := range slices.Backward(last.entries) {
		if err := out.add(ctx, sight, e); err != nil {
			return err
		}
	}
	return nil
}

// lastEntries is the end of a ledger as a key may see it.
type lastEntries struct {
	entries []doc.LedgerEntry // the newest first
	end     doc.Seq           // of the newest entry that the query finds, seen or not; the query's After where there is none
	more    bool              // others come before them, or may: not all was looked through
}

// lookBack finds, of what a query asks for, the newest entries that are any business of the reader's, at most
// limit. Pages behind the first are as long as can be, whatever the limit: unlike a reader that goes forward, nobody
// can go on where this look ended.
func (s *Server) lookBack(ctx context.Context, sight *doc.Sight, q doc.LedgerQuery, limit int) (lastEntries, error) {
	last := lastEntries{end: q.After, more: true}
	q.Newest, q.Limit = true, limit+1
	for range ledgerPages {
		page, err := s.library.Ledger(ctx, q)
		if err != nil {
			return lastEntries{}, err
		}
		for _, e := range page {
			last.end, q.Before = max(last.end, e.Seq), e.Seq
			_, mine, err := sight.Name(ctx, e.Resource)
			switch {
			case err != nil:
				return lastEntries{}, err
			case mine && len(last.entries) == limit:
				return last, nil
			case mine:
				last.entries = append(last.entries, e)
			}
		}
		if len(page) < q.Limit {
			last.more = false
			return last, nil
		}
		q.Limit = ledgerMost
	}
	return last, nil
}

// add puts an entry on the page if its resource is any business of the reader's.
func (out *readLedgerOutput) add(ctx context.Context, sight *doc.Sight, e doc.LedgerEntry) error {
	name, mine, err := sight.Name(ctx, e.Resource)
	if err != nil || !mine {
		return err
	}
	steps, err := wire.Circle(e.Cycle, circleNamer(ctx, sight))
	if err != nil {
		return err
	}
	out.Body.Entries = append(out.Body.Entries, wire.LedgerEntryOf(e.Seq.String(), e.Event, name, steps))
	return nil
}

type readAgentInput struct {
	Name string `path:"name" doc:"An agent's name, bare or as did:cowrite:<name>."`
}

type readAgentOutput struct{ Body wire.AgentStanding }

func (s *Server) readAgent(ctx context.Context, in *readAgentInput) (*readAgentOutput, error) {
	agent, err := doc.ParseAgent(in.Name)
	if err != nil {
		return nil, err
	}
	if keyOf(ctx).IsShare() {
		return nil, code.New(code.Forbidden, "a share link shows one document, and an agent's standing is of the whole server")
	}
	sight := s.library.Sight(keyOf(ctx))
	record, leases, waiters := s.leases.Agent(agent)
	out := &readAgentOutput{wire.StandingOf(record)}
	b := &out.Body
	for _, l := range leases {
		name, mine, err := sight.Name(ctx, l.Resource)
		if err != nil {
			return nil, err
		}
		if mine {
			b.Holds = append(b.Holds, wire.LeaseOf(l, name, s.leases.Now()))
		}
	}
	for _, w := range waiters {
		name, mine, err := sight.Name(ctx, w.Resource)
		if err != nil {
			return nil, err
		}
		for i, other := range s.leases.Status(w.Resource).Queue {
			if mine && other.Agent == agent {
				b.WaitsFor = append(b.WaitsFor, wire.WaitingFor{Resource: name, Position: i + 1, Since: wire.Time(w.Since), Mode: w.Mode})
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
		OK           bool                `json:"ok"`
		Current      bool                `json:"current" doc:"The lease with this fence lives."`
		Stale        bool                `json:"stale" doc:"A later grant that conflicts with it was made."`
		SupersededBy lease.Fence         `json:"supersededBy,omitempty" doc:"Where stale: the newest such grant's fence."`
		Lease        *wire.ResourceLease `json:"lease,omitempty" doc:"Where current: the lease."`
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
		held := wire.LeaseOf(*status.Live, name, s.leases.Now())
		out.Body.Current, out.Body.Lease = true, &held
	}
	return out, nil
}
