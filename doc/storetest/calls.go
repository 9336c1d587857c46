package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// What holds for every method: whose the bytes are, what a context does, what Close does.
var callPromises = []promise{
	{"what is given is not kept", givenIsNotKept},
	{"what is given is not changed", givenIsNotChanged},
	{"what is returned belongs to the caller", returnedBelongsToCaller},
	{"a cancelled context is the error of every call", cancelledContext},
	{"a caller that gives up leaves no gap and has its bytes back", givingUp},
	{"close waits for what is under way", closeWaits},
	{"calls after close fail", callsAfterClose},
}

func givenIsNotKept(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	changes, events := []doc.ChangeRow{newChange(1, "a change")}, posted(1)
	c, e := clone(changes)[0], events[0]
	e.Payload = bytes.Clone(e.Payload)
	returned := must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: changes, Events: events}))
	for _, b := range [][]byte{changes[0].Raw, events[0].Payload} {
		clear(b)
	}
	clear(changes[0].Sections)
	clear(changes)
	clear(events)

	want := doc.Chain(doc.EventHash{}, 1, e)
	sameJSON(t, "the returned event", returned[0], want)
	sameJSON(t, "the stored event", allEvents(t, s, m.ID)[0], want)
	if got := allChanges(t, s, m.ID)[0]; !sameChange(got, c) {
		t.Errorf("the stored change is %+v", got)
	}
}

func clone(rows []doc.ChangeRow) []doc.ChangeRow {
	out := slices.Clone(rows)
	for i := range out {
		out[i].Raw = bytes.Clone(out[i].Raw)
		out[i].Sections = slices.Clone(out[i].Sections)
	}
	return out
}

func givenIsNotChanged(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	changes, events := []doc.ChangeRow{newChange(1, "a"), newChange(2, "b")}, posted(2)
	e := events[0]
	e.Payload = bytes.Clone(e.Payload)
	wantChanges := clone(changes)
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: changes, Events: events}))
	if !slices.EqualFunc(changes, wantChanges, sameChange) {
		t.Errorf("the changes given became %+v", changes)
	}
	if events[0].ID != e.ID || !events[0].At.Equal(e.At) || !bytes.Equal(events[0].Payload, e.Payload) {
		t.Errorf("the event given became %+v", events[0])
	}
}

func returnedBelongsToCaller(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	returned := must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: []doc.ChangeRow{newChange(1, "a change")}, Events: posted(1)}))
	at := day.Add(time.Hour)
	saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Record: lease.Record{Resource: "lock:a",
		Leases: []lease.Lease{newLease("lock:a", "ada", 1, at)}}, Agents: []lease.AgentRecord{{Agent: "ada", Trust: 100}}}})

	for range 2 {
		events, changes, state := allEvents(t, s, m.ID), allChanges(t, s, m.ID), loadLeases(t, s)
		if string(events[0].Payload) != `{"text":"message 1"}` || string(changes[0].Raw) != "a change" ||
			changes[0].Sections[0] != "intro" || state.Records[0].Leases[0].Holder != "ada" || state.Agents[0].Trust != 100 {
			t.Fatal("what one caller overwrote reached another")
		}
		for _, b := range [][]byte{returned[0].Payload, events[0].Payload, changes[0].Raw} {
			clear(b)
		}
		clear(changes[0].Sections)
		clear(state.Records[0].Leases)
		clear(state.Records)
		clear(state.Agents)
	}
}

func cancelledContext(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m, posted(1)...)
	k := newKey("one")
	if err := s.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	for name, err := range everyCall(cancelled(t), s, m.ID) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
	if got := metaOf(t, s, m.ID); got.LastSeq > 2 {
		t.Errorf("last seq is %s", got.LastSeq)
	}
	verifyChain(t, allEvents(t, s, m.ID))
}

// everyCall makes every call that takes a context.
func everyCall(ctx context.Context, s doc.Store, id crdt.DocumentID) map[string]error {
	errs := make(map[string]error)
	_, errs["Create"] = s.Create(ctx, newDocument("new"), doc.Append{})
	_, errs["Append"] = s.Append(ctx, id, doc.Append{Expect: doc.AnySeq, Events: posted(1)})
	_, errs["Document"] = s.Document(ctx, id)
	_, errs["FindSlug"] = s.FindSlug(ctx, "plan")
	_, errs["List"] = s.List(ctx, 0, many)
	_, errs["Changes"] = s.Changes(ctx, id, 0, many)
	_, errs["EditCall"] = s.EditCall(ctx, "ada", "key")
	_, errs["Raw"] = s.Raw(ctx, id, nil)
	_, errs["Saved"] = s.Saved(ctx, id, true)
	errs["Compact"] = s.Compact(ctx, id, doc.Saved{Upto: 1})
	_, errs["Events"] = s.Events(ctx, id, 0, many)
	_, errs["LoadLeases"] = s.LoadLeases(ctx)
	errs["SaveLeases"] = s.SaveLeases(ctx, []doc.LeaseCommit{{Commit: lease.Commit{Fence: 1}}})
	_, errs["Ledger"] = s.Ledger(ctx, doc.LedgerQuery{Limit: many})
	_, errs["LeaseCall"] = s.LeaseCall(ctx, "ada", "key")
	errs["ForgetLeaseCall"] = s.ForgetLeaseCall(ctx, "ada", "key")
	_, errs["Largest"] = s.Largest(ctx, 1)
	_, errs["Blocked"] = s.Blocked(ctx)
	_, errs["Deleted"] = s.Deleted(ctx, doc.DeletedPlace{}, 1)
	errs["Purge"] = s.Purge(ctx, id, doc.Purge{At: day, By: "ada"})
	k := newKey("two")
	errs["AddKey"] = s.AddKey(ctx, k)
	_, errs["Key"] = s.Key(ctx, newKey("one").Digest)
	_, errs["KeyByID"] = s.KeyByID(ctx, "one")
	_, errs["Keys"] = s.Keys(ctx)
	errs["SetKeyKind"] = s.SetKeyKind(ctx, "one", doc.Person)
	_, errs["People"] = s.People(ctx, []doc.Agent{"ada"})
	errs["RevokeKey"] = s.RevokeKey(ctx, "one", day)
	_, errs["DropShares"] = s.DropShares(ctx, day, many)
	_, errs["KeysVersion"] = s.KeysVersion(ctx)
	return errs
}

// givingUp cancels appends at any moment and overwrites what they were given at once, as their callers may.
// The race detector sees a store that still reads it.
func givingUp(t *testing.T, s doc.Store) {
	const writers, rounds = 16, 20
	var ids [writers]crdt.DocumentID
	for w := range ids {
		m := newDocument("")
		create(t, s, m)
		ids[w] = m.ID
	}
	together(writers, func(w int) {
		for r := range rounds {
			m, err := s.Document(t.Context(), ids[w])
			if err != nil {
				t.Errorf("document: %v", err)
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			events := posted(1)
			changes := []doc.ChangeRow{newChange(m.Changes+1, "%d of %d", r, w)}
			_, err = s.Append(ctx, m.ID, doc.Append{Expect: doc.AnySeq, Events: events, Changes: changes})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("append: %v", err)
			}
			clear(events[0].Payload)
			clear(changes[0].Raw)
			cancel()
		}
	})
	for _, id := range ids {
		appendEvents(t, s, id, posted(1)...)
		verifyChain(t, allEvents(t, s, id))
		for i, c := range allChanges(t, s, id) {
			if want := newChange(int64(i+1), "%s", c.Raw); want.Hash != c.Hash || want.Number != c.Number {
				t.Fatalf("change %d was overwritten before it was stored, or comes behind a gap", c.Number)
			}
		}
	}
}

func closeWaits(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	var failed atomic.Int32
	first := make(chan struct{}, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(8, func(int) {
			for n := 0; ; n++ {
				_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: posted(1)})
				if err != nil {
					failed.Add(1)
					return
				}
				if n == 0 {
					first <- struct{}{}
				}
			}
		})
	}()
	<-first
	if err := s.Close(); err != nil {
		t.Errorf("close under load: %v", err)
	}
	<-done
	if failed.Load() != 8 {
		t.Errorf("%d of 8 writers heard of the close", failed.Load())
	}
}

func callsAfterClose(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	closeStore(t, s)
	closeStore(t, s)
	for name, err := range everyCall(t.Context(), s, m.ID) {
		if err == nil {
			t.Errorf("%s succeeds after close", name)
		}
	}
	_, stop := s.Watch(m.ID)
	stop()
}
