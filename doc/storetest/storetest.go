// Package storetest is the contract of a [doc.Store], as tests that every backend runs. [Run] is for
// all of them; [RunDurable] adds what has to be there after the store was closed and opened again.
// [Memory] is the obvious twin: the contract in a few maps, which the suite compares backends with.
package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/doc"
)

// promise is one test of the contract, on a store of its own.
type promise struct {
	name string
	test func(t *testing.T, s doc.Store)
}

// Run tests a backend. open opens a new, empty store; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) doc.Store) {
	for _, p := range slices.Concat(documentPromises, logPromises, savedPromises, callPromises, watchPromises, leasePromises, ledgerPromises, keyPromises) {
		t.Run(p.name, func(t *testing.T) {
			s := open(t)
			defer closeStore(t, s)
			p.test(t, s)
		})
	}
	t.Run("like the twin", func(t *testing.T) { likeTwin(t, open) })
}

func closeStore(t *testing.T, s doc.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// many is a limit that no test reaches.
const many = 1_000_000

// day is when everything here happens.
var day = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)

func newDocument(slug doc.Slug) doc.Meta {
	return doc.Meta{ID: crdt.DocumentID(uuid.New()), Slug: slug, Title: "On " + string(slug), CreatedAt: day, CreatedBy: "ada"}
}

func newEvent(kind doc.EventType, format string, args ...any) doc.NewEvent {
	payload, err := json.Marshal(map[string]string{"text": fmt.Sprintf(format, args...)})
	if err != nil {
		panic(err) // of a map of strings: cannot be
	}
	return doc.NewEvent{ID: doc.EventID(uuid.New()), Type: kind, Actor: "ada", Payload: payload, At: day.Add(time.Minute)}
}

func posted(n int) []doc.NewEvent {
	events := make([]doc.NewEvent, n)
	for i := range events {
		events[i] = newEvent(doc.MessagePosted, "message %d", i+1)
	}
	return events
}

// newChange makes a row whose hash is that of its content; to a store they are just bytes.
func newChange(number int64, format string, args ...any) doc.ChangeRow {
	raw := fmt.Appendf(nil, format, args...)
	return doc.ChangeRow{Number: number, Hash: sha256.Sum256(raw), Author: "ada", Sections: []doc.SectionID{"intro"}, At: day.Add(time.Minute), Raw: raw}
}

// must fails the test on an error.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error %v, want %v", got, want)
	}
}

func create(t *testing.T, s doc.Store, m doc.Meta, events ...doc.NewEvent) []doc.Event {
	t.Helper()
	return must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Events: events}))
}

func appendEvents(t *testing.T, s doc.Store, id crdt.DocumentID, events ...doc.NewEvent) []doc.Event {
	t.Helper()
	return must[[]doc.Event](t)(s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Events: events}))
}

func allEvents(t *testing.T, s doc.Store, id crdt.DocumentID) []doc.Event {
	t.Helper()
	return must[[]doc.Event](t)(s.Events(t.Context(), id, 0, many))
}

func allChanges(t *testing.T, s doc.Store, id crdt.DocumentID) []doc.ChangeRow {
	t.Helper()
	return must[[]doc.ChangeRow](t)(s.Changes(t.Context(), id, 0, many))
}

func metaOf(t *testing.T, s doc.Store, id crdt.DocumentID) doc.Meta {
	t.Helper()
	return must[doc.Meta](t)(s.Document(t.Context(), id))
}

// verifyChain checks that a whole log counts from 1 without gaps and is chained by doc.Chain.
func verifyChain(t *testing.T, log []doc.Event) {
	t.Helper()
	var previous doc.EventHash
	for i, e := range log {
		want := doc.Chain(previous, doc.Seq(i+1), e.NewEvent)
		if e.Seq != want.Seq || e.Hash != want.Hash {
			t.Fatalf("event %d of the log has seq %s and hash %s, want %s and %s", i+1, e.Seq, e.Hash, want.Seq, want.Hash)
		}
		previous = e.Hash
	}
}

// sameJSON compares what two values are in JSON, which is what a reader gets to see.
func sameJSON(t *testing.T, what string, got, want any) {
	t.Helper()
	g, errGot := json.Marshal(got)
	w, errWant := json.Marshal(want)
	if err := errors.Join(errGot, errWant); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if string(g) != string(w) {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// cancelled is a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
