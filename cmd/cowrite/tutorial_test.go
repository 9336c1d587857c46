package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the README tells agents to do needs curl and nothing else, and comes to what it says.
func TestTutorialForAgents(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, want := block(t, string(readme), "## For agents", "bash"), block(t, string(readme), "## For agents", "markdown")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(curl, filepath.Join(path, "curl")); err != nil {
		t.Fatal(err)
	}

	p := start(t, t.TempDir())
	cmd := exec.CommandContext(t.Context(), bash, "-euo", "pipefail", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8080", p.address))
	cmd.Env = []string{"PATH=" + path, "COWRITE_KEY=" + adminKey}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, said := range []string{
		`"repeated":true`, `"mergedFrom":{"agents":["alpha"]`, `"advisory":{"kind":"leased","holder":"alpha"`, `"released":true`, `"next_since":"`,
	} {
		if !strings.Contains(string(out), said) {
			t.Errorf("no answer says %s:\n%s", said, out)
		}
	}
	if !strings.HasSuffix(string(out), want) || strings.Contains(string(out), `"error":`) {
		t.Errorf("it comes to\n%s", out)
	}
	var types []string
	for _, e := range verifiedLog(t, p, "report") {
		types = append(types, string(e.Type)+" by "+string(e.Actor))
	}
	const log = "document.created by alpha, section.created by alpha, section.leased by alpha, section.edited by alpha, " +
		"section.edited by beta, section.lease_overridden by beta, section.lease_released by alpha, message.posted by alpha"
	if got := strings.Join(types, ", "); got != log {
		t.Errorf("the log is %s", got)
	}
}
