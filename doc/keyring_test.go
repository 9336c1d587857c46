package doc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/doc/sqlite"
)

func TestKeys(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ring := doc.OpenKeyring(w.store, nil, nil)
		k, secret, err := ring.Create(t.Context(), doc.Key{Agent: "ada", Role: doc.Editor})
		if err != nil || k.Pattern != "*" || !strings.HasPrefix(string(secret), "cw_") || len(secret) != 46 {
			t.Fatal(k, secret, err)
		}
		if got, err := ring.Authenticate(t.Context(), secret); err != nil || got != k {
			t.Errorf("authenticated as %+v, %v", got, err)
		}
		signIn := func() error {
			k, err := ring.Authenticate(t.Context(), secret)
			return errors.Join(err, ring.SignedIn(t.Context(), k))
		}
		setBack := func() error {
			set, err := ring.SetKind(t.Context(), k.ID, doc.Program)
			if set != k {
				t.Errorf("set back it is %+v, want %+v", set, k)
			}
			return err
		}
		for n, step := range []struct {
			do   func() error
			kind doc.Kind
		}{{setBack, doc.Program}, {signIn, doc.Person}, {signIn, doc.Person}, {setBack, doc.Program}, {signIn, doc.Person}} {
			if err := step.do(); err != nil {
				t.Error(err)
			}
			if got, err := ring.Authenticate(t.Context(), secret); err != nil || got.Kind != step.kind {
				t.Errorf("after step %d it is of kind %q, %v, want %q", n, got.Kind, err, step.kind)
			}
		}
		_, err = ring.SetKind(t.Context(), k.ID, "")
		wantCode(t, err, code.BadRequest)
		_, err = ring.SetKind(t.Context(), "nobody's", doc.Person)
		wantCode(t, err, code.KeyNotFound)
		k.Kind = doc.Person
		_, err = ring.Authenticate(t.Context(), secret+"x")
		wantCode(t, err, code.Unauthorized)
		own, err := ring.Import(t.Context(), doc.Key{Agent: "op", Role: doc.Admin}, "a secret of my own")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ring.Import(t.Context(), doc.Key{Agent: "other", Role: doc.Viewer}, "a secret of my own"); err != nil || again != own {
			t.Errorf("the same secret again gives %+v, %v", again, err)
		}
		for _, bad := range []doc.Key{
			{Agent: "", Role: doc.Editor}, {Agent: "System", Role: doc.Editor}, {Agent: "system", Role: doc.Editor}, {Agent: "-a", Role: doc.Editor},
			{Agent: doc.Agent(strings.Repeat("a", 64)), Role: doc.Editor}, {Agent: "a", Role: "owner"}, {Agent: "a", Role: doc.Editor, Pattern: "A/*"},
		} {
			if _, _, err := ring.Create(t.Context(), bad); err == nil || code.From(err).Entry().HTTP != 400 {
				t.Errorf("%+v is taken: %v", bad, err)
			}
		}
		if err := ring.Revoke(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		_, err = ring.Authenticate(t.Context(), secret)
		wantCode(t, err, code.KeyRevoked)
		wantCode(t, ring.Revoke(t.Context(), "nobody's"), code.KeyNotFound)
		if keys, err := ring.List(t.Context()); err != nil || len(keys) != 2 || keys[0].ID != k.ID {
			t.Errorf("listed %+v, %v", keys, err)
		}
	})
}

func TestEndedKeysAreNoticedWithinHalfASecond(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ring := doc.OpenKeyring(w.store, nil, nil)
		make := func(agent doc.Agent, lasts time.Duration) doc.KeyID {
			t.Helper()
			k := doc.Key{Agent: agent, Role: doc.Editor}
			if lasts > 0 {
				k.ExpiresAt = time.Now().Add(lasts)
			}
			k, _, err := ring.Create(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			return k.ID
		}
		first, second, short, gone := make("ada", 0), make("ada", 0), make("bob", 10*time.Second), make("cyd", 0)
		if err := ring.Revoke(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		var (
			mu      sync.Mutex
			ended   []doc.KeyID
			retired []doc.Agent
		)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			ring.Run(ctx, func(id doc.KeyID) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, id)
			}, func(a doc.Agent) {
				mu.Lock()
				defer mu.Unlock()
				retired = append(retired, a)
			}, func(err error) { t.Error(err) })
		})
		expect := func(ids []doc.KeyID, agents []doc.Agent) {
			t.Helper()
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(ended, ids) || !slices.Equal(retired, agents) {
				t.Fatalf("ended %v, retired %v, want %v and %v", ended, retired, ids, agents)
			}
		}
		expect(nil, nil) // what had ended before is not reported

		beside, err := sqlite.Open(context.Background(), w.dir, sqlite.Options{Beside: true}) // as another process does
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.OpenKeyring(beside, nil, nil).Revoke(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if err := beside.Close(); err != nil {
			t.Fatal(err)
		}
		expect([]doc.KeyID{first}, nil)
		if err := ring.Revoke(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		expect([]doc.KeyID{first, second}, []doc.Agent{"ada"})
		time.Sleep(9 * time.Second)
		expect([]doc.KeyID{first, second, short}, []doc.Agent{"ada", "bob"})
		brief := make("dan", 0) // may have opened a socket, though no look at the keys ever saw it live
		if err := ring.Revoke(t.Context(), brief); err != nil {
			t.Fatal(err)
		}
		expect([]doc.KeyID{first, second, short, brief}, []doc.Agent{"ada", "bob", "dan"})
		stop()
		run.Wait()
	})
}

func TestWhatAKeyCovers(t *testing.T) {
	shared := crdt.DocumentID{1}
	for _, tt := range []struct {
		name        string
		key         doc.Key
		meta        doc.Meta
		read, write bool
	}{
		{"all", doc.Key{Role: doc.Editor, Pattern: "*"}, doc.Meta{Slug: "a"}, true, true},
		{"all, without a slug", doc.Key{Role: doc.Editor, Pattern: "*"}, doc.Meta{}, true, true},
		{"a viewer", doc.Key{Role: doc.Viewer, Pattern: "*"}, doc.Meta{Slug: "a"}, true, false},
		{"an admin", doc.Key{Role: doc.Admin, Pattern: "*"}, doc.Meta{Slug: "a"}, true, true},
		{"within", doc.Key{Role: doc.Editor, Pattern: "team-*"}, doc.Meta{Slug: "team-a"}, true, true},
		{"without", doc.Key{Role: doc.Editor, Pattern: "team-*"}, doc.Meta{Slug: "a-team-a"}, false, false},
		{"a pattern, no slug", doc.Key{Role: doc.Editor, Pattern: "**"}, doc.Meta{}, false, false},
		{"an admin of some", doc.Key{Role: doc.Admin, Pattern: "team-*"}, doc.Meta{Slug: "b"}, false, false},
		{"shared", doc.Key{Role: doc.Viewer, Pattern: "*", Document: shared}, doc.Meta{ID: shared, Slug: "a"}, true, false},
		{"shared, another", doc.Key{Role: doc.Viewer, Pattern: "*", Document: shared}, doc.Meta{ID: crdt.DocumentID{2}, Slug: "a"}, false, false},
	} {
		if read, write := tt.key.CanRead(tt.meta), tt.key.CanWrite(tt.meta); read != tt.read || write != tt.write {
			t.Errorf("%s: reads %v, writes %v, want %v and %v", tt.name, read, write, tt.read, tt.write)
		}
	}
}

func TestNamesThatAreNone(t *testing.T) {
	for _, s := range []string{"", "-a", "A", "a b", "a/b", "a%2fb", "..", "a:b", "*", "é", strings.Repeat("a", 65), "a\x00"} {
		if _, err := doc.ParseSlug(s); !code.Is(err, code.InvalidSlug) {
			t.Errorf("slug %q: %v", s, err)
		}
		if _, err := doc.ParseSectionID(s); !code.Is(err, code.InvalidSectionID) {
			t.Errorf("section id %q: %v", s, err)
		}
		if _, ok := strings.CutPrefix(s, "did:"); !ok {
			if _, _, ok := doc.ParseSectionResource(doc.SectionResource(crdt.DocumentID{}, doc.SectionID(s))); ok {
				t.Errorf("section resource of %q", s)
			}
		}
	}
	if a, err := doc.ParseAgent("did:cowrite:ada"); err != nil || a != "ada" {
		t.Errorf("a DID is %q, %v", a, err)
	}
	if id, sid, ok := doc.ParseSectionResource(doc.SectionResource(crdt.DocumentID{7}, "intro")); !ok || id != (crdt.DocumentID{7}) || sid != "intro" {
		t.Errorf("a section's resource reads back as %s, %s, %v", id, sid, ok)
	}
}
