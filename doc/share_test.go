package doc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/doc/sqlite"
)

// A link and its end are in the document's log, by whoever and from wherever it is ended, and once; the link's secret is not.
func TestShareLinksAreInTheLog(t *testing.T) {
	narrow := func(role doc.Role, pattern string) doc.Key {
		return doc.Key{Agent: "tom", Role: role, Pattern: pattern}
	}
	for name, c := range map[string]struct {
		end   func(w *world, ring *doc.Keyring, link doc.Key) error
		actor doc.Agent // "": it does not end
		code  code.Code // of the refusal
	}{
		"its maker":                        {end: by(alice), actor: "alice"},
		"its maker with a viewer's key":    {end: by(viewer("alice")), actor: "alice"},
		"another editor":                   {end: by(bob), code: code.Forbidden},
		"an admin":                         {end: by(root), actor: "root"},
		"an admin of some, it too":         {end: by(narrow(doc.Admin, "d*")), actor: "tom"},
		"an admin of others":               {end: by(narrow(doc.Admin, "team-*")), code: code.Forbidden},
		"an editor of it":                  {end: by(narrow(doc.Editor, "d*")), code: code.Forbidden},
		"the link itself":                  {end: func(_ *world, ring *doc.Keyring, link doc.Key) error { return by(link)(nil, ring, link) }, code: code.Forbidden},
		"its maker, twice":                 {end: twice(by(alice)), actor: "alice"},
		"an operator, beside a server":     {end: beside, actor: doc.System},
		"its maker, after it was deleted":  {end: deleted(by(alice)), actor: "alice"},
		"nobody, it ran out":               {end: later(func(*world, *doc.Keyring, doc.Key) error { return nil })},
		"its maker, after it ran out":      {end: later(by(alice))},
		"its maker, when the disk is full": {end: failing(by(alice))},
		"an admin, of a key that is not there": {end: func(_ *world, ring *doc.Keyring, _ doc.Key) error {
			return ring.RevokeFor(context.Background(), root, "none")
		}, code: code.KeyNotFound},
		"an editor, of a key that is not there": {end: func(_ *world, ring *doc.Keyring, _ doc.Key) error {
			return ring.RevokeFor(context.Background(), alice, "none")
		}, code: code.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				ring := doc.OpenKeyring(w.store, nil, nil)
				id := w.create("# A\n").Meta.ID
				link, secret, err := w.Share(t.Context(), alice, id, time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				if k, err := ring.Authenticate(t.Context(), secret); err != nil || k != link || k.Maker != "alice" || k.Document != id || k.Role != doc.Viewer {
					t.Errorf("the link is %+v, %v, want %+v", k, err, link)
				}
				err = c.end(w, ring, link)
				switch {
				case c.code != "":
					wantCode(t, err, c.code)
				case err != nil:
					t.Fatal(err)
				}
				_, err = ring.Authenticate(t.Context(), secret)
				if ended := code.Is(err, code.KeyRevoked); c.actor != "" && !ended {
					t.Errorf("the link opens the document: %v", err)
				}
				want := []doc.EventType{doc.DocumentShared}
				if c.actor != "" {
					want = append(want, doc.DocumentUnshared)
				}
				got := slices.DeleteFunc(w.stored(id), func(e doc.Event) bool { return e.Type != doc.DocumentShared && e.Type != doc.DocumentUnshared })
				if !slices.Equal(types(got), want) {
					t.Fatalf("the log says %v, want %v", types(got), want)
				}
				for i, e := range got {
					var p struct{ KeyID, Agent, Maker, ExpiresAt string }
					if err := json.Unmarshal(e.Payload, &p); err != nil {
						t.Fatal(err)
					}
					if p.KeyID != string(link.ID) || p.Agent != string(link.Agent) || p.Maker != "alice" || p.ExpiresAt != doc.FormatTime(link.ExpiresAt) {
						t.Errorf("%s says %s of %+v", e.Type, e.Payload, link)
					}
					if e.Actor != []doc.Agent{"alice", c.actor}[i] {
						t.Errorf("%s is by %s", e.Type, e.Actor)
					}
					if bytes.Contains(e.Payload, []byte(secret)) {
						t.Errorf("%s tells the key: %s", e.Type, e.Payload)
					}
				}
			})
		})
	}
}

type ending = func(w *world, ring *doc.Keyring, link doc.Key) error

func by(k doc.Key) ending {
	return func(_ *world, ring *doc.Keyring, link doc.Key) error {
		return ring.RevokeFor(context.Background(), k, link.ID)
	}
}

func twice(end ending) ending {
	return func(w *world, ring *doc.Keyring, link doc.Key) error {
		return errors.Join(end(w, ring, link), end(w, ring, link))
	}
}

func later(end ending) ending {
	return func(w *world, ring *doc.Keyring, link doc.Key) error {
		time.Sleep(time.Hour)
		return end(w, ring, link)
	}
}

func deleted(end ending) ending {
	return func(w *world, ring *doc.Keyring, link doc.Key) error {
		return errors.Join(w.Delete(context.Background(), alice, link.Document), end(w, ring, link))
	}
}

func failing(end ending) ending {
	return func(w *world, ring *doc.Keyring, link doc.Key) error {
		w.store.fail.Store(1)
		if err := end(w, ring, link); !errors.Is(err, errDisk) {
			return errors.Join(errors.New("the end of a link that is not saved is no error"), err)
		}
		return nil
	}
}

// beside ends a link as a command does that opens the data folder of a running server, and waits for the server to tell
// who watches the document.
func beside(w *world, ring *doc.Keyring, link doc.Key) error {
	ctx, stop := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { ring.Run(ctx, func(doc.KeyID) {}, func(doc.Agent) {}, func(err error) { w.t.Error(err) }) })
	defer run.Wait()
	defer stop()
	synctest.Wait()
	wake, unwatch := w.Watch(link.Document)
	defer unwatch()
	store, err := sqlite.Open(ctx, w.dir, sqlite.Options{Beside: true})
	if err != nil {
		return err
	}
	if err := errors.Join(doc.OpenKeyring(store, nil, nil).Revoke(ctx, link.ID), store.Close()); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
	select {
	case <-wake:
		return nil
	default:
		return errors.New("who watches the document was not woken")
	}
}

// stored gives all events of a document, deleted or not.
func (w *world) stored(id crdt.DocumentID) []doc.Event {
	w.t.Helper()
	events, err := w.store.Events(context.Background(), id, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// A document that was purged has no log any more; its links are ended all the same.
func TestALinkToWhatWasPurgedIsEnded(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ring := doc.OpenKeyring(w.store, nil, nil)
		id := w.create("# A\n").Meta.ID
		link, secret, err := w.Share(t.Context(), alice, id, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Purge(t.Context(), root, "d"); err != nil {
			t.Fatal(err)
		}
		if err := ring.RevokeFor(t.Context(), alice, link.ID); err != nil {
			t.Fatal(err)
		}
		_, err = ring.Authenticate(t.Context(), secret)
		wantCode(t, err, code.KeyRevoked)
	})
}

func TestADocumentHasSoManyShareLinks(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.close()
		w.limits.Shares = 2
		w.open()
		ring := doc.OpenKeyring(w.store, nil, nil)
		id := w.create("# A\n").Meta.ID
		share := func() (doc.Key, error) {
			k, _, err := w.Share(t.Context(), alice, id, time.Hour)
			return k, err
		}
		first, err := share()
		if _, second := share(); err != nil || second != nil {
			t.Fatal(err, second)
		}
		_, err = share()
		if e := wantCode(t, err, code.TooManyShares); e.Facts["limit"] != 2 {
			t.Errorf("the refusal says %v", e.Facts)
		}
		if keys, err := ring.List(t.Context()); err != nil || len(keys) != 2 {
			t.Errorf("there are the keys %v, %v", keys, err)
		}
		if err := ring.RevokeFor(t.Context(), alice, first.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := share(); err != nil {
			t.Errorf("after one was ended: %v", err)
		}
		_, _, err = w.Share(t.Context(), viewer("vera"), id, time.Hour)
		wantCode(t, err, code.Forbidden)
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		_, err = share()
		wantCode(t, err, code.DocumentDeleted)
	})
}

// Links that ended long ago leave the keys while the server runs, however many; until then their visitors are told that they
// have ended.
func TestShareLinksThatEndedAreDropped(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.close()
		w.limits.Shares = 1000
		w.open()
		id := w.create("# A\n").Meta.ID
		ring := doc.OpenKeyring(w.store, nil, nil)
		const many = 300 // more than are dropped at once
		for range many {
			if _, _, err := w.Share(t.Context(), alice, id, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		_, secret, err := w.Share(t.Context(), alice, id, 31*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ring.Create(t.Context(), doc.Key{Agent: "ada", Role: doc.Editor, ExpiresAt: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		left := func(want int) {
			t.Helper()
			synctest.Wait()
			if keys, err := ring.List(t.Context()); err != nil || len(keys) != want {
				t.Errorf("there are %d keys, %v, want %d", len(keys), err, want)
			}
		}
		time.Sleep(doc.SharesKept + 2*time.Minute)
		left(many + 2)
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { ring.Run(ctx, func(doc.KeyID) {}, func(doc.Agent) {}, func(err error) { t.Error(err) }) })
		left(2) // a key of an agent stays
		_, err = ring.Authenticate(t.Context(), secret)
		wantCode(t, err, code.KeyRevoked)
		time.Sleep(time.Hour)
		left(1)
		_, err = ring.Authenticate(t.Context(), secret)
		wantCode(t, err, code.Unauthorized)
		stop()
		run.Wait()
	})
}
