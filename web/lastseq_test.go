package web

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"unicode/utf8"

	"cowrite/doc"
)

// Whoever reads a document and follows its log from the lastSeq that came with it misses no edit, whatever is written meanwhile:
// each edit up to lastSeq is in what was read.
func TestNoAnswerIsBehindItsLastSeq(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const writers, edits, reads = 3, 20, 10
		id := w.ok(alpha, "POST", "/documents", `{"slug":"paper"}`).str("documentId")
		for i := range writers + 1 {
			w.ok(alpha, "POST", "/documents/paper/sections", fmt.Sprintf(`{"id":"s%d","text":""}`, i))
		}
		const before = 1 + writers + 1 // the log, when the text has no character; from then on each event brings one
		key := doc.Key{Agent: beta, Role: doc.Editor, Pattern: "*"}
		meta, err := w.library.Find(t.Context(), key, id)
		w.must(err)
		w.crowd.Meanwhile(func() {
			if _, err := w.library.EditSection(context.Background(), key, meta.ID, "s0", doc.OpsEdit{Ops: []doc.TextOp{{Insert: "x"}}}, nil); err != nil {
				t.Error(err)
			}
		})
		reader := w.agent(vera, revision2026)
		defer reader.session.Close()
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for range edits {
					w.ok(alpha, "PATCH", fmt.Sprintf("/documents/paper/sections/s%d", i+1), `{"ops":[{"at":0,"insert":"x"}]}`)
				}
			})
		}
		for name, read := range map[string]func() map[string]any{
			"REST":        func() map[string]any { return w.ok(vera, "GET", "/documents/paper", "").body },
			"MCP read":    func() map[string]any { return reader.ok("read", args{"document": "paper"}) },
			"MCP outline": func() map[string]any { return reader.ok("outline", args{"document": "paper"}) },
		} {
			all.Go(func() {
				for range reads {
					said := read()
					has := 0
					for _, s := range said["sections"].([]any) {
						s := s.(map[string]any)
						if text, ok := s["text"].(string); ok {
							has += utf8.RuneCountInString(text)
						} else {
							has += int(s["characters"].(float64))
						}
					}
					if last, err := strconv.Atoi(said["lastSeq"].(string)); err != nil || last-before > has {
						t.Errorf("%s has %d edits, and says that it has the log up to event %v: %d edits", name, has, said["lastSeq"], last-before)
					}
				}
			})
		}
		all.Wait()
		w.crowd.Meanwhile(nil)
	})
}
