package doc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

func wantCode(t *testing.T, err error, want code.Code) *code.Error {
	t.Helper()
	if !code.Is(err, want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	return code.From(err)
}

func TestWhatIsImportedIsExported(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for i, markdown := range []string{
			"", "no heading", "# A\r\n\r\ntext\r\n## B", "---\na: b\n---\n\n# X\n```\n# y\n```\n\nTwo\n---\nend\n", "\ufeff# B\n\n\n", "# 日本\n👩‍👧\n## e\u0301\n",
		} {
			s, err := w.Create(t.Context(), alice, doc.NewDocument{Markdown: markdown})
			if err != nil {
				t.Fatal(err)
			}
			if got := w.read(s.Meta.ID).Markdown(); got != markdown {
				t.Errorf("%d: exported %q, want %q", i, got, markdown)
			}
		}
		w.crash()
		docs, next, err := w.List(t.Context(), alice, 0, 4)
		if err != nil || len(docs) != 4 || next == 0 {
			t.Fatalf("listed %d, next %d, %v", len(docs), next, err)
		}
		rest, next, err := w.List(t.Context(), alice, next, 4)
		if err != nil || len(rest) != 2 || next != 0 {
			t.Fatalf("listed %d more, next %d, %v", len(rest), next, err)
		}
		if got := w.read(rest[0].ID).Markdown(); got != "no heading" {
			t.Errorf("after a crash the second document is %q", got)
		}
	})
}

func TestAPageOfNothingIsEmpty(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		if docs, next, err := w.List(t.Context(), alice, 0, 0); len(docs) > 0 || next != 0 || err != nil {
			t.Errorf("listed %v, next %d, %v", docs, next, err)
		}
		if docs, err := w.Largest(t.Context(), 0); len(docs) > 0 || err != nil {
			t.Errorf("the largest are %v, %v", docs, err)
		}
		if events, more, err := w.Events(t.Context(), alice, id, 0, 0); len(events) > 0 || !more || err != nil {
			t.Errorf("events %v, more %t, %v", events, more, err)
		}
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		if docs, next, err := w.Deleted(t.Context(), alice, doc.DeletedPlace{}, 0); len(docs) > 0 || next != (doc.DeletedPlace{}) || err != nil {
			t.Errorf("deleted are %v, next %v, %v", docs, next, err)
		}
	})
}

func TestAWriteNeedsItsBase(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\none\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		_, err := w.WriteSection(t.Context(), bob, id, sid, "two", nil)
		refusal := wantCode(t, err, code.BaseRequired)
		if refusal.Facts["version"] != s.Version || refusal.Facts["text"] != "# A\none\n" {
			t.Errorf("the refusal says %v", refusal.Facts)
		}
		written, err := w.WriteSection(t.Context(), bob, id, sid, "", &doc.Base{Current: true})
		if err != nil || written.Section.Text != "" {
			t.Fatal(written, err)
		}
		if written, err = w.WriteSection(t.Context(), bob, id, sid, "# B\n", nil); err != nil || written.Merged || written.Section.Heading != "B" {
			t.Fatalf("a base was asked for where nothing could be lost: %+v, %v", written, err)
		}
		other, err := w.Create(t.Context(), alice, doc.NewDocument{Markdown: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []crdt.Version{"", "junk", other.Version} {
			_, err := w.WriteSection(t.Context(), bob, id, sid, "y", &doc.Base{Version: version})
			wantCode(t, err, code.InvalidVersion)
		}
		added, err := w.AddSection(t.Context(), bob, id, "new", "", "n")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.WriteSection(t.Context(), bob, id, "new", "n2", &doc.Base{Version: s.Version})
		wantCode(t, err, code.InvalidVersion)
		if got := w.read(id); got.Version != added.Version || got.Markdown() != "# B\nn" {
			t.Errorf("refused writes changed the document to %q", got.Markdown())
		}
	})
}

func TestAWriteOnAnOldVersionKeepsWhatOthersWrote(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# T\nthe quick brown fox jumps\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		if _, err := w.WriteSection(t.Context(), alice, id, sid, "# T\nthe quick red fox jumps\nand more\n", &doc.Base{Version: s.Version}); err != nil {
			t.Fatal(err)
		}
		written, err := w.WriteSection(t.Context(), bob, id, sid, "# T\nthe slow brown fox leaps\n", &doc.Base{Version: s.Version})
		if err != nil {
			t.Fatal(err)
		}
		if want := "# T\nthe slow red fox leaps\nand more\n"; written.Section.Text != want || !written.Merged {
			t.Errorf("got %q (merged %v), want %q", written.Section.Text, written.Merged, want)
		}
	})
}

// Eight writers replace the whole text on stale bases, each adding words of its own: every word is there at the
// end, once.
func TestNobodysWordsAreLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# T\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		const writers, rounds = 8, 12
		var wg sync.WaitGroup
		for a := range writers {
			wg.Go(func() {
				key := editor(fmt.Sprintf("agent-%d", a))
				text, version := "# T\n", s.Version
				for n := range rounds {
					lines := strings.SplitAfter(text, "\n")
					at := (a*7 + n*3) % len(lines)
					mine := slices.Insert(lines, at, fmt.Sprintf("w%dx%d\n", a, n))
					got, err := w.WriteSection(t.Context(), key, id, sid, strings.Join(mine, ""), &doc.Base{Version: version})
					if err != nil {
						t.Error(err)
						return
					}
					if n%3 == 0 { // else the base grows stale
						text, version = got.Section.Text, got.Version
					}
				}
			})
		}
		wg.Wait()
		text := w.read(id).Markdown()
		for a := range writers {
			for n := range rounds {
				if got := strings.Count(text, fmt.Sprintf("w%dx%d\n", a, n)); got != 1 {
					t.Errorf("word %d of agent %d is there %d times", n, a, got)
				}
			}
		}
		if got := len(w.log(id)); got != 1+writers*rounds {
			t.Errorf("the log has %d events, want %d", got, 1+writers*rounds)
		}
	})
}

func TestSectionsMoveAndAreRemovedAndRestored(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		add := func(sid, after doc.SectionID) {
			t.Helper()
			if _, err := w.AddSection(t.Context(), alice, id, sid, after, string(sid)+";"); err != nil {
				t.Fatal(err)
			}
		}
		add("b", "")
		add("c", "")
		add("d", "b")
		order := func(want string) {
			t.Helper()
			if got := w.read(id).Markdown(); got != want {
				t.Fatalf("the document is %q, want %q", got, want)
			}
		}
		order("# A\nb;d;c;")
		if _, err := w.MoveSection(t.Context(), alice, id, "c", ""); err != nil {
			t.Fatal(err)
		}
		order("c;# A\nb;d;")
		if _, err := w.MoveSection(t.Context(), alice, id, "b", "d"); err != nil {
			t.Fatal(err)
		}
		order("c;# A\nd;b;")
		if _, err := w.RemoveSection(t.Context(), alice, id, "d"); err != nil {
			t.Fatal(err)
		}
		order("c;# A\nb;")
		if _, err := w.WriteSection(t.Context(), alice, id, "d", "d2;", &doc.Base{Current: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.RestoreSection(t.Context(), alice, id, "d"); err != nil {
			t.Fatal(err)
		}
		order("c;# A\nd2;b;")
		if _, err := w.RestoreSection(t.Context(), alice, id, "d"); err != nil {
			t.Fatal(err) // once more does nothing
		}
		_, err := w.AddSection(t.Context(), alice, id, "d", "", "x")
		wantCode(t, err, code.SectionExists)
		_, err = w.AddSection(t.Context(), alice, id, "e", "nowhere", "x")
		wantCode(t, err, code.SectionNotFound)
		_, err = w.MoveSection(t.Context(), alice, id, "nowhere", "")
		wantCode(t, err, code.SectionNotFound)
		_, err = w.MoveSection(t.Context(), alice, id, "d", "d")
		wantCode(t, err, code.BadRequest)
		want := []doc.EventType{
			doc.DocumentCreated, doc.SectionCreated, doc.SectionCreated, doc.SectionCreated, doc.SectionMoved, doc.SectionMoved,
			doc.SectionRemoved, doc.SectionEdited, doc.SectionRestored,
		}
		if got := types(w.log(id)); !slices.Equal(got, want) {
			t.Errorf("the log says %v, want %v", got, want)
		}
	})
}

func TestSlugs(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id := s.Meta.ID
		_, err := w.Create(t.Context(), alice, doc.NewDocument{Slug: "d"})
		wantCode(t, err, code.SlugTaken)
		m, err := w.Rename(t.Context(), alice, id, new("Title"), new(doc.Slug("e")))
		if err != nil || m.Slug != "e" || m.Title != "Title" {
			t.Fatal(m, err)
		}
		for _, ref := range []string{"d", "e", id.String(), id.UUID(), id.URL()} {
			if m, err := w.Find(t.Context(), alice, ref); err != nil || m.Slug != "e" {
				t.Errorf("%q leads to %+v, %v", ref, m, err)
			}
		}
		_, err = w.Create(t.Context(), alice, doc.NewDocument{Slug: "d"})
		wantCode(t, err, code.SlugTaken)
		other, err := w.Create(t.Context(), alice, doc.NewDocument{Title: "Été 2026!"})
		if err != nil || !strings.HasPrefix(string(other.Meta.Slug), "t-2026-") {
			t.Errorf("the made slug is %q, %v", other.Meta.Slug, err)
		}
		_, err = w.Rename(t.Context(), alice, other.Meta.ID, nil, new(doc.Slug("d")))
		wantCode(t, err, code.SlugTaken)
		narrow := doc.Key{Agent: "n", Role: doc.Editor, Pattern: "team-*"}
		_, err = w.Find(t.Context(), narrow, "e")
		wantCode(t, err, code.Forbidden)
		_, err = w.Create(t.Context(), narrow, doc.NewDocument{Slug: "other"})
		wantCode(t, err, code.Forbidden)
		if _, err = w.Create(t.Context(), narrow, doc.NewDocument{Slug: "team-a"}); err != nil {
			t.Error(err)
		}
		if docs, _, err := w.List(t.Context(), narrow, 0, 10); err != nil || len(docs) != 1 {
			t.Errorf("a narrow key lists %d documents, %v", len(docs), err)
		}
		if got := w.read(id).Meta.Title; got != "Title" {
			t.Errorf("the title is %q", got)
		}
	})
}

func TestADeletedDocumentIsATombstone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		r := doc.SectionResource(id, sid)
		if _, err := w.keeper.Do(t.Context(), lease.Acquire{Resource: r, Agent: "bob", Duration: time.Minute}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, w.Delete(t.Context(), viewer("v"), id), code.Forbidden)
		read := doc.Seq(len(w.log(id)))
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		rest, more, err := w.Events(t.Context(), alice, id, read, 10)
		if err != nil || more || !slices.Equal(types(rest), []doc.EventType{doc.SectionLeaseEnded, doc.DocumentDeleted}) {
			t.Errorf("who had read the log before reads on to %v, %v", types(rest), err)
		}
		for _, since := range []doc.Seq{0, rest[1].Seq} {
			_, _, err = w.Events(t.Context(), alice, id, since, 10)
			wantCode(t, err, code.DocumentDeleted)
		}
		peer.at.Detach()
		wantCode(t, peer.goneBecause(), code.DocumentDeleted)
		if held := w.keeper.Status(r).Holders; len(held) != 0 {
			t.Errorf("a lease outlived its document: %+v", held)
		}
		for range 2 {
			_, err := w.Find(t.Context(), alice, "d")
			wantCode(t, err, code.DocumentDeleted)
			_, err = w.WriteSection(t.Context(), alice, id, sid, "x", &doc.Base{Current: true})
			wantCode(t, err, code.DocumentDeleted)
			_, err = w.Attach(t.Context(), alice, id, peer, true)
			wantCode(t, err, code.DocumentDeleted)
			_, err = w.Create(t.Context(), alice, doc.NewDocument{Slug: "d"})
			wantCode(t, err, code.SlugTaken)
			w.crash()
		}
	})
}

func TestAWriteIntoSomebodysSectionIsMergedAndLogged(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		granted, err := w.keeper.Do(t.Context(), lease.Acquire{Resource: doc.SectionResource(id, sid), Agent: "alice", Duration: time.Minute, Reason: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		written, err := w.WriteSection(t.Context(), bob, id, sid, "# A\nbob\n", &doc.Base{Version: s.Version})
		if err != nil || written.Section.Text != "# A\nbob\n" {
			t.Fatal(written, err)
		}
		if a := written.Advisory; a == nil || a.Holder != "alice" || a.ID != granted.Lease.ID {
			t.Errorf("the advice is %+v", a)
		}
		if written, err = w.WriteSection(t.Context(), alice, id, sid, "# A\nalice\n", &doc.Base{Current: true}); err != nil || written.Advisory != nil {
			t.Errorf("the holder is advised %+v, %v", written.Advisory, err)
		}
		events := w.log(id)
		want := []doc.EventType{doc.DocumentCreated, doc.SectionLeased, doc.SectionEdited, doc.SectionLeaseOverridden, doc.SectionEdited}
		if !slices.Equal(types(events), want) {
			t.Fatalf("the log says %v, want %v", types(events), want)
		}
		var p struct{ SectionID, By, Holder, LeaseID string }
		if err := json.Unmarshal(events[3].Payload, &p); err != nil {
			t.Fatal(err)
		}
		if p.By != "bob" || p.Holder != "alice" || p.LeaseID != string(granted.Lease.ID) || p.SectionID != string(sid) {
			t.Errorf("the override says %+v", p)
		}
	})
}

func TestTheHoldersWritesRenewItsLease(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		r := doc.SectionResource(id, sid)
		if _, err := w.keeper.Do(t.Context(), lease.Acquire{Resource: r, Agent: "alice", Duration: time.Minute}); err != nil {
			t.Fatal(err)
		}
		left := func() time.Duration {
			return w.keeper.Status(r).Holders[0].ExpiresAt.Sub(w.keeper.Now()).Round(time.Second)
		}
		write := func(text string) {
			t.Helper()
			if _, err := w.WriteSection(t.Context(), alice, id, sid, text, &doc.Base{Current: true}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		write("a")
		if got := left(); got != 50*time.Second {
			t.Errorf("a write in the first third left %v, want 50s", got)
		}
		time.Sleep(30 * time.Second)
		write("b")
		if got := left(); got != time.Minute {
			t.Errorf("a later write left %v, want 1m0s", got)
		}
		peer := w.attach(alice, id, false)
		peer.mustSettle()
		time.Sleep(50 * time.Second)
		peer.typeIn(sid, 0, "c")
		peer.mustSettle()
		if got := left(); got != time.Minute {
			t.Errorf("a replica's write left %v, want 1m0s", got)
		}
		peer.at.Detach()
	})
}

func TestReplicasAgreeWithTheServer(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		a, b := w.attach(alice, id, false), w.attach(bob, id, false)
		a.mustSettle()
		b.mustSettle()
		for n := range 20 {
			a.typeIn(sid, 0, fmt.Sprintf("a%d ", n))
			b.typeIn(sid, 0, fmt.Sprintf("b%d ", n))
			if n%4 == 0 {
				if _, err := w.WriteSection(t.Context(), editor("carol"), id, sid, w.read(id).Sections[0].Text+fmt.Sprintf("c%d ", n), &doc.Base{Current: true}); err != nil {
					t.Fatal(err)
				}
			}
			a.mustSettle()
			b.mustSettle()
		}
		text := w.read(id).Sections[0].Text // by the desk, once it has told the peers
		a.mustSettle()
		b.mustSettle()
		if a.text(sid) != text || b.text(sid) != text || len(strings.Fields(text)) != 2+45 {
			t.Errorf("the server has %q, the replicas %q and %q", text, a.text(sid), b.text(sid))
		}
		a.at.Detach()
		b.at.Detach()
		b.at.Detach()
	})
}

func TestAReplicasTypingIsFolded(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		for range 10 {
			peer.typeIn(sid, 0, "x")
			peer.mustSettle()
			time.Sleep(100 * time.Millisecond)
		}
		if got := len(w.log(id)); got != 1 {
			t.Errorf("%d events before the window is over, want 1", got)
		}
		time.Sleep(2 * time.Second)
		events := w.log(id)
		if !slices.Equal(types(events), []doc.EventType{doc.DocumentCreated, doc.SectionEdited}) {
			t.Fatalf("the log says %v", types(events))
		}
		var p struct {
			SectionID string
			Changes   int
			Hashes    []string
			Via       string
		}
		if err := json.Unmarshal(events[1].Payload, &p); err != nil {
			t.Fatal(err)
		}
		if events[1].Actor != "bob" || p.SectionID != string(sid) || p.Changes != 10 || len(p.Hashes) != 10 || p.Via != "sync" {
			t.Errorf("the fold says %s by %s", events[1].Payload, events[1].Actor)
		}
		peer.at.Detach()
	})
}

func TestACrashInAFoldsWindowLosesNoEvent(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		peer.typeIn(sid, 0, "x")
		peer.mustSettle()
		w.crash()
		for range 2 { // the second time there is nothing left to complete
			if got := w.read(id).Sections[0].Text; got != "x# A\n" {
				t.Errorf("the text is %q", got)
			}
			if got := types(w.log(id)); !slices.Equal(got, []doc.EventType{doc.DocumentCreated, doc.SectionEdited}) {
				t.Errorf("the log says %v", got)
			}
			w.crash()
		}
	})
}

func TestAReplicasOverrideIsLoggedOnceInAWindow(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		if _, err := w.keeper.Do(t.Context(), lease.Acquire{Resource: doc.SectionResource(id, sid), Agent: "alice", Duration: time.Minute}); err != nil {
			t.Fatal(err)
		}
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		for range 30 { // three seconds
			peer.typeIn(sid, 0, "x")
			peer.mustSettle()
			time.Sleep(100 * time.Millisecond)
		}
		peer.at.Detach()
		overrides := 0
		for _, e := range w.log(id) {
			if e.Type == doc.SectionLeaseOverridden {
				overrides++
			}
		}
		if overrides != 2 {
			t.Errorf("three seconds of typing are %d overrides, want 2", overrides)
		}
	})
}

func TestADocumentMadeByAReplica(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id, err := crdt.ParseDocumentID("00000000-0000-4000-8000-000000000001")
		if err != nil {
			t.Fatal(err)
		}
		var created []doc.Meta
		w.OnCreated(func(m doc.Meta) { created = append(created, m) })
		_, err = w.Attach(t.Context(), bob, id, &replica{}, false)
		wantCode(t, err, code.DocumentNotFound)
		_, err = w.Attach(t.Context(), viewer("v"), id, &replica{}, true)
		wantCode(t, err, code.DocumentNotFound)
		peer := w.attach(bob, id, true)
		_, err = w.Read(t.Context(), alice, id)
		wantCode(t, err, code.DocumentNotFound)
		if err := peer.doc.Path("title").Set("Scalar"); err != nil {
			t.Fatal(err)
		}
		if err := peer.doc.Path("sections", "one").Set(map[string]any{"body": "scalar body", "position": "5"}); err != nil {
			t.Fatal(err)
		}
		peer.commit()
		peer.mustSettle()
		got := w.read(id)
		if got.Meta.Title != "Scalar" || got.Markdown() != "scalar body" || got.Meta.Slug != "" || got.Meta.CreatedBy != "bob" {
			t.Errorf("the server reads %+v", got)
		}
		if len(created) != 1 || created[0].ID != id {
			t.Errorf("announced %+v", created)
		}
		written, err := w.WriteSection(t.Context(), alice, id, "one", "text body", &doc.Base{Version: got.Version})
		if err != nil || written.Section.Text != "text body" {
			t.Errorf("writing over a scalar gives %+v, %v", written, err)
		}
		if m, err := w.Rename(t.Context(), alice, id, nil, new(doc.Slug("named"))); err != nil || m.Slug != "named" {
			t.Errorf("naming it gives %+v, %v", m, err)
		}
		if len(created) != 2 || created[1].Slug != "named" {
			t.Errorf("announced %+v", created)
		}
		peer.at.Detach()
	})
}

func TestOddContentNeverFailsARead(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		for path, value := range map[string]any{
			"extra": int64(1), "schema": "two", "title": []any{"no"}, "sections/UPPER": map[string]any{"body": "x"}, "sections/scalar": int64(7),
			"sections/nobody": map[string]any{}, "sections/" + string(sid) + "/position": int64(3), "sections/" + string(sid) + "/note": true,
		} {
			var keys []any
			for _, k := range strings.Split(path, "/") {
				keys = append(keys, k)
			}
			if err := peer.doc.Path(keys...).Set(value); err != nil {
				t.Fatal(err)
			}
			peer.commit()
			peer.mustSettle()
		}
		got := w.read(id)
		want := []string{"extra", "schema", "sections/" + string(sid) + "/note", "sections/" + string(sid) + "/position", "sections/UPPER", "sections/scalar", "title"}
		slices.Sort(want)
		if !slices.Equal(got.Ignored, want) {
			t.Errorf("ignored %q, want %q", got.Ignored, want)
		}
		if got.Markdown() != "# A\n" {
			t.Errorf("the document is %q", got.Markdown())
		}
		if _, err := w.AddSection(t.Context(), alice, id, "more", sid, "more"); err != nil {
			t.Error(err)
		}
		if err := peer.doc.Path("sections").Set("gone"); err != nil {
			t.Fatal(err)
		}
		peer.commit()
		peer.mustSettle()
		if got := w.read(id); got.Markdown() != "" || !slices.Contains(got.Ignored, "sections") {
			t.Errorf("without sections the server reads %+v", got)
		}
		if _, err := w.AddSection(t.Context(), alice, id, "again", "", "again"); err != nil {
			t.Error(err)
		}
		if got := w.read(id).Markdown(); got != "again" {
			t.Errorf("the document is %q", got)
		}
		peer.at.Detach()
	})
}

func TestAViewersReplicaReadsAndCannotWrite(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(viewer("v"), id, false)
		peer.mustSettle()
		if peer.text(sid) != "# A\n" {
			t.Errorf("the viewer reads %q", peer.text(sid))
		}
		peer.typeIn(sid, 0, "no")
		_ = peer.settle() // the binding knows no READ_ONLY and goes on trying
		if got := w.read(id); got.Version != s.Version {
			t.Errorf("a viewer wrote %q", got.Markdown())
		}
		peer.at.Detach()
	})
}

func TestAFailedAppendIsNeverAcknowledged(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		w.store.fail.Store(1)
		_, err := w.WriteSection(t.Context(), alice, id, sid, "lost", &doc.Base{Current: true})
		wantCode(t, err, code.Internal)
		if strings.Contains(err.Error(), "lost") {
			t.Error("the error gives the text away")
		}
		synctest.Wait()
		if peer.goneBecause() == nil {
			t.Error("the replica was not told to come back")
		}
		peer.at.Detach()
		if got := w.read(id).Markdown(); got != "# A\n" {
			t.Errorf("the document is %q", got)
		}
		if _, err := w.WriteSection(t.Context(), alice, id, sid, "kept", &doc.Base{Current: true}); err != nil {
			t.Error(err)
		}
		if got := len(w.log(id)); got != 2 {
			t.Errorf("the log has %d events, want 2", got)
		}
	})
}

func TestCloseTellsReplicasToComeBack(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		peer.typeIn(sid, 0, "x")
		peer.mustSettle()
		if err := w.Library.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCode(t, peer.goneBecause(), code.ShuttingDown)
		_, err := w.Read(t.Context(), alice, id)
		wantCode(t, err, code.ShuttingDown)
		if got := types(w.log(id)); !slices.Equal(got, []doc.EventType{doc.DocumentCreated, doc.SectionEdited}) {
			t.Errorf("the log was left at %v", got)
		}
	})
}

func TestAnIdleDocumentIsPutAway(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		if got := w.OpenDocuments(); got != 1 {
			t.Errorf("%d documents are open, want 1", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := w.OpenDocuments(); got != 0 {
			t.Errorf("%d documents are open, want 0", got)
		}
		if got := w.read(id).Markdown(); got != "# A\n" {
			t.Errorf("the document is %q", got)
		}
	})
}

// Of many documents that were left, only so many are kept for who comes back: the ones left last.
func TestUnusedDocumentsAreBounded(t *testing.T) {
	const kept = 3
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir, limits: doc.Limits{Unused: kept}}
		w.open()
		defer w.close()
		var peers []*replica
		var ids []crdt.DocumentID
		for n := range 10 {
			s, err := w.Create(t.Context(), alice, doc.NewDocument{Slug: doc.Slug(fmt.Sprint("d", n)), Markdown: "# A\n"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.Meta.ID)
			if n < 2 {
				peers = append(peers, w.attach(bob, s.Meta.ID, false))
				peers[n].mustSettle()
			}
		}
		synctest.Wait()
		if n := w.OpenDocuments(); n != kept+len(peers) {
			t.Errorf("%d documents are open, want %d that are used and %d that are not", n, len(peers), kept)
		}
		peers[0].at.Detach()
		synctest.Wait()
		if n := w.OpenDocuments(); n != kept+1 {
			t.Errorf("after one was left, %d are open", n)
		}
		for _, id := range ids {
			if got := w.read(id).Markdown(); got != "# A\n" {
				t.Errorf("the document is %q", got)
			}
		}
		peers[1].at.Detach()
	})
}

func TestMessages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		wake, stop := w.Watch(id)
		defer stop()
		e, err := w.Post(t.Context(), bob, id, json.RawMessage(`{ "text" : "a<b" }`))
		if err != nil || string(e.Payload) != `{"text":"a\u003cb"}` || e.Type != doc.MessagePosted || e.Actor != "bob" {
			t.Fatal(e, err)
		}
		select {
		case <-wake:
		default:
			t.Error("nobody was woken")
		}
		for _, bad := range []string{"", "1", "[]", `"x"`, "{", `{"a":"` + "\xff" + `"}`} {
			_, err := w.Post(t.Context(), bob, id, json.RawMessage(bad))
			wantCode(t, err, code.BadRequest)
		}
		_, err = w.Post(t.Context(), bob, id, json.RawMessage(`{"a":"`+strings.Repeat("x", 64<<10)+`"}`))
		wantCode(t, err, code.TooLarge)
		_, err = w.Post(t.Context(), viewer("v"), id, json.RawMessage(`{}`))
		wantCode(t, err, code.Forbidden)
		w.log(id)
		out, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back doc.Event
		if err := json.Unmarshal(out, &back); err != nil || back.Hash != e.Hash || doc.Chain(w.log(id)[0].Hash, back.Seq, back.NewEvent).Hash != e.Hash {
			t.Errorf("%s does not read back as it was: %v", out, err)
		}
	})
}

func TestLimits(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		limits := w.Limits()
		_, err := w.WriteSection(t.Context(), alice, id, sid, strings.Repeat("x", limits.SectionBytes+1), &doc.Base{Current: true})
		if refusal := wantCode(t, err, code.TooLarge); refusal.Facts["limit"] != limits.SectionBytes {
			t.Errorf("the refusal names %v", refusal.Facts)
		}
		_, err = w.Create(t.Context(), alice, doc.NewDocument{Markdown: strings.Repeat("# x\n", limits.Sections+1)})
		wantCode(t, err, code.TooLarge)
		_, err = w.Create(t.Context(), alice, doc.NewDocument{Markdown: strings.Repeat("x", limits.MarkdownBytes+1)})
		wantCode(t, err, code.TooLarge)
		_, err = w.Create(t.Context(), alice, doc.NewDocument{Markdown: "\xff"})
		wantCode(t, err, code.InvalidMarkdown)
		_, err = w.Rename(t.Context(), alice, id, new(strings.Repeat("x", limits.TitleBytes+1)), nil)
		wantCode(t, err, code.TooLarge)
		if _, err := w.Create(context.Background(), alice, doc.NewDocument{Markdown: strings.Repeat("# x\n", limits.Sections)}); err != nil {
			t.Error(err)
		}
	})
}
