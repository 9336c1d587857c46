package doc_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
)

// Who has written to a document a moment ago may do so again only as long as the document stands as it did.
func TestEachWriteIsAllowedByTheDocumentsPresentStanding(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		d := w.create("# One\n")
		id, sid := d.Meta.ID, d.Sections[0].ID
		write := func(k doc.Key) error {
			_, err := w.EditSection(t.Context(), k, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: "y"}}}, nil)
			return err
		}
		named := doc.Key{Agent: "ned", Role: doc.Editor, Pattern: string(d.Meta.Slug)}
		for range 3 {
			if err := write(named); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, write(viewer("vera")), code.Forbidden)
		wantCode(t, write(doc.Key{Agent: "ned", Role: doc.Editor, Pattern: "other"}), code.Forbidden)

		renamed := doc.Slug("renamed")
		if _, err := w.Rename(t.Context(), alice, id, nil, &renamed); err != nil {
			t.Fatal(err)
		}
		wantCode(t, write(named), code.Forbidden)
		if err := write(alice); err != nil {
			t.Fatal(err)
		}

		if _, err := w.Block(t.Context(), root, id.String(), ""); err != nil {
			t.Fatal(err)
		}
		wantCode(t, write(alice), code.DocumentBlocked)
		if _, err := w.Unblock(t.Context(), root, id.String()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := write(alice); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		wantCode(t, write(alice), code.DocumentDeleted)
	})
}

// Who has a document open with a key that covers it is let go when it is given a slug that the key does not cover: they are told
// nothing more of it, and what they send is refused. All others keep it.
func TestARenameLeavesTheDocumentToThoseWhoseKeysCoverIt(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		share, _, err := w.Share(t.Context(), alice, id, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		keys := map[string]doc.Key{
			"both": {Agent: "ann", Role: doc.Editor, Pattern: "*d*"}, "any": bob, "share": share,
			"former": {Agent: "ned", Role: doc.Editor, Pattern: "d*"}, "former, to read": {Agent: "vera", Role: doc.Viewer, Pattern: "d"},
		}
		peers, mirrors := map[string]*replica{}, map[string]*mirror{}
		for name, k := range keys {
			peers[name] = w.attach(k, id, false)
			defer peers[name].at.Detach()
			peers[name].mustSettle()
			m := &mirror{t: t, sections: map[doc.SectionID]doc.Section{}}
			snap, feed, err := w.Follow(t.Context(), k, id, m)
			if err != nil {
				t.Fatal(err)
			}
			defer feed.Close()
			m.version, m.sections[sid] = snap.Version, snap.Sections[0]
			mirrors[name] = m
		}
		if _, err := w.Rename(t.Context(), alice, id, nil, new(doc.Slug("made"))); err != nil {
			t.Fatal(err)
		}
		const secret = "# A\nsecret words\n"
		if _, err := w.WriteSection(t.Context(), alice, id, sid, secret, &doc.Base{Current: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for name, k := range keys {
			if k.CanRead(w.read(id).Meta) {
				peers[name].mustSettle()
				if text, heard := peers[name].text(sid), mirrors[name].sections[sid].Text; text != secret || heard != secret {
					t.Errorf("%s: the replica has %q, the follower %q, want %q", name, text, heard, secret)
				}
				if err := errors.Join(peers[name].goneBecause(), mirrors[name].gone); err != nil {
					t.Errorf("%s was let go: %v", name, err)
				}
				continue
			}
			wantCode(t, peers[name].goneBecause(), code.Forbidden)
			wantCode(t, mirrors[name].gone, code.Forbidden)
			peers[name].typeIn(sid, 0, "written after ")
			wantCode(t, peers[name].settle(), code.Forbidden)
			if text, heard := peers[name].text(sid), mirrors[name].sections[sid].Text; strings.Contains(text+heard, "secret") {
				t.Errorf("%s: the replica has %q, the follower %q", name, text, heard)
			}
		}
		if got := w.read(id).Markdown(); got != secret {
			t.Errorf("the document is %q, want %q", got, secret)
		}
	})
}

// Who comes to a document while it is renamed is let in, or not, by what it is called then.
func TestWhoComesDuringARenameNeedsAKeyForTheNewName(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		ned := doc.Key{Agent: "ned", Role: doc.Editor, Pattern: "d*"}
		m := &mirror{t: t, sections: map[doc.SectionID]doc.Section{}}
		come := map[string]func() error{
			"replica":  func() error { _, err := w.Attach(t.Context(), ned, id, &replica{w: w}, false); return err },
			"follower": func() error { _, _, err := w.Follow(t.Context(), ned, id, m); return err },
		}
		for who, comes := range come {
			if _, err := w.Rename(t.Context(), alice, id, nil, new(doc.Slug("d"))); err != nil {
				t.Fatal(err)
			}
			w.store.looked = func() { // the store has said that it is called "d"
				w.store.looked = nil
				if _, err := w.Rename(t.Context(), alice, id, nil, new(doc.Slug("made"))); err != nil {
					t.Error(err)
				}
			}
			err := comes()
			if w.store.looked != nil {
				t.Fatalf("%s did not ask the store", who)
			}
			wantCode(t, err, code.Forbidden)
		}
	})
}
