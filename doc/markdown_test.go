package doc

import (
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"
)

func TestSplitMarkdown(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"no heading", "just text\nand more", []string{"just text\nand more"}},
		{"atx", "# A\na\n## B\nb\n### C\nc", []string{"# A\na\n", "## B\nb\n### C\nc"}},
		{"setext", "Title\n=====\ntext\n\nSecond\n------\nmore\n", []string{"Title\n=====\ntext\n\n", "Second\n------\nmore\n"}},
		{"setext of two lines", "x\n\nTwo\nlines\n===\n", []string{"x\n\n", "Two\nlines\n===\n"}},
		{"before the first", "intro\n\n# A\n", []string{"intro\n\n", "# A\n"}},
		{"code fence", "# A\n```\n# not\n```\n~~~\n## nor\n~~~\n", []string{"# A\n```\n# not\n```\n~~~\n## nor\n~~~\n"}},
		{"indented code", "# A\n\n    # not\n", []string{"# A\n\n    # not\n"}},
		{"quote and list", "# A\n> # not\n\n- # nor\n", []string{"# A\n> # not\n\n- # nor\n"}},
		{"front matter", "---\ntitle: x\n---\n# A\n", []string{"---\ntitle: x\n---\n", "# A\n"}},
		{"a rule is no front matter", "---\n# A\n", []string{"---\n", "# A\n"}},
		{"crlf", "# A\r\na\r\n\r\nB\r\n-\r\nb", []string{"# A\r\na\r\n\r\n", "B\r\n-\r\nb"}},
		{"empty headings", "#\n##\nx", []string{"#\n", "##\nx"}},
		{"indented heading", "a\n\n  ## B\nb", []string{"a\n\n", "  ## B\nb"}},
		{"html block", "<div>\n# not\n</div>\n\n# A\n", []string{"<div>\n# not\n</div>\n\n", "# A\n"}},
		{"unicode", "# Größe\nä\n## 日本\nか", []string{"# Größe\nä\n", "## 日本\nか"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := SplitMarkdown(tt.in, DefaultLevel); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSplitMarkdownLosesNothing(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"#", "# ", "## x", "\n", "\r\n", "---", "===", "text", "```", "~~~", "> ", "- ", "    ", "\t", "é", "<div>", "</div>", "\u00a0", "\x00", "\ufeff", "[a]: b", "title: x"})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(pieces).Draw(t, "pieces"), "")
		parts := SplitMarkdown(in, rapid.IntRange(1, 6).Draw(t, "level"))
		if got := strings.Join(parts, ""); got != in {
			t.Fatalf("joined %q, want %q", got, in)
		}
		if slices.Contains(parts, "") {
			t.Fatalf("an empty part in %q", parts)
		}
		for _, p := range parts {
			HeadingOf(p)
		}
	})
}

// However a text is made, it is cut where the whole parser finds headings at its top.
func TestSplitMarkdownAgreesWithTheParser(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"#", "# ", "## x", "\n", "\n\n\n", " \n\t\n", "\r\n", "---", "===", "- - -", "***", "text", "```", "~~~", "> ", ">", "- ", "1. ", "23) ", "    ", "\t",
		"<div>", "</div>", "<!--", "-->", "\u00a0", "[a]: b", "[a]: b\n", "'c", "[d](e)"})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(pieces).Draw(t, "pieces"), "")
		if frontMatterLength(in) > 0 {
			return
		}
		var want []int
		root := goldmark.DefaultParser().Parse(text.NewReader([]byte(in)))
		for n := root.FirstChild(); n != nil; n = n.NextSibling() {
			if _, ok := n.(*ast.Heading); ok {
				want = append(want, strings.LastIndexByte(in[:n.Pos()], '\n')+1)
			}
		}
		got := []int{}
		at := 0
		for _, part := range SplitMarkdown(in, 6) {
			got = append(got, at)
			at += len(part)
		}
		if len(want) == 0 || want[0] > 0 {
			want = append([]int{0}, want...)
		}
		if in == "" {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q is cut at %d, and its headings are at %d", in, got, want)
		}
	})
}

// What takes the parser the square of its length, or its cube, is read all the same: none of these would end.
func TestMarkdownThatIsMadeToBeSlow(t *testing.T) {
	const size = 1 << 20
	of := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var deeper strings.Builder
	for indent := 0; deeper.Len() < size; indent += 2 {
		deeper.WriteString(strings.Repeat(" ", indent) + "- a\n")
	}
	for name, slow := range map[string]string{
		"links in a heading":       "# " + of("[a]("),
		"links in a paragraph":     of("[a](") + "\n===\n",
		"brackets":                 "# " + of("["),
		"emphasis":                 "# " + of("*a **b "),
		"quotes":                   of("> ") + "a\n",
		"quotes with lines behind": of("> ")[:size/2] + "a\n" + of("b\n")[:size/2],
		"lists":                    of("- ") + "a\n",
		"numbers":                  of("1. ") + "a\n",
		"lists in lists":           deeper.String(),
		"definitions":              of("[a]: b\n"),
		"blank lines in a list":    "- a\n" + of("\n"),
		"blank lines in code":      "```\n" + of(" \n"),
		"code":                     of("`a``b") + "\n---\n",
	} {
		t.Run(name, func(t *testing.T) {
			if parts := SplitMarkdown(slow+"\n\n# End\n", 6); parts[len(parts)-1] != "# End\n" && name != "blank lines in code" {
				t.Errorf("the heading behind it is not found: %d parts", len(parts))
			}
			if heading, _ := HeadingOf(slow); len(heading) > maxHeading {
				t.Errorf("its heading has %d bytes", len(heading))
			}
		})
	}
}

func TestHeadingOf(t *testing.T) {
	for _, tt := range []struct {
		in, heading string
		level       int
	}{
		{"", "", 0},
		{"text", "", 0},
		{"# A", "A", 1},
		{"\n\n### *B* `c` [d](e)\ntext", "B c d", 3},
		{"Two\nlines\n---\nx", "Two lines", 2},
		{"## A ##\r\nx", "A", 2},
		{"```\n# no\n```", "", 0},
		{"#", "", 1},
	} {
		if h, l := HeadingOf(tt.in); h != tt.heading || l != tt.level {
			t.Errorf("HeadingOf(%q) = %q, %d, want %q, %d", tt.in, h, l, tt.heading, tt.level)
		}
	}
}

// A section begins with a heading exactly where the document was split at one.
func TestHeadingOfAgreesWithTheSplit(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"# A", "## B ##", "text", "\n", "\n", "===", "---", "-", "  ", "    ", "> ", "- ", "1. ", "```", "[a](b)", "*c*"})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(pieces).Draw(t, "pieces"), "")
		for i, part := range SplitMarkdown(in, 6) {
			if _, level := HeadingOf(part); i > 0 && level == 0 {
				t.Fatalf("part %d of %q begins with no heading: %q", i, in, part)
			}
		}
	})
}

func BenchmarkHeadingOfALongParagraph(b *testing.B) {
	body := strings.Repeat("[alice 7]\n", 4000)
	for b.Loop() {
		HeadingOf(body)
	}
}

func TestPositionBetween(t *testing.T) {
	position := rapid.StringMatching(`[!-~]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := position.Draw(t, "a"), position.Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		between := strings.TrimRight(b, string(lowestDigit)) > a
		for _, got := range []string{positionBetween(a, b), positionBetween(a, "")} {
			if !validPosition(got) || got <= a {
				t.Fatalf("%q is not behind %q", got, a)
			}
		}
		if got := positionBetween(a, b); between && got >= b {
			t.Fatalf("%q is not between %q and %q", got, a, b)
		}
		if got := positionBetween("", b); strings.Trim(b, string(lowestDigit)) != "" && got >= b {
			t.Fatalf("%q is not before %q", got, b)
		}
	})
}

func TestPositionBetweenGrowsSlowly(t *testing.T) {
	last, first := "", ""
	for range 1000 {
		last = positionBetween(last, "")
		first = positionBetween("", first)
	}
	if len(last) > 200 || len(first) > 200 {
		t.Errorf("1,000 sections put last, or first, make positions of %d and %d characters", len(last), len(first))
	}
}

func TestPositionsFor(t *testing.T) {
	for _, n := range []int{0, 1, 2, 60, 61, 62, 500, 5000} {
		got := positionsFor(n)
		if len(got) != n || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != n {
			t.Errorf("positionsFor(%d) is not %d different positions in order", n, n)
		}
	}
}
