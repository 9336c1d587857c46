package agentsocket

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rogpeppe/go-internal/txtar"

	"cowrite/sync/agent"
	"cowrite/sync/hub"
)

var update = flag.Bool("update", false, "rewrite what the server says in the transcripts")

// Each transcript in testdata is a conversation in the txtar format: a comment, then one file a frame, named by the
// agent and ">" if the agent sent it, "<" if the server did. What differs from run to run stands as $name. The server
// says exactly that, and PROTOCOL.md quotes it.
func TestTranscripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no transcripts in testdata (%v)", err)
	}
	protocol, err := os.ReadFile("../PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			story, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			inWorld(t, hub.Limits{}, func(w *world) { w.replay(story) })
			if *update {
				if err := os.WriteFile(name, txtar.Format(story), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(string(protocol), string(txtar.Format(story))) {
				t.Errorf("PROTOCOL.md does not quote %s as it is", name)
			}
		})
	}
}

// replay has the agents of a story say their lines, and holds the server to its own.
func (w *world) replay(story *txtar.Archive) {
	w.Helper()
	clients, known := map[string]*client{}, placeholders{}
	for i, line := range story.Files {
		who, dir, _ := strings.Cut(line.Name, " ")
		c := clients[who]
		if c == nil {
			c = w.open(string(w.secrets[who]), agent.Subprotocol)
			c.name, clients[who] = who, c
		}
		text := strings.TrimSpace(string(line.Data))
		if dir == ">" {
			c.sendText(known.expand(text))
			synctest.Wait()
			continue
		}
		got := known.collapse(c.next().raw)
		if *update {
			story.Files[i].Data = []byte(got + "\n")
		} else if got != text {
			w.Errorf("%s heard\n%s\nwant\n%s", who, got, text)
		}
	}
	for _, c := range clients {
		c.wantQuiet()
	}
}

// placeholders are the values that differ from run to run, and what they are called in a transcript.
type placeholders map[string]string

// volatile are the fields with such values, and how their placeholders begin.
var volatile = map[string]string{
	"version": "v", "from": "v", "to": "v", "base": "v", "leaseId": "lease", "session": "session", "documentId": "document",
	"hash": "hash", "hashes": "change",
}

// collapse writes a frame with placeholders for what differs.
func (p placeholders) collapse(raw []byte) string {
	var frame any
	if err := json.Unmarshal(raw, &frame); err != nil {
		return string(raw)
	}
	p.learn("", "", frame)
	out := string(raw)
	for value, name := range p {
		out = strings.ReplaceAll(out, `"`+value+`"`, `"`+name+`"`)
	}
	return out
}

func (p placeholders) learn(parent, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			p.learn(key, k, v[k])
		}
	case []any:
		for _, element := range v {
			p.learn(parent, key, element)
		}
	case string:
		begin := volatile[key]
		if (key == "from" || key == "to") && parent != "" { // not of a changed frame
			begin = ""
		}
		if parent == "event" && key == "id" {
			begin = "event"
		}
		if _, known := p[v]; !known && begin != "" && v != "" {
			n := 1
			for _, name := range p {
				if strings.TrimRight(name, "0123456789") == "$"+begin {
					n++
				}
			}
			p[v] = fmt.Sprintf("$%s%d", begin, n)
		}
	}
}

// expand writes the values for the placeholders.
func (p placeholders) expand(text string) string {
	for value, name := range p {
		text = strings.ReplaceAll(text, `"`+name+`"`, `"`+value+`"`)
	}
	return text
}
