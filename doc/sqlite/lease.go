package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// LoadLeases returns the lease state as last saved.
func (s *Store) LoadLeases(ctx context.Context) (lease.State, error) {
	var state lease.State
	err := s.readAtOnce(ctx, func(v view) error {
		if err := v.row(`SELECT value FROM counters WHERE name = 'fence'`).Scan(&state.Fence); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		err := v.each(`SELECT resource, record FROM lease_records ORDER BY resource`, nil, func(rows *sql.Rows) error {
			var resource lease.Resource
			var record []byte
			if err := rows.Scan(&resource, &record); err != nil {
				return err
			}
			r, err := unmarshalRecord(resource, record)
			state.Records = append(state.Records, r)
			return err
		})
		if err != nil {
			return fmt.Errorf("records: %w", err)
		}
		err = v.each(`SELECT agent, trust, grants, releases, expiries, refusals FROM lease_agents ORDER BY agent`, nil, func(rows *sql.Rows) error {
			var a lease.AgentRecord
			err := rows.Scan(&a.Agent, &a.Trust, &a.Grants, &a.Releases, &a.Expiries, &a.Refusals)
			state.Agents = append(state.Agents, a)
			return err
		})
		if err != nil {
			return fmt.Errorf("agents: %w", err)
		}
		return nil
	})
	if err != nil {
		return lease.State{}, fmt.Errorf("load leases: %w", err)
	}
	return state, nil
}

// SaveLeases saves what commits changed, and every event twice: in the ledger of all leases and, as
// the caller worded it, in the log of the section's document.
func (s *Store) SaveLeases(ctx context.Context, commits []doc.LeaseCommit) error {
	var told []crdt.DocumentID
	err := s.write(ctx, func(t tx) error {
		told = told[:0]
		if err := saveState(t, commits); err != nil {
			return err
		}
		for _, c := range commits {
			for _, e := range c.Commit.Events {
				if err := addLedger(t, e); err != nil {
					return err
				}
			}
			for _, call := range c.Calls {
				if err := addCall(t, call); err != nil {
					return err
				}
			}
			if len(c.Events) == 0 || c.Document == (crdt.DocumentID{}) {
				continue
			}
			h, err := findHead(t, c.Document)
			if errors.Is(err, doc.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := add(t, h, doc.Append{Expect: doc.AnySeq, Events: c.Events}); err != nil {
				return err
			}
			told = append(told, c.Document)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save leases: %w", err)
	}
	for _, id := range told {
		s.watchers.wake(id)
	}
	return nil
}

// saveState saves what commits come to: of each resource and agent the last record, and the highest fence.
func saveState(t tx, commits []doc.LeaseCommit) error {
	var fence lease.Fence
	resources, agents := make(map[lease.Resource]bool), make(map[lease.Agent]bool)
	for _, c := range slices.Backward(commits) {
		fence = max(fence, c.Fence)
		if r := c.Record; r.Resource != "" && !resources[r.Resource] {
			resources[r.Resource] = true
			if err := saveRecord(t, r); err != nil {
				return fmt.Errorf("save record: %w", err)
			}
		}
		for _, a := range slices.Backward(c.Agents) {
			if agents[a.Agent] {
				continue
			}
			agents[a.Agent] = true
			err := t.exec(`INSERT INTO lease_agents (agent, trust, grants, releases, expiries, refusals) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (agent) DO UPDATE SET trust = excluded.trust, grants = excluded.grants,
					releases = excluded.releases, expiries = excluded.expiries, refusals = excluded.refusals`,
				a.Agent, a.Trust, a.Grants, a.Releases, a.Expiries, a.Refusals)
			if err != nil {
				return fmt.Errorf("save agent: %w", err)
			}
		}
	}
	if fence == 0 {
		return nil
	}
	if err := t.exec(`UPDATE counters SET value = max(value, ?) WHERE name = 'fence'`, uint64(fence)); err != nil {
		return fmt.Errorf("save fence: %w", err)
	}
	return nil
}

func saveRecord(t tx, r lease.Record) error {
	if len(r.Leases) == 0 && len(r.Queue) == 0 {
		return t.exec(`DELETE FROM lease_records WHERE resource = ?`, r.Resource)
	}
	record, err := marshalRecord(r)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO lease_records (resource, record) VALUES (?, ?)
		ON CONFLICT (resource) DO UPDATE SET record = excluded.record`, r.Resource, string(record))
}

// The stored forms of the lease package's types. Conversions compile only while the fields are the same, so
// that no new field is forgotten and no renamed one changes what is on disk. The resource, which may be any bytes,
// is in the row's own column.

type storedLease struct {
	ID         lease.ID        `json:"id"`
	Resource   lease.Resource  `json:"-"`
	Holder     lease.Agent     `json:"holder"`
	Mode       lease.Mode      `json:"mode"`
	Operation  lease.Operation `json:"operation"`
	Reason     string          `json:"reason,omitzero"`
	Fence      lease.Fence     `json:"fence"`
	AcquiredAt time.Time       `json:"acquiredAt"`
	ExpiresAt  time.Time       `json:"expiresAt"`
	Duration   time.Duration   `json:"durationNs"`
}

type storedWaiter struct {
	Resource  lease.Resource  `json:"-"`
	Agent     lease.Agent     `json:"agent"`
	Mode      lease.Mode      `json:"mode"`
	Operation lease.Operation `json:"operation"`
	Reason    string          `json:"reason,omitzero"`
	Duration  time.Duration   `json:"durationNs"`
	Since     time.Time       `json:"since"`
	Place     time.Duration   `json:"placeNs"`
	Keep      time.Duration   `json:"keepNs,omitzero"`
	Stays     bool            `json:"stays,omitzero"`
	Until     time.Time       `json:"until"`
	Reserved  time.Time       `json:"reserved,omitzero"`
}

type storedEdge struct {
	Agent    lease.Agent    `json:"agent"`
	Resource lease.Resource `json:"resource"`
}

type storedRecord struct {
	Leases []storedLease  `json:"leases,omitempty"`
	Queue  []storedWaiter `json:"queue,omitempty"`
}

func toStoredLease(l lease.Lease) storedLease {
	l.AcquiredAt, l.ExpiresAt = l.AcquiredAt.UTC(), l.ExpiresAt.UTC()
	l.Resource = ""
	return storedLease(l)
}

func toStoredWaiter(w lease.Waiter) storedWaiter {
	w.Since, w.Until, w.Reserved = w.Since.UTC(), w.Until.UTC(), w.Reserved.UTC()
	w.Resource = ""
	return storedWaiter(w)
}

func marshalRecord(r lease.Record) ([]byte, error) {
	var s storedRecord
	for _, l := range r.Leases {
		s.Leases = append(s.Leases, toStoredLease(l))
	}
	for _, w := range r.Queue {
		s.Queue = append(s.Queue, toStoredWaiter(w))
	}
	return json.Marshal(s)
}

func unmarshalRecord(resource lease.Resource, data []byte) (lease.Record, error) {
	var s storedRecord
	if err := json.Unmarshal(data, &s); err != nil {
		return lease.Record{}, fmt.Errorf("record of %q: %w", resource, err)
	}
	r := lease.Record{Resource: resource}
	for _, l := range s.Leases {
		l.Resource = resource
		r.Leases = append(r.Leases, lease.Lease(l))
	}
	for _, w := range s.Queue {
		w.Resource = resource
		r.Queue = append(r.Queue, lease.Waiter(w))
	}
	return r, nil
}
