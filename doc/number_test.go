package doc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

// numbered checks that a document's changes are stored under the numbers from 1 on, without a gap, and gives their count.
func (w *world) numbered(id crdt.DocumentID) int {
	w.t.Helper()
	rows, err := w.store.Changes(context.Background(), id, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, row := range rows {
		if row.Number != int64(i+1) {
			w.t.Errorf("change %d has number %d", i+1, row.Number)
		}
	}
	return len(rows)
}

// A server that does not know what another one wrote to the same store writes nothing over it: it reads the document anew.
func TestTwoServersOverOneStore(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		core := engine.New(engine.Options{})
		keeper, err := lease.Open(t.Context(), doc.LeaseStore(w.store, nil), lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		other, err := doc.Open(doc.Options{Store: w.store, Engine: core, Leases: keeper})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, end := range []func() error{func() error { return other.Close(context.Background()) }, keeper.Close, core.Close} {
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		}()
		insert := func(l *doc.Library, text string) error {
			_, err := l.EditSection(t.Context(), alice, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: text}}}, &doc.Base{Current: true})
			return err
		}
		for _, write := range []struct {
			to   *doc.Library
			text string
			want code.Code // "": it is written
		}{
			{other, "a", ""},
			{w.Library, "lost", code.Internal}, // it read the document before a was written
			{w.Library, "b", ""},
			{other, "lost", code.Internal},
			{other, "c", ""},
			{other, "d", ""},
		} {
			err := insert(write.to, write.text)
			if write.want != "" {
				wantCode(t, err, write.want)
			} else if err != nil {
				t.Errorf("%s: %v", write.text, err)
			}
			synctest.Wait()
		}
		w.crash()
		if got := w.read(id).Markdown(); got != "dcba# A\n" {
			t.Errorf("the document is %q", got)
		}
		if n := w.numbered(id); n != 5 {
			t.Errorf("it has %d changes, want 5", n)
		}
		w.log(id)
	})
}

// unreadable is an engine that merges everything, but cannot tell what came of it in time while it is told so.
type unreadable struct {
	engine.Engine
	slow atomic.Bool
}

func (e *unreadable) Load(ctx context.Context, id crdt.DocumentID, parts [][]byte) (engine.Document, error) {
	d, err := e.Engine.Load(ctx, id, parts)
	return unreadableDocument{d, e}, err
}

type unreadableDocument struct {
	engine.Document
	engine *unreadable
}

func (d unreadableDocument) Read(ctx context.Context, at []crdt.Hash, path crdt.Path) (engine.Value, error) {
	if d.engine.slow.Load() {
		return nil, engine.ErrTimeout
	}
	return d.Document.Read(ctx, at, path)
}

// A change that the engine merged, and that cannot be stored because the engine fails right after it, is acknowledged to nobody:
// who brought it comes back with it.
func TestWhatIsMergedAndNotStoredIsNotAcknowledged(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n# B\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		if err := w.Library.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		slow := &unreadable{Engine: w.engine}
		var err error
		if w.Library, err = doc.Open(doc.Options{Store: w.store, Engine: slow, Leases: w.keeper}); err != nil {
			t.Fatal(err)
		}
		peer, witness := w.attach(bob, id, false), w.attach(alice, id, false)
		peer.mustSettle()
		witness.mustSettle()
		if err := peer.doc.Path("sections", string(sid), "removed").Set(true); err != nil { // to log it, the section is read
			t.Fatal(err)
		}
		peer.commit()
		slow.slow.Store(true)
		wantCode(t, peer.settle(), code.Busy)
		synctest.Wait()
		wantCode(t, peer.goneBecause(), code.Busy)
		wantCode(t, witness.goneBecause(), code.Busy)
		if heads, changes := len(witness.doc.Heads()), w.numbered(id); heads != 1 || changes != 1 {
			t.Errorf("the witness has %d heads, and %d changes are stored", heads, changes)
		}
		peer.at.Detach()
		witness.at.Detach()

		slow.slow.Store(false)
		peer.sync = automerge.NewSyncState(peer.doc)
		if peer.at, err = w.Attach(t.Context(), bob, id, peer, false); err != nil {
			t.Fatal(err)
		}
		peer.mustSettle()
		peer.at.Detach()
		w.crash()
		if got := w.read(id); len(got.Removed) != 1 || got.Removed[0].ID != sid {
			t.Errorf("the change that was brought again is lost: %+v", got)
		}
		if n := w.numbered(id); n != 2 {
			t.Errorf("%d changes are stored, want 2", n)
		}
	})
}
