package doc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
)

func TestHistory(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\none\n## B\nb\n")
		id, sid, other := s.Meta.ID, s.Sections[0].ID, s.Sections[1].ID
		second, err := w.WriteSection(t.Context(), bob, id, sid, "# A\ntwo\n", &doc.Base{Current: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.RemoveSection(t.Context(), bob, id, other); err != nil {
			t.Fatal(err)
		}
		if _, err := w.AddSection(t.Context(), bob, id, "c", "", "c"); err != nil {
			t.Fatal(err)
		}
		then, err := w.ReadAt(t.Context(), alice, id, s.Version)
		if err != nil || then.Markdown() != "# A\none\n## B\nb\n" || then.Version != s.Version {
			t.Errorf("the first version is %+v, %v", then, err)
		}
		u, err := w.Diff(t.Context(), alice, id, s.Version, "")
		if err != nil || len(u.Sections) != 3 || u.From != s.Version || u.To != w.read(id).Version {
			t.Fatalf("the difference is %+v, %v", u, err)
		}
		back, err := w.RevertSection(t.Context(), alice, id, sid, s.Version)
		if err != nil || back.Section.Text != "# A\none\n" {
			t.Errorf("reverted to %+v, %v", back, err)
		}
		if again, err := w.ReadAt(t.Context(), alice, id, second.Version); err != nil || again.Sections[0].Text != "# A\ntwo\n" {
			t.Errorf("what was reverted is %+v, %v", again.Sections, err)
		}
		events, next, err := w.History(t.Context(), alice, id, sid, 0, 100)
		if err != nil || next != 0 || !slices.Equal(types(events), []doc.EventType{doc.DocumentCreated, doc.SectionEdited, doc.SectionEdited}) {
			t.Errorf("the history is %v, %v", types(events), err)
		}
		page, next, err := w.History(t.Context(), alice, id, sid, 0, 2)
		if err != nil || len(page) != 2 || next != events[1].Seq {
			t.Errorf("a page of %d, next %d, %v", len(page), next, err)
		}
		if page, next, err = w.History(t.Context(), alice, id, sid, next, 2); err != nil || len(page) != 1 || next != 0 {
			t.Errorf("a page of %d, next %d, %v", len(page), next, err)
		}
		_, err = w.ReadAt(t.Context(), alice, id, "junk")
		wantCode(t, err, code.InvalidVersion)
		_, err = w.Diff(t.Context(), alice, id, s.Version, "junk")
		wantCode(t, err, code.InvalidVersion)
		_, err = w.RevertSection(t.Context(), alice, id, "c", s.Version)
		wantCode(t, err, code.InvalidVersion)
	})
}

// mirror is a follower that keeps the text.
type mirror struct {
	t        *testing.T
	mu       sync.Mutex
	version  crdt.Version
	sections map[doc.SectionID]doc.Section
	authors  []doc.Agent
	gone     error
}

func (m *mirror) Updated(_ crdt.DocumentID, u *doc.Update) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u.From != m.version {
		m.t.Errorf("an update from %s, but the mirror is at %s", u.From, m.version)
	}
	m.version = u.To
	m.authors = append(m.authors, u.Authors...)
	for _, s := range u.Sections {
		if s.Gone {
			delete(m.sections, s.ID)
			continue
		}
		section := s.Section
		if !s.Made {
			section.Text = doc.ApplyOps(m.sections[s.ID].Text, s.Ops)
		}
		m.sections[s.ID] = section
	}
	return true
}

func (m *mirror) Gone(_ crdt.DocumentID, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = why
}

func TestAMirrorHasWhatAReaderGets(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\none\n## B\nb\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		m := &mirror{t: t, sections: map[doc.SectionID]doc.Section{}}
		snap, feed, err := w.Follow(t.Context(), viewer("v"), id, m)
		if err != nil {
			t.Fatal(err)
		}
		m.version = snap.Version
		for _, s := range snap.Sections {
			m.sections[s.ID] = s
		}
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		for n := range 30 {
			switch n % 6 {
			case 0, 3:
				peer.typeIn(sid, n/3, fmt.Sprintf("é%d ", n))
				peer.mustSettle()
			case 1:
				_, err = w.AddSection(t.Context(), alice, id, doc.SectionID(fmt.Sprint("s", n)), "", "x\n")
			case 2:
				_, err = w.MoveSection(t.Context(), alice, id, doc.SectionID(fmt.Sprint("s", n-1)), sid)
			case 4:
				_, err = w.RemoveSection(t.Context(), alice, id, doc.SectionID(fmt.Sprint("s", n-3)))
			case 5:
				_, err = w.WriteSection(t.Context(), alice, id, sid, fmt.Sprintf("# A\nround %d\n", n), &doc.Base{Version: s.Version})
			}
			if err != nil {
				t.Fatal(n, err)
			}
			synctest.Wait()
			now := w.read(id)
			if m.version != now.Version || len(m.sections) != len(now.Sections)+len(now.Removed) {
				t.Fatalf("%d: the mirror has %d sections at %s", n, len(m.sections), m.version)
			}
			for _, want := range append(now.Sections, now.Removed...) {
				if got := m.sections[want.ID]; got != want {
					t.Fatalf("%d: the mirror has %+v, a reader gets %+v", n, got, want)
				}
			}
		}
		if !slices.Contains(m.authors, "alice") || !slices.Contains(m.authors, "bob") {
			t.Errorf("the authors are %v", m.authors)
		}
		peer.at.Detach()
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantCode(t, m.gone, code.DocumentDeleted)
		feed.Close()
	})
}

// Whatever changes a document, by either way, the log names the version that it made, which can be read.
func TestEachChangeIsLoggedWithItsVersion(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\none\n## B\nb\n").Meta.ID
		sections := w.read(id).Sections
		a, b := sections[0].ID, sections[1].ID
		title := "Another"
		for _, change := range []func() error{
			func() error { _, err := w.Rename(t.Context(), alice, id, &title, nil); return err },
			func() error {
				_, err := w.WriteSection(t.Context(), bob, id, a, "# A\ntwo\n", &doc.Base{Current: true})
				return err
			},
			func() error { _, err := w.AddSection(t.Context(), bob, id, "c", "", "c"); return err },
			func() error { _, err := w.MoveSection(t.Context(), bob, id, b, ""); return err },
			func() error { _, err := w.RemoveSection(t.Context(), bob, id, b); return err },
			func() error { _, err := w.RestoreSection(t.Context(), bob, id, b); return err },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			w.wantLoggedVersion(id)
		}

		peer := w.attach(bob, id, false)
		peer.mustSettle()
		set := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			peer.commit()
		}
		for _, change := range []func(){
			func() { set(peer.doc.Path("title").Set("By a replica")) },
			func() { set(peer.doc.Path("other").Set("outside")) },
			func() { peer.typeIn(a, 0, "x") },
			func() {
				set(peer.doc.Path("sections", "made").Set(map[string]any{"body": "made", "position": "9"}))
			},
			func() { set(peer.doc.Path("sections", string(a), "position").Set("8")) },
			func() { set(peer.doc.Path("sections", string(a), "removed").Set(true)) },
			func() { set(peer.doc.Path("sections", string(a), "removed").Delete()) },
		} {
			change()
			peer.mustSettle()
			time.Sleep(3 * time.Second) // what is typed is logged by then
			w.wantLoggedVersion(id)
		}
		peer.at.Detach()

		made, err := crdt.ParseDocumentID("00000000-0000-4000-8000-000000000001")
		if err != nil {
			t.Fatal(err)
		}
		peer = w.attach(bob, made, true)
		if err := peer.doc.Path("title").Set("Made by a replica"); err != nil {
			t.Fatal(err)
		}
		peer.commit()
		peer.mustSettle()
		w.wantLoggedVersion(made)
		peer.at.Detach()
	})
}

// wantLoggedVersion checks that the last event of a log names the version that the document has, and that it can be read.
func (w *world) wantLoggedVersion(id crdt.DocumentID) {
	w.t.Helper()
	events := w.log(id)
	last := events[len(events)-1]
	var p struct{ Version crdt.Version }
	if err := json.Unmarshal(last.Payload, &p); err != nil {
		w.t.Fatal(err)
	}
	present := w.read(id)
	if p.Version == "" || p.Version != present.Version {
		w.t.Errorf("%s says version %q, and the document has %q", last.Type, p.Version, present.Version)
		return
	}
	then, err := w.ReadAt(w.t.Context(), alice, id, p.Version)
	if err != nil || then.Markdown() != present.Markdown() {
		w.t.Errorf("the version of %s is %q, %v", last.Type, then.Markdown(), err)
	}
}
