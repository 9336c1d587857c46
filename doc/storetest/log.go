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
	{"changes come back as they were given", changesAreKept},
	{"changes are numbered without gaps", changesAreNumbered},
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
	{"one of many that number a change alike wins", concurrentNumber},
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

func changesAreKept(t *testing.T, s doc.Store) {
	a, b, c, d := newChange(1, "a"), newChange(2, "b"), newChange(3, "c"), newChange(4, "d")
	b.Sections, b.Author, b.Logged = nil, "bob", true
	c.Sections = []doc.SectionID{"one", "two"}
	d.Raw = []byte{}
	m := newDocument("plan")
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: []doc.ChangeRow{a, b}}))
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{c, d}}))
	if got, want := allChanges(t, s, m.ID), []doc.ChangeRow{a, b, c, d}; !slices.EqualFunc(got, want, sameChange) {
		t.Errorf("changes:\n got %+v\nwant %+v", got, want)
	}
}

// Whoever numbers a change otherwise than on from the last one does not know the document as it is: nothing of the append is written.
func changesAreNumbered(t *testing.T, s doc.Store) {
	numbered := func(numbers ...int64) doc.Append {
		a := doc.Append{Expect: doc.AnySeq, Events: posted(1)}
		for _, n := range numbers {
			a.Changes = append(a.Changes, newChange(n, "change %d", n))
		}
		return a
	}
	for _, wrong := range [][]int64{{0}, {2}, {-1}, {1, 1}, {1, 3}, {2, 1}} {
		refused := newDocument("plan")
		_, err := s.Create(t.Context(), refused, numbered(wrong...))
		wantError(t, err, doc.ErrConflict)
		_, err = s.Document(t.Context(), refused.ID)
		wantError(t, err, doc.ErrNotFound)
	}
	m := newDocument("plan")
	must[[]doc.Event](t)(s.Create(t.Context(), m, numbered(1, 2)))
	before := metaOf(t, s, m.ID)
	for _, wrong := range [][]int64{{0}, {1}, {2}, {4}, {2, 3}, {3, 3}, {3, 5}, {4, 3}, {3, 4, 4}} {
		a := numbered(wrong...)
		a.Logged = []int64{1}
		_, err := s.Append(t.Context(), m.ID, a)
		wantError(t, err, doc.ErrConflict)
	}
	if got := metaOf(t, s, m.ID); got != before || got.Changes != 2 {
		t.Errorf("refused appends left %+v\nof %+v", got, before)
	}
	if got := allChanges(t, s, m.ID); len(got) != 2 || got[0].Logged {
		t.Errorf("refused appends left %+v", got)
	}
	if got := allEvents(t, s, m.ID); len(got) != 1 {
		t.Errorf("refused appends left %d events, want 1", len(got))
	}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, numbered(3, 4)))
	if got := metaOf(t, s, m.ID).Changes; got != 4 {
		t.Errorf("%d changes, want 4", got)
	}
}

func changePages(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	var changes []doc.ChangeRow
	for i := range 10 {
		changes = append(changes, newChange(int64(i+1), "change %d", i))
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
	same := []doc.ChangeRow{newChange(1, "a")}
	for _, slug := range []doc.Slug{"one", "two"} {
		m := newDocument(slug)
		must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: same}))
		if got := allChanges(t, s, m.ID); len(got) != 1 || got[0].Number != 1 {
			t.Errorf("%s has %d changes", slug, len(got))
		}
	}
}

func logged(t *testing.T, s doc.Store) {
	m, other := newDocument("plan"), newDocument("other")
	var changes []doc.ChangeRow
	for n := range int64(9) {
		changes = append(changes, newChange(n+1, "change %d", n))
	}
	must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: changes}))
	must[[]doc.Event](t)(s.Create(t.Context(), other, doc.Append{Changes: changes}))
	marked := func(id crdt.DocumentID) (numbers []int64) {
		t.Helper()
		for _, c := range allChanges(t, s, id) {
			if c.Logged {
				numbers = append(numbers, c.Number)
			}
		}
		return numbers
	}
	for _, c := range []struct{ mark, want []int64 }{
		{nil, nil},
		{[]int64{7, 99, 0, -1, 2}, []int64{2, 7}},
		{[]int64{7, 6, 2, 4, 7}, []int64{2, 4, 6, 7}},
		{[]int64{9, 1, 8, 10, 11}, []int64{1, 2, 4, 6, 7, 8, 9}},
	} {
		given := slices.Clone(c.mark)
		must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Logged: c.mark}))
		if got := marked(m.ID); !slices.Equal(got, c.want) {
			t.Errorf("with %d, changes %d are logged, want %d", given, got, c.want)
		}
		if !slices.Equal(c.mark, given) {
			t.Errorf("the numbers given became %d, of %d", c.mark, given)
		}
	}
	if got := marked(other.ID); got != nil {
		t.Errorf("changes %d of another document are logged too", got)
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
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{newChange(1, "a")}}))
	before := metaOf(t, s, m.ID)

	title := "changed"
	refused := doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{newChange(2, "b")}, Events: posted(2), Logged: []int64{1},
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
	together(writers, func(int) {
		var last doc.Seq
		for range rounds {
			events, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: posted(2)})
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

func concurrentNumber(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	for round := range int64(10) {
		errs := make([]error, 16)
		together(len(errs), func(i int) {
			_, errs[i] = s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: posted(1),
				Changes: []doc.ChangeRow{newChange(2*round+1, "%d", i), newChange(2*round+2, "%d", i)}})
		})
		if n := winners(t, errs, doc.ErrConflict); n != 1 {
			t.Fatalf("round %d has %d winners", round, n)
		}
	}
	changes := allChanges(t, s, m.ID)
	if len(changes) != 20 || len(allEvents(t, s, m.ID)) != 10 {
		t.Fatalf("%d changes and %d events, want 20 and 10", len(changes), len(allEvents(t, s, m.ID)))
	}
	for i := 0; i < len(changes); i += 2 {
		if string(changes[i].Raw) != string(changes[i+1].Raw) {
			t.Errorf("changes %d and %d are of two appends", i+1, i+2)
		}
	}
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
