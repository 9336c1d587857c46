package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

var documentPromises = []promise{
	{"a new document is found by id and slug", newDocumentIsFound},
	{"create refuses a known id and a known slug", createRefuses},
	{"a refused create leaves nothing", refusedCreateLeavesNothing},
	{"documents without a slug do not collide", withoutSlug},
	{"title and slug change with an append", titleAndSlugChange},
	{"a former slug leads on and is never reused", formerSlug},
	{"a tombstone is found, not listed, and takes appends", tombstone},
	{"what is deleted is listed, the latest first, until it is restored", deletedList},
	{"what is purged is gone but for its id, and its names are free", purged},
	{"the ledger counts on behind what was purged", purgedLedgerCountsOn},
	{"list gives the newest first, in pages", listPages},
	{"the largest documents come first", largestFirst},
	{"a block stands until it is lifted", blockStands},
	{"names are bytes, told apart by case", namesAreBytes},
	{"instants keep their milliseconds, in UTC", instants},
}

func newDocumentIsFound(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	m.LastSeq, m.Number, m.Posted, m.ChangedAt, m.Deletion = 77, 88, 99, day.Add(-time.Hour), doc.Deletion{At: day, By: "eve"} // not the caller's to set
	events := create(t, s, m, posted(2)...)
	if len(events) != 2 || events[1].Seq != 2 {
		t.Fatalf("create returned %d events", len(events))
	}
	want := doc.Meta{ID: m.ID, Slug: "plan", Title: m.Title, CreatedAt: m.CreatedAt, CreatedBy: "ada",
		ChangedAt: events[1].At, LastSeq: 2, Number: 1, Posted: int64(len(events[0].Payload) + len(events[1].Payload))}
	if got := metaOf(t, s, m.ID); got != want {
		t.Errorf("by id:\n got %+v\nwant %+v", got, want)
	}
	if got := must[doc.Meta](t)(s.FindSlug(t.Context(), "plan")); got != want {
		t.Errorf("by slug:\n got %+v\nwant %+v", got, want)
	}

	_, err := s.Document(t.Context(), crdt.DocumentID(uuid.New()))
	wantError(t, err, doc.ErrNotFound)
	_, err = s.FindSlug(t.Context(), "plans")
	wantError(t, err, doc.ErrNotFound)

	quiet := newDocument("quiet")
	create(t, s, quiet)
	if got := metaOf(t, s, quiet.ID); got.LastSeq != 0 || !got.ChangedAt.Equal(quiet.CreatedAt) || got.Number != 2 {
		t.Errorf("a document without events: %+v", got)
	}
}

func createRefuses(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	sameID := newDocument("other")
	sameID.ID = m.ID
	_, err := s.Create(t.Context(), sameID, doc.Append{})
	wantError(t, err, doc.ErrConflict)
	_, err = s.Create(t.Context(), newDocument("plan"), doc.Append{})
	wantError(t, err, doc.ErrSlugTaken)
}

func refusedCreateLeavesNothing(t *testing.T, s doc.Store) {
	create(t, s, newDocument("plan"))
	refused := newDocument("plan")
	_, err := s.Create(t.Context(), refused, doc.Append{Events: posted(1), Changes: []doc.ChangeRow{newChange(1, "a")}})
	wantError(t, err, doc.ErrSlugTaken)
	_, err = s.Document(t.Context(), refused.ID)
	wantError(t, err, doc.ErrNotFound)
	refused.Slug = "free"
	create(t, s, refused, posted(1)...)
	if got := allChanges(t, s, refused.ID); len(got) != 0 {
		t.Errorf("%d changes are left of the refused create", len(got))
	}
}

func withoutSlug(t *testing.T, s doc.Store) {
	a, b := newDocument(""), newDocument("")
	create(t, s, a)
	create(t, s, b)
	if got := metaOf(t, s, b.ID); got.Slug != "" || got.Number != 2 {
		t.Errorf("got %+v", got)
	}
	_, err := s.FindSlug(t.Context(), "")
	wantError(t, err, doc.ErrNotFound)

	must[[]doc.Event](t)(s.Append(t.Context(), b.ID, doc.Append{Expect: doc.AnySeq, Slug: "named"}))
	if got := must[doc.Meta](t)(s.FindSlug(t.Context(), "named")); got.ID != b.ID {
		t.Errorf("the slug leads to %s", got.ID)
	}
}

func titleAndSlugChange(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	title, none := "A better plan", ""
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Title: &title, Slug: "better"}))
	if got := metaOf(t, s, m.ID); got.Title != title || got.Slug != "better" {
		t.Errorf("after the change: %+v", got)
	}
	appendEvents(t, s, m.ID, posted(1)...)
	if got := metaOf(t, s, m.ID); got.Title != title || got.Slug != "better" {
		t.Errorf("after an append that says nothing of them: %+v", got)
	}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Title: &none}))
	if got := metaOf(t, s, m.ID); got.Title != "" {
		t.Errorf("an empty title is kept as %q", got.Title)
	}
}

func formerSlug(t *testing.T, s doc.Store) {
	m, other := newDocument("first"), newDocument("other")
	create(t, s, m)
	create(t, s, other)
	rename := func(id crdt.DocumentID, slug doc.Slug) error {
		_, err := s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Slug: slug, Events: posted(1)})
		return err
	}
	for _, slug := range []doc.Slug{"second", "third"} {
		if err := rename(m.ID, slug); err != nil {
			t.Fatal(err)
		}
	}
	for _, slug := range []doc.Slug{"first", "second", "third"} {
		got := must[doc.Meta](t)(s.FindSlug(t.Context(), slug))
		if got.ID != m.ID || got.Slug != "third" {
			t.Errorf("%q leads to %+v", slug, got)
		}
		_, err := s.Create(t.Context(), newDocument(slug), doc.Append{})
		wantError(t, err, doc.ErrSlugTaken)
		wantError(t, rename(other.ID, slug), doc.ErrSlugTaken)
	}
	if got := metaOf(t, s, other.ID); got.Slug != "other" || got.LastSeq != 0 {
		t.Errorf("refused renames left %+v", got)
	}
	for _, own := range []doc.Slug{"third", "first"} {
		if err := rename(m.ID, own); err != nil {
			t.Errorf("a document's own slug %q, present or former: %v", own, err)
		}
	}
	if got := must[doc.Meta](t)(s.FindSlug(t.Context(), "second")); got.Slug != "first" {
		t.Errorf("after going back: %+v", got)
	}
}

func tombstone(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	create(t, s, newDocument("other"))
	gone := newEvent(doc.DocumentDeleted, "")
	deletion := doc.Deletion{At: gone.At, By: "ada"}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: []doc.NewEvent{gone}, Deletion: &deletion}))

	bySlug := must[doc.Meta](t)(s.FindSlug(t.Context(), "plan"))
	if bySlug != metaOf(t, s, m.ID) || bySlug.Deletion != deletion {
		t.Errorf("the tombstone is %+v", bySlug)
	}
	if list := must[[]doc.Meta](t)(s.List(t.Context(), 0, many)); len(list) != 1 || list[0].Slug != "other" {
		t.Errorf("listed: %+v", list)
	}
	_, err := s.Create(t.Context(), newDocument("plan"), doc.Append{})
	wantError(t, err, doc.ErrSlugTaken)

	late := newEvent(doc.SectionLeaseEnded, "")
	late.At = gone.At.Add(time.Hour)
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: []doc.NewEvent{late}}))
	if got := metaOf(t, s, m.ID); got.LastSeq != 2 || got.Deletion != deletion {
		t.Errorf("after a late event: %+v", got)
	}
	verifyChain(t, allEvents(t, s, m.ID))
}

// remove deletes a document.
func remove(t *testing.T, s doc.Store, id crdt.DocumentID, at time.Time) {
	t.Helper()
	must[[]doc.Event](t)(s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Deletion: &doc.Deletion{At: at, By: "bob"}}))
}

func deletedList(t *testing.T, s doc.Store) {
	deleted := func(size int) (slugs []doc.Slug) {
		t.Helper()
		for behind := (doc.DeletedPlace{}); ; {
			page := must[[]doc.Meta](t)(s.Deleted(t.Context(), behind, size))
			if len(page) > size {
				t.Fatalf("a page of %d has %d", size, len(page))
			}
			if len(page) == 0 {
				return slugs
			}
			for _, m := range page {
				slugs = append(slugs, m.Slug)
				if m != metaOf(t, s, m.ID) || m.Deletion.By != "bob" {
					t.Errorf("listed: %+v", m)
				}
			}
			behind = page[len(page)-1].DeletedPlace()
		}
	}
	if got := deleted(many); got != nil {
		t.Errorf("an empty store lists %v", got)
	}
	for i, slug := range []doc.Slug{"lives", "early", "a", "b", "c", "late"} {
		m := newDocument(slug)
		create(t, s, m)
		if i > 0 {
			remove(t, s, m.ID, day.Add(map[doc.Slug]time.Duration{"early": -time.Millisecond, "late": time.Hour}[slug]))
		}
	}
	for _, size := range []int{1, 2, 3, 5, many} {
		if got, want := deleted(size), []doc.Slug{"late", "c", "b", "a", "early"}; !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v, want %v", size, got, want)
		}
	}
	if list := must[[]doc.Meta](t)(s.Deleted(t.Context(), doc.DeletedPlace{}, 0)); len(list) != 0 {
		t.Errorf("a page of none has %d", len(list))
	}

	b := must[doc.Meta](t)(s.FindSlug(t.Context(), "b"))
	back := newEvent(doc.DocumentRestored, "")
	must[[]doc.Event](t)(s.Append(t.Context(), b.ID, doc.Append{Expect: b.LastSeq, Events: []doc.NewEvent{back}, Deletion: &doc.Deletion{}}))
	if got, want := deleted(2), []doc.Slug{"late", "c", "a", "early"}; !slices.Equal(got, want) {
		t.Errorf("with b restored: %v, want %v", got, want)
	}
	if got := metaOf(t, s, b.ID); got.Deletion != (doc.Deletion{}) || got.Slug != "b" {
		t.Errorf("restored: %+v", got)
	}
	if list := must[[]doc.Meta](t)(s.List(t.Context(), 0, many)); len(list) != 2 || list[0].ID != b.ID {
		t.Errorf("listed: %+v", list)
	}
	remove(t, s, b.ID, day.Add(2*time.Hour))
	if got, want := deleted(many), []doc.Slug{"b", "late", "c", "a", "early"}; !slices.Equal(got, want) {
		t.Errorf("with b deleted again: %v, want %v", got, want)
	}
}

func listPages(t *testing.T, s doc.Store) {
	if list := must[[]doc.Meta](t)(s.List(t.Context(), 0, many)); len(list) != 0 {
		t.Errorf("an empty store lists %d", len(list))
	}
	var want []crdt.DocumentID
	for i := range 7 {
		m := newDocument("")
		create(t, s, m)
		if i == 3 {
			remove(t, s, m.ID, day)
			continue
		}
		want = append(want, m.ID)
	}
	slices.Reverse(want)
	for _, size := range []int{1, 2, 3, 6, 100} {
		var got []crdt.DocumentID
		for before := int64(0); ; {
			page := must[[]doc.Meta](t)(s.List(t.Context(), before, size))
			if len(page) > size {
				t.Fatalf("a page of %d has %d", size, len(page))
			}
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				got = append(got, m.ID)
			}
			before = page[len(page)-1].Number
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v, want %v", size, got, want)
		}
	}
	if list := must[[]doc.Meta](t)(s.List(t.Context(), 0, 0)); len(list) != 0 {
		t.Errorf("a page of none has %d", len(list))
	}
}

func largestFirst(t *testing.T, s doc.Store) {
	sizes := map[doc.Slug]int{"small": 10, "large": 500, "empty": 0, "also-small": 10, "gone": 900}
	for _, slug := range []doc.Slug{"small", "large", "empty", "also-small", "gone"} {
		m := newDocument(slug)
		c := newChange(1, "%s", slug)
		c.Raw, c.Logged = make([]byte, sizes[slug]), true
		must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Changes: []doc.ChangeRow{c}}))
		_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{c}})
		wantError(t, err, doc.ErrConflict)
		if slug == "gone" {
			remove(t, s, m.ID, day)
		}
	}
	var got []doc.Slug
	for _, m := range must[[]doc.Meta](t)(s.Largest(t.Context(), 3)) {
		got = append(got, m.Slug)
		if m.Bytes != int64(sizes[m.Slug]) || m.Changes != 1 {
			t.Errorf("%s has %d bytes and %d changes, want %d and 1", m.Slug, m.Bytes, m.Changes, sizes[m.Slug])
		}
	}
	if want := []doc.Slug{"large", "small", "also-small"}; !slices.Equal(got, want) {
		t.Errorf("the largest are %v, want %v", got, want)
	}
	large := must[doc.Meta](t)(s.FindSlug(t.Context(), "large"))
	if err := s.Compact(t.Context(), large.ID, doc.Saved{Upto: 1, Chunk: make([]byte, 4), Index: make([]byte, 3)}); err != nil {
		t.Fatal(err)
	}
	if m := metaOf(t, s, large.ID); m.Bytes != 7 || m.Changes != 1 {
		t.Errorf("compacted, it has %d bytes and %d changes, want 7 and 1", m.Bytes, m.Changes)
	}
}

func blockStands(t *testing.T, s doc.Store) {
	first, second := newDocument("first"), newDocument("second")
	first.Block = doc.Block{At: day, By: "eve", Reason: "not the caller's to set"}
	create(t, s, first)
	create(t, s, second)
	set := func(m doc.Meta, b doc.Block) {
		t.Helper()
		must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Block: &b}))
		if got := metaOf(t, s, m.ID).Block; got != b {
			t.Errorf("the block is %+v, want %+v", got, b)
		}
	}
	blocked := func(want ...doc.Slug) {
		t.Helper()
		var got []doc.Slug
		for _, m := range must[[]doc.Meta](t)(s.Blocked(t.Context())) {
			got = append(got, m.Slug)
		}
		if !slices.Equal(got, want) {
			t.Errorf("blocked are %v, want %v", got, want)
		}
	}
	blocked()
	set(first, doc.Block{At: day, By: "ada", Reason: "spam"})
	set(second, doc.Block{At: day.Add(time.Second), By: "bob"})
	must[[]doc.Event](t)(s.Append(t.Context(), first.ID, doc.Append{Expect: doc.AnySeq, Events: posted(1)}))
	blocked("second", "first")
	set(second, doc.Block{})
	blocked("first")
	remove(t, s, first.ID, day)
	blocked()
}

func namesAreBytes(t *testing.T, s doc.Store) {
	for _, slug := range []doc.Slug{"a", "A", "a ", "ä", "a\u0308", "%", "_", "'", "\xff", "a\x00b"} {
		m := newDocument(slug)
		m.Title = "<" + string(slug) + ">"
		create(t, s, m)
		got := must[doc.Meta](t)(s.FindSlug(t.Context(), slug))
		if got.ID != m.ID || got.Slug != slug || got.Title != m.Title {
			t.Errorf("%q leads to %+v", slug, got)
		}
	}
}

func instants(t *testing.T, s doc.Store) {
	zone := time.FixedZone("east", 5*3600+1800)
	at := time.Date(2031, 12, 31, 23, 59, 59, 123_999_999, zone)
	want := time.Date(2031, 12, 31, 18, 29, 59, 123e6, time.UTC)
	m := newDocument("plan")
	m.CreatedAt = at
	e := newEvent(doc.MessagePosted, "")
	e.At = at
	c := newChange(1, "a")
	c.At = at
	returned := must[[]doc.Event](t)(s.Create(t.Context(), m, doc.Append{Events: []doc.NewEvent{e}, Changes: []doc.ChangeRow{c}}))
	meta := metaOf(t, s, m.ID)
	for name, got := range map[string]time.Time{
		"returned event":    returned[0].At,
		"event":             allEvents(t, s, m.ID)[0].At,
		"change":            allChanges(t, s, m.ID)[0].At,
		"document, created": meta.CreatedAt,
		"document, changed": meta.ChangedAt,
	} {
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func purged(t *testing.T, s doc.Store) {
	m, changes := grow(t, s, 3)
	appendEvents(t, s, m.ID, posted(2)...)
	if err := s.Compact(t.Context(), m.ID, doc.Saved{Upto: 2, Chunk: []byte("two"), Index: []byte("index")}); err != nil {
		t.Fatal(err)
	}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Slug: "plan-b", Block: &doc.Block{At: day, By: "eve", Reason: "spam"}}))
	by := doc.Purge{At: day.Add(time.Hour + time.Microsecond), By: "root"}
	wantError(t, s.Purge(t.Context(), m.ID, by), doc.ErrConflict)
	wantError(t, s.Purge(t.Context(), newDocument("none").ID, by), doc.ErrNotFound)
	if got := allChanges(t, s, m.ID); len(got) != 1 || got[0].Hash != changes[2].Hash {
		t.Errorf("a refused purge left the changes %+v", got)
	}
	other := newDocument("other")
	create(t, s, other, posted(1)...)
	for _, id := range []crdt.DocumentID{m.ID, other.ID} {
		grant := newLease(doc.SectionResource(id, "intro"), "ada", 1, day)
		event := lease.Event{Kind: lease.Released, Resource: grant.Resource, Actor: "ada", At: day, Lease: grant}
		saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Record: lease.Record{Resource: grant.Resource}, Events: []lease.Event{event}}, Document: id})
	}

	deletion := doc.Deletion{At: day.Add(time.Minute), By: "ada"}
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Deletion: &deletion}))
	want := metaOf(t, s, m.ID)
	for range 2 { // the second changes nothing
		if err := s.Purge(t.Context(), m.ID, by); err != nil {
			t.Fatal(err)
		}
		want = doc.Meta{ID: m.ID, CreatedAt: want.CreatedAt, CreatedBy: "ada", ChangedAt: want.ChangedAt, Number: want.Number,
			Deletion: deletion, Purge: doc.Purge{At: day.Add(time.Hour), By: "root"}}
		if got := metaOf(t, s, m.ID); got != want {
			t.Errorf("what is left:\n got %+v\nwant %+v", got, want)
		}
		by = doc.Purge{At: day.Add(2 * time.Hour), By: "eve"}
	}
	_, err := s.Changes(t.Context(), m.ID, 0, many)
	_, err2 := s.Events(t.Context(), m.ID, 0, many)
	_, err3 := s.Saved(t.Context(), m.ID, true)
	_, err4 := s.Raw(t.Context(), m.ID, []int64{1})
	_, err5 := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Deletion: &doc.Deletion{}})
	_, err6 := s.FindSlug(t.Context(), "plan")
	_, err7 := s.FindSlug(t.Context(), "plan-b")
	for _, err := range []error{err, err2, err3, err4, err5, err6, err7, s.Compact(t.Context(), m.ID, doc.Saved{Upto: 3})} {
		wantError(t, err, doc.ErrNotFound)
	}
	if got := must[[]doc.Meta](t)(s.Deleted(t.Context(), doc.DeletedPlace{}, many)); len(got) != 0 {
		t.Errorf("it is still listed among what can be restored: %+v", got)
	}
	if got := must[[]doc.LedgerEntry](t)(s.Ledger(t.Context(), doc.LedgerQuery{Limit: many})); len(got) != 1 || got[0].Resource != doc.SectionResource(other.ID, "intro") || got[0].Seq != 2 {
		t.Errorf("the ledger is %+v, want the other document's entry alone", got)
	}
	if got := allEvents(t, s, other.ID); len(got) != 1 {
		t.Errorf("the other document has %d events, want 1", len(got))
	}

	_, err = s.Create(t.Context(), doc.Meta{ID: m.ID, CreatedAt: day}, doc.Append{})
	wantError(t, err, doc.ErrConflict) // a replica does not bring it back
	for _, slug := range []doc.Slug{"plan", "plan-b"} {
		create(t, s, newDocument(slug), posted(1)...)
	}
}

// An entry of the ledger that was purged leaves its number to no other.
func purgedLedgerCountsOn(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	grant := newLease(doc.SectionResource(m.ID, "intro"), "ada", 1, day)
	saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Events: []lease.Event{{Kind: lease.Released, Resource: grant.Resource, Actor: "ada", At: day, Lease: grant}}}})
	must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Deletion: &doc.Deletion{At: day, By: "ada"}}))
	if err := s.Purge(t.Context(), m.ID, doc.Purge{At: day, By: "root"}); err != nil {
		t.Fatal(err)
	}
	lock := newLease("lock:a", "bob", 2, day)
	saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Events: []lease.Event{{Kind: lease.Granted, Resource: "lock:a", Actor: "bob", At: day, Lease: lock}}}})
	if got := must[[]doc.LedgerEntry](t)(s.Ledger(t.Context(), doc.LedgerQuery{Limit: many})); len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("the ledger is %+v, want one entry with seq 2", got)
	}
}
