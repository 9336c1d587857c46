package doc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/storetest"
	"cowrite/lease"
)

// unmoved follows a document and hears nothing.
type unmoved struct{}

func (unmoved) Updated(crdt.DocumentID, *doc.Update) bool { return true }
func (unmoved) Gone(crdt.DocumentID, error)               {}

// Whoever reads a document and follows its log from the LastSeq that came with it misses no edit, whatever is written meanwhile:
// each edit up to LastSeq is in the text.
func TestNoReadIsBehindItsLastSeq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := &storetest.Crowded{Store: storetest.NewMemory()}
		keeper, err := lease.Open(ctx, doc.LeaseStore(store, nil), lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		eng := engine.New(engine.Options{})
		library, err := doc.Open(doc.Options{Store: store, Engine: eng, Leases: keeper})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, end := range []func() error{
				func() error { return library.Close(context.Background()) }, keeper.Close, eng.Close, store.Close,
			} {
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		}()

		const writers, edits, reads = 3, 40, 25
		made, err := library.Create(ctx, alice, doc.NewDocument{})
		if err != nil {
			t.Fatal(err)
		}
		id := made.Meta.ID
		sections := make([]doc.SectionID, writers+1)
		for i := range sections {
			sections[i] = doc.SectionID(fmt.Sprint("s", i))
			if _, err := library.AddSection(ctx, alice, id, sections[i], "", ""); err != nil {
				t.Fatal(err)
			}
		}
		before := doc.Seq(1 + len(sections)) // of the log, when the text has no character; from then on each event brings one
		write := func(sid doc.SectionID) {
			if _, err := library.EditSection(ctx, alice, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: "x"}}}, nil); err != nil {
				t.Error(err)
			}
		}
		store.Meanwhile(func() { write(sections[writers]) })
		var all sync.WaitGroup
		for _, sid := range sections[:writers] {
			all.Go(func() {
				for range edits {
					write(sid)
				}
			})
		}
		for name, read := range map[string]func() (doc.Snapshot, error){
			"Read":   func() (doc.Snapshot, error) { return library.Read(ctx, bob, id) },
			"ReadAt": func() (doc.Snapshot, error) { return library.ReadAt(ctx, bob, id, "") },
			"Follow": func() (doc.Snapshot, error) {
				snap, feed, err := library.Follow(ctx, bob, id, unmoved{})
				if err == nil {
					feed.Close()
				}
				return snap, err
			},
		} {
			all.Go(func() {
				for range reads {
					snap, err := read()
					if err != nil {
						t.Error(err)
						return
					}
					if text := snap.Markdown(); snap.Meta.LastSeq-before > doc.Seq(len(text)) {
						t.Errorf("%s has %d edits, and says that it has the log up to event %s: %d edits", name, len(text), snap.Meta.LastSeq, snap.Meta.LastSeq-before)
					}
				}
			})
		}
		all.Wait()
		store.Meanwhile(nil)
	})
}
