package doc_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

// deletedSlugs reads all that a key may restore, in pages of two.
func (w *world) deletedSlugs(k doc.Key) (slugs []doc.Slug) {
	w.t.Helper()
	for behind := (doc.DeletedPlace{}); ; {
		page, next, err := w.Deleted(context.Background(), k, behind, 2)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, m := range page {
			slugs = append(slugs, m.Slug)
		}
		if next == (doc.DeletedPlace{}) {
			return slugs
		}
		if behind, err = doc.ParseDeletedPlace(next.String()); err != nil || !behind.At.Equal(next.At) || behind.Number != next.Number {
			w.t.Fatalf("the place %q reads back as %+v, %v", next, behind, err)
		}
	}
}

// A document that was deleted is back as it was, also after a crash: its text, log, slug and share links, and what a replica
// wrote meanwhile. Its leases stay ended.
func TestADeletedDocumentIsRestored(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		d := w.create("# One\n")
		sid, id := d.Sections[0].ID, d.Meta.ID
		if _, err := w.Rename(ctx, alice, id, nil, new(doc.Slug("e"))); err != nil {
			t.Fatal(err)
		}
		guest := doc.Key{Agent: "guest", Role: doc.Viewer, Pattern: "*", Document: id}
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		r := doc.SectionResource(id, sid)
		if _, err := w.keeper.Do(ctx, lease.Acquire{Resource: r, Agent: "bob", Duration: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if err := w.Delete(ctx, alice, id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantCode(t, peer.goneBecause(), code.DocumentDeleted)
		peer.at.Detach()
		w.crash()
		var back []crdt.DocumentID
		w.OnCreated(func(m doc.Meta) { back = append(back, m.ID) })

		listed, next, err := w.Deleted(ctx, bob, doc.DeletedPlace{}, 10)
		if err != nil || len(listed) != 1 || listed[0].ID != id || listed[0].Deletion.By != "alice" || !listed[0].Deletion.At.Equal(time.Now()) || next != (doc.DeletedPlace{}) {
			t.Fatalf("deleted are %+v, %v, %v", listed, next, err)
		}
		for _, k := range []doc.Key{viewer("v"), guest, {Agent: "tom", Role: doc.Editor, Pattern: "team-*"}} {
			_, err := w.Restore(ctx, k, "e")
			wantCode(t, err, code.Forbidden)
			if slugs := w.deletedSlugs(k); slugs != nil {
				t.Errorf("%s may not restore %v, but sees it", k.Agent, slugs)
			}
		}
		_, err = w.Restore(ctx, alice, "none")
		wantCode(t, err, code.DocumentNotFound)
		for _, slug := range []doc.Slug{"d", "e"} { // nobody takes its names meanwhile
			_, err = w.Create(ctx, bob, doc.NewDocument{Slug: slug})
			wantCode(t, err, code.SlugTaken)
		}

		peer.typeIn(sid, 0, "Still here. ")
		for _, ref := range []string{"d", "e"} { // the second finds it back already
			m, err := w.Restore(ctx, bob, ref)
			if err != nil || m.ID != id || m.Slug != "e" || m.Deletion != (doc.Deletion{}) {
				t.Fatalf("restored: %+v, %v", m, err)
			}
		}
		if !slices.Equal(back, []crdt.DocumentID{id}) {
			t.Errorf("who waits was told of %v", back)
		}
		w.crash()
		again := w.attach(bob, id, false)
		again.doc, again.sync = peer.doc, automerge.NewSyncState(peer.doc)
		again.mustSettle()
		again.at.Detach()
		if _, err := w.Read(ctx, guest, id); err != nil {
			t.Errorf("with the share link of before: %v", err)
		}
		if got := w.read(id).Markdown(); got != "Still here. # One\n" {
			t.Errorf("the document is %q", got)
		}
		if held := w.keeper.Status(r).Holders; len(held) != 0 {
			t.Errorf("its lease is back: %+v", held)
		}
		if docs, _, err := w.List(ctx, alice, 0, 10); err != nil || len(docs) != 1 || w.deletedSlugs(alice) != nil {
			t.Errorf("listed are %+v, %v, deleted %v", docs, err, w.deletedSlugs(alice))
		}
		time.Sleep(3 * time.Second) // the fold's window
		want := []doc.EventType{
			doc.DocumentCreated, doc.DocumentRenamed, doc.SectionLeased, doc.SectionLeaseEnded, doc.DocumentDeleted, doc.DocumentRestored, doc.SectionEdited,
		}
		if log := types(w.log(id)); !slices.Equal(log, want) {
			t.Errorf("the log is %v, want %v", log, want)
		}
		if err := w.Delete(ctx, bob, id); err != nil {
			t.Errorf("deleted again: %v", err)
		}
	})
}

// Who restores and deletes one document at the same time as others does it as if one after the other.
func TestRestoringAtOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		id := w.create("# One\n").Meta.ID
		for range 10 {
			if err := w.Delete(ctx, alice, id); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for _, k := range []doc.Key{alice, bob, root} {
				all.Go(func() {
					if _, err := w.Restore(ctx, k, "d"); err != nil {
						t.Errorf("restored by %s: %v", k.Agent, err)
					}
				})
			}
			all.Wait()
		}
		want := []doc.EventType{doc.DocumentCreated}
		for range 10 {
			want = append(want, doc.DocumentDeleted, doc.DocumentRestored)
		}
		if log := types(w.log(id)); !slices.Equal(log, want) {
			t.Errorf("the log is %v, want %v", log, want)
		}
	})
}

func TestTheListOfWhatIsDeleted(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		var order []doc.Slug
		for _, slug := range []doc.Slug{"team-a", "b", "team-c", "d", "team-e", "lives"} {
			s, err := w.Create(ctx, root, doc.NewDocument{Slug: slug})
			if err != nil {
				t.Fatal(err)
			}
			if slug == "lives" {
				break
			}
			time.Sleep(time.Millisecond)
			if err := w.Delete(ctx, root, s.Meta.ID); err != nil {
				t.Fatal(err)
			}
			order = append([]doc.Slug{slug}, order...)
		}
		if got := w.deletedSlugs(alice); !slices.Equal(got, order) {
			t.Errorf("deleted are %v, want %v", got, order)
		}
		team := doc.Key{Agent: "tom", Role: doc.Editor, Pattern: "team-*"}
		if got, want := w.deletedSlugs(team), []doc.Slug{"team-e", "team-c", "team-a"}; !slices.Equal(got, want) {
			t.Errorf("of the team's %v are deleted, want %v", got, want)
		}
		for _, bad := range []string{"x", "1", "1-", "-1", "1-0", "1--1", "9223372036854775808-1", "1-1-1"} {
			_, err := doc.ParseDeletedPlace(bad)
			wantCode(t, err, code.InvalidCursor)
		}
	})
}

// What is purged is gone for good, also after a crash: nobody restores it, its id is refused to replicas that still have it, and
// its slug is another document's to take.
func TestADeletedDocumentIsPurged(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		d := w.create("# One\n")
		id, sid := d.Meta.ID, d.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		_, err := w.Purge(ctx, root, "d")
		wantCode(t, err, code.NotDeleted)
		if err := w.Delete(ctx, alice, id); err != nil {
			t.Fatal(err)
		}
		peer.at.Detach()
		for _, k := range []doc.Key{viewer("v"), alice, {Agent: "tom", Role: doc.Admin, Pattern: "team-*"}} {
			_, err := w.Purge(ctx, k, "d")
			wantCode(t, err, code.Forbidden)
		}
		_, err = w.Purge(ctx, root, "none")
		wantCode(t, err, code.DocumentNotFound)
		for _, ref := range []string{"d", id.String()} { // the second finds it done
			m, err := w.Purge(ctx, root, ref)
			if err != nil || m.ID != id || m.Slug != "" || m.Purge.By != "root" || !m.Purge.At.Equal(time.Now()) || m.Deletion.By != "alice" {
				t.Fatalf("purged %+v, %v", m, err)
			}
		}
		refused := func(err error) {
			t.Helper()
			if refusal := wantCode(t, err, code.DocumentDeleted); refusal.Facts["purgedBy"] != doc.Agent("root") || refusal.Facts["purgedAt"] == "" {
				t.Errorf("the refusal says %v", refusal.Facts)
			}
		}
		for range 2 {
			_, err = w.Attach(ctx, bob, id, peer, true)
			refused(err)
			_, err = w.Read(ctx, alice, id)
			refused(err)
			_, _, err = w.Events(ctx, alice, id, 1, 10) // nor the rest of the log for who had begun to read it
			refused(err)
			_, err = w.WriteSection(ctx, alice, id, sid, "# Back\n", &doc.Base{Current: true})
			refused(err)
			_, err = w.Restore(ctx, root, id.String())
			refused(err)
			_, err = w.Restore(ctx, root, "d")
			wantCode(t, err, code.DocumentNotFound)
			if slugs := w.deletedSlugs(root); slugs != nil {
				t.Errorf("it may still be restored: %v", slugs)
			}
			w.crash()
		}
		again := w.create("# Another\n")
		if got := w.read(again.Meta.ID).Markdown(); again.Meta.ID == id || got != "# Another\n" {
			t.Errorf("under its slug stands %q", got)
		}
		refused(w.Delete(ctx, alice, id))
	})
}

// A compaction under way when a document is deleted has ended before the document is purged.
func TestAPurgeWaitsForTheCompaction(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		saver := w.saveSlowly()
		s := w.create("# A\n")
		peer := w.typed(s.Meta.ID, s.Sections[0].ID, 1023) // and begins
		if err := w.Delete(t.Context(), alice, s.Meta.ID); err != nil {
			t.Fatal(err)
		}
		peer.at.Detach()
		if _, err := w.Purge(t.Context(), root, "d"); err != nil {
			t.Fatal(err)
		}
		if saver.saved.Load() != 1 {
			t.Errorf("%d compactions have ended", saver.saved.Load())
		}
	})
}

// Of several who restore and purge a document at once, each does it as if one after the other.
func TestRestoringAndPurgingAtOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for range 20 {
			id := w.create("# One\n").Meta.ID
			if err := w.Delete(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			var restored, purged error
			all.Go(func() { _, restored = w.Restore(t.Context(), bob, id.String()) })
			all.Go(func() { _, purged = w.Purge(t.Context(), root, id.String()) })
			all.Wait()
			if purged == nil {
				wantCode(t, restored, code.DocumentDeleted)
				continue
			}
			wantCode(t, purged, code.NotDeleted)
			if restored != nil || w.read(id).Markdown() != "# One\n" {
				t.Errorf("restored with %v", restored)
			}
			if err := w.Delete(t.Context(), alice, id); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Purge(t.Context(), root, id.String()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
