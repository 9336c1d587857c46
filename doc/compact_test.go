package doc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
)

// native is a replica on our own graph, session and engine: it understands version 2 of the protocol.
type native struct {
	*replica
	graph   *crdt.Graph
	session *crdt.Session
	doc     engine.Document
	raws    map[crdt.Hash][]byte
	bytes   int // received
}

func (n *native) Raw(hashes []crdt.Hash, _ bool) ([][]byte, error) {
	var out [][]byte
	for _, h := range hashes {
		out = append(out, n.raws[h])
	}
	return out, nil
}

func (n *native) Whole() ([]byte, error) {
	raws, err := n.Raw(n.graph.From(0), true)
	return slices.Concat(raws...), err
}

func (w *world) attachNative(k doc.Key, id crdt.DocumentID) *native {
	w.t.Helper()
	r := &replica{w: w}
	n := &native{replica: r, graph: crdt.NewGraph(), session: crdt.NewSession(false), raws: map[crdt.Hash][]byte{}}
	var err error
	if n.doc, err = w.engine.Load(context.Background(), crdt.DocumentID{1}, nil); err != nil {
		w.t.Fatal(err)
	}
	if r.at, err = w.Attach(context.Background(), k, id, r, false); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (n *native) add(changes ...crdt.Change) {
	n.graph.Add(changes...)
	for _, c := range changes {
		n.raws[c.Hash] = c.Raw
	}
}

// insert types text into a section's body as one change.
func (n *native) insert(sid doc.SectionID, at int, text string) {
	n.w.t.Helper()
	c, err := n.doc.Edit(context.Background(), nil, time.Unix(1, 0), []engine.Op{engine.Splice{Path: crdt.Path{"sections", string(sid), "body"}, At: at, Insert: text}})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.add(*c)
}

func (n *native) settle() {
	n.w.t.Helper()
	for range 100 {
		data, ok, err := n.session.Generate(n.graph, n)
		if err != nil {
			n.w.t.Fatal(err)
		}
		if ok {
			if err := n.at.Receive(context.Background(), data); err != nil {
				n.w.t.Fatal(err)
			}
		}
		synctest.Wait()
		n.mu.Lock()
		inbox := n.inbox
		n.inbox = nil
		n.mu.Unlock()
		if !ok && len(inbox) == 0 {
			return
		}
		for _, data := range inbox {
			n.take(data)
		}
	}
	n.w.t.Fatal("the conversation does not end")
}

func (n *native) take(data []byte) {
	n.w.t.Helper()
	n.bytes += len(data)
	m, err := crdt.ParseMessage(data, crdt.Limits{ChangeBytes: 1 << 24})
	if err != nil {
		n.w.t.Fatal(err)
	}
	changes := m.Changes
	for _, chunk := range m.Documents {
		unpacked, err := n.w.engine.Unpack(context.Background(), chunk)
		if err != nil {
			n.w.t.Fatal(err)
		}
		changes = append(unpacked, changes...)
	}
	ready, _, _ := n.graph.Sort(changes)
	if err := n.doc.Apply(context.Background(), ready); err != nil {
		n.w.t.Fatal(err)
	}
	n.add(ready...)
	n.session.Receive(n.graph, m)
}

func (n *native) text(sid doc.SectionID) string {
	n.w.t.Helper()
	v, err := n.doc.Read(context.Background(), nil, crdt.Path{"sections", string(sid), "body"})
	if err != nil {
		n.w.t.Fatal(err)
	}
	text, _ := v.(engine.Text)
	return string(text)
}

func (s *faultyStore) Compact(ctx context.Context, id crdt.DocumentID, saved doc.Saved) error {
	if s.failCompact.Load() || s.broken() {
		return errDisk
	}
	err := s.Store.Compact(ctx, id, saved)
	time.Sleep(time.Duration(s.slowCompact.Load()))
	return err
}

// rows is how many changes are stored one by one, and up to which the document was compacted.
func (w *world) rows(id crdt.DocumentID) (rows int, upto int64) {
	w.t.Helper()
	changes, err := w.store.Changes(context.Background(), id, 0, 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	saved, err := w.store.Saved(context.Background(), id, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(changes), saved.Upto
}

// typed has a replica type n characters, a change each.
func (w *world) typed(id crdt.DocumentID, sid doc.SectionID, n int) *native {
	w.t.Helper()
	peer := w.attachNative(bob, id)
	peer.settle()
	for i := range n {
		peer.insert(sid, 0, fmt.Sprintf("%d ", i))
		if i%50 == 0 {
			peer.settle()
		}
	}
	peer.settle()
	return peer
}

func TestALongHistoryIsCompactedAndNothingIsLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.typed(id, sid, 1100)
		synctest.Wait()
		if rows, upto := w.rows(id); upto < 1024 || rows+int(upto) != 1101 {
			t.Errorf("%d rows behind change %d", rows, upto)
		}
		text := peer.text(sid)
		for range 2 {
			if got := w.read(id).Sections[0].Text; got != text || len(strings.Fields(got)) != 1102 {
				t.Fatalf("the text has %d words", len(strings.Fields(got)))
			}
			fresh := w.attachNative(alice, id)
			fresh.settle()
			if fresh.text(sid) != text {
				t.Errorf("a fresh replica has other text")
			}
			if fresh.bytes > 40_000 {
				t.Errorf("a fresh replica was sent %d bytes for 1,101 changes", fresh.bytes)
			}
			old := w.attach(alice, id, false) // speaks version 1 alone: every change one by one
			old.mustSettle()
			if old.text(sid) != text {
				t.Errorf("an old client has other text")
			}
			fresh.at.Detach()
			old.at.Detach()
			w.crash()
		}
		// A replica that was away while the changes it lacks lost their rows.
		away := w.attachNative(alice, id)
		away.settle()
		away.at.Detach()
		more := w.typed(id, sid, 700)
		more.at.Detach()
		time.Sleep(3 * time.Minute) // idle: compacted again
		synctest.Wait()
		if rows, _ := w.rows(id); rows != 0 {
			t.Errorf("an idle document still has %d rows", rows)
		}
		var err error
		if away.at, err = w.Attach(t.Context(), alice, id, away.replica, false); err != nil {
			t.Fatal(err)
		}
		away.session = crdt.NewSession(false)
		away.insert(sid, 0, "offline ")
		away.settle()
		if got := w.read(id).Sections[0].Text; away.text(sid) != got || !strings.Contains(got, "offline ") || len(strings.Fields(got)) != 1803 {
			t.Errorf("the replica that was away has %d words, the server %d", len(strings.Fields(away.text(sid))), len(strings.Fields(got)))
		}
		away.at.Detach()
		w.log(id)
	})
}

// The change that imported a long text is as long as the text: a replica with nothing gets it saved instead, and what was
// written since behind it.
func TestALargeChangeComesSaved(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# Long\n\n" + strings.Repeat("Some words, and some more of them.\n", 8_000))
		id, sid := s.Meta.ID, s.Sections[0].ID
		for _, more := range []string{"", "First, "} {
			if more != "" {
				writer := w.attachNative(alice, id)
				writer.settle()
				writer.insert(sid, 0, more)
				writer.settle()
				writer.at.Detach()
			}
			fresh := w.attachNative(alice, id)
			fresh.settle()
			if got := w.read(id).Sections[0].Text; fresh.text(sid) != got || !strings.HasPrefix(got, more) {
				t.Errorf("a fresh replica has %d bytes of text, the server %d", len(fresh.text(sid)), len(got))
			}
			if fresh.bytes > 50_000 {
				t.Errorf("a fresh replica was sent %d bytes", fresh.bytes)
			}
			fresh.at.Detach()
		}
	})
}

func TestAFailedCompactionIsTriedAgain(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		w.store.failCompact.Store(true)
		peer := w.typed(id, sid, 1100)
		synctest.Wait()
		if _, upto := w.rows(id); upto != 0 {
			t.Fatalf("compacted up to %d by a store that fails", upto)
		}
		w.store.failCompact.Store(false)
		peer.settle()
		for range 130 {
			peer.insert(sid, 0, "x ")
			peer.settle()
		}
		synctest.Wait()
		if _, upto := w.rows(id); upto < 1100 {
			t.Errorf("compacted up to %d", upto)
		}
		if got := w.read(id).Sections[0].Text; got != peer.text(sid) {
			t.Error("the text is another")
		}
		peer.at.Detach()
	})
}

// slowSaver is an engine that takes a minute to save what a compaction gives it.
type slowSaver struct {
	engine.Engine
	saving, saved, most atomic.Int32 // how many are at it, have been, and were at most at once
}

func (e *slowSaver) Save(ctx context.Context, parts [][]byte) ([]byte, error) {
	n := e.saving.Add(1)
	e.most.Store(max(n, e.most.Load()))
	time.Sleep(time.Minute)
	e.saving.Add(-1)
	e.saved.Add(1)
	return e.Engine.Save(ctx, parts)
}

// saveSlowly opens the library anew, on such an engine.
func (w *world) saveSlowly() *slowSaver {
	w.t.Helper()
	if err := w.Library.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	saver := &slowSaver{Engine: w.engine}
	var err error
	if w.Library, err = doc.Open(doc.Options{Store: w.store, Engine: saver, Leases: w.keeper}); err != nil {
		w.t.Fatal(err)
	}
	return saver
}

// Many documents that are compacted at the same time take turns, so that not all of them are in memory.
func TestDocumentsAreSavedInTurns(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		saver := w.saveSlowly()
		const documents = 3
		for range documents {
			s, err := w.Create(t.Context(), alice, doc.NewDocument{Markdown: "# A\n"})
			if err != nil {
				t.Fatal(err)
			}
			w.typed(s.Meta.ID, s.Sections[0].ID, 100).at.Detach() // is compacted when it has been left
		}
		time.Sleep((documents + 2) * time.Minute)
		synctest.Wait()
		if saved, most := saver.saved.Load(), saver.most.Load(); saved != documents || most != 1 {
			t.Errorf("%d documents were saved, %d at once", saved, most)
		}
	})
}

// A document does not wait for its compaction, and what comes meanwhile stays behind it as rows.
func TestADocumentGoesOnWhileItIsCompacted(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.saveSlowly()
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.typed(id, sid, 1023) // and begins
		began := time.Now()
		for range 30 {
			peer.insert(sid, 0, "meanwhile ")
			peer.settle()
			if _, err := w.EditSection(t.Context(), alice, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: "too "}}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		peer.settle()
		if took := time.Since(began); took > 60*pause {
			t.Errorf("sixty changes during a compaction took %v", took)
		}
		if rows, upto := w.rows(id); rows != 1084 || upto != 0 {
			t.Fatalf("%d rows behind change %d before the compaction ended", rows, upto)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if rows, upto := w.rows(id); rows != 60 || upto != 1024 {
			t.Errorf("%d rows behind change %d", rows, upto)
		}
		for range 2 {
			if got := w.read(id).Sections[0].Text; got != peer.text(sid) || strings.Count(got, "meanwhile") != 30 || strings.Count(got, "too") != 30 {
				t.Errorf("the text has %d words, the replica's %d", len(strings.Fields(got)), len(strings.Fields(peer.text(sid))))
			}
			peer.at.Detach()
			w.log(id)
			w.crash()
			peer = w.attachNative(alice, id)
			peer.settle()
		}
		peer.at.Detach()
	})
}

// Who has a document open hears at once that it was deleted and can leave it, however long its compaction still takes. Who
// comes when it is restored waits for that.
func TestPeersOfADeletedDocumentDoNotWaitForItsCompaction(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		saver := w.saveSlowly()
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.typed(id, sid, 1023) // and begins
		f := new(mirror)
		_, follow, err := w.Follow(t.Context(), bob, id, f)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantCode(t, peer.goneBecause(), code.DocumentDeleted)
		wantCode(t, f.gone, code.DocumentDeleted)
		peer.at.Detach()
		follow.Close()
		if took := time.Since(began); took != 0 || saver.saving.Load() != 1 {
			t.Errorf("it took %v until who had it open was out, %d compactions under way", took, saver.saving.Load())
		}
		if _, err := w.Restore(t.Context(), alice, "d"); err != nil {
			t.Fatal(err)
		}
		if got := w.read(id).Sections[0].Text; got != peer.text(sid) {
			t.Errorf("restored it has %d words, want %d", len(strings.Fields(got)), len(strings.Fields(peer.text(sid))))
		}
		if rows, upto := w.rows(id); rows != 0 || upto != 1024 {
			t.Errorf("%d rows behind change %d", rows, upto)
		}
	})
}

// The rows are gone from the store, and the desk does not know it yet, when the engine has to load the document again.
func TestADocumentIsLoadedWhileItsCompactionEnds(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.close()
		w.limits.EngineBytes = 20_000 // any other document puts this one away
		w.open()
		w.store.slowCompact.Store(int64(time.Minute))
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.typed(id, sid, 1023)
		synctest.Wait()
		if _, upto := w.rows(id); upto != 1024 {
			t.Fatalf("compacted up to %d", upto)
		}
		if _, err := w.Create(t.Context(), alice, doc.NewDocument{Markdown: strings.Repeat("# other\n", 20)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := w.read(id).Sections[0].Text; got != peer.text(sid) {
			t.Errorf("the document has %d words, want %d", len(strings.Fields(got)), len(strings.Fields(peer.text(sid))))
		}
		peer.insert(sid, 0, "and on ")
		peer.settle()
		if got := w.read(id).Sections[0].Text; got != peer.text(sid) {
			t.Error("the document did not go on")
		}
		peer.at.Detach()
	})
}

func TestReadingWritesNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		w.typed(id, sid, 200).at.Detach()
		time.Sleep(3 * time.Second)
		w.crash() // before it is idle
		w.store.fail.Store(1_000_000)
		peer := w.attachNative(viewer("v"), id)
		peer.settle()
		w.read(id)
		peer.at.Detach()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := w.store.fail.Load(); got != 1_000_000 {
			t.Errorf("a visit made %d writes", 1_000_000-got)
		}
		w.store.fail.Store(0)
	})
}

func TestHeavyDocumentsLeaveTheEngine(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.close()
		w.limits.EngineBytes = 20_000 // about ten changes
		w.open()
		var ids []crdt.DocumentID
		for n := range 20 {
			s, err := w.Create(t.Context(), alice, doc.NewDocument{Markdown: fmt.Sprint("# ", n)})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.Meta.ID)
		}
		synctest.Wait()
		if got := w.EngineDocuments(); got > 12 {
			t.Errorf("%d documents are in the engine", got)
		}
		for n, id := range ids {
			if got := w.read(id).Markdown(); got != fmt.Sprint("# ", n) {
				t.Errorf("document %d is %q", n, got)
			}
		}
	})
}

// A document that has grown to the limit takes in no more, by whatever door, and stays whole. Compaction makes room.
func TestAFullDocument(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const limit = 20_000
		w := &world{t: t, dir: dir, limits: doc.Limits{DocumentBytes: limit}}
		w.open()
		defer w.close()
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		peer := w.attach(bob, id, false)
		peer.mustSettle()

		// Three times as many bytes as there may be, which compaction makes few.
		for range 60 {
			if _, err := w.WriteSection(t.Context(), alice, id, sid, strings.Repeat("again ", 166), &doc.Base{Current: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteSection(t.Context(), alice, id, sid, "", &doc.Base{Current: true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		chance := rand.New(rand.NewPCG(1, 1))
		noise := func() string {
			b := make([]byte, 1000)
			for i := range b {
				b[i] = byte(' ' + chance.IntN(90))
			}
			return string(b)
		}
		written := ""
		var err error
		for range 100 {
			text := noise()
			if _, err = w.WriteSection(t.Context(), alice, id, sid, text, &doc.Base{Current: true}); err != nil {
				break
			}
			written = text
			synctest.Wait()
		}
		if refusal := wantCode(t, err, code.DocumentFull); refusal.Facts["limit"] != limit {
			t.Errorf("the refusal names %v", refusal.Facts)
		}
		peer.mustSettle()
		peer.typeIn(sid, 0, strings.Repeat(noise(), 2))
		wantCode(t, peer.settle(), code.DocumentFull)
		_, err = w.Rename(t.Context(), alice, id, new("Full"), nil)
		wantCode(t, err, code.DocumentFull)
		_, err = w.AddSection(t.Context(), alice, id, "more", "", "# More\n")
		wantCode(t, err, code.DocumentFull)
		meta, err := w.Find(t.Context(), alice, "d")
		if err != nil || meta.Bytes < limit-2000 || meta.Bytes > limit+2000 {
			t.Errorf("the document takes %d bytes, %v; want about %d", meta.Bytes, err, limit)
		}
		peer.at.Detach()
		w.crash()
		if got := w.read(id).Markdown(); got != written {
			t.Errorf("the document has %d bytes of text, want the %d that were acknowledged", len(got), len(written))
		}
		_, err = w.WriteSection(t.Context(), alice, id, sid, noise(), &doc.Base{Current: true})
		wantCode(t, err, code.DocumentFull)
		if err := w.Delete(t.Context(), alice, id); err != nil {
			t.Errorf("a full document is not deleted: %v", err)
		}
	})
}

// What is posted to a document has a limit of its own, beyond which its text goes on.
func TestADocumentFullOfMessages(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir, limits: doc.Limits{PostedBytes: 30, DocumentBytes: 1000}}
		w.open()
		defer w.close()
		s := w.create("# A\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		for range 3 {
			if _, err := w.Post(t.Context(), alice, id, json.RawMessage(`{"n":"12"}`)); err != nil {
				t.Fatal(err)
			}
		}
		w.crash()
		_, err := w.Post(t.Context(), bob, id, json.RawMessage(`{}`))
		if refusal := wantCode(t, err, code.MessagesFull); refusal.Facts["limit"] != 30 {
			t.Errorf("the refusal names %v", refusal.Facts)
		}
		if _, err := w.WriteSection(t.Context(), alice, id, sid, "# B\n", &doc.Base{Current: true}); err != nil {
			t.Errorf("the text does not go on: %v", err)
		}
		want := []doc.EventType{doc.DocumentCreated, doc.MessagePosted, doc.MessagePosted, doc.MessagePosted, doc.SectionEdited}
		if log := types(w.log(id)); !slices.Equal(log, want) {
			t.Errorf("the log is %v, want %v", log, want)
		}
	})
}

// After compaction a document takes on disk at most four times what it takes saved, and 64 bytes for each change. The file
// has its log besides, and the pages that are kept free.
func TestALongDocumentOnDisk(t *testing.T) {
	const changes = 10_000
	dir := t.TempDir()
	content := int64(0)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir}
		w.open()
		defer w.close()
		id := w.create("").Meta.ID
		n := w.attachNative(alice, id)
		n.settle()
		sid := doc.SectionID("s")
		if _, err := w.AddSection(t.Context(), alice, id, sid, "", "# S\n"); err != nil {
			t.Fatal(err)
		}
		n.settle()
		for i := range changes {
			n.insert(sid, 4+i, string(rune('a'+i%26)))
			if i%500 == 499 {
				n.settle()
				time.Sleep(10 * time.Second)
			}
		}
		n.at.Detach()
		time.Sleep(2 * time.Minute)
		saved, _, err := w.Export(t.Context(), alice, id)
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.Find(t.Context(), alice, "d")
		if err != nil {
			t.Fatal(err)
		}
		if limit := int64(4*len(saved) + 64*changes); m.Changes < changes || m.Bytes > limit {
			t.Errorf("%d changes take %d bytes, more than %d; saved they are %d", m.Changes, m.Bytes, limit, len(saved))
		}
		for _, e := range w.log(id) {
			content += int64(len(e.Payload)) + 200
		}
		content += m.Bytes
	})
	info, err := os.Stat(filepath.Join(dir, "cowrite.db"))
	if err != nil {
		t.Fatal(err)
	}
	if limit := content*5/4 + 3<<19; info.Size() > limit {
		t.Errorf("the file has %d bytes, more than %d", info.Size(), limit)
	}
}
