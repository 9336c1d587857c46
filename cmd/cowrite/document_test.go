package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exec runs the command line in this process.
func (p *process) exec(t *testing.T, stdin string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	env := map[string]string{"COWRITE_URL": p.address, "COWRITE_KEY": adminKey}
	var out, errs bytes.Buffer
	program := Program{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Env: func(name string) string { return env[name] }}
	exit = program.Run(t.Context(), args)
	return out.String(), errs.String(), exit
}

// What is brought in comes back byte for byte, whatever Markdown it is.
func TestImportAndExportAreInverse(t *testing.T) {
	files := map[string]string{
		"empty":               "",
		"one line end":        "\n",
		"blank":               " \t\n\n",
		"no heading":          "Just a paragraph.\nAnd another line.\n",
		"no line end":         "# Title\n\nThe last line has no end",
		"heading at the end":  "text\n\n# Title",
		"setext":              "Title\n=====\n\nText.\n\nPart\n----\n\nMore.\n",
		"setext, two lines":   "A title\nover two lines\n===\n\ntext\n",
		"ATX":                 "# One\n\n## Two\n\n### Three\n\n#### Four\n\n##### Five\n\n###### Six\n\n####### no heading\n",
		"ATX, closed":         "# One #\n\n##   Two   ##   \n\n#\n\n## \n",
		"ATX, indented":       "   # One\n\n    # code\n\n #no heading\n",
		"text before heading": "Preface.\n\n# One\ntext\n## Two\n",
		"fences":              "# One\n\n```sh\n# a comment\n## another\n```\n\n~~~\n# inside\n```\n# still inside\n~~~\n\n## Two\n",
		"fence, never closed": "# One\n\n```\n# inside\n## inside\n",
		"fence in a list":     "- item\n\n  ```\n  # inside\n  ```\n\n# One\n",
		"heading in a quote":  "> # quoted\n> text\n\n# One\n\n- # in a list\n",
		"front matter":        "---\ntitle: A title\ntags: [a, b]\n---\n\n# One\n\ntext\n",
		"thematic breaks":     "one\n\n---\n\ntwo\n\n***\n\n# Three\n",
		"CRLF":                "# One\r\n\r\ntext\r\n\r\nTwo\r\n---\r\n\r\nmore\r\n",
		"mixed line ends":     "# One\r\ntext\n## Two\rtext\n\r\n",
		"BOM":                 "\ufeff# One\n\ntext\n",
		"tabs":                "#\tOne\n\n\tcode\n\n##\tTwo\t##\n",
		"Unicode":             "# Ærøskøbing 🏝️\n\nna\u0308ive 日本語 \u202eabc\u202c\n\n## 👩‍👩‍👧‍👦\n\n\u00a0\u2028\u2029\n",
		"HTML":                "<div>\n# not a heading\n</div>\n\n<!--\n# nor this\n-->\n\n# One\n\n<b>&amp;</b>\n",
		"link definitions":    "[a]: /a\n[b]: /b\n# One\n\n[a] [b]\n",
		"same heading twice":  "# One\n\n# One\n\n# One\n",
		"only headings":       "# A\n# B\n## C\n",
		"trailing blanks":     "# One\n\ntext  \n\n\n\n## Two\n\n\n",
		"null and escapes":    "# One\n\n\\# no \\u0000 \x01 \x7f\n",
		"long line":           "# One\n\n" + strings.Repeat("word ", 20_000) + "\n",
		"many sections":       strings.Repeat("## Part\n\ntext\n\n", 300),
	}
	p := start(t, filepath.Join(t.TempDir(), "data"))
	folder := t.TempDir()
	for name, content := range files {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(folder, "file.md")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, exit := p.exec(t, "", "doc", "import", file)
			if exit != 0 {
				t.Fatalf("import: exit code %d: %s", exit, stderr)
			}
			ref, _, _ := strings.Cut(stdout, " ")
			got, stderr, exit := p.exec(t, "", "doc", "export", ref)
			if exit != 0 || got != content {
				t.Errorf("export: exit code %d, %s\ngot  %q\nwant %q", exit, stderr, got, content)
			}
		})
	}
}

// Text that JSON could not carry unchanged is refused, not mended.
func TestImportRefusesWhatIsNoText(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	for _, content := range []string{"\xff\xfe#\x00", "# One\n\xc3\x28\n", "\xed\xa0\x80"} {
		_, stderr, exit := p.exec(t, content, "doc", "import", "-")
		if exit != exitFailed || !strings.Contains(stderr, "not UTF-8") {
			t.Errorf("%q: exit code %d, %q", content, exit, stderr)
		}
	}
	if stdout, stderr, exit := p.exec(t, "", "doc", "list"); stdout != "" || exit != 0 {
		t.Errorf("after the refusals there is %q, exit code %d, %s", stdout, exit, stderr)
	}
}
