package doc

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// diffTimeout bounds the search for the smallest difference. Past it the difference is coarser, never wrong.
const diffTimeout = 200 * time.Millisecond

// diffText gives the operations that turn one text into another, found word by word, so that a concurrent edit
// of another word stays whole.
func diffText(from, to string) []TextOp {
	if from == to {
		return nil
	}
	words := wordTable{codes: map[string]rune{}}
	a, b := words.encode(from), words.encode(to)
	dmp := diffmatchpatch.New()
	dmp.DiffTimeout = diffTimeout
	var ops []TextOp
	var op TextOp
	flush := func(equal int) {
		if op.Delete > 0 || op.Insert != "" {
			ops = append(ops, op)
		}
		op = TextOp{At: op.At + op.Delete + equal}
	}
	for _, d := range dmp.DiffMainRunes(a, b, false) {
		text := words.decode(d.Text)
		switch d.Type {
		case diffmatchpatch.DiffEqual:
			flush(utf8.RuneCountInString(text))
		case diffmatchpatch.DiffDelete:
			op.Delete += utf8.RuneCountInString(text)
		case diffmatchpatch.DiffInsert:
			op.Insert += text
		}
	}
	flush(0)
	return ops
}

// wordTable gives each different word a rune, so that a differ of runes compares words.
type wordTable struct {
	codes map[string]rune
	words []string
}

func (t *wordTable) encode(s string) []rune {
	var out []rune
	for s != "" {
		n := wordLength(s)
		r, ok := t.codes[s[:n]]
		if !ok {
			r = codeOf(len(t.words))
			t.codes[s[:n]] = r
			t.words = append(t.words, s[:n])
		}
		out = append(out, r)
		s = s[n:]
	}
	return out
}

func (t *wordTable) decode(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(t.words[indexOf(r)])
	}
	return b.String()
}

// Surrogates are no runes a string can hold, so the codes step over them.
const (
	surrogateMin = 0xD800
	surrogates   = 0x800
)

func codeOf(i int) rune {
	if i >= surrogateMin {
		i += surrogates
	}
	return rune(i)
}

func indexOf(r rune) int {
	if r >= surrogateMin {
		r -= surrogates
	}
	return int(r)
}

// wordLength is the length in bytes of the word that s begins with: letters and digits, or blanks, or one
// other character.
func wordLength(s string) int {
	class := func(r rune) int {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			return 1
		case r == ' ', r == '\t':
			return 2
		}
		return 0
	}
	first, n := utf8.DecodeRuneInString(s)
	c := class(first)
	if c == 0 {
		return n
	}
	for i, r := range s[n:] {
		if class(r) != c {
			return n + i
		}
	}
	return len(s)
}
