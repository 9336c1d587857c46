package doc_test

import (
	"encoding/json"
	"slices"
	"testing"

	"cowrite/doc"
)

// Who changed the words that a write replaces is named, whichever way; who wrote beside them is not.
func TestWhoChangedTheSameWords(t *testing.T) {
	type edit struct {
		by   doc.Key
		text string
		late bool // on what is there, and not on the text that the last one knew
	}
	carol := editor("carol")
	for name, c := range map[string]struct {
		before []edit
		want   []doc.Agent
	}{
		"another replaced them": {[]edit{{bob, "Motto: b\nEnd\n", false}}, []doc.Agent{"carol", "bob"}},
		"two others did":        {[]edit{{bob, "Motto: b\nEnd\n", false}, {alice, "Motto: a\nEnd\n", false}}, []doc.Agent{"carol", "bob", "alice"}},
		"another replaced the writer's own former words": {[]edit{{carol, "Motto: c\nEnd\n", false}, {bob, "Motto: b\nEnd\n", true}}, []doc.Agent{"carol", "bob"}},
		"another wrote in the midst of them":             {[]edit{{bob, "Motto: old and wiser words\nEnd\n", false}}, []doc.Agent{"carol", "bob"}},
		"another lengthened one of them":                 {[]edit{{bob, "Motto: old wise wordsmiths\nEnd\n", false}}, []doc.Agent{"carol", "bob"}},
		"another wrote behind them":                      {[]edit{{bob, "Motto: old wise words, all\nEnd\n", false}}, nil},
		"the writer alone did":                           {[]edit{{carol, "Motto: c\nEnd\n", false}, {bob, "Motto: c\nThe end\n", true}}, nil},
		"another wrote in front":                         {[]edit{{bob, "The motto: old wise words\nEnd\n", false}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				s := w.create("Motto: old wise words\nEnd\n")
				id, sid := s.Meta.ID, s.Sections[0].ID
				base := &doc.Base{Version: s.Version}
				write := func(e edit) {
					t.Helper()
					on := base
					if e.late {
						on = &doc.Base{Version: w.read(id).Version}
					}
					if _, err := w.EditSection(t.Context(), e.by, id, sid, doc.TextEdit{Text: e.text}, on); err != nil {
						t.Fatal(err)
					}
				}
				for _, e := range c.before {
					write(e)
				}
				before := len(w.log(id))
				write(edit{by: carol, text: "Motto: new\nEnd\n"})
				var got []doc.Agent
				for _, e := range w.log(id)[before:] {
					var p struct{ Authors []doc.Agent }
					if err := json.Unmarshal(e.Payload, &p); err != nil {
						t.Fatal(err)
					}
					if e.Type == doc.SectionOverlap {
						got = p.Authors
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("the overlap is of %q, want %q", got, c.want)
				}
			})
		})
	}
}
