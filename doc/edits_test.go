package doc_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"cowrite/doc"
	"cowrite/doc/code"
)

func TestTheThreeWaysToEdit(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# Tïtle\none two two\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		edit := func(e doc.Edit, base *doc.Base) (string, error) {
			got, err := w.EditSection(t.Context(), bob, id, sid, e, base)
			return got.Section.Text, err
		}
		for _, tt := range []struct {
			name string
			edit doc.Edit
			want string
		}{
			{"operations", doc.OpsEdit{Ops: []doc.TextOp{{At: 16, Delete: 3, Insert: "zwei"}, {At: 8, Delete: 3, Insert: "eins"}, {At: 0, Insert: ">"}}}, "># Tïtle\neins two zwei\n"},
			{"replace the only one", doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "eins", With: "one"}}}, "># Tïtle\none two zwei\n"},
			{"replace the second", doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "t", With: "T", Occurrence: 2}, {Find: ">", With: ""}}}, "# Tïtle\none Two zwei\n"},
			{"nothing", doc.OpsEdit{}, "# Tïtle\none Two zwei\n"},
		} {
			got, err := edit(tt.edit, nil)
			if err != nil || got != tt.want {
				t.Fatalf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
			}
		}
		before := w.read(id)
		for _, tt := range []struct {
			edit doc.Edit
			want code.Code
		}{
			{doc.OpsEdit{Ops: []doc.TextOp{{At: 99}}}, code.InvalidRange},
			{doc.OpsEdit{Ops: []doc.TextOp{{At: -1}}}, code.InvalidRange},
			{doc.OpsEdit{Ops: []doc.TextOp{{At: 1, Delete: -1}}}, code.InvalidRange},
			{doc.OpsEdit{Ops: []doc.TextOp{{At: 1, Delete: 1 << 62}}}, code.InvalidRange},
			{doc.OpsEdit{Ops: []doc.TextOp{{At: 1, Delete: 3}, {At: 2, Delete: 1}}}, code.InvalidRange},
			{doc.OpsEdit{Ops: make([]doc.TextOp, 10_001)}, code.TooLarge},
			{doc.OpsEdit{Ops: []doc.TextOp{{Insert: "\xff"}}}, code.InvalidMarkdown},
			{doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "three"}}}, code.TextNotFound},
			{doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "e"}}}, code.TextAmbiguous},
			{doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "e", Occurrence: 9}}}, code.TextNotFound},
			{doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: ""}}}, code.BadRequest},
			{doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "e", Occurrence: -1}}}, code.BadRequest},
			{doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "Two"}, {Find: "wo z"}}}, code.InvalidRange},
			{doc.TextEdit{Text: "x"}, code.BaseRequired},
		} {
			_, err := edit(tt.edit, nil)
			wantCode(t, err, tt.want)
		}
		if _, err := w.EditSection(t.Context(), bob, id, "nowhere", doc.OpsEdit{}, nil); !code.Is(err, code.SectionNotFound) {
			t.Errorf("operations on a section that is not there: %v", err)
		}
		if after := w.read(id); !reflect.DeepEqual(after, before) {
			t.Errorf("refused edits changed %+v to %+v", before, after)
		}
	})
}

func TestARefusedReplacementShowsWhatIsThere(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create(strings.Repeat("filling words here. ", 50) + "The quick brown fox jumps." + strings.Repeat(" more words.", 50))
		_, err := w.EditSection(t.Context(), bob, s.Meta.ID, s.Sections[0].ID, doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "The quikc brown fox"}}}, nil)
		refusal := wantCode(t, err, code.TextNotFound)
		if near, _ := refusal.Facts["near"].(string); !strings.Contains(near, "The quick brown fox jumps.") || refusal.Facts["version"] != s.Version {
			t.Errorf("the refusal says %v", refusal.Facts)
		}
	})
}

func TestWhatWasMergedInIsNamed(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("the quick fox and the lazy dog\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		base := &doc.Base{Version: s.Version}
		replace := func(k doc.Key, find, with string) doc.Written {
			t.Helper()
			got, err := w.EditSection(t.Context(), k, id, sid, doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: find, With: with}}}, base)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		replace(alice, "lazy", "sleepy")
		got := replace(bob, "quick", "slow")
		if got.Section.Text != "the slow fox and the sleepy dog\n" || !got.Merged {
			t.Fatalf("merged to %q", got.Section.Text)
		}
		want := &doc.MergedFrom{Agents: []doc.Agent{"alice"}, Ranges: []doc.MergedRange{{At: 21, Length: 6, Deleted: 4, Agent: "alice"}}}
		if !reflect.DeepEqual(got.MergedFrom, want) {
			t.Errorf("merged from %+v, want %+v", got.MergedFrom, want)
		}
		if n := slices.Index(types(w.log(id)), doc.SectionOverlap); n >= 0 {
			t.Error("edits of different words are logged as an overlap")
		}

		got = replace(editor("carol"), "quick fox", "red hen") // bob has changed "quick" since
		events := w.log(id)
		last := events[len(events)-1]
		if last.Type != doc.SectionOverlap || last.Actor != "carol" {
			t.Fatalf("the last event is %s by %s", last.Type, last.Actor)
		}
		var p struct {
			SectionID string
			Authors   []string
			Base      string
			Places    []struct {
				At                int
				Text, Mine, Their string
			}
		}
		if err := json.Unmarshal(last.Payload, &p); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Authors, []string{"carol", "bob"}) || len(p.Places) != 1 || !strings.Contains(p.Places[0].Text, "quick") || p.Places[0].Their != "slow" {
			t.Errorf("the overlap says %s", last.Payload)
		}
		if !strings.Contains(got.Section.Text, "slow") || !strings.Contains(got.Section.Text, "red") || !strings.Contains(got.Section.Text, "hen") {
			t.Errorf("the merge lost a text: %q", got.Section.Text)
		}
	})
}

func TestAnEditWithAKeyHappensOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		once := func(k doc.Key, key string, digest byte, text string) (doc.Written, error) {
			return w.EditSection(t.Context(), k, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: text}}}, nil,
				doc.Once(doc.IdempotencyKey(key), doc.RequestDigest{digest}))
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		repeated := 0
		for range 20 {
			wg.Go(func() {
				got, err := once(bob, "k", 1, "x")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if got.Repeated {
					repeated++
				}
			})
		}
		wg.Wait()
		if repeated != 19 || w.read(id).Markdown() != "x# A\n" {
			t.Errorf("%d of 20 were retries; the text is %q", repeated, w.read(id).Markdown())
		}
		if _, err := once(alice, "k", 1, "a"); err != nil { // another agent's key is another
			t.Error(err)
		}
		_, err := once(bob, "k", 2, "y")
		wantCode(t, err, code.IdempotencyMismatch)
		w.crash()
		if got, err := once(bob, "k", 1, "x"); err != nil || !got.Repeated || got.Section.Text != "ax# A\n" {
			t.Errorf("after a crash the retry gives %+v, %v", got, err)
		}
		w.store.fail.Store(1)
		_, err = once(bob, "lost", 1, "z")
		wantCode(t, err, code.Internal)
		if got, err := once(bob, "lost", 1, "z"); err != nil || got.Repeated || got.Section.Text != "zax# A\n" {
			t.Errorf("an edit that was not stored is retried to %+v, %v", got, err)
		}
	})
}

// Random edits of the three forms on random bases: nothing that anybody inserted is gone or there twice, and the
// result never depends on the form.
func TestRandomEditsOnRandomBases(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# T\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		type version struct {
			doc.Base
			text string
		}
		history := []version{{doc.Base{Version: s.Version}, "# T\n"}}
		const edits = 150
		for n := range edits {
			at := history[(n*n*7+n*3)%len(history)]
			word := fmt.Sprintf("[%d] ", n)
			runes := len([]rune(at.text))
			place := (n * 13) % (runes + 1)
			var e doc.Edit
			switch n % 3 {
			case 0:
				e = doc.OpsEdit{Ops: []doc.TextOp{{At: place, Insert: word}}}
			case 1:
				place = 0
				if i := strings.LastIndex(at.text, "] "); i >= 0 {
					place = i + 2
				}
				e = doc.TextEdit{Text: at.text[:place] + word + at.text[place:]}
			case 2:
				e = doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "#", With: word + "#", Occurrence: 1}}}
			}
			got, err := w.EditSection(t.Context(), editor(fmt.Sprint("a", n%5)), id, sid, e, &at.Base)
			if err != nil {
				t.Fatal(n, err)
			}
			history = append(history, version{doc.Base{Version: got.Version}, got.Section.Text})
		}
		text := w.read(id).Markdown()
		// A word may be cut by another that was typed into its middle on its own version, but none of its
		// characters is gone or there twice.
		count := map[rune]int{}
		for n := range edits {
			for _, c := range fmt.Sprintf("[%d] ", n) {
				count[c]++
			}
		}
		for _, c := range "# T\n" {
			count[c]++
		}
		for c, want := range count {
			if got := strings.Count(text, string(c)); got != want {
				t.Errorf("%q is there %d times, want %d", c, got, want)
			}
		}
	})
}
