package doc_test

import (
	"testing"
	"unicode/utf8"

	"cowrite/doc"
	"cowrite/doc/code"
)

func TestBlame(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("one 🙂 two\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		edited, err := w.EditSection(t.Context(), bob, id, sid, doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "🙂", With: "and"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := w.attach(editor("carol"), id, false)
		r.mustSettle()
		r.typeIn(sid, 0, "é")
		r.mustSettle()
		type passage struct {
			agent doc.Agent
			text  string
		}
		blame := func(v doc.Snapshot) (out []passage) {
			t.Helper()
			b, err := w.Blame(t.Context(), viewer("vera"), id, sid, v.Version)
			if err != nil || v.Version != "" && b.Version != v.Version {
				t.Fatal(b, err)
			}
			text := []rune(v.Sections[0].Text)
			at := 0
			for _, r := range b.Ranges {
				if r.At != at || r.Agent != "" && (r.Change == [32]byte{}) {
					t.Fatalf("%+v at %d", r, at)
				}
				at += r.Length
				out = append(out, passage{r.Agent, string(text[r.At:at])})
			}
			if at != len(text) {
				t.Fatalf("%d of %d characters", at, len(text))
			}
			return out
		}
		want := func(got []passage, want ...passage) {
			t.Helper()
			if len(got) != len(want) {
				t.Fatalf("%v, want %v", got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%v, want %v", got, want)
				}
			}
		}
		want(blame(w.read(id)), passage{"carol", "é"}, passage{"alice", "one "}, passage{"bob", "and"}, passage{"alice", " two\n"})
		want(blame(s), passage{"alice", "one 🙂 two\n"})
		then, err := w.ReadAt(t.Context(), alice, id, edited.Version)
		if err != nil {
			t.Fatal(err)
		}
		want(blame(then), passage{"alice", "one "}, passage{"bob", "and"}, passage{"alice", " two\n"})

		if err := r.doc.Path("sections", string(sid)).Map().Set("body", "scalar"); err != nil {
			t.Fatal(err)
		}
		r.commit()
		r.mustSettle()
		b, err := w.Blame(t.Context(), alice, id, sid, "")
		if err != nil || b.Version != w.read(id).Version || len(b.Ranges) != 1 || b.Ranges[0] != (doc.BlameRange{Length: utf8.RuneCountInString("scalar")}) {
			t.Errorf("a scalar is by %+v, %v", b, err)
		}

		added, err := w.AddSection(t.Context(), bob, id, "late", "", "")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := w.Blame(t.Context(), bob, id, "late", added.Version); err != nil || len(b.Ranges) != 0 {
			t.Errorf("an empty text is by %+v, %v", b, err)
		}
		_, err = w.Blame(t.Context(), alice, id, "late", s.Version)
		wantCode(t, err, code.InvalidVersion)
		_, err = w.Blame(t.Context(), alice, id, sid, "junk")
		wantCode(t, err, code.InvalidVersion)
		_, err = w.Blame(t.Context(), alice, id, "nowhere", "")
		wantCode(t, err, code.SectionNotFound)
	})
}
