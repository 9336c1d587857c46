package doc

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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

func TestDiffTextOfManyDifferentWords(t *testing.T) {
	var from, to strings.Builder
	for i := range 120_000 { // more words than there are runes below the surrogates
		from.WriteString(strings.Repeat("a", i%7) + string(rune('0'+i%10)) + string(rune(0x4e00+i%20000)) + " ")
		to.WriteString(strings.Repeat("b", i%5) + string(rune(0x4e00+i%19997)) + "\n")
	}
	if got := ApplyOps(from.String(), diffText(from.String(), to.String())); got != to.String() {
		t.Error("a text of 120,000 words did not come out right")
	}
}
