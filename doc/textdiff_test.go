package doc

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cowrite/doc/code"
)

func TestDiffTextTurnOneTextIntoTheOther(t *testing.T) {
	words := rapid.SampledFrom([]string{"a", "b", "the", " ", "  ", "\n", "\r\n", ".", "é", "日本", "👩‍👧", "e\u0301", "x1"})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOf(words).Draw(t, "words"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		from, to := text.Draw(t, "from"), text.Draw(t, "to")
		ops := diffText(from, to)
		if got := ApplyOps(from, ops); got != to {
			t.Fatalf("%q with %+v is %q, want %q", from, ops, got, to)
		}
		if from == to && ops != nil {
			t.Fatalf("equal texts differ by %+v", ops)
		}
	})
}

func TestDiffTextTouchOnlyTheWordsThatChanged(t *testing.T) {
	got := diffText("one two three four", "one 2 three five")
	want := []TextOp{{4, 3, "2"}, {14, 4, "five"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDiffTextKeepsWordsWhole(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     []TextOp
	}{
		{"the cat", "the cart", []TextOp{{4, 3, "cart"}}},
		{"é cat sat", "é rat sat", []TextOp{{2, 3, "rat"}}},
		{"a  b", "a b", []TextOp{{1, 2, " "}}},
		{"aa aa", "aa aa aa", []TextOp{{5, 0, " aa"}}},
		{"日本 🙂", "日米 🙃", []TextOp{{0, 2, "日米"}, {3, 1, "🙃"}}},
	} {
		if got := diffText(c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("%q to %q: %+v, want %+v", c.from, c.to, got, c.want)
		}
	}
}

// A word is told apart by a code point: there are texts with more words than runes below the surrogates, and than runes.
func TestDiffTextOfManyDifferentWords(t *testing.T) {
	for _, count := range []int{60_000, maxWords + 10} {
		from := "a few words\n"
		var to strings.Builder
		for i := range count {
			to.WriteString(strconv.FormatInt(int64(i), 16) + "\n")
		}
		if ApplyOps(from, diffText(from, to.String())) != to.String() {
			t.Errorf("a text of %d words did not come out right", count)
		}
	}
}

func TestDiffWithoutTime(t *testing.T) {
	got := diffWithin(0, "one two three four", "one 2 3 four")
	if want := []TextOp{{At: 4, Delete: 9, Insert: "2 3"}}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReplacementsOfALongText(t *testing.T) {
	text := "needle" + strings.Repeat(" hay", 1<<18)
	most := maxSearched / len(text)
	for count, want := range map[int]code.Code{most: code.TextNotFound, most + 1: code.TooLarge} { // the one there is too much to look for
		e := ReplaceEdit{slices.Repeat([]Replacement{{Find: "pin"}}, count)}
		if _, err := e.on(text); !code.Is(err, want) {
			t.Errorf("%d replacements: %v, want %s", count, err, want)
		}
	}
}
