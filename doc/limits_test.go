package doc_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/crdt/crdttest"
	"cowrite/doc"
	"cowrite/doc/code"
)

// changeOf is a document of one change of so many bytes.
func changeOf(t *testing.T, size int) *automerge.Doc {
	t.Helper()
	for text := size; ; {
		d := automerge.New()
		if err := d.Path("sections", "a").Set(map[string]any{"body": automerge.NewText(strings.Repeat("x", text)), "position": "5"}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Commit(""); err != nil {
			t.Fatal(err)
		}
		over := len(changes(t, d)[0]) - size
		if over == 0 {
			return d
		}
		text -= over
	}
}

// changes are those of a document, as plain chunks.
func changes(t *testing.T, d *automerge.Doc) (raws [][]byte) {
	t.Helper()
	all, err := d.Changes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		raws = append(raws, c.Save())
	}
	return raws
}

// message is what a peer with a document says that brings chunks, be they changes or saved documents.
func message(d *automerge.Doc, chunks ...[]byte) []byte {
	heads := d.Heads()
	m := append([]byte{0x43}, byte(len(heads)))
	for _, h := range heads {
		m = append(m, h[:]...)
	}
	m = append(m, 0, 0) // needs nothing, sums up nothing
	m = binary.AppendUvarint(m, uint64(len(chunks)))
	for _, c := range chunks {
		m = append(binary.AppendUvarint(m, uint64(len(c))), c...)
	}
	return m
}

// doors are the ways in which another's document comes in.
var doors = []struct {
	name  string
	bring func(w *world, d *automerge.Doc) (crdt.DocumentID, error)
}{
	{"a replica's changes", func(w *world, d *automerge.Doc) (crdt.DocumentID, error) { return w.say(d, changes(w.t, d)...) }},
	{"a replica's saved document", func(w *world, d *automerge.Doc) (crdt.DocumentID, error) { return w.say(d, d.Save()) }},
	{"an import", func(w *world, d *automerge.Doc) (crdt.DocumentID, error) {
		s, err := w.Import(context.Background(), alice, "", d.Save())
		return s.Meta.ID, err
	}},
}

// say has a replica make a document of chunks.
func (w *world) say(d *automerge.Doc, chunks ...[]byte) (crdt.DocumentID, error) {
	w.t.Helper()
	id := crdt.DocumentID(d.Heads()[0][:16])
	r := &replica{w: w}
	at, err := w.Attach(context.Background(), bob, id, r, true)
	if err != nil {
		w.t.Fatal(err)
	}
	defer at.Detach()
	return id, at.Receive(context.Background(), message(d, chunks...))
}

// A change is refused for its size when it comes, by whatever door, or never again: what was taken in is there, whatever the
// limit is later.
func TestWhatWasTakenInStaysReadable(t *testing.T) {
	const limit = 2048
	for _, door := range doors {
		for _, size := range []int{limit - 1, limit, limit + 1, 20 * limit} {
			in(t, func(t *testing.T, w *world) {
				w.limit(limit)
				theirs := changeOf(t, size)
				id, err := door.bring(w, theirs)
				if size > limit {
					wantCode(t, err, code.TooLarge)
					_, err = w.Read(t.Context(), alice, id)
					wantCode(t, err, code.DocumentNotFound)
					return
				}
				if err != nil {
					t.Fatalf("%s of %d bytes: %v", door.name, size, err)
				}
				w.crash()
				text := w.read(id).Markdown()
				if want, err := theirs.Path("sections", "a", "body").Text().Get(); err != nil || text != want {
					t.Errorf("%s of %d bytes reads otherwise after a restart, %v", door.name, size, err)
				}
				w.limit(limit / 4)
				w.goesOn(id, text)
			})
		}
	}
}

// What the server writes itself is bounded by what may be asked of it, and not by what it takes from replicas.
func TestTheServersOwnChangesStayReadable(t *testing.T) {
	const limit = 512
	for _, size := range []int{limit / 2, limit, 20 * limit} {
		in(t, func(t *testing.T, w *world) {
			w.limit(limit)
			text := strings.Repeat("0123456789 ", size/11) + "\n"
			s := w.create(text)
			sid := s.Sections[0].ID
			if _, err := w.EditSection(t.Context(), alice, s.Meta.ID, sid, doc.TextEdit{Text: strings.ToUpper(text) + text}, &doc.Base{Version: s.Version}); err != nil {
				t.Fatal(err)
			}
			text = w.read(s.Meta.ID).Markdown()
			w.crash()
			if got, err := w.RevertSection(t.Context(), alice, s.Meta.ID, sid, s.Version); err != nil || got.Section.Text != s.Sections[0].Text {
				t.Errorf("reverted to %q, %v", got.Section.Text, err)
			}
			if _, err := w.WriteSection(t.Context(), alice, s.Meta.ID, sid, text, &doc.Base{Current: true}); err != nil {
				t.Fatal(err)
			}
			w.limit(limit / 4)
			w.goesOn(s.Meta.ID, text)
		})
	}
}

// limit starts the server anew with another limit to a change.
func (w *world) limit(bytes int) {
	w.t.Helper()
	w.close()
	w.limits.ChangeBytes = bytes
	w.open()
}

// goesOn says whether a document can be worked on in all ways: by replicas too that have all of it, one of which sends it back
// whole with what it wrote.
func (w *world) goesOn(id crdt.DocumentID, text string) {
	w.t.Helper()
	r := w.attach(bob, id, false)
	defer r.at.Detach()
	r.mustSettle()
	s := w.read(id)
	if s.Markdown() != text {
		w.t.Fatalf("reads %d bytes, want %d", len(s.Markdown()), len(text))
	}
	if err := r.doc.Path("by bob").Set(int64(1)); err != nil {
		w.t.Fatal(err)
	}
	r.commit()
	if err := r.at.Receive(context.Background(), message(r.doc, r.doc.Save())); err != nil {
		w.t.Errorf("the whole document with a new change: %v", err)
	}
	if got := w.read(id); got.Version == s.Version {
		w.t.Error("the new change is not there")
	}
	sid := s.Sections[0].ID
	if _, err := w.WriteSection(context.Background(), alice, id, sid, "short\n", &doc.Base{Version: s.Version}); err != nil {
		w.t.Errorf("a write on the version before: %v", err)
	}
	w.crash()
	if got := w.read(id).Markdown(); got != "short\n" {
		w.t.Errorf("in the end it reads %q", got)
	}
}

// ahead is a document with one change more, whose operation is numbered so far above all others.
func ahead(t *testing.T, d *automerge.Doc, lead uint64) *automerge.Doc {
	t.Helper()
	out := automerge.New()
	for _, raw := range append(changes(t, d), aheadOf(t, d, lead).Raw) {
		if err := out.LoadIncremental(raw); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func aheadOf(t *testing.T, d *automerge.Doc, lead uint64) crdt.Change {
	t.Helper()
	fork, err := d.Fork()
	if err != nil {
		t.Fatal(err)
	}
	if err := fork.Path("ahead").Set(int64(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := fork.Commit(""); err != nil {
		t.Fatal(err)
	}
	all := changes(t, fork)
	parse := func(raw []byte) crdt.Change {
		t.Helper()
		parsed, _, err := crdt.ParseEntry(raw, crdt.NoLimits)
		if err != nil {
			t.Fatal(err)
		}
		return parsed[0]
	}
	last := parse(all[len(all)-1])
	return parse(crdttest.Renumber(last.Raw, last.StartOp+lead))
}

// Numbers of operations are not given away, by whatever door they come: so far ahead that nobody can write any more, they are
// refused, and the document goes on without.
func TestOperationsNumberedFarAheadAreRefused(t *testing.T) {
	const most = 1 << 16
	for _, door := range doors {
		for _, lead := range []uint64{0, 100, most, most + 1, 1 << 31} {
			in(t, func(t *testing.T, w *world) {
				theirs := changeOf(t, 200)
				id, err := door.bring(w, ahead(t, theirs, lead))
				if lead > most {
					wantCode(t, err, code.BadChange)
					if err = nil; id == (crdt.DocumentID{}) { // an import is taken as a whole
						id, err = door.bring(w, theirs)
					}
				}
				if err != nil {
					t.Fatalf("%s, %d ahead: %v", door.name, lead, err)
				}
				w.goesOn(id, w.read(id).Markdown())
				if _, _, err := w.Export(t.Context(), alice, id); err != nil {
					t.Errorf("%s, %d ahead, cannot be saved: %v", door.name, lead, err)
				}
			})
		}
	}
}

// A document that has such a change from before opens; it goes on for as long as there are numbers.
func TestStoredOperationsNumberedFarAhead(t *testing.T) {
	for _, lead := range []uint64{1<<16 + 1, 1 << 31, 1<<32 - 1000} {
		in(t, func(t *testing.T, w *world) {
			s := w.create("# A\n")
			saved, _, err := w.Export(t.Context(), alice, s.Meta.ID)
			if err != nil {
				t.Fatal(err)
			}
			w.close()
			w.open()
			d, err := automerge.Load(saved)
			if err != nil {
				t.Fatal(err)
			}
			c := aheadOf(t, d, lead)
			row := doc.ChangeRow{Number: s.Meta.Number + 1, Hash: c.Hash, Author: "mallory", Logged: true, At: s.Meta.CreatedAt, Raw: c.Raw}
			if _, err := w.store.Append(t.Context(), s.Meta.ID, doc.Append{Expect: doc.AnySeq, Changes: []doc.ChangeRow{row}}); err != nil {
				t.Fatal(err)
			}
			if lead < 1<<32-1000 {
				w.goesOn(s.Meta.ID, "# A\n")
				return
			}
			if got := w.read(s.Meta.ID); got.Markdown() != "# A\n" || got.Version == s.Version {
				t.Errorf("reads %q", got.Markdown())
			}
			_, err = w.WriteSection(t.Context(), alice, s.Meta.ID, s.Sections[0].ID, "more\n", &doc.Base{Current: true})
			wantCode(t, err, code.DocumentFull)
			_, err = w.Rename(t.Context(), alice, s.Meta.ID, new("Title"), nil)
			wantCode(t, err, code.DocumentFull)
			r := &replica{w: w}
			if r.at, err = w.Attach(t.Context(), bob, s.Meta.ID, r, false); err != nil {
				t.Fatal(err)
			}
			defer r.at.Detach()
			wantCode(t, r.at.Receive(t.Context(), message(d, aheadOf(t, d, 0).Raw)), code.DocumentFull)
		})
	}
}
