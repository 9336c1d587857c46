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
func diffText(from, to string) []TextOp { return diffWithin(diffTimeout, from, to) }

// diffWithin is diffText with another bound on the search; where there is no time for one, or there are more different
// words than code points, what the texts begin and end with alike is all that is found.
func diffWithin(timeout time.Duration, from, to string) []TextOp {
	if from == to {
		return nil
	}
	before, from, to := trimCommon(from, to)
	words := wordTable{codes: map[string]rune{}}
	a, b := words.encode(from), words.encode(to)
	if timeout <= 0 || len(words.words) > maxWords {
		return []TextOp{{At: before, Delete: utf8.RuneCountInString(from), Insert: to}}
	}
	dmp := diffmatchpatch.New()
	dmp.DiffTimeout = timeout
	var ops []TextOp
	op := TextOp{At: before}
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

// trimCommon leaves out the whole words that two texts begin and end with alike, because a large text is mostly that. It says
// how many code points it left out in front.
func trimCommon(from, to string) (before int, a, b string) {
	n, most := 0, min(len(from), len(to))
	for n < most && from[n] == to[n] {
		n++
	}
	for !endsWord(from, n) || !endsWord(to, n) {
		n--
	}
	before = utf8.RuneCountInString(from[:n])
	from, to = from[n:], to[n:]
	n, most = 0, most-n
	for n < most && from[len(from)-1-n] == to[len(to)-1-n] {
		n++
	}
	for !endsWord(from, len(from)-n) || !endsWord(to, len(to)-n) {
		n--
	}
	return before, from[:len(from)-n], to[:len(to)-n]
}

// endsWord says whether no word of a text goes on over a byte.
func endsWord(s string, at int) bool {
	if at == 0 || at == len(s) {
		return true
	}
	if !utf8.RuneStart(s[at]) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(s[:at])
	next, _ := utf8.DecodeRuneInString(s[at:])
	c := classOf(last)
	return c == single || c != classOf(next)
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
	maxWords     = utf8.MaxRune + 1 - surrogates
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

// class is what of a word's characters is alike.
type class int

const (
	single class = iota // the character is a word by itself
	letters
	blanks
)

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
		return letters
	case r == ' ', r == '\t':
		return blanks
	}
	return single
}

// wordLength is the length in bytes of the word that s begins with: letters and digits, or blanks, or one
// other character.
func wordLength(s string) int {
	first, n := utf8.DecodeRuneInString(s)
	c := classOf(first)
	if c == single {
		return n
	}
	for i, r := range s[n:] {
		if classOf(r) != c {
			return n + i
		}
	}
	return len(s)
}
