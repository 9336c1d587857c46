package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

var savedPromises = []promise{
	{"raw gives changes by number", rawByNumber},
	{"a saved document takes the place of its changes", compacted},
	{"compaction keeps what is not logged, and never goes back", compactRefuses},
	{"what messages take is counted by itself", postedIsCounted},
	{"edits are remembered with their append", editCalls},
}

// grow makes a document of n logged changes.
func grow(t *testing.T, s doc.Store, n int) (doc.Meta, []doc.ChangeRow) {
	t.Helper()
	m := newDocument("plan")
	create(t, s, m)
	changes := make([]doc.ChangeRow, n)
	for i := range changes {
		changes[i] = newChange(int64(i+1), "change %d", i)
		changes[i].Logged = true
	}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: changes}))
	return m, changes
}

func rawByNumber(t *testing.T, s doc.Store) {
	m, changes := grow(t, s, 3)
	other := newDocument("other")
	must[[]doc.Event](t)(s.Create(t.Context(), other, doc.Append{Changes: []doc.ChangeRow{newChange(1, "of another"), newChange(2, "document")}}))
	wantRaw(t, s, m.ID, []int64{3, 4, 1, 0, -1, 3}, changes[2].Raw, nil, changes[0].Raw, nil, nil, changes[2].Raw)
	wantRaw(t, s, other.ID, []int64{2, 3}, []byte("document"), nil)
	wantRaw(t, s, m.ID, nil)
	_, err := s.Raw(t.Context(), newDocument("none").ID, nil)
	wantError(t, err, doc.ErrNotFound)
}

func wantRaw(t *testing.T, s doc.Store, id crdt.DocumentID, numbers []int64, want ...[]byte) {
	t.Helper()
	got := must[[][]byte](t)(s.Raw(t.Context(), id, numbers))
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("changes %d are %q, want %q", numbers, got, want)
	}
}

func compacted(t *testing.T, s doc.Store) {
	m, changes := grow(t, s, 5)
	if saved := must[doc.Saved](t)(s.Saved(t.Context(), m.ID, true)); saved.Upto != 0 || len(saved.Chunk)+len(saved.Index) != 0 {
		t.Errorf("before it was compacted: %+v", saved)
	}
	for _, upto := range []int64{2, 5} {
		want := doc.Saved{Upto: upto, Chunk: fmt.Appendf(nil, "chunk %d", upto), Index: fmt.Appendf(nil, "index %d", upto)}
		if err := s.Compact(t.Context(), m.ID, want); err != nil {
			t.Fatal(err)
		}
		sameJSON(t, "saved", must[doc.Saved](t)(s.Saved(t.Context(), m.ID, true)), want)
		want.Chunk = nil
		sameJSON(t, "saved without its chunk", must[doc.Saved](t)(s.Saved(t.Context(), m.ID, false)), want)
		rows := must[[]doc.ChangeRow](t)(s.Changes(t.Context(), m.ID, 0, many))
		if len(rows) != int(5-upto) {
			t.Fatalf("%d rows are left, want %d", len(rows), 5-upto)
		}
		for i, row := range rows {
			if row.Number != upto+int64(i)+1 || row.Hash != changes[row.Number-1].Hash {
				t.Errorf("row %d is number %d, %s", i, row.Number, row.Hash)
			}
		}
		for after := range int64(6) {
			want := max(0, 5-max(after, upto))
			if behind := must[[]doc.ChangeRow](t)(s.Changes(t.Context(), m.ID, after, many)); int64(len(behind)) != want || want > 0 && behind[want-1].Number != 5 {
				t.Errorf("behind number %d are %d rows, want %d: %+v", after, len(behind), want, behind)
			}
		}
		wantRaw(t, s, m.ID, []int64{upto, upto + 1}, nil, map[int64][]byte{2: changes[2].Raw}[upto])
	}
	for _, number := range []int64{1, 5, 7} {
		_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{newChange(number, "no")}})
		wantError(t, err, doc.ErrConflict)
	}
	next := newChange(6, "next")
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{next}, Logged: []int64{1, 5}}))
	if rows := must[[]doc.ChangeRow](t)(s.Changes(t.Context(), m.ID, 0, many)); len(rows) != 1 || rows[0].Number != 6 {
		t.Errorf("the next change is %+v", rows)
	}
}

// What messages take is counted beside what changes take, and no compaction changes it.
func postedIsCounted(t *testing.T, s doc.Store) {
	m, changes := grow(t, s, 2)
	events := appendEvents(t, s, m.ID, append(posted(2), newEvent(doc.SectionEdited, "no message"))...)
	want := int64(len(events[0].Payload) + len(events[1].Payload))
	if got := metaOf(t, s, m.ID); got.Posted != want || got.Bytes != int64(len(changes[0].Raw)+len(changes[1].Raw)) {
		t.Errorf("messages of %d bytes count as %d, beside changes of %d", want, got.Posted, got.Bytes)
	}
	if err := s.Compact(t.Context(), m.ID, doc.Saved{Upto: 2, Chunk: []byte("two")}); err != nil {
		t.Fatal(err)
	}
	if got := metaOf(t, s, m.ID); got.Posted != want || got.Bytes != 3 {
		t.Errorf("after a compaction messages count as %d, changes as %d", got.Posted, got.Bytes)
	}
}

func compactRefuses(t *testing.T, s doc.Store) {
	m, _ := grow(t, s, 3)
	loose := newChange(4, "loose")
	loose.Logged = false
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{loose}}))
	if err := s.Compact(t.Context(), m.ID, doc.Saved{Upto: 2, Chunk: []byte("two")}); err != nil {
		t.Fatal(err)
	}
	for _, upto := range []int64{-1, 0, 1, 2, 4, 5} {
		wantError(t, s.Compact(t.Context(), m.ID, doc.Saved{Upto: upto, Chunk: []byte("no")}), doc.ErrConflict)
	}
	if saved := must[doc.Saved](t)(s.Saved(t.Context(), m.ID, true)); saved.Upto != 2 || string(saved.Chunk) != "two" {
		t.Errorf("a refused compaction left %+v", saved)
	}
	if rows := must[[]doc.ChangeRow](t)(s.Changes(t.Context(), m.ID, 0, many)); len(rows) != 2 {
		t.Errorf("a refused compaction left %d rows", len(rows))
	}
	wantError(t, s.Compact(t.Context(), newDocument("none").ID, doc.Saved{Upto: 1}), doc.ErrNotFound)
	_, err := s.Saved(t.Context(), newDocument("none").ID, true)
	wantError(t, err, doc.ErrNotFound)
}

func editCalls(t *testing.T, s doc.Store) {
	m, changes := grow(t, s, 1)
	call := func(agent doc.Agent, key doc.IdempotencyKey, n byte, at time.Time) doc.EditCall {
		return doc.EditCall{Agent: agent, Key: key, Request: doc.RequestDigest{n}, Section: "intro", Hash: changes[0].Hash, At: at}
	}
	add := func(expect doc.Seq, calls ...doc.EditCall) error {
		_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: expect, Calls: calls})
		return err
	}
	before := metaOf(t, s, m.ID).LastSeq
	last := before
	find := func(want doc.EditCall) {
		t.Helper()
		want.Document, want.Seq = m.ID, last
		if got := must[doc.EditCall](t)(s.EditCall(t.Context(), want.Agent, want.Key)); got != want {
			t.Errorf("remembered %+v, want %+v", got, want)
		}
	}
	lost := func(agent doc.Agent, key doc.IdempotencyKey) {
		t.Helper()
		_, err := s.EditCall(t.Context(), agent, key)
		wantError(t, err, doc.ErrNotFound)
	}
	first, other := call("ada", "k", 1, day), call("bob", "k", 2, day)
	if err := add(doc.AnySeq, first, other); err != nil {
		t.Fatal(err)
	}
	find(first)
	find(other)
	lost("ada", "another")
	wantError(t, add(99, call("ada", "refused", 3, day)), doc.ErrConflict)
	lost("ada", "refused")
	again := call("ada", "k", 4, day.Add(time.Hour))
	if err := add(doc.AnySeq, again); err != nil {
		t.Fatal(err)
	}
	find(again)
	message := call("dan", "message", 6, day.Add(time.Hour))
	events := must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Calls: []doc.EditCall{message}, Events: posted(2)}))
	last = events[1].Seq
	find(message)
	late := call("cyd", "late", 5, day.Add(doc.EditCallsKept+time.Millisecond))
	if err := add(doc.AnySeq, late); err != nil {
		t.Fatal(err)
	}
	find(late)
	lost("bob", "k")
	last = before
	find(again)
	other = createdCall(t, s)
	last = 1
	m.ID = other.Document
	find(other)
}

// createdCall makes a document, which is remembered.
func createdCall(t *testing.T, s doc.Store) doc.EditCall {
	m := newDocument("made")
	c := doc.EditCall{Agent: "eve", Key: "made", Request: doc.RequestDigest{7}, At: day.Add(time.Hour), Document: m.ID}
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Calls: []doc.EditCall{c}, Events: posted(1)}))
	return c
}
