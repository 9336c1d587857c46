package doc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/doc"
)

// A replica may write anything at all, and the log tells what it was in bounded words.

// logBytes is how long the payloads of a log are.
func logBytes(events []doc.Event) (n int) {
	for _, e := range events {
		n += len(e.Payload)
	}
	return n
}

func TestAChangeOfManyNamesIsToldInFewEvents(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("# A\n").Meta.ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		before := len(w.log(id))
		long := strings.Repeat("long ", 200)
		for i := range 4_000 {
			if err := peer.doc.RootMap().Set(fmt.Sprintf("%d %s", i, long[:i%len(long)]), i); err != nil {
				t.Fatal(err)
			}
		}
		peer.commit()
		peer.mustSettle()
		time.Sleep(time.Minute)
		told := w.log(id)[before:]
		if len(told) == 0 || len(told) > 70 || logBytes(told) > 100_000 {
			t.Errorf("%d events of %d bytes", len(told), logBytes(told))
		}
		if ignored := w.read(id).Ignored; len(ignored) != 64 || len(strings.Join(ignored, "")) > 64*512 {
			t.Errorf("%d names are told to readers", len(ignored))
		}
	})
}

func TestAReplicasTitleIsListedAndLoggedInBounds(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id := s.Meta.ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		long := strings.Repeat("é", 1<<14)
		if err := peer.doc.Path("title").Set(automerge.NewText(long)); err != nil {
			t.Fatal(err)
		}
		peer.commit()
		for range 5 {
			peer.mustSettle()
			time.Sleep(5 * time.Second)
			if err := peer.doc.Path("title").Text().Append("!"); err != nil {
				t.Fatal(err)
			}
			peer.commit()
		}
		all, _, err := w.List(t.Context(), alice, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for where, title := range map[string]string{"the list": all[0].Title, "the document": w.read(id).Meta.Title} {
			if !strings.HasPrefix(long, title) || len(title) != 512 {
				t.Errorf("%s has a title of %d bytes", where, len(title))
			}
		}
		if n := logBytes(w.log(id)); n > 20_000 {
			t.Errorf("the log has %d bytes", n)
		}
	})
}

// Whatever is typed in the seconds before a crash, or before the document is deleted and restored, is told as it would
// have been.
func TestWhatWasTypedIsToldWhateverCameInBetween(t *testing.T) {
	for between, happens := range map[string]func(t *testing.T, w *world, s doc.Snapshot){
		"nothing": func(*testing.T, *world, doc.Snapshot) {},
		"a crash": func(_ *testing.T, w *world, _ doc.Snapshot) { w.crash() },
		"a deletion": func(t *testing.T, w *world, s doc.Snapshot) {
			if err := w.Delete(t.Context(), root, s.Meta.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Restore(t.Context(), root, s.Meta.ID.String()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(between, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				s := w.create("# A\n")
				id, sid := s.Meta.ID, s.Sections[0].ID
				peer := w.attach(bob, id, false)
				peer.mustSettle()
				for _, write := range []func() error{
					func() error { return peer.doc.Path("title").Set(automerge.NewText("Renamed")) },
					func() error { return peer.doc.Path("sections", string(sid), "body").Text().Append("more") },
					func() error { return peer.doc.RootMap().Set("colour", "red") },
					func() error { return peer.doc.Path("sections", string(sid), "colour").Set("blue") },
				} {
					if err := write(); err != nil {
						t.Fatal(err)
					}
					peer.commit()
				}
				peer.mustSettle()
				happens(t, w, s)
				w.read(id)
				time.Sleep(time.Minute)
				if all, _, err := w.List(t.Context(), alice, 0, 10); err != nil || all[0].Title != "Renamed" {
					t.Errorf("%v is listed, %v", all, err)
				}
				var told []string
				for _, e := range w.log(id) {
					var p struct{ Title, Path, SectionID string }
					if err := json.Unmarshal(e.Payload, &p); err != nil {
						t.Fatal(err)
					}
					switch e.Type {
					case doc.DocumentEdited, doc.DocumentRetitled, doc.SectionEdited:
						told = append(told, fmt.Sprint(e.Type, " ", p.Title, p.Path, p.SectionID))
					}
				}
				want := []string{"document.edited colour", "document.retitled Renamed", fmt.Sprint("section.edited ", sid)}
				if slices.Sort(told); !slices.Equal(told, want) {
					t.Errorf("told are %q, want %q", told, want)
				}
			})
		})
	}
}

// What stands in the place of a section is told for what it is, and what fits no schema is named only as long as it is so.
func TestASectionThatIsNone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, string(s.Sections[0].ID)
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		for _, step := range []struct {
			name    string
			write   func() error
			told    doc.EventType
			ignored []string
			text    string
		}{
			{"deleted", func() error { return peer.doc.Path("sections").Map().Delete(sid) }, doc.SectionRemoved, nil, ""},
			{"a word", func() error { return peer.doc.Path("sections", sid).Set("word") }, doc.SectionRemoved, []string{"sections/" + sid}, ""},
			{"a section again", func() error {
				return peer.doc.Path("sections", sid).Set(map[string]any{"body": automerge.NewText("# B\n"), "position": "5"})
			}, doc.SectionCreated, nil, "# B\n"},
		} {
			before := len(w.log(id))
			if err := step.write(); err != nil {
				t.Fatal(err)
			}
			peer.commit()
			peer.mustSettle()
			got := w.read(id)
			if told := types(w.log(id)[before:]); !slices.Equal(told, []doc.EventType{step.told}) {
				t.Errorf("%s: told as %v", step.name, told)
			}
			if got.Markdown() != step.text || !slices.Equal(got.Ignored, step.ignored) {
				t.Errorf("%s: %q is read, and %v does not fit", step.name, got.Markdown(), got.Ignored)
			}
		}
	})
}
