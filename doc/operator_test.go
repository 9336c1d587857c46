package doc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

var root = doc.Key{Agent: "root", Role: doc.Admin, Pattern: "*"}

// A block is felt by whoever has the document open and by whoever comes, also after a restart; what a replica wrote
// meanwhile is merged when the block is lifted.
func TestABlockedDocumentIsOutOfService(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		d := w.create("# One\n")
		sid, id := d.Sections[0].ID, d.Meta.ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()
		var back []crdt.DocumentID
		w.OnCreated(func(m doc.Meta) { back = append(back, m.ID) })

		for _, k := range []doc.Key{alice, viewer("vera")} {
			_, err := w.Block(ctx, k, "d", "")
			wantCode(t, err, code.Forbidden)
		}
		_, err := w.Block(ctx, root, "d", strings.Repeat("x", doc.MaxReason+1))
		wantCode(t, err, code.TooLarge)
		_, err = w.Block(ctx, root, "none", "")
		wantCode(t, err, code.DocumentNotFound)

		m, err := w.Block(ctx, root, "d", "it is too much")
		if err != nil || m.Block.By != "root" || m.Block.Reason != "it is too much" {
			t.Fatalf("the block is %+v, %v", m.Block, err)
		}
		synctest.Wait()
		wantCode(t, peer.goneBecause(), code.DocumentBlocked)
		peer.at.Detach()
		if n := w.OpenDocuments(); n != 0 {
			t.Errorf("%d documents are open", n)
		}
		refused := func() {
			t.Helper()
			_, err := w.Read(ctx, alice, id)
			wantCode(t, err, code.DocumentBlocked)
			var refusal *code.Error
			if !errors.As(err, &refusal) || refusal.Facts["reason"] != "it is too much" || refusal.Facts["blockedBy"] != doc.Agent("root") {
				t.Errorf("refused with %v", err)
			}
			_, err = w.Find(ctx, root, "d")
			wantCode(t, err, code.DocumentBlocked)
			_, err = w.Attach(ctx, alice, id, &replica{w: w}, true)
			wantCode(t, err, code.DocumentBlocked)
			_, err = w.Attach(ctx, doc.Key{Agent: "tom", Role: doc.Editor, Pattern: "team-*"}, id, &replica{w: w}, true)
			wantCode(t, err, code.Forbidden) // who may not know of it learns nothing
			_, _, err = w.Events(ctx, alice, id, 0, 10)
			wantCode(t, err, code.DocumentBlocked)
		}
		refused()
		rest, _, err := w.Events(ctx, alice, id, 1, 10) // who reads the log reads why it ends
		if err != nil || !slices.Equal(types(rest), []doc.EventType{doc.DocumentBlocked}) {
			t.Errorf("the rest of the log is %v, %v", types(rest), err)
		}
		w.crash()
		refused()
		w.OnCreated(func(m doc.Meta) { back = append(back, m.ID) })

		peer.typeIn(sid, 0, "Still here. ")
		if m, err = w.Unblock(ctx, root, "d"); err != nil || m.Block != (doc.Block{}) {
			t.Fatalf("unblocked: %+v, %v", m, err)
		}
		if !slices.Equal(back, []crdt.DocumentID{id}) {
			t.Errorf("who waits was told of %v", back)
		}
		again := w.attach(bob, id, false)
		again.doc, again.sync = peer.doc, automerge.NewSyncState(peer.doc)
		again.mustSettle()
		again.at.Detach()
		if got := w.read(id).Markdown(); got != "Still here. # One\n" {
			t.Errorf("the document is %q", got)
		}
		if _, err := w.Unblock(ctx, root, "d"); err != nil {
			t.Errorf("unblocked again: %v", err)
		}
		time.Sleep(3 * time.Second) // the fold's window
		log := types(w.log(id))
		want := []doc.EventType{doc.DocumentCreated, doc.DocumentBlocked, doc.DocumentUnblocked, doc.SectionEdited}
		if !slices.Equal(log, want) {
			t.Errorf("the log is %v, want %v", log, want)
		}
	})
}

// unloadable is an engine that loads no document while it is told not to.
type unloadable struct {
	engine.Engine
	broken bool
}

func (e *unloadable) Load(ctx context.Context, id crdt.DocumentID, parts [][]byte) (engine.Document, error) {
	if e.broken {
		return nil, engine.ErrTimeout
	}
	return e.Engine.Load(ctx, id, parts)
}

// An operator sees which documents are large, open, blocked, or cannot be worked on.
func TestUsage(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		for slug, size := range map[doc.Slug]int{"small": 10, "large": 10_000, "middle": 1000} {
			if _, err := w.Create(ctx, alice, doc.NewDocument{Slug: slug, Markdown: strings.Repeat("x", size)}); err != nil {
				t.Fatal(err)
			}
		}
		largest := func() []doc.Usage {
			t.Helper()
			all, err := w.Largest(ctx, 2)
			if err != nil || len(all) != 2 || all[0].Slug != "large" || all[1].Slug != "middle" {
				t.Fatalf("the largest are %+v, %v", all, err)
			}
			return all
		}
		if u := largest()[0]; !u.Open || !u.Loaded || u.Changes != 1 || u.Bytes < 100 || u.Fault.Count != 0 {
			t.Errorf("in use it is %+v", u)
		}
		time.Sleep(5 * time.Minute)
		if u := largest()[0]; u.Open || u.Loaded {
			t.Errorf("long after it is %+v", u)
		}

		w.close()
		w.open()
		broken := &unloadable{Engine: w.engine, broken: true}
		var err error
		if err = w.Library.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if w.Library, err = doc.Open(doc.Options{Store: w.store, Engine: broken, Leases: w.keeper}); err != nil {
			t.Fatal(err)
		}
		id := largest()[0].ID
		for range 2 {
			_, err := w.Read(ctx, alice, id)
			wantCode(t, err, code.Busy)
		}
		if _, err := w.Block(ctx, root, "small", ""); err != nil {
			t.Fatal(err)
		}
		out, err := w.OutOfService(ctx)
		if err != nil || len(out) != 2 || out[0].Slug != "small" || out[0].Block.At.IsZero() || out[1].Slug != "large" {
			t.Fatalf("out of service are %+v, %v", out, err)
		}
		if f := out[1].Fault; f.Count != 2 || f.Code != code.Busy || !f.At.Equal(time.Now()) {
			t.Errorf("the fault is %+v", f)
		}
		broken.broken = false
		snap := w.read(id)
		if out, err = w.OutOfService(ctx); err != nil || len(out) != 1 {
			t.Errorf("after it was loaded, out of service are %+v, %v", out, err)
		}
		w.store.fail.Store(1)
		_, err = w.WriteSection(ctx, alice, id, snap.Sections[0].ID, "lost", &doc.Base{Current: true})
		wantCode(t, err, code.Internal)
		synctest.Wait()
		if f := largest()[0].Fault; f.Count != 1 || f.Code != code.Internal {
			t.Errorf("after the disk failed the fault is %+v", f)
		}
		if err := w.Delete(ctx, alice, id); err != nil {
			t.Fatal(err)
		}
		if out, err = w.OutOfService(ctx); err != nil || len(out) != 1 || w.Faults() != 0 {
			t.Errorf("after it was deleted, out of service are %+v, %v, with %d faults", out, err, w.Faults())
		}
	})
}

// Who holds a lease on a section of a document that is blocked can neither renew nor release it: it ends, and costs no trust.
func TestABlockEndsLeasesAtNoCost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		d := w.create("# One\n")
		resource := doc.SectionResource(d.Meta.ID, d.Sections[0].ID)
		held, err := w.keeper.Do(t.Context(), lease.Acquire{Resource: resource, Agent: "alice", Operation: lease.Write, Duration: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := w.keeper.Agent("alice")
		if _, err := w.Block(t.Context(), root, "d", ""); err != nil {
			t.Fatal(err)
		}
		if left := w.keeper.Status(resource).Holders; len(left) > 0 {
			t.Errorf("%+v is left", left)
		}
		time.Sleep(2 * time.Minute) // past its end
		synctest.Wait()
		if after, _, _ := w.keeper.Agent("alice"); after.Trust != before.Trust {
			t.Errorf("trust was %v, and is %v", before.Trust, after.Trust)
		}
		if _, err := w.Unblock(t.Context(), root, "d"); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(w.log(d.Meta.ID), func(e doc.Event) bool {
			return strings.Contains(string(e.Payload), string(held.Lease.ID)) && strings.Contains(string(e.Payload), "the document was blocked")
		}) {
			t.Error("the log does not say why the lease ended")
		}
	})
}
