package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/doc"
)

var keyPromises = []promise{
	{"a key is found by digest and by id", keyIsFound},
	{"a known id or digest is refused", knownKey},
	{"keys are listed, oldest first", keysAreListed},
	{"revoking keeps an earlier end", revoking},
	{"people are those with a person's key", people},
	{"the version changes with the keys", keysVersion},
	{"a share link is made and ended with the event that says so", shareLinks},
	{"a document has no more live share links than it may", sharesAreLimited},
	{"share links that ended are dropped, the first to end first", sharesAreDropped},
}

func newKey(id doc.KeyID) doc.Key {
	return doc.Key{ID: id, Digest: doc.Secret("secret of " + id).Digest(), Agent: "ada", Kind: doc.Program, Role: doc.Editor, Pattern: "*", CreatedAt: day}
}

func addKey(t *testing.T, s doc.Store, k doc.Key) {
	t.Helper()
	if err := s.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
}

func keyIsFound(t *testing.T, s doc.Store) {
	plain := newKey("one")
	share := newShare("two", crdt.DocumentID(uuid.New()))
	share.Pattern, share.Maker, share.RevokedAt = "", "bob", day.Add(time.Minute)
	for _, k := range []doc.Key{plain, share} {
		addKey(t, s, k)
		if got := must[doc.Key](t)(s.Key(t.Context(), k.Digest)); got != k {
			t.Errorf("by digest:\n got %+v\nwant %+v", got, k)
		}
		if got := must[doc.Key](t)(s.KeyByID(t.Context(), k.ID)); got != k {
			t.Errorf("by id:\n got %+v\nwant %+v", got, k)
		}
	}
	_, err := s.Key(t.Context(), doc.Secret("other").Digest())
	wantError(t, err, doc.ErrNotFound)
	_, err = s.KeyByID(t.Context(), "One")
	wantError(t, err, doc.ErrNotFound)
}

func knownKey(t *testing.T, s doc.Store) {
	k := newKey("one")
	addKey(t, s, k)
	sameID, sameDigest := newKey("two"), newKey("two")
	sameID.ID = k.ID
	sameDigest.Digest = k.Digest
	for _, again := range []doc.Key{k, sameID, sameDigest} {
		wantError(t, s.AddKey(t.Context(), again), doc.ErrConflict)
	}
	if got := must[[]doc.Key](t)(s.Keys(t.Context())); len(got) != 1 || got[0] != k {
		t.Errorf("keys are %+v", got)
	}
}

func keysAreListed(t *testing.T, s doc.Store) {
	if got := must[[]doc.Key](t)(s.Keys(t.Context())); len(got) != 0 {
		t.Errorf("an empty store has %d keys", len(got))
	}
	for i, id := range []doc.KeyID{"newest", "oldest", "middle", "middle too"} {
		k := newKey(id)
		k.CreatedAt = day.Add([]time.Duration{3, 1, 2, 2}[i] * time.Second)
		addKey(t, s, k)
	}
	if err := s.RevokeKey(t.Context(), "oldest", day); err != nil {
		t.Fatal(err)
	}
	got := must[[]doc.Key](t)(s.Keys(t.Context()))
	for i, want := range []doc.KeyID{"oldest", "middle", "middle too", "newest"} {
		if i >= len(got) || got[i].ID != want {
			t.Fatalf("key %d of %+v is not %q", i, got, want)
		}
	}
}

func revoking(t *testing.T, s doc.Store) {
	addKey(t, s, newKey("one"))
	addKey(t, s, newKey("two"))
	revoke := func(at, want time.Time) {
		t.Helper()
		if err := s.RevokeKey(t.Context(), "one", at); err != nil {
			t.Fatal(err)
		}
		if got := must[doc.Key](t)(s.KeyByID(t.Context(), "one")).RevokedAt; got != want {
			t.Errorf("revoked at %v, want %v", got, want)
		}
	}
	revoke(day.Add(2*time.Second), day.Add(2*time.Second))
	revoke(day.Add(3*time.Second), day.Add(2*time.Second))
	revoke(day.Add(1*time.Second), day.Add(1*time.Second))
	wantError(t, s.RevokeKey(t.Context(), "none", day), doc.ErrNotFound)
	if got := must[doc.Key](t)(s.Key(t.Context(), newKey("two").Digest)); !got.RevokedAt.IsZero() {
		t.Errorf("the other key is revoked at %v", got.RevokedAt)
	}
}

func people(t *testing.T, s doc.Store) {
	for id, kind := range map[doc.KeyID]doc.Kind{"ada": doc.Person, "bob": doc.Program, "cyd": doc.Program, "dan": doc.Person} {
		k := newKey(id)
		k.Agent, k.Kind = doc.Agent(id), kind
		addKey(t, s, k)
	}
	second := newKey("bob too")
	second.Agent, second.Kind = "bob", doc.Person // one name, two keys
	addKey(t, s, second)
	if err := s.RevokeKey(t.Context(), "dan", day); err != nil {
		t.Fatal(err)
	}
	wantPeople := func(among []doc.Agent, want ...doc.Agent) {
		t.Helper()
		if got := must[[]doc.Agent](t)(s.People(t.Context(), among)); !slices.Equal(got, want) {
			t.Errorf("among %q people are %q, want %q", among, got, want)
		}
	}
	wantPeople([]doc.Agent{"dan", "cyd", "bob", "ada", "nobody", "ada", "Ada", `"`}, "ada", "bob", "dan")
	wantPeople([]doc.Agent{"cyd"})
	wantPeople(nil)
	for _, id := range []doc.KeyID{"cyd", "dan"} { // dan's is revoked
		for _, kind := range []doc.Kind{doc.Person, doc.Program, doc.Person} {
			if err := s.SetKeyKind(t.Context(), id, kind); err != nil {
				t.Fatal(err)
			}
			if got := must[doc.Key](t)(s.KeyByID(t.Context(), id)); got.Kind != kind {
				t.Errorf("the key is %+v, want it of kind %s", got, kind)
			}
			var want []doc.Agent
			if kind == doc.Person {
				want = []doc.Agent{doc.Agent(id)}
			}
			wantPeople([]doc.Agent{doc.Agent(id)}, want...)
		}
	}
	wantError(t, s.SetKeyKind(t.Context(), "none", doc.Person), doc.ErrNotFound)
}

func keysVersion(t *testing.T, s doc.Store) {
	version := func() int64 { t.Helper(); return must[int64](t)(s.KeysVersion(t.Context())) }
	shared := newDocument("shared")
	create(t, s, shared)
	last := version()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"add", func() error { return s.AddKey(t.Context(), newKey("one")) }},
		{"add another", func() error { return s.AddKey(t.Context(), newKey("two")) }},
		{"make it a person's", func() error { return s.SetKeyKind(t.Context(), "one", doc.Person) }},
		{"revoke", func() error { return s.RevokeKey(t.Context(), "one", day) }},
		{"share", func() error { return share(t, s, shared.ID, newShare("link", shared.ID), 1) }},
		{"unshare", func() error { return unshare(t, s, shared.ID, "link", day) }},
		{"drop", func() error { _, err := s.DropShares(t.Context(), day.Add(time.Hour), 1); return err }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		now := version()
		if now == last {
			t.Errorf("%s: the version is still %d", step.name, now)
		}
		last = now
	}
	create(t, s, newDocument("plan"), posted(1)...)
	if err := s.SetKeyKind(t.Context(), "one", doc.Person); err != nil { // which it is
		t.Fatal(err)
	}
	if n := must[int](t)(s.DropShares(t.Context(), day.Add(time.Hour), 9)); n != 0 {
		t.Errorf("%d links are dropped where none are", n)
	}
	if now := version(); now != last {
		t.Errorf("what changes no key changed the version from %d to %d", last, now)
	}
}
