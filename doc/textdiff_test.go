package doc

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cowrite/crdt/engine"
)

func splice(text string, ops []engine.Op) string {
	r := []rune(text)
	for _, op := range ops {
		s := op.(engine.Splice)
		r = append(append(append([]rune{}, r[:s.At]...), []rune(s.Insert)...), r[s.At+s.Delete:]...)
	}
	return string(r)
}

func TestTextEditsTurnOneTextIntoTheOther(t *testing.T) {
	words := rapid.SampledFrom([]string{"a", "b", "the", " ", "  ", "\n", "\r\n", ".", "é", "日本", "👩‍👧", "e\u0301", "x1"})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOf(words).Draw(t, "words"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		from, to := text.Draw(t, "from"), text.Draw(t, "to")
		ops := textEdits(nil, from, to)
		if got := splice(from, ops); got != to {
			t.Fatalf("%q with %+v is %q, want %q", from, ops, got, to)
		}
		if from == to && ops != nil {
			t.Fatalf("equal texts differ by %+v", ops)
		}
	})
}

func TestTextEditsTouchOnlyTheWordsThatChanged(t *testing.T) {
	got := textEdits(nil, "one two three four", "one 2 three five")
	want := []engine.Op{engine.Splice{At: 4, Delete: 3, Insert: "2"}, engine.Splice{At: 12, Delete: 4, Insert: "five"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTextEditsOfManyDifferentWords(t *testing.T) {
	var from, to strings.Builder
	for i := range 120_000 { // more words than there are runes below the surrogates
		from.WriteString(strings.Repeat("a", i%7) + string(rune('0'+i%10)) + string(rune(0x4e00+i%20000)) + " ")
		to.WriteString(strings.Repeat("b", i%5) + string(rune(0x4e00+i%19997)) + "\n")
	}
	if got := splice(from.String(), textEdits(nil, from.String(), to.String())); got != to.String() {
		t.Error("a text of 120,000 words did not come out right")
	}
}
