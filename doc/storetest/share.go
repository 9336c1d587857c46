package storetest

import (
	"fmt"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

// newShare is a share link that lives for an hour.
func newShare(id doc.KeyID, of crdt.DocumentID) doc.Key {
	k := newKey(id)
	k.Kind, k.Role, k.Document, k.Maker, k.ExpiresAt = doc.Person, doc.Viewer, of, "ada", day.Add(time.Hour)
	return k
}

func share(t *testing.T, s doc.Store, id crdt.DocumentID, k doc.Key, limit int) error {
	t.Helper()
	_, err := s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Share: &doc.NewShare{Key: k, Limit: limit}, Events: posted(1)})
	return err
}

func unshare(t *testing.T, s doc.Store, id crdt.DocumentID, link doc.KeyID, at time.Time) error {
	t.Helper()
	_, err := s.Append(t.Context(), id, doc.Append{Expect: doc.AnySeq, Unshare: &doc.EndShare{ID: link, At: at}, Events: posted(1)})
	return err
}

func shareLinks(t *testing.T, s doc.Store) {
	m, other := newDocument("plan"), newDocument("other")
	create(t, s, m)
	create(t, s, other)
	addKey(t, s, newKey("plain"))
	want := 0
	step := func(refused, err error) {
		t.Helper()
		if refused == nil {
			want++
		}
		wantError(t, err, refused)
		if len(must[[]doc.Event](t)(s.Events(t.Context(), m.ID, 0, 100))) != want {
			t.Errorf("the log has not %d events", want)
		}
	}
	link := newShare("link", m.ID)
	step(nil, share(t, s, m.ID, link, 9))
	if got := must[doc.Key](t)(s.KeyByID(t.Context(), "link")); got != link {
		t.Errorf("the link is\n%+v, want\n%+v", got, link)
	}
	step(doc.ErrConflict, share(t, s, m.ID, link, 9))
	step(doc.ErrConflict, unshare(t, s, m.ID, "none", day))
	step(doc.ErrConflict, unshare(t, s, m.ID, "plain", day))
	wantError(t, unshare(t, s, other.ID, "link", day), doc.ErrConflict)
	step(doc.ErrConflict, unshare(t, s, m.ID, "link", link.ExpiresAt))
	if got := must[doc.Key](t)(s.KeyByID(t.Context(), "link")); got != link {
		t.Errorf("what was refused made the link\n%+v, want\n%+v", got, link)
	}
	step(nil, unshare(t, s, m.ID, "link", day.Add(time.Minute)))
	link.RevokedAt = day.Add(time.Minute)
	if got := must[doc.Key](t)(s.KeyByID(t.Context(), "link")); got != link {
		t.Errorf("the ended link is\n%+v, want\n%+v", got, link)
	}
	step(doc.ErrConflict, unshare(t, s, m.ID, "link", day.Add(2*time.Minute)))

	// What is refused for another reason makes no link and ends none.
	second := newShare("second", m.ID)
	_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: 77, Share: &doc.NewShare{Key: second, Limit: 9}, Events: posted(1)})
	step(doc.ErrConflict, err)
	_, err = s.KeyByID(t.Context(), "second")
	wantError(t, err, doc.ErrNotFound)
}

func sharesAreLimited(t *testing.T, s doc.Store) {
	m, other := newDocument("plan"), newDocument("other")
	create(t, s, m)
	create(t, s, other)
	made := 0
	try := func(id crdt.DocumentID, at time.Time) error {
		made++
		k := newShare(doc.KeyID(fmt.Sprint("link ", made)), id)
		k.CreatedAt, k.ExpiresAt = at, at.Add(time.Hour)
		return share(t, s, id, k, 2)
	}
	wantError(t, try(m.ID, day), nil)
	wantError(t, try(m.ID, day), nil)
	wantError(t, try(m.ID, day), doc.ErrTooMany)
	wantError(t, try(other.ID, day), nil)
	wantError(t, unshare(t, s, m.ID, "link 1", day), nil)
	wantError(t, try(m.ID, day), nil)
	wantError(t, try(m.ID, day.Add(time.Hour-time.Millisecond)), doc.ErrTooMany)
	wantError(t, try(m.ID, day.Add(time.Hour)), nil) // the others are over
}

func sharesAreDropped(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	addKey(t, s, newKey("plain"))
	ended := newKey("ended")
	ended.ExpiresAt = day
	addKey(t, s, ended) // is no link
	for i, id := range []doc.KeyID{"third", "first", "second", "live"} {
		k := newShare(id, m.ID)
		k.ExpiresAt = day.Add([]time.Duration{3, 1, 9, 9}[i] * time.Hour)
		wantError(t, share(t, s, m.ID, k, 9), nil)
	}
	wantError(t, unshare(t, s, m.ID, "second", day.Add(2*time.Hour-time.Second)), nil)
	left := func(want ...doc.KeyID) {
		t.Helper()
		var got []doc.KeyID
		for _, k := range must[[]doc.Key](t)(s.Keys(t.Context())) {
			got = append(got, k.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("left are %v, want %v", got, want)
		}
	}
	drop := func(before time.Duration, limit, want int) {
		t.Helper()
		if n := must[int](t)(s.DropShares(t.Context(), day.Add(before), limit)); n != want {
			t.Errorf("%d are dropped, want %d", n, want)
		}
	}
	drop(time.Hour, 9, 0) // ended then, and not before
	drop(4*time.Hour, 0, 0)
	left("plain", "ended", "third", "first", "second", "live")
	drop(4*time.Hour, 2, 2)
	left("plain", "ended", "third", "live")
	drop(4*time.Hour, 2, 1)
	left("plain", "ended", "live")
}
