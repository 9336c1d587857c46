package doc_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/doc"
)

func TestASectionHiddenByAnotherIsCopied(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		a, b := w.attach(alice, id, false), w.attach(bob, id, false)
		a.mustSettle()
		b.mustSettle()
		for name, peer := range map[string]*replica{"alice": a, "bob": b} { // at the same time, with the same id
			if err := peer.doc.Path("sections", "same").Set(map[string]any{"body": automerge.NewText("by " + name + "\n"), "position": "z"}); err != nil {
				t.Fatal(err)
			}
			peer.commit()
		}
		a.mustSettle()
		b.mustSettle()
		a.mustSettle()
		for range 3 { // once, however often it is looked at
			text := w.read(id).Markdown()
			for _, name := range []string{"alice", "bob"} {
				if strings.Count(text, "by "+name+"\n") != 1 {
					t.Errorf("the text of %s is not there once in %q", name, text)
				}
			}
			conflicts := 0
			for _, e := range w.log(id) {
				if e.Type == doc.SectionConflict {
					conflicts++
				}
			}
			if conflicts != 1 {
				t.Errorf("%d conflicts are logged, want 1", conflicts)
			}
			b.typeIn("same", 0, "more ")
			b.mustSettle()
		}
		a.at.Detach()
		b.at.Detach()
	})
}

// Authors make sections of the same ids at the same time, beside a little, many changes or long ones: however it comes to the server,
// every text can be read, and the log says which were hidden.
func TestNoTextOfAHiddenSectionVanishes(t *testing.T) {
	const runs = 6
	for run := range runs {
		in(t, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(1, uint64(run)))
			s := w.create("# A\n")
			origin, _, err := w.Export(t.Context(), alice, s.Meta.ID)
			if err != nil {
				t.Fatal(err)
			}
			var authors []*replica
			texts := map[string][]string{} // by section
			for n := range 2 + random.IntN(2) {
				d, err := automerge.Load(origin)
				if err != nil {
					t.Fatal(err)
				}
				r := &replica{w: w, doc: d}
				put := func(v any) {
					if err := d.Path("beside").Set(v); err != nil {
						t.Fatal(err)
					}
					r.commit()
				}
				beside := func() {
					switch (run + n) % 3 {
					case 0: // more changes than the tail has
						for i := range 1100 {
							put(i)
						}
					case 1: // more bytes
						put(strings.Repeat("long ", 210_000))
					}
				}
				before := random.IntN(2) == 0
				if before {
					beside()
				}
				for _, sid := range []string{"same", "other"} {
					if sid == "other" && random.IntN(2) == 0 {
						continue
					}
					text := fmt.Sprintf("%s by %d\n", sid, n)
					texts[sid] = append(texts[sid], text)
					if err := d.Path("sections", sid).Set(map[string]any{"body": automerge.NewText(text), "position": "z"}); err != nil {
						t.Fatal(err)
					}
					r.commit()
				}
				if !before {
					beside()
				}
				authors = append(authors, r)
			}
			id := bring[run%len(bring)](w, s.Meta.ID, authors)
			want := 0
			for _, of := range texts {
				want += len(of) - 1
			}
			for range 2 {
				text := w.read(id).Markdown()
				for _, one := range slices.Concat(texts["same"], texts["other"]) {
					if strings.Count(text, one) != 1 {
						t.Errorf("run %d: %q is there %d times", run, one, strings.Count(text, one))
					}
				}
				logged := 0
				for _, e := range w.log(id) {
					if e.Type == doc.SectionConflict {
						logged++
					}
				}
				if logged != want {
					t.Errorf("run %d: %d conflicts are logged, want %d", run, logged, want)
				}
				w.crash()
			}
		})
	}
}

// bring is the ways in which what authors wrote apart comes to the server.
var bring = []func(*world, crdt.DocumentID, []*replica) crdt.DocumentID{
	func(w *world, id crdt.DocumentID, authors []*replica) crdt.DocumentID { // by sync, one after the other
		for i, r := range authors {
			r.sync = automerge.NewSyncState(r.doc)
			var err error
			if r.at, err = w.Attach(w.t.Context(), editor(fmt.Sprint("author-", i)), id, r, false); err != nil {
				w.t.Fatal(err)
			}
			r.mustSettle()
			r.at.Detach()
		}
		return id
	},
	func(w *world, id crdt.DocumentID, authors []*replica) crdt.DocumentID { // all from one who has heard of the others
		w.merge(authors)
		return bringByOne(w, id, authors[0])
	},
	func(w *world, _ crdt.DocumentID, authors []*replica) crdt.DocumentID { // as a document of its own
		w.merge(authors)
		s, err := w.Import(w.t.Context(), alice, "", authors[0].doc.Save())
		if err != nil {
			w.t.Fatal(err)
		}
		return s.Meta.ID
	},
}

func bringByOne(w *world, id crdt.DocumentID, r *replica) crdt.DocumentID {
	w.t.Helper()
	at, err := w.Attach(w.t.Context(), bob, id, r, false)
	if err != nil {
		w.t.Fatal(err)
	}
	defer at.Detach()
	if err := at.Receive(w.t.Context(), message(r.doc, r.doc.Save())); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// merge has the first author hear of the others.
func (w *world) merge(authors []*replica) {
	w.t.Helper()
	for _, r := range authors[1:] {
		if _, err := authors[0].doc.Merge(r.doc); err != nil {
			w.t.Fatal(err)
		}
	}
}
