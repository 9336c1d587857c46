package doc

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// DefaultLevel is the deepest heading at which a document is split into sections.
const DefaultLevel = 2

// SplitMarkdown cuts a document before each of its headings down to the given level, as a CommonMark parser
// sees them at the top of the document (not in code, quotes or lists). Joining the parts gives the same bytes. What
// stands before the first heading, front matter included, is a part of its own; no bytes are no parts.
func SplitMarkdown(markdown string, level int) []string {
	source := []byte(markdown)
	skip := frontMatterLength(markdown)
	root := goldmark.DefaultParser().Parse(text.NewReader(source[skip:]))
	var parts []string
	from := 0
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok || h.Level > level {
			continue
		}
		at := skip + h.Pos()
		at = bytes.LastIndexByte(source[:at], '\n') + 1 // Pos is behind the indentation
		if at > from {
			parts = append(parts, markdown[from:at])
			from = at
		}
	}
	if from < len(markdown) {
		parts = append(parts, markdown[from:])
	}
	return parts
}

// HeadingOf reads the heading that a section's text begins with, after blank lines; level 0 is none.
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
	seen := false
	for at := 0; at < len(body); {
		end := len(body)
		if i := strings.IndexByte(body[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := strings.TrimSpace(body[at:end])
		switch {
		case line == "" && seen:
			return ""
		case line == "":
		case !seen && line[0] == '#', seen && (strings.Trim(line, "=") == "" || strings.Trim(line, "-") == ""):
			return body[:end]
		default:
			seen = true
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
