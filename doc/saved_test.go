package doc_test

import (
	"testing"
	"testing/synctest"

	"github.com/automerge/automerge-go"

	"cowrite/doc"
	"cowrite/doc/code"
)

func TestASavedDocumentIsImportedAndExported(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		theirs := automerge.New()
		for _, text := range []string{"one\n", "one and two\n"} {
			if err := theirs.Path("title").Set(automerge.NewText("Ours")); err != nil {
				t.Fatal(err)
			}
			if err := theirs.Path("sections", "a").Set(map[string]any{"body": automerge.NewText(text), "position": "5"}); err != nil {
				t.Fatal(err)
			}
			if _, err := theirs.Commit(""); err != nil {
				t.Fatal(err)
			}
		}
		s, err := w.Import(t.Context(), alice, "", theirs.Save())
		if err != nil || s.Markdown() != "one and two\n" || s.Meta.Title != "Ours" || s.Meta.CreatedBy != "alice" || s.Meta.Slug == "" {
			t.Fatalf("imported %+v, %v", s, err)
		}
		if _, err := w.WriteSection(t.Context(), bob, s.Meta.ID, "a", "one, two and three\n", &doc.Base{Version: s.Version}); err != nil {
			t.Fatal(err)
		}
		w.crash()
		saved, v, err := w.Export(t.Context(), viewer("v"), s.Meta.ID)
		if err != nil || v != w.read(s.Meta.ID).Version {
			t.Fatal(v, err)
		}
		back, err := automerge.Load(saved)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := back.Path("sections", "a", "body").Text().Get(); err != nil || text != "one, two and three\n" {
			t.Errorf("exported %q, %v", text, err)
		}
		if _, err := theirs.Merge(back); err != nil {
			t.Errorf("the export is no continuation of the import: %v", err)
		}
		_, err = w.Import(t.Context(), alice, s.Meta.Slug, theirs.Save())
		wantCode(t, err, code.SlugTaken)
		_, err = w.Import(t.Context(), viewer("v"), "", theirs.Save())
		wantCode(t, err, code.Forbidden)
		_, err = w.Import(t.Context(), doc.Key{Agent: "n", Role: doc.Editor, Pattern: "team-*"}, "other", theirs.Save())
		wantCode(t, err, code.Forbidden)
		damaged := theirs.Save()
		damaged[len(damaged)/2] ^= 1
		for _, chunk := range [][]byte{nil, []byte("# Markdown"), damaged, append(theirs.Save(), 0), automerge.New().Save()} {
			_, err = w.Import(t.Context(), alice, "bad", chunk)
			wantCode(t, err, code.BadChange)
		}
		if docs, _, err := w.List(t.Context(), alice, 0, 10); err != nil || len(docs) != 1 {
			t.Errorf("%d documents after refused imports, %v", len(docs), err)
		}
		synctest.Wait() // their desks end
		if n := w.Faults(); n != 0 {
			t.Errorf("%d documents that were never made are said to be faulty", n)
		}
	})
}
