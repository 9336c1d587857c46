package web

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"cowrite/doc"
)

var traceStep = flag.Int("trace.step", 25, "how many recorded transactions each PUT of TestARecordedSessionThroughPUT makes")

// A person's recorded session, typed into a section by PUT, each on the version that the one before it made.
func TestARecordedSessionThroughPUT(t *testing.T) {
	file, err := os.Open("../../shared/traces/sveltecomponent.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		StartContent, EndContent string
		Txns                     []struct{ Patches [][3]any }
	}
	if err := json.NewDecoder(unzipped).Decode(&trace); err != nil {
		t.Fatal(err)
	}
	w := onTCP(t)
	w.document("paper")
	const section = "/documents/paper/sections/typed"
	text, version := trace.StartContent, "current"
	put := func() {
		t.Helper()
		body, err := json.Marshal(map[string]string{"text": text, "base": version})
		if err != nil {
			t.Fatal(err)
		}
		a := w.ok(alpha, "PUT", section, string(body))
		if a.str("text") != text || a.body["merged"] != false {
			t.Fatalf("the section came out as something else: %s", a)
		}
		version = a.str("version")
	}
	put()
	for n, txn := range trace.Txns {
		for _, p := range txn.Patches {
			at, deleted, inserted := int(p[0].(float64)), int(p[1].(float64)), p[2].(string)
			text = doc.ApplyOps(text, []doc.TextOp{{At: at, Delete: deleted, Insert: inserted}})
		}
		if (n+1)%*traceStep == 0 || n == len(trace.Txns)-1 {
			put()
		}
	}
	if text != trace.EndContent {
		t.Fatal("the trace does not lead to its end")
	}
	markdown := w.do(request{as: vera, method: "GET", path: "/documents/paper", header: map[string][]string{"Accept": {"text/markdown"}}})
	if !strings.HasSuffix(string(markdown.raw), trace.EndContent) {
		t.Error("the document does not end with what was typed")
	}
}
