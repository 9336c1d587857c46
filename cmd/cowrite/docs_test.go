package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages of web/docs are run as their readers would, block after block in one shell: bash as it stands, js by Node
// beside the packages of sync/e2e, go by go run. A block of text says what the blocks before it print on standard
// output, since the last such block; ... in it stands for anything within a line.
func TestDocumentationIsTrue(t *testing.T) {
	pages, err := filepath.Glob("../../web/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no pages (%v)", err)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			p, folder := start(t, t.TempDir()), t.TempDir()
			script, wants := shellOf(t, folder, strings.ReplaceAll(string(content), "127.0.0.1:8080", strings.TrimPrefix(p.address, "http://")))
			bash := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
			bash.Dir = folder
			bash.Env = append(os.Environ(), "COWRITE_KEY="+adminKey, "COWRITE_URL="+p.address)
			var stderr strings.Builder
			bash.Stderr = &stderr
			out, err := bash.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, &stderr)
			}
			parts := strings.Split(string(out), endOfPart)
			for i, want := range wants {
				if !want.MatchString(parts[i]) {
					t.Errorf("block %d prints\n%s\nwhich is not as the page says\n%s\n%s", i+1, parts[i], want, &stderr)
				}
			}
		})
	}
}

// endOfPart is printed behind the blocks whose output the page shows.
const endOfPart = "~~~ end of part\n"

var codeBlock = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// shellOf makes a page one script, and says what each part of it is to print.
func shellOf(t *testing.T, folder, page string) (script string, wants []*regexp.Regexp) {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(module, "sync/e2e/node_modules")
	if _, err := os.Stat(packages); err != nil {
		t.Fatalf("the packages are not there (%v): `make test` installs them", err)
	}
	if err := os.Symlink(packages, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	runs := false // something was run that no text is about yet
	for i, found := range codeBlock.FindAllStringSubmatch(page, -1) {
		language, code := found[1], found[2]
		name := fmt.Sprintf("block-%d", i)
		switch language {
		case "bash":
			b.WriteString(code)
		case "js":
			writeFile(t, filepath.Join(folder, name+".mjs"), code)
			fmt.Fprintf(&b, "node %s.mjs\n", name)
		case "go":
			writeFile(t, filepath.Join(folder, name+".go"), code)
			fmt.Fprintf(&b, "(cd %s && go run %s)\n", module, filepath.Join(folder, name+".go"))
		case "text":
			if !runs {
				continue // it shows something else
			}
			fmt.Fprintf(&b, "echo '%s'\n", strings.TrimSpace(endOfPart))
			wants = append(wants, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(code), regexp.QuoteMeta("..."), "[^\n]*")+"$"))
			runs = false
			continue
		default:
			continue
		}
		runs = true
	}
	if runs || len(wants) == 0 {
		t.Fatal("the page ends with a block that says nothing of what it prints")
	}
	return b.String(), wants
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

var link = regexp.MustCompile(`\]\(([^)]+)\)`)

// Links in the documents lead to files that are there.
func TestLinksLeadSomewhere(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../*/*.md", "../../*/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(content), ""), -1) {
			target, _, _ := strings.Cut(found[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), target)); err != nil {
				t.Errorf("%s: %s leads nowhere", page, found[1])
			}
		}
	}
	if links == 0 {
		t.Error("there are no links: the test looks in the wrong place")
	}
}
