package story

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what really happens into the story files; commit only what you understand")

var began = time.Date(2026, 4, 16, 3, 0, 0, 0, time.UTC)

// TestStories runs each file of ../testdata as one story. Paragraphs are separated by blank lines: lines of
// comment (#), commands, a line of dashes, and the trace that is promised.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(data))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if want := string(data); got != want {
				t.Errorf("what happens is not what %s promises (-rewrite shows the difference in git):\n%s", file, got)
			}
		})
	}
}

// tell gives the file as it should be.
func tell(t *testing.T, file string) string {
	t.Helper()
	s := New(began)
	var out []string
	for _, p := range Paragraphs(file) {
		if len(p.Lines) == 0 {
			out = append(out, p.Head)
			continue
		}
		var trace strings.Builder
		for _, line := range p.Lines {
			told, err := s.Run(line)
			if err != nil {
				t.Fatal(err)
			}
			trace.WriteString(told)
		}
		out = append(out, p.Head+separator+trace.String())
	}
	return strings.Join(out, "\n")
}

func TestSpelling(t *testing.T) {
	for _, line := range []string{
		"", "steal a file", "acquire a file", "acquire a file soon", "acquire a file 30s gently", "after", "after 1s 2s",
		"herd many file 30s", "transfer a file", "status", "agent a b", "herd 1001 file 30s", "renew a file", "acquire a file 30s place=long",
	} {
		if trace, err := New(began).Run(line); err == nil {
			t.Errorf("%q was understood: %s", line, trace)
		}
	}
}
