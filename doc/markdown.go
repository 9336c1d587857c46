package doc

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// DefaultLevel is the deepest heading at which a document is split into sections.
const DefaultLevel = 2

// SplitMarkdown cuts a document before each of its headings down to the given level, as a CommonMark parser
// sees them at the top of the document (not in code, quotes or lists). Joining the parts gives the same bytes. What
// stands before the first heading, front matter included, is a part of its own; no bytes are no parts.
func SplitMarkdown(markdown string, level int) []string {
	skip := frontMatterLength(markdown)
	plain := plainOf(markdown[skip:])
	root := blocks.Parse(text.NewReader(plain.source))
	var parts []string
	from := 0
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok || h.Level > level {
			continue
		}
		if at := skip + plain.lineAt(h.Pos()); at > from {
			parts = append(parts, markdown[from:at])
			from = at
		}
	}
	if from < len(markdown) {
		parts = append(parts, markdown[from:])
	}
	return parts
}

// blocks parses a document's blocks and leaves what is in their lines alone, which takes the square of their length.
var blocks = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithParagraphTransformers(util.Prioritized(shortParagraphs{parser.LinkReferenceParagraphTransformer}, 100)),
)

// shortParagraphs looks for the definitions of links at the beginning of a paragraph, unless it has more lines than
// anybody writes: it takes the square of their number.
type shortParagraphs struct{ parser.ParagraphTransformer }

func (p shortParagraphs) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	const most = 200 // lines
	if node.Lines().Len() <= most {
		p.ParagraphTransformer.Transform(node, reader, pc)
	}
}

// plain is a document without what costs the parser the square of its length and changes no heading at the top:
// blank lines after a blank line, and what stands deeper in quotes and lists than anybody writes.
type plain struct {
	source []byte
	starts []int // where its lines begin in source
	from   []int // and where in the document
}

func plainOf(markdown string) plain {
	p := plain{source: make([]byte, 0, len(markdown))}
	blank := false
	for at := 0; at < len(markdown); {
		end := len(markdown)
		if i := strings.IndexByte(markdown[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := markdown[at:end]
		before := blank
		if blank = strings.Trim(line, space) == ""; !blank || !before {
			p.starts, p.from = append(p.starts, len(p.source)), append(p.from, at)
			p.source = append(p.source, shallow(line)...)
		}
		at = end
	}
	return p
}

// lineAt gives where in the document the line begins that holds a byte of the source.
func (p plain) lineAt(pos int) int {
	i, found := slices.BinarySearch(p.starts, pos)
	if !found {
		i--
	}
	return p.from[i]
}

const (
	maxNesting = 64  // quotes and lists within each other that are told apart
	maxIndent  = 256 // bytes of white space at the beginning of a line, or after a quote's or list's mark
)

// space is what CommonMark calls white space in a line, and its end.
const space = " \t\r\n"

// shallow gives a line whose marks of quotes and lists end, as some text, with maxNesting.
func shallow(line string) string {
	if strings.Trim(line, space+"-") == "" || strings.Trim(line, space+"*") == "" {
		return line // blank, or a rule
	}
	rest := line
	for nested := 0; ; nested++ {
		indented := strings.TrimLeft(rest, " \t")
		if len(rest)-len(indented) > maxIndent {
			return line[:len(line)-len(rest)] + strings.Repeat(" ", maxIndent) + "text\n"
		}
		marked := afterMark(indented)
		switch {
		case marked == indented:
			return line
		case nested == maxNesting:
			return line[:len(line)-len(rest)] + " text\n"
		}
		rest = marked
	}
}

// afterMark gives what follows the mark of a quote or list item that a line begins with.
func afterMark(line string) string {
	if rest, ok := strings.CutPrefix(line, ">"); ok {
		return rest
	}
	rest := strings.TrimLeft(line, "0123456789")
	ordered := rest != line
	if rest == "" || ordered != strings.ContainsRune(".)", rune(rest[0])) || !ordered && !strings.ContainsRune("-+*", rune(rest[0])) {
		return line
	}
	if rest = rest[1:]; rest != "" && !strings.ContainsRune(space, rune(rest[0])) {
		return line
	}
	return rest
}

// maxHeading is how much of a heading is read, in bytes.
const maxHeading = 1 << 10

// HeadingOf reads the heading that a section's text begins with, after blank lines, without what is beyond maxHeading;
// level 0 is none.
func HeadingOf(body string) (heading string, level int) {
	source := []byte(headingBlock(body))
	if len(source) == 0 {
		return "", 0
	}
	root := goldmark.DefaultParser().Parse(text.NewReader(source))
	h, ok := root.FirstChild().(*ast.Heading)
	if !ok {
		return "", 0
	}
	var out strings.Builder
	_ = ast.Walk(h, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch n := n.(type) {
			case *ast.Text:
				out.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			case *ast.String:
				out.Write(n.Value)
			case *ast.AutoLink:
				out.Write(n.Label(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(out.String()), h.Level
}

// headingBlock is the beginning of a text that may be a heading, for the parser to say: a first line that begins with #,
// or a paragraph down to a line of = or -. It is empty where there can be none, which spares the parser a long paragraph.
func headingBlock(body string) string {
	first := -1
	for at := 0; at < len(body); {
		end := len(body)
		if i := strings.IndexByte(body[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := strings.TrimSpace(body[at:end])
		switch {
		case line == "" && first >= 0:
			return ""
		case line == "":
		case first < 0 && line[0] == '#':
			return truncate(body[at:end], maxHeading)
		case first >= 0 && (strings.Trim(line, "=") == "" || strings.Trim(line, "-") == ""):
			return truncate(body[first:at-1], maxHeading) + "\n" + line[:1]
		case first < 0:
			first = at
		}
		at = end
	}
	return ""
}

// frontMatterLength is the length of a leading block between lines "---", which CommonMark would read as
// a rule and a heading; 0 without one.
func frontMatterLength(markdown string) int {
	first, rest, ok := strings.Cut(markdown, "\n")
	if !ok || strings.TrimRight(first, "\r \t") != "---" {
		return 0
	}
	for rest != "" {
		line, next, _ := strings.Cut(rest, "\n")
		if l := strings.TrimRight(line, "\r \t"); l == "---" || l == "..." {
			return len(markdown) - len(next)
		}
		rest = next
	}
	return 0
}

// nameFrom makes the readable part of a slug or section id out of a heading: lower-case ASCII letters and
// digits, the rest folded to hyphens; fallback where nothing is left.
func nameFrom(heading, fallback string) string {
	const limit = 40 // leaves room for a suffix
	var b strings.Builder
	for _, c := range strings.ToLower(heading) {
		if b.Len() >= limit {
			break
		}
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	if name := strings.Trim(b.String(), "-"); name != "" {
		return name
	}
	return fallback
}
