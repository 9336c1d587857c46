package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

// addLedger writes a lease event to the ledger.
func addLedger(t tx, e lease.Event) error {
	event, err := marshalEvent(e)
	if err != nil {
		return fmt.Errorf("marshal lease event: %w", err)
	}
	var fence lease.Fence
	if e.Kind == lease.Granted || e.Kind == lease.Handed {
		fence = e.Lease.Fence
	}
	err = t.exec(`INSERT INTO ledger (seq, at, kind, resource, actor, agent, fence, event)
		SELECT 1 + max(coalesce((SELECT max(seq) FROM ledger), 0), value), ?, ?, ?, ?, ?, ?, ? FROM counters WHERE name = 'ledger'`,
		e.At.UnixMilli(), e.Kind, e.Resource, e.Actor, cmp.Or(e.Waiter.Agent, e.Lease.Holder, e.Actor), uint64(fence), string(event))
	if err != nil {
		return fmt.Errorf("insert lease event: %w", err)
	}
	return nil
}

// Ledger gives the entries that a query asks for.
func (s *Store) Ledger(ctx context.Context, q doc.LedgerQuery) ([]doc.LedgerEntry, error) {
	var entries []doc.LedgerEntry
	query, args := ledgerQuery(q)
	err := s.read(ctx, func(v view) error {
		return v.each(query, args, func(rows *sql.Rows) error {
			var e doc.LedgerEntry
			var resource lease.Resource
			var event []byte
			if err := rows.Scan(&e.Seq, &resource, &event); err != nil {
				return err
			}
			var err error
			e.Event, err = unmarshalEvent(resource, event)
			entries = append(entries, e)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return entries, nil
}

// ledgerQuery words a query so that its first condition has an index and comes in order. The sign + keeps a
// condition from being looked up in an index instead.
func ledgerQuery(q doc.LedgerQuery) (query string, args []any) {
	var where []string
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	limit, before := max(0, q.Limit), cmp.Or(q.Before, math.MaxInt64)
	order := "seq"
	fenced := q.MinFence > 0 || q.MaxFence > 0
	if fenced {
		// Fences rise with the seq.
		add("fence > 0 AND fence >= ?", uint64(q.MinFence))
		if q.MaxFence > 0 {
			add("fence <= ?", uint64(q.MaxFence))
		}
		order = "fence"
	}
	direction := ""
	if q.Newest {
		direction = " DESC"
	}
	from := "ledger"
	if q.Kind == lease.Deadlocked {
		from += " INDEXED BY ledger_of_deadlocks"
		add("kind = 'deadlock'")
	} else if q.Kind != "" {
		add("+kind = ?", q.Kind)
	}
	if !q.Since.IsZero() {
		add("at >= ?", q.Since.UnixMilli())
	}
	if q.Resource != "" {
		add("resource = ?", q.Resource)
	}
	switch {
	case q.Agent == "":
	case len(where) > 0:
		add("(+agent = ? OR +actor = ?)", q.Agent, q.Agent)
	default:
		one := "SELECT seq FROM (SELECT seq FROM ledger WHERE %s AND seq > ? AND seq < ? ORDER BY seq" + direction + " LIMIT ?)"
		add(fmt.Sprintf("seq IN ("+one+" UNION "+one+")", "agent = ?", "actor = ? AND actor <> agent AND actor <> 'system'"),
			q.Agent, q.After, before, limit, q.Agent, q.After, before, limit)
	}
	switch {
	case fenced || q.Kind == lease.Deadlocked:
		add("+seq > ? AND +seq < ?", q.After, before)
	case q.After > 0 || q.Before > 0 || len(where) == 0:
		add("seq > ? AND seq < ?", q.After, before)
	}
	args = append(args, limit)
	return "SELECT seq, resource, event FROM " + from + " WHERE " + strings.Join(where, " AND ") + " ORDER BY " + order + direction + " LIMIT ?", args
}

// storedEvent is how an event stands in the ledger. See the stored forms in lease.go.
type storedEvent struct {
	Kind     lease.Kind        `json:"kind"`
	Actor    lease.Agent       `json:"actor"`
	At       time.Time         `json:"at"`
	Lease    storedLease       `json:"lease,omitzero"`
	Previous storedLease       `json:"previous,omitzero"`
	Waiter   storedWaiter      `json:"waiter,omitzero"`
	Reason   string            `json:"reason,omitzero"`
	Cycle    []storedEdge      `json:"cycle,omitempty"`
	Trust    lease.TrustHalves `json:"trustHalves,omitzero"`
}

func marshalEvent(e lease.Event) ([]byte, error) {
	s := storedEvent{
		Kind: e.Kind, Actor: e.Actor, At: e.At.UTC(), Reason: e.Reason, Trust: e.Trust,
		Lease: toStoredLease(e.Lease), Previous: toStoredLease(e.Previous), Waiter: toStoredWaiter(e.Waiter),
	}
	for _, edge := range e.Cycle {
		s.Cycle = append(s.Cycle, storedEdge(edge))
	}
	return json.Marshal(s)
}

func unmarshalEvent(resource lease.Resource, data []byte) (lease.Event, error) {
	var s storedEvent
	if err := json.Unmarshal(data, &s); err != nil {
		return lease.Event{}, fmt.Errorf("lease event of %q: %w", resource, err)
	}
	e := lease.Event{Kind: s.Kind, Resource: resource, Actor: s.Actor, At: s.At, Reason: s.Reason, Trust: s.Trust,
		Lease: lease.Lease(s.Lease), Previous: lease.Lease(s.Previous), Waiter: lease.Waiter(s.Waiter)}
	for _, of := range []*lease.Lease{&e.Lease, &e.Previous} {
		if of.ID != "" {
			of.Resource = resource
		}
	}
	if e.Waiter.Agent != "" {
		e.Waiter.Resource = resource
	}
	for _, edge := range s.Cycle {
		e.Cycle = append(e.Cycle, lease.Edge(edge))
	}
	return e, nil
}
