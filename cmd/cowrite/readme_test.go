package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands that the README shows do what it says.
func TestReadmeIsTrue(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, want := block(t, string(readme), "## Write", "sh"), block(t, string(readme), "## Write", "markdown")

	folder := t.TempDir()
	p := start(t, filepath.Join(folder, "data")) // where the commands look for it
	script = strings.ReplaceAll(script, "http://127.0.0.1:8080", p.address)
	script = strings.ReplaceAll(script, "bin/cowrite", "cowrite")
	bash := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	bash.Dir = folder
	bash.Env = append(os.Environ(), "COWRITE_KEY="+adminKey, "COWRITE_URL="+p.address)
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, said := range []string{
		"LEASE_HELD", "holder=did:cowrite:alpha", "refused: exit code 3", "merged with what alpha wrote meanwhile", "written, though alpha holds the lease until",
	} {
		if !strings.Contains(string(out), said) {
			t.Errorf("nothing says %q:\n%s", said, out)
		}
	}
	if !strings.HasSuffix(string(out), want) {
		t.Errorf("the document is not as the README shows it:\n%s", out)
	}

	events := verifiedLog(t, p, "plan")
	if last := events[len(events)-1]; last.Type != "section.lease_overridden" || last.Actor != "beta" {
		t.Errorf("the log ends with %s by %s", last.Type, last.Actor)
	}
}

// block is the first block of code in a language behind a heading.
func block(t *testing.T, markdown, heading, language string) string {
	t.Helper()
	_, rest, ok := strings.Cut(markdown, heading+"\n")
	found := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)```\n").FindStringSubmatch(rest)
	if !ok || found == nil {
		t.Fatalf("the README has no %s behind %q", language, heading)
	}
	return found[1]
}
