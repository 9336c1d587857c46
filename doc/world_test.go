package doc_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/automerge/automerge-go"
	"go.uber.org/goleak"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/sqlite"
	"cowrite/lease"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(compactAndDie); dir != "" {
		os.Exit(compactUntilKilled(dir))
	}
	goleak.VerifyTestMain(m)
}

// world is a library over real parts: an SQLite store on disk, the Automerge engine, a lease keeper.
type world struct {
	t      *testing.T
	dir    string
	store  *faultyStore
	engine engine.Engine
	keeper *lease.Keeper
	limits doc.Limits
	*doc.Library
}

// in runs a test on a world in a bubble of its own time.
func in(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, dir: dir}
		w.open()
		defer w.close()
		test(t, w)
	})
}

func (w *world) open() {
	w.t.Helper()
	store, err := sqlite.Open(context.Background(), w.dir, sqlite.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = &faultyStore{Store: store}
	if w.keeper, err = lease.Open(context.Background(), doc.LeaseStore(w.store, nil), lease.Options{}); err != nil {
		w.t.Fatal(err)
	}
	w.engine = engine.New(engine.Options{})
	if w.Library, err = doc.Open(doc.Options{Store: w.store, Engine: w.engine, Leases: w.keeper, Limits: w.limits}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	w.t.Helper()
	for _, end := range []func() error{
		func() error { return w.Library.Close(context.Background()) }, w.keeper.Close, w.engine.Close, w.store.Close,
	} {
		if err := end(); err != nil {
			w.t.Error(err)
		}
	}
}

// crash drops everything as kill -9 would: what is not in the store by now never gets there.
func (w *world) crash() {
	w.t.Helper()
	w.store.dead.Store(true)
	_ = w.Library.Close(context.Background())
	_ = w.keeper.Close()
	_ = w.engine.Close()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
	w.open()
}

// faultyStore is a store whose writes can be made to fail.
type faultyStore struct {
	doc.Store
	fail atomic.Int32 // so many writes fail
	dead atomic.Bool  // all do

	looked func() // called when a document was looked up, before that is told; set while nobody looks

	failCompact atomic.Bool
	slowCompact atomic.Int64 // a compaction takes so many ns more to say that it is done
}

var errDisk = errors.New("the disk is full")

func (s *faultyStore) broken() bool { return s.dead.Load() || s.fail.Add(-1) >= 0 }

func (s *faultyStore) Document(ctx context.Context, id crdt.DocumentID) (doc.Meta, error) {
	m, err := s.Store.Document(ctx, id)
	if s.looked != nil {
		s.looked()
	}
	return m, err
}

func (s *faultyStore) Append(ctx context.Context, id crdt.DocumentID, a doc.Append) ([]doc.Event, error) {
	if s.broken() {
		return nil, errDisk
	}
	return s.Store.Append(ctx, id, a)
}

func (s *faultyStore) Create(ctx context.Context, m doc.Meta, a doc.Append) ([]doc.Event, error) {
	if s.broken() {
		return nil, errDisk
	}
	return s.Store.Create(ctx, m, a)
}

func (s *faultyStore) SaveLeases(ctx context.Context, c []doc.LeaseCommit) error {
	if s.broken() {
		return errDisk
	}
	return s.Store.SaveLeases(ctx, c)
}

func editor(name string) doc.Key {
	return doc.Key{Agent: doc.Agent(name), Role: doc.Editor, Pattern: "*"}
}

func viewer(name string) doc.Key {
	return doc.Key{Agent: doc.Agent(name), Role: doc.Viewer, Pattern: "*"}
}

var alice, bob = editor("alice"), editor("bob")

func (w *world) create(markdown string) doc.Snapshot {
	w.t.Helper()
	s, err := w.Create(context.Background(), alice, doc.NewDocument{Slug: "d", Markdown: markdown})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) read(id crdt.DocumentID) doc.Snapshot {
	w.t.Helper()
	s, err := w.Read(context.Background(), alice, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// log gives all events of a document, and fails where the chain or the numbers are not whole.
func (w *world) log(id crdt.DocumentID) []doc.Event {
	w.t.Helper()
	events, more, err := w.Events(context.Background(), alice, id, 0, 10_000)
	if err != nil || more {
		w.t.Fatal(more, err)
	}
	var previous doc.EventHash
	for i, e := range events {
		if e.Seq != doc.Seq(i+1) || doc.Chain(previous, e.Seq, e.NewEvent).Hash != e.Hash {
			w.t.Fatalf("event %d breaks the log: %+v", i+1, e)
		}
		previous = e.Hash
	}
	return events
}

func types(events []doc.Event) []doc.EventType {
	var out []doc.EventType
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// replica is a peer with an Automerge document of its own, which speaks the binding's sync protocol.
type replica struct {
	w    *world
	doc  *automerge.Doc
	sync *automerge.SyncState
	at   *doc.Attachment

	mu    sync.Mutex
	inbox [][]byte
	gone  error
}

func (r *replica) Deliver(_ crdt.DocumentID, m []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, m)
	return true
}

func (r *replica) Gone(_ crdt.DocumentID, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = why
}

func (r *replica) goneBecause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

func (w *world) attach(k doc.Key, id crdt.DocumentID, create bool) *replica {
	w.t.Helper()
	r := &replica{w: w, doc: automerge.New()}
	r.sync = automerge.NewSyncState(r.doc)
	var err error
	if r.at, err = w.Attach(context.Background(), k, id, r, create); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// settle exchanges messages until the replica has nothing more to say and hear.
func (r *replica) settle() error {
	for range 100 {
		quiet := true
		for {
			m, ok := r.sync.GenerateMessage()
			if !ok {
				break
			}
			quiet = false
			if err := r.at.Receive(context.Background(), m.Bytes()); err != nil {
				return err
			}
		}
		synctest.Wait() // who wrote is answered before the others are told
		r.mu.Lock()
		inbox := r.inbox
		r.inbox = nil
		r.mu.Unlock()
		for _, m := range inbox {
			quiet = false
			if _, err := r.sync.ReceiveMessage(m); err != nil {
				return err
			}
		}
		if quiet {
			return nil
		}
	}
	return errors.New("the conversation does not end")
}

func (r *replica) mustSettle() {
	r.w.t.Helper()
	if err := r.settle(); err != nil {
		r.w.t.Fatal(err)
	}
}

// typeIn inserts text into a section's body as one change.
func (r *replica) typeIn(sid doc.SectionID, at int, text string) {
	r.w.t.Helper()
	if err := r.doc.Path("sections", string(sid), "body").Text().Insert(at, text); err != nil {
		r.w.t.Fatal(err)
	}
	r.commit()
}

func (r *replica) commit() {
	r.w.t.Helper()
	if _, err := r.doc.Commit("", automerge.CommitOptions{Time: new(time.Unix(1, 0))}); err != nil {
		r.w.t.Fatal(err)
	}
}

func (r *replica) text(sid doc.SectionID) string {
	r.w.t.Helper()
	s, err := r.doc.Path("sections", string(sid), "body").Text().Get()
	if err != nil {
		r.w.t.Fatal(err)
	}
	return s
}
