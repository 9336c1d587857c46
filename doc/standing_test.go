package doc_test

import (
	"testing"

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
