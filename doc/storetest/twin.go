package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// likeTwin makes the same random calls on the backend and on a Memory: every answer and every refusal must be the same.
func likeTwin(t *testing.T, open func(t *testing.T) doc.Store) {
	rapid.Check(t, func(r *rapid.T) {
		s, twin := open(t), NewMemory()
		defer closeStore(t, s)
		for range rapid.IntRange(1, 30).Draw(r, "calls") {
			name, call := drawCall(r)
			got, want := answer(call(t.Context(), s)), answer(call(t.Context(), twin))
			if got != want {
				r.Fatalf("%s:\n got %s\nwant %s", name, got, want)
			}
		}
	})
}

// call is one call with its arguments.
type call func(ctx context.Context, s doc.Store) (any, error)

// answer is what a call came to, in words that can be compared.
func answer(v any, err error) string {
	for _, refusal := range []error{doc.ErrNotFound, doc.ErrSlugTaken, doc.ErrConflict, doc.ErrTooMany} {
		if errors.Is(err, refusal) {
			return refusal.Error()
		}
	}
	if err != nil {
		return "failed: " + err.Error()
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "failed: " + err.Error()
	}
	if s := string(data); s != "null" {
		return s
	}
	return "[]"
}

// Few names, so that calls meet.
var (
	drawID       = rapid.Map(rapid.IntRange(1, 3), func(n int) crdt.DocumentID { return crdt.DocumentID{15: byte(n)} })
	drawSlug     = rapid.SampledFrom([]doc.Slug{"", "a", "b", "c", "d"})
	drawAgent    = rapid.SampledFrom([]doc.Agent{"ada", "bob"})
	drawKind     = rapid.SampledFrom([]doc.Kind{doc.Program, doc.Person})
	drawKeyID    = rapid.SampledFrom([]doc.KeyID{"k1", "k2", "k3"})
	drawNumber   = rapid.Int64Range(0, 9) // of a change
	drawHash     = rapid.Map(rapid.IntRange(1, 5), func(n int) crdt.Hash { return crdt.Hash{byte(n)} })
	drawTime     = rapid.Map(rapid.Int64Range(0, 1e12), func(ns int64) time.Time { return day.Add(time.Duration(ns)) })
	drawResource = rapid.SampledFrom([]lease.Resource{"lock:a", "lock:b", "odd:\xfe"})
)

var drawEvent = rapid.Custom(func(r *rapid.T) doc.NewEvent {
	text, err := json.Marshal(map[string]string{"text": rapid.String().Draw(r, "text")})
	if err != nil {
		r.Fatal(err)
	}
	return doc.NewEvent{ID: doc.EventID(uuid.New()), Type: doc.MessagePosted, Actor: drawAgent.Draw(r, "actor"), Payload: text, At: drawTime.Draw(r, "at")}
})

var drawChange = rapid.Custom(func(r *rapid.T) doc.ChangeRow {
	return doc.ChangeRow{Hash: drawHash.Draw(r, "hash"), Author: drawAgent.Draw(r, "author"), Logged: rapid.Bool().Draw(r, "logged"),
		Sections: []doc.SectionID{doc.SectionID(rapid.StringN(0, 3, -1).Draw(r, "section"))}, At: drawTime.Draw(r, "at"),
		Raw: rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(r, "raw")}
})

var drawAppend = rapid.Custom(func(r *rapid.T) doc.Append {
	a := doc.Append{
		Expect:  doc.Seq(rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2, 3}).Draw(r, "expect")),
		Changes: rapid.SliceOfN(drawChange, 0, 3).Draw(r, "changes"),
		Events:  rapid.SliceOfN(drawEvent, 0, 3).Draw(r, "events"),
		Logged:  rapid.SliceOfN(drawNumber, 0, 3).Draw(r, "logged"),
		Slug:    drawSlug.Draw(r, "slug"),
	}
	if rapid.IntRange(0, 9).Draw(r, "delete") == 0 {
		a.Deletion = rapid.SampledFrom([]*doc.Deletion{{}, {At: day, By: "ada"}, {At: day.Add(time.Minute), By: "bob"}}).Draw(r, "deletion")
	}
	if rapid.IntRange(0, 4).Draw(r, "block") == 0 {
		a.Block = rapid.SampledFrom([]*doc.Block{{}, {At: day, By: "ada", Reason: "spam"}, {At: day.Add(time.Minute), By: "bob"}}).Draw(r, "as")
	}
	if rapid.IntRange(0, 3).Draw(r, "share") == 0 {
		k := newShare(drawKeyID.Draw(r, "link"), drawID.Draw(r, "of"))
		k.CreatedAt, k.ExpiresAt, k.Maker = drawTime.Draw(r, "made"), drawTime.Draw(r, "ends"), drawAgent.Draw(r, "maker")
		a.Share = &doc.NewShare{Key: k, Limit: rapid.IntRange(1, 2).Draw(r, "links")}
	}
	if rapid.IntRange(0, 3).Draw(r, "unshare") == 0 {
		a.Unshare = &doc.EndShare{ID: drawKeyID.Draw(r, "ended link"), At: drawTime.Draw(r, "ended")}
	}
	if rapid.Bool().Draw(r, "retitle") {
		title := rapid.String().Draw(r, "title")
		a.Title = &title
	}
	return a
})

// drawWrong is by how much a change is numbered wrong.
var drawWrong = rapid.SampledFrom([]int64{0, 0, 0, 0, -1, 1})

// numbered numbers changes on from the last one, the last of them wrong by so much.
func numbered(a doc.Append, last, wrong int64) doc.Append {
	a.Changes = clone(a.Changes)
	for i := range a.Changes {
		a.Changes[i].Number = last + int64(i) + 1
	}
	if n := len(a.Changes); n > 0 {
		a.Changes[n-1].Number += wrong
	}
	return a
}

var drawCommit = rapid.Custom(func(r *rapid.T) doc.LeaseCommit {
	resource := drawResource.Draw(r, "resource")
	c := doc.LeaseCommit{Document: drawID.Draw(r, "document"), Events: rapid.SliceOfN(drawEvent, 0, 2).Draw(r, "events")}
	c.Fence = lease.Fence(rapid.IntRange(0, 100).Draw(r, "fence"))
	c.Record.Resource = resource
	for range rapid.IntRange(0, 2).Draw(r, "leases") {
		c.Record.Leases = append(c.Record.Leases, newLease(resource, drawAgent.Draw(r, "holder"), c.Fence, drawTime.Draw(r, "end")))
	}
	for range rapid.IntRange(0, 2).Draw(r, "queue") {
		c.Record.Queue = append(c.Record.Queue, newWaiter(resource, drawAgent.Draw(r, "waiter")))
	}
	if len(c.Record.Leases) > 0 {
		kind := rapid.SampledFrom([]lease.Kind{lease.Granted, lease.Handed, lease.Released, lease.Expired}).Draw(r, "kind")
		e := lease.Event{Kind: kind, Resource: resource, Actor: drawAgent.Draw(r, "actor"), At: drawTime.Draw(r, "noticed"), Lease: c.Record.Leases[0]}
		c.Commit.Events = append(c.Commit.Events, e)
	}
	if len(c.Record.Queue) > 0 {
		kind := rapid.SampledFrom([]lease.Kind{lease.Queued, lease.Deadlocked, lease.Lapsed}).Draw(r, "kind of waiting")
		e := lease.Event{Kind: kind, Resource: resource, Actor: drawAgent.Draw(r, "actor"), At: drawTime.Draw(r, "noticed"), Waiter: c.Record.Queue[0]}
		c.Commit.Events = append(c.Commit.Events, e)
	}
	c.Calls = rapid.SliceOfN(drawLeaseCall, 0, 2).Draw(r, "calls")
	c.Agents = []lease.AgentRecord{{Agent: drawAgent.Draw(r, "agent"), Trust: lease.TrustHalves(rapid.IntRange(0, 200).Draw(r, "trust"))}}
	return c
})

var drawLeaseKey = rapid.SampledFrom([]doc.IdempotencyKey{"k1", "k2"})

var drawLeaseCall = rapid.Custom(func(r *rapid.T) doc.LeaseCall {
	return doc.LeaseCall{Agent: drawAgent.Draw(r, "agent"), Key: drawLeaseKey.Draw(r, "key"), Resource: drawResource.Draw(r, "resource"),
		Lease: "l1", Granted: rapid.Bool().Draw(r, "granted"), Released: rapid.Bool().Draw(r, "released"), At: drawTime.Draw(r, "at")}
})

// drawLedgerQuery does not ask by fence: random fences do not rise with the seq, as a keeper's do.
var drawLedgerQuery = rapid.Custom(func(r *rapid.T) doc.LedgerQuery {
	q := doc.LedgerQuery{After: doc.Seq(rapid.IntRange(0, 5).Draw(r, "after")), Before: doc.Seq(rapid.IntRange(0, 8).Draw(r, "before")), Newest: rapid.Bool().Draw(r, "newest"), Limit: rapid.IntRange(0, 5).Draw(r, "limit")}
	if rapid.Bool().Draw(r, "by resource") {
		q.Resource = drawResource.Draw(r, "resource")
	}
	if rapid.Bool().Draw(r, "by agent") {
		q.Agent = drawAgent.Draw(r, "agent")
	}
	q.Kind = rapid.SampledFrom([]lease.Kind{"", "", lease.Granted, lease.Deadlocked}).Draw(r, "kind")
	if rapid.Bool().Draw(r, "since") {
		q.Since = drawTime.Draw(r, "instant")
	}
	return q
})

func drawCall(r *rapid.T) (name string, c call) {
	id, slug, keyID := drawID.Draw(r, "id"), drawSlug.Draw(r, "slug"), drawKeyID.Draw(r, "key id")
	limit := rapid.IntRange(0, 5).Draw(r, "limit")
	after := rapid.Int64Range(0, 5).Draw(r, "after")
	at := drawTime.Draw(r, "at")
	switch name = rapid.SampledFrom([]string{"Create", "Append", "Append", "Append", "Document", "FindSlug", "List", "Largest", "Blocked", "Deleted", "Purge", "Changes", "Events", "Raw", "Compact", "Saved",
		"SaveLeases", "SaveLeases", "LoadLeases", "Ledger", "LeaseCall", "ForgetLeaseCall", "AddKey", "Key", "KeyByID", "Keys", "People", "SetKeyKind", "DropShares", "RevokeKey"}).Draw(r, "call"); name {
	case "Create":
		m := doc.Meta{ID: id, Slug: slug, Title: rapid.String().Draw(r, "title"), CreatedAt: at, CreatedBy: drawAgent.Draw(r, "by")}
		first, wrong := drawAppend.Draw(r, "first"), drawWrong.Draw(r, "wrong")
		return name, func(ctx context.Context, s doc.Store) (any, error) {
			return s.Create(ctx, m, numbered(first, 0, wrong))
		}
	case "Append":
		a, wrong := drawAppend.Draw(r, "append"), drawWrong.Draw(r, "wrong")
		return name, func(ctx context.Context, s doc.Store) (any, error) {
			m, err := s.Document(ctx, id)
			if err != nil && !errors.Is(err, doc.ErrNotFound) {
				return nil, err
			}
			return s.Append(ctx, id, numbered(a, m.Changes, wrong))
		}
	case "Document":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Document(ctx, id) }
	case "FindSlug":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.FindSlug(ctx, slug) }
	case "List":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.List(ctx, after, limit) }
	case "Largest":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Largest(ctx, limit) }
	case "Blocked":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Blocked(ctx) }
	case "Deleted":
		behind := doc.DeletedPlace{}
		if after > 0 {
			behind = doc.DeletedPlace{At: day, Number: after}
		}
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Deleted(ctx, behind, limit) }
	case "Purge":
		p := doc.Purge{At: at, By: drawAgent.Draw(r, "by")}
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.Purge(ctx, id, p) }
	case "Changes":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Changes(ctx, id, after, limit) }
	case "Raw":
		numbers := rapid.SliceOfN(drawNumber, 0, 3).Draw(r, "numbers")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Raw(ctx, id, numbers) }
	case "Compact":
		saved := doc.Saved{Upto: drawNumber.Draw(r, "upto"), Chunk: rapid.SliceOfN(rapid.Byte(), 1, 30).Draw(r, "chunk"), Index: []byte("index")}
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.Compact(ctx, id, saved) }
	case "Saved":
		chunk := rapid.Bool().Draw(r, "chunk")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Saved(ctx, id, chunk) }
	case "Events":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Events(ctx, id, doc.Seq(after), limit) }
	case "SaveLeases":
		commits := rapid.SliceOfN(drawCommit, 0, 3).Draw(r, "commits")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.SaveLeases(ctx, commits) }
	case "Ledger":
		q := drawLedgerQuery.Draw(r, "query")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Ledger(ctx, q) }
	case "LeaseCall":
		agent, key := drawAgent.Draw(r, "agent"), drawLeaseKey.Draw(r, "key")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.LeaseCall(ctx, agent, key) }
	case "ForgetLeaseCall":
		agent, key := drawAgent.Draw(r, "agent"), drawLeaseKey.Draw(r, "key")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.ForgetLeaseCall(ctx, agent, key) }
	case "LoadLeases":
		return name, func(ctx context.Context, s doc.Store) (any, error) {
			state, err := s.LoadLeases(ctx)
			slices.SortFunc(state.Records, func(a, b lease.Record) int { return strings.Compare(string(a.Resource), string(b.Resource)) })
			slices.SortFunc(state.Agents, func(a, b lease.AgentRecord) int { return strings.Compare(string(a.Agent), string(b.Agent)) })
			return fmt.Sprintf("%+v", state), err
		}
	case "AddKey":
		k := newKey(keyID)
		k.CreatedAt, k.Agent = at, drawAgent.Draw(r, "agent")
		k.Kind = drawKind.Draw(r, "kind")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.AddKey(ctx, k) }
	case "Key":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Key(ctx, newKey(keyID).Digest) }
	case "KeyByID":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.KeyByID(ctx, keyID) }
	case "Keys":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.Keys(ctx) }
	case "SetKeyKind":
		kind := drawKind.Draw(r, "kind")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.SetKeyKind(ctx, keyID, kind) }
	case "DropShares":
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.DropShares(ctx, at, limit) }
	case "People":
		among := rapid.SliceOfN(drawAgent, 0, 3).Draw(r, "among")
		return name, func(ctx context.Context, s doc.Store) (any, error) { return s.People(ctx, among) }
	default:
		return name, func(ctx context.Context, s doc.Store) (any, error) { return nil, s.RevokeKey(ctx, keyID, at) }
	}
}
