package doc_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
)

// forkCounter is an engine that counts what it is asked to do on older versions, which it does by a fork, and what is read.
type forkCounter struct {
	engine.Engine
	forks   atomic.Int32
	reads   atomic.Int32 // of a text, be it with an edit
	unpacks atomic.Int32
}

func (f *forkCounter) Load(ctx context.Context, id crdt.DocumentID, parts [][]byte) (engine.Document, error) {
	d, err := f.Engine.Load(ctx, id, parts)
	return &forkCounted{d, f}, err
}

func (f *forkCounter) Unpack(ctx context.Context, chunk []byte) ([]crdt.Change, error) {
	f.unpacks.Add(1)
	return f.Engine.Unpack(ctx, chunk)
}

type forkCounted struct {
	engine.Document
	counter *forkCounter
}

func (d *forkCounted) Edit(ctx context.Context, base []crdt.Hash, at time.Time, ops []engine.Op) (*crdt.Change, error) {
	if base != nil {
		d.counter.forks.Add(1)
	}
	return d.Document.Edit(ctx, base, at, ops)
}

func (d *forkCounted) EditRead(ctx context.Context, base []crdt.Hash, at time.Time, ops []engine.Op, path crdt.Path) (*crdt.Change, engine.Value, error) {
	if base != nil {
		d.counter.forks.Add(1)
	}
	d.counter.reads.Add(1)
	return d.Document.EditRead(ctx, base, at, ops, path)
}

func (d *forkCounted) Read(ctx context.Context, at []crdt.Hash, path crdt.Path) (engine.Value, error) {
	if at != nil {
		d.counter.forks.Add(1)
	}
	d.counter.reads.Add(1)
	return d.Document.Read(ctx, at, path)
}

// reopen starts the library anew, over an engine that counts forks.
func (w *world) reopen() *forkCounter {
	w.t.Helper()
	if err := w.Library.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	counter := &forkCounter{Engine: w.engine}
	var err error
	if w.Library, err = doc.Open(doc.Options{Store: w.store, Engine: counter, Leases: w.keeper, Limits: w.limits}); err != nil {
		w.t.Fatal(err)
	}
	return counter
}

// Whether a document's changes are in the saved form, in rows, or came in since: an edit on any of its versions merges,
// without a fork.
func TestEditsOnOlderVersionsNeedNoFork(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("start 🙂 end\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		random := rand.New(rand.NewPCG(1, 2))
		type version struct {
			name crdt.Version
			text string
		}
		versions := []version{{s.Version, s.Sections[0].Text}}
		written := 'あ' // each edit writes a character of its own
		edit := func() {
			t.Helper()
			base := versions[random.IntN(len(versions))]
			written++
			at := random.IntN(utf8.RuneCountInString(base.text) + 1)
			got, err := w.EditSection(t.Context(), bob, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{At: at, Insert: string(written)}}}, &doc.Base{Version: base.name})
			if err != nil {
				t.Fatal(err)
			}
			versions = append(versions, version{got.Version, got.Section.Text})
		}
		for range 80 { // so many that they are compacted when nobody comes for a while
			edit()
		}
		r := w.attach(alice, id, false)
		r.mustSettle()
		time.Sleep(time.Minute)
		counter := w.reopen()
		for range 20 {
			edit()
		}
		if counter.unpacks.Load() != 1 {
			t.Errorf("the saved form was unpacked %d times", counter.unpacks.Load())
		}
		r = w.attach(alice, id, false)
		r.mustSettle()
		written++
		r.typeIn(sid, 0, string(written))
		r.mustSettle()
		for range 20 {
			edit()
		}
		text := w.read(id).Sections[0].Text
		for c := 'あ' + 1; c <= written; c++ {
			if strings.Count(text, string(c)) != 1 {
				t.Errorf("%c is in the text %d times: %q", c, strings.Count(text, string(c)), text)
			}
		}
		r.mustSettle()
		if r.text(sid) != text {
			t.Errorf("the replica has %q, want %q", r.text(sid), text)
		}
		v := versions[len(versions)/2]
		if got, err := w.RevertSection(t.Context(), alice, id, sid, v.name); err != nil || got.Section.Text != v.text {
			t.Errorf("reverted to %q, %v, want %q", got.Section.Text, err, v.text)
		}
		if counter.forks.Load() != 0 {
			t.Errorf("%d forks", counter.forks.Load())
		}
	})
}

// A text that is not the one that stands there now is for the engine to edit, and so is what it was before it was a text.
func TestEditsOnAnotherTextFork(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("one\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		counter := w.reopen()
		r := w.attach(alice, id, false)
		r.mustSettle()
		if err := r.doc.Path("sections", string(sid)).Map().Set("body", "scalar"); err != nil {
			t.Fatal(err)
		}
		r.commit()
		r.mustSettle()
		scalar := w.read(id).Version
		if _, err := w.WriteSection(t.Context(), bob, id, sid, "two\n", &doc.Base{Current: true}); err != nil {
			t.Fatal(err)
		}
		got, err := w.EditSection(t.Context(), bob, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{At: 0, Insert: "lost "}}}, &doc.Base{Version: s.Version})
		if err != nil || got.Section.Text != "two\n" || counter.forks.Load() == 0 {
			t.Errorf("an edit on a text that was replaced gave %+v, %v, after %d forks", got, err, counter.forks.Load())
		}
		_, err = w.EditSection(t.Context(), bob, id, sid, doc.OpsEdit{}, &doc.Base{Version: scalar})
		wantCode(t, err, code.InvalidVersion)
	})
}

// However a large section is edited, its text is known without reading it back, and is what a replica and the next start of the
// server read.
func TestLargeSectionsAreNotReadBack(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# Large\n" + strings.Repeat("one 🙂 two three. ", 1000))
		id, sid := s.Meta.ID, s.Sections[0].ID
		counter := w.reopen()
		text := w.read(id).Sections[0].Text
		before := counter.reads.Load()
		for n, e := range []doc.Edit{
			doc.ReplaceEdit{Replacements: []doc.Replacement{{Find: "two", With: "2 👩‍👧", Occurrence: 500}}},
			doc.OpsEdit{Ops: []doc.TextOp{{At: 3, Insert: "y"}, {At: 6, Delete: 6, Insert: "é"}}},
			doc.TextEdit{Text: "== " + strings.Replace(text, "three", "drei", 40)},
			doc.OpsEdit{Ops: []doc.TextOp{{At: 2, Delete: 900}}},
		} {
			if _, err := w.EditSection(t.Context(), bob, id, sid, e, &doc.Base{Version: s.Version}); err != nil {
				t.Fatalf("edit %d: %v", n, err)
			}
		}
		known := w.read(id).Sections[0]
		if reads := counter.reads.Load() - before; reads != 0 {
			t.Errorf("the engine was read %d times", reads)
		}
		r := w.attach(alice, id, false)
		r.mustSettle()
		if r.text(sid) != known.Text {
			t.Error("the replica has another text")
		}
		w.reopen()
		if got := w.read(id).Sections[0]; got != known {
			t.Error("the engine has another section")
		}
	})
}
