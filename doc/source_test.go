package doc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
)

// A peer that understands only changes one by one is given those of a compacted document as often as it asks: the saved
// document is unpacked for it once, and again only after the document was put away, or compacted anew.
func TestACompactedDocumentIsUnpackedOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.typed(id, sid, 70)
		peer.at.Detach()
		time.Sleep(3 * time.Minute) // idle: compacted and put away
		synctest.Wait()
		if rows, _ := w.rows(id); rows != 0 {
			t.Fatalf("%d rows", rows)
		}
		counter := w.reopen()
		r := &replica{w: w}
		var err error
		if r.at, err = w.Attach(context.Background(), viewer("v"), id, r, false); err != nil {
			t.Fatal(err)
		}
		defer r.at.Detach()
		ask := func(number int) {
			t.Helper()
			want := peer.graph.Hash(number)
			m := []byte{0x42, 1}
			for _, h := range []crdt.Hash{peer.graph.Heads()[0], want} {
				m = append(m, h[:]...)
				if h != want {
					m = append(m, 1)
				}
			}
			if err := r.at.Receive(context.Background(), append(m, 0, 0)); err != nil {
				t.Fatal(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			answer, err := crdt.ParseMessage(r.inbox[len(r.inbox)-1], crdt.NoLimits)
			if err != nil || len(answer.Changes) != 1 || answer.Changes[0].Hash != want {
				t.Fatalf("asked for change %d, was sent %d changes, %v", number, len(answer.Changes), err)
			}
		}
		for n := range 50 {
			ask(n)
		}
		if n := counter.unpacks.Load(); n != 1 {
			t.Errorf("50 questions unpacked the document %d times", n)
		}
		time.Sleep(time.Minute) // put away
		ask(3)
		if n := counter.unpacks.Load(); n != 2 {
			t.Errorf("put away and asked again, the document was unpacked %d times, want 2", n)
		}
	})
}
