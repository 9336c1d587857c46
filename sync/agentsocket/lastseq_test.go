package agentsocket

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"unicode/utf8"

	"cowrite/doc"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
)

// Whoever opens a document and follows its log from the lastSeq that came with it misses no edit, whatever is written meanwhile:
// each edit up to lastSeq is in what was opened.
func TestNothingOpenedIsBehindItsLastSeq(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		const writers, edits, opens = 3, 20, 20
		id := w.id()
		sections := make([]doc.SectionID, writers+1)
		for i := range sections {
			sections[i] = doc.SectionID(fmt.Sprint("s", i))
			w.section(sections[i], "")
		}
		before, none := int(w.read().Meta.LastSeq), utf8.RuneCountInString(w.read().Markdown())
		write := func(sid doc.SectionID) {
			if _, err := w.library.EditSection(context.Background(), w.keys["alice"], id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: "x"}}}, nil); err != nil {
				w.Error(err)
			}
		}
		w.store.Meanwhile(func() { write(sections[writers]) })
		c := w.join("bob")
		defer c.leave()
		var all sync.WaitGroup
		for _, sid := range sections[:writers] {
			all.Go(func() {
				for range edits {
					write(sid)
				}
			})
		}
		for range opens {
			opened, _ := c.openDocument(agent.Open{View: agent.Whole})
			has := -none
			for _, s := range opened.Sections {
				has += utf8.RuneCountInString(s.Text)
			}
			if last, err := strconv.Atoi(string(opened.LastSeq)); err != nil || last-before > has {
				w.Errorf("what was opened has %d edits, and says that it has the log up to event %s: %d edits", has, opened.LastSeq, last-before)
			}
		}
		all.Wait()
		w.store.Meanwhile(nil)
	})
}
