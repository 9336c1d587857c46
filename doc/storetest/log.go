package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/doc"
)

var logPromises = []promise{
	{"events are counted and chained", eventsAreChained},
	{"events come in pages", eventPages},
	{"payloads come back byte for byte", payloadBytes},
	{"changes are numbered, known ones ignored", changesAreNumbered},
	{"changes come in pages", changePages},
	{"a change belongs to its document", changeOfDocument},
	{"logged marks changes of earlier appends", logged},
	{"expect is a compare-and-set", expect},
	{"a refused append writes nothing", refusedAppend},
	{"an unknown document is not found", unknownDocument},
	{"an append of nothing is one", emptyAppend},
	{"concurrent appends to one document", concurrentOne},
	{"concurrent appends to many documents", concurrentMany},
	{"one of many that expect the same seq wins", concurrentExpect},
	{"one of many that create the same slug wins", concurrentCreate},
}

func eventsAreChained(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	returned := create(t, s, m, posted(3)...)
	returned = append(returned, appendEvents(t, s, m.ID, posted(1)...)...)
	returned = append(returned, appendEvents(t, s, m.ID, posted(20)...)...)
	verifyChain(t, returned)
	sameJSON(t, "the log against what was returned", allEvents(t, s, m.ID), returned)
}

func eventPages(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	want := create(t, s, m, posted(10)...)
	create(t, s, newDocument("other"), posted(10)...)
	for _, size := range []int{1, 3, 10, 11} {
		var got []doc.Event
		for {
			var since doc.Seq
			if len(got) > 0 {
				since = got[len(got)-1].Seq
			}
			page := must[[]doc.Event](t)(s.Events(t.Context(), m.ID, since, size))
			if len(page) > size {
				t.Fatalf("a page of %d has %d", size, len(page))
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		sameJSON(t, fmt.Sprintf("pages of %d", size), got, want)
	}
	if page := must[[]doc.Event](t)(s.Events(t.Context(), m.ID, 99, many)); len(page) != 0 {
		t.Errorf("behind the end: %d", len(page))
	}
	if page := must[[]doc.Event](t)(s.Events(t.Context(), m.ID, 0, 0)); len(page) != 0 {
		t.Errorf("a page of none has %d", len(page))
	}
}

func payloadBytes(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	payloads := []string{`{}`, `{"a":"<&>é\u0000\ud83d\ude00"}`, `{"b":1,"a":1.50,"a":2e400}`, `{"s":"` + string(bytes.Repeat([]byte("x"), 100_000)) + `"}`}
	for _, p := range payloads {
		e := newEvent(doc.MessagePosted, "")
		e.Payload = []byte(p)
		appendEvents(t, s, m.ID, e)
	}
	for i, e := range allEvents(t, s, m.ID) {
		if string(e.Payload) != payloads[i] {
			t.Errorf("payload %d came back as %.80s", i, e.Payload)
		}
	}
}

// sameChange compares all but At, whose precision has a test of its own.
func sameChange(a, b doc.ChangeRow) bool {
	return a.Number == b.Number && a.Hash == b.Hash && a.Author == b.Author && slices.Equal(a.Sections, b.Sections) &&
		a.Logged == b.Logged && bytes.Equal(a.Raw, b.Raw)
}

func changesAreNumbered(t *testing.T, s doc.Store) {
	a, b, c, d := newChange("a"), newChange("b"), newChange("c"), newChange("d")
	b.Sections, b.Author, b.Logged = nil, "bob", true
	c.Sections = []doc.SectionID{"one", "two"}
	d.Raw = []byte{}
	d.Number = 99 // not the caller's to set
	m := newDocument("plan")
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: []doc.ChangeRow{a, b, a}}))
	again := b
	again.Author = "mallory"
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{again, c, a, d}}))

	want := []doc.ChangeRow{a, b, c, d}
	got := allChanges(t, s, m.ID)
	if len(got) != len(want) {
		t.Fatalf("%d changes, want %d", len(got), len(want))
	}
	for i := range want {
		want[i].Number = int64(i + 1)
		if !sameChange(got[i], want[i]) {
			t.Errorf("change %d:\n got %+v\nwant %+v", i+1, got[i], want[i])
		}
	}
}

func changePages(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	var changes []doc.ChangeRow
	for i := range 10 {
		changes = append(changes, newChange("change %d", i))
	}
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: changes}))
	for _, size := range []int{1, 3, 10, 11} {
		var got []doc.ChangeRow
		for {
			page := must[[]doc.ChangeRow](t)(s.Changes(t.Context(), m.ID, int64(len(got)), size))
			if len(page) > size {
				t.Fatalf("a page of %d has %d", size, len(page))
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		if !slices.EqualFunc(got, changes, func(a, b doc.ChangeRow) bool { return a.Hash == b.Hash }) {
			t.Errorf("in pages of %d: %d changes, not those that went in", size, len(got))
		}
	}
	if page := must[[]doc.ChangeRow](t)(s.Changes(t.Context(), m.ID, 0, 0)); len(page) != 0 {
		t.Errorf("a page of none has %d", len(page))
	}
}

func changeOfDocument(t *testing.T, s doc.Store) {
	same := []doc.ChangeRow{newChange("a")}
	for _, slug := range []doc.Slug{"one", "two"} {
		m := newDocument(slug)
		must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: same}))
		if got := allChanges(t, s, m.ID); len(got) != 1 || got[0].Number != 1 {
			t.Errorf("%s has %d changes", slug, len(got))
		}
	}
}

func logged(t *testing.T, s doc.Store) {
	a, b := newChange("a"), newChange("b")
	m, other := newDocument("plan"), newDocument("other")
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: []doc.ChangeRow{a, b}}))
	must[[]doc.Event](t)(s.Create(t.Context(), other, doc.Append{Changes: []doc.ChangeRow{a}}))
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: posted(1),
		Logged: []crdt.Hash{a.Hash, newChange("unknown").Hash}}))
	if got := allChanges(t, s, m.ID); !got[0].Logged || got[1].Logged {
		t.Errorf("logged: %v and %v, want true and false", got[0].Logged, got[1].Logged)
	}
	if allChanges(t, s, other.ID)[0].Logged {
		t.Error("the same change of another document was marked too")
	}
}

func expect(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Expect: 77, Events: posted(2)}))
	for _, wrong := range []doc.Seq{0, 1, 3} {
		_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: wrong, Events: posted(1)})
		wantError(t, err, doc.ErrConflict)
	}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: 2, Events: posted(1)}))
	quiet := newDocument("quiet")
	create(t, s, quiet)
	must[[]doc.Event](t)(s.Append(t.Context(), quiet.ID, doc.Append{Expect: 0, Events: posted(1)}))
	if got := metaOf(t, s, m.ID).LastSeq; got != 3 {
		t.Errorf("last seq %s, want 3", got)
	}
}

func refusedAppend(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m, posted(1)...)
	create(t, s, newDocument("taken"))
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{newChange("a")}}))
	before := metaOf(t, s, m.ID)

	title := "changed"
	refused := doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{newChange("b")}, Events: posted(2), Logged: []crdt.Hash{newChange("a").Hash},
		Title: &title, Slug: "taken", Deletion: &doc.Deletion{At: day, By: "ada"}}
	_, err := s.Append(t.Context(), m.ID, refused)
	wantError(t, err, doc.ErrSlugTaken)
	refused.Slug, refused.Expect = "fine", 7
	_, err = s.Append(t.Context(), m.ID, refused)
	wantError(t, err, doc.ErrConflict)

	if got := metaOf(t, s, m.ID); got != before {
		t.Errorf("meta changed:\n got %+v\nwant %+v", got, before)
	}
	if got := allChanges(t, s, m.ID); len(got) != 1 || got[0].Logged {
		t.Errorf("changes changed: %+v", got)
	}
	if got := allEvents(t, s, m.ID); len(got) != 1 {
		t.Errorf("%d events, want 1", len(got))
	}
	_, err = s.FindSlug(t.Context(), "fine")
	wantError(t, err, doc.ErrNotFound)
}

func unknownDocument(t *testing.T, s doc.Store) {
	id := crdt.DocumentID(uuid.New())
	_, err := s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Events: posted(1)})
	wantError(t, err, doc.ErrNotFound)
	_, err = s.Events(t.Context(), id, 0, many)
	wantError(t, err, doc.ErrNotFound)
	_, err = s.Changes(t.Context(), id, 0, many)
	wantError(t, err, doc.ErrNotFound)
}

func emptyAppend(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m, posted(1)...)
	before := metaOf(t, s, m.ID)
	if events := appendEvents(t, s, m.ID); len(events) != 0 {
		t.Errorf("returned %d events", len(events))
	}
	if got := metaOf(t, s, m.ID); got != before {
		t.Errorf("meta changed to %+v", got)
	}
}

// together runs the function n times at once and waits for all.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func concurrentOne(t *testing.T, s doc.Store) {
	const writers, rounds = 16, 20
	m := newDocument("plan")
	create(t, s, m)
	together(writers, func(w int) {
		var last doc.Seq
		for r := range rounds {
			events, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: posted(2),
				Changes: []doc.ChangeRow{newChange("%d of %d", r, w)}})
			if err != nil {
				t.Errorf("append: %v", err)
				return
			}
			if len(events) != 2 || events[0].Seq <= last || events[1].Seq != events[0].Seq+1 {
				t.Errorf("events of one append are not together, or behind the writer's last: %s", last)
				return
			}
			last = events[1].Seq
		}
	})
	log := allEvents(t, s, m.ID)
	if len(log) != writers*rounds*2 {
		t.Errorf("%d events, want %d", len(log), writers*rounds*2)
	}
	verifyChain(t, log)
	changes := allChanges(t, s, m.ID)
	if len(changes) != writers*rounds {
		t.Errorf("%d changes, want %d", len(changes), writers*rounds)
	}
	for i, c := range changes {
		if c.Number != int64(i+1) {
			t.Fatalf("change %d has number %d", i+1, c.Number)
		}
	}
}

func concurrentMany(t *testing.T, s doc.Store) {
	const writers, rounds = 16, 20
	ids := make([]crdt.DocumentID, writers)
	together(writers, func(w int) {
		m := newDocument(doc.Slug(fmt.Sprintf("plan-%d", w)))
		ids[w] = m.ID
		if _, err := s.Create(t.Context(), m, doc.Append{}); err != nil {
			t.Errorf("create: %v", err)
			return
		}
		for r := range rounds {
			events, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.Seq(r), Events: posted(1)})
			if err != nil || events[0].Seq != doc.Seq(r+1) {
				t.Errorf("append %d: %v", r, err)
				return
			}
		}
	})
	numbers := make(map[int64]bool)
	for _, id := range ids {
		log := allEvents(t, s, id)
		if len(log) != rounds {
			t.Errorf("%d events, want %d", len(log), rounds)
		}
		verifyChain(t, log)
		numbers[metaOf(t, s, id).Number] = true
	}
	for n := range int64(writers) {
		if !numbers[n+1] {
			t.Errorf("no document has number %d", n+1)
		}
	}
}

// winners counts the calls that were not refused; a refusal must be the one expected.
func winners(t *testing.T, errs []error, refusal error) int {
	t.Helper()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		} else {
			wantError(t, err, refusal)
		}
	}
	return n
}

func concurrentExpect(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	for round := range doc.Seq(10) {
		errs := make([]error, 16)
		together(len(errs), func(i int) {
			_, errs[i] = s.Append(t.Context(), m.ID, doc.Append{Expect: round, Events: posted(1)})
		})
		if n := winners(t, errs, doc.ErrConflict); n != 1 {
			t.Fatalf("round %d has %d winners", round, n)
		}
	}
	verifyChain(t, allEvents(t, s, m.ID))
}

func concurrentCreate(t *testing.T, s doc.Store) {
	errs := make([]error, 16)
	together(len(errs), func(i int) { _, errs[i] = s.Create(t.Context(), newDocument("plan"), doc.Append{}) })
	if n := winners(t, errs, doc.ErrSlugTaken); n != 1 {
		t.Errorf("%d winners", n)
	}
	if list := must[[]doc.Meta](t)(s.List(t.Context(), 0, many)); len(list) != 1 || list[0].Number != 1 {
		t.Errorf("listed: %+v", list)
	}
}
