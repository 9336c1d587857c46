package doc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/sqlite"
	"cowrite/lease"
)

// compactAndDie in the environment makes the test binary a process that gives a document in the folder named there the
// change that has it compacted, acknowledges it, and kills itself at the step named by compactStep.
const (
	compactAndDie   = "COWRITE_TEST_COMPACT_AND_DIE"
	compactDocument = "COWRITE_TEST_COMPACT_DOCUMENT"
	compactStep     = "COWRITE_TEST_COMPACT_STEP"
)

// lastMessage is a file in the folder: the sync message that brings the change.
const lastMessage = "message"

// compactSteps are what a desk does to compact a document, in order. Within the store's own step doc/sqlite kills.
var compactSteps = []string{
	"before the log is completed", "when the log is completed",
	"before the engine saves", "when the engine has saved",
	"before the store compacts", "when the store has compacted",
}

// killer is a store and engine that kill the process at a step, once the change is acknowledged.
type killer struct {
	doc.Store
	engine.Engine
	step         string
	acknowledged chan struct{}
}

func (k *killer) at(step string) {
	if step == k.step {
		<-k.acknowledged
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (k *killer) Append(ctx context.Context, id crdt.DocumentID, a doc.Append) ([]doc.Event, error) {
	completes := len(a.Logged) > 0
	if completes {
		k.at(compactSteps[0])
	}
	events, err := k.Store.Append(ctx, id, a)
	if completes {
		k.at(compactSteps[1])
	}
	return events, err
}

func (k *killer) Compact(ctx context.Context, id crdt.DocumentID, saved doc.Saved) error {
	k.at(compactSteps[4])
	err := k.Store.Compact(ctx, id, saved)
	k.at(compactSteps[5])
	return err
}

func (k *killer) Save(ctx context.Context, parts [][]byte) ([]byte, error) {
	k.at(compactSteps[2])
	saved, err := k.Engine.Save(ctx, parts)
	k.at(compactSteps[3])
	return saved, err
}

func (k *killer) Close() error { return errors.Join(k.Engine.Close(), k.Store.Close()) }

// deaf is a replica that listens to nothing.
type deaf struct{}

func (deaf) Deliver(crdt.DocumentID, []byte) bool { return true }
func (deaf) Gone(crdt.DocumentID, error)          {}

// compactUntilKilled never returns 0.
func compactUntilKilled(dir string) int {
	if err := untilKilled(dir, os.Getenv(compactStep)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

func untilKilled(dir, step string) error {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		return err
	}
	k := &killer{Store: store, Engine: engine.New(engine.Options{}), step: step, acknowledged: make(chan struct{})}
	keeper, err := lease.Open(ctx, doc.LeaseStore(store, nil), lease.Options{})
	if err != nil {
		return err
	}
	library, err := doc.Open(doc.Options{Store: k, Engine: k, Leases: keeper})
	if err != nil {
		return err
	}
	id, err := crdt.ParseDocumentID(os.Getenv(compactDocument))
	if err != nil {
		return err
	}
	message, err := os.ReadFile(filepath.Join(dir, lastMessage))
	if err != nil {
		return err
	}
	at, err := library.Attach(ctx, bob, id, deaf{}, false)
	if err != nil {
		return err
	}
	if err := at.Receive(ctx, message); err != nil {
		return err
	}
	close(k.acknowledged)
	at.Detach()
	return errors.Join(library.Close(ctx), fmt.Errorf("there is no step %q", step))
}

// A process is killed at every step of a compaction. What it had acknowledged is there, the log is whole and complete, and
// the next compaction runs.
func TestCompactionKilledAtEveryStep(t *testing.T) {
	from := t.TempDir()
	var id crdt.DocumentID
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		sid := s.Sections[0].ID
		id = s.Meta.ID
		peer := w.typed(id, sid, 1022)
		peer.insert(sid, 0, "last ")
		message, ok, err := peer.session.Generate(peer.graph, peer)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		peer.at.Detach()
		w.close()
		if err := os.CopyFS(from, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, lastMessage), message, 0o600); err != nil {
			t.Fatal(err)
		}
		w.open()
	})
	for _, step := range compactSteps {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			compactAndKill(t, dir, id, step)
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, dir: dir}
				w.open()
				defer w.close()
				nothingLost(t, w, id, step == compactSteps[len(compactSteps)-1])
			})
		})
	}
}

// nothingLost looks at what is left of a document whose 1,024th change was acknowledged, and has it compacted again.
func nothingLost(t *testing.T, w *world, id crdt.DocumentID, done bool) {
	rows, upto := w.rows(id)
	if compacted := upto == 1024; rows+int(upto) != 1024 || compacted != done {
		t.Errorf("%d rows behind change %d", rows, upto)
	}
	section := w.read(id).Sections[0]
	if words := strings.Fields(section.Text); len(words) != 1022+3 || words[0] != "last" {
		t.Errorf("the text has %d words and begins with %q", len(words), words[0])
	}
	logged := 0
	for _, e := range w.log(id) {
		var payload struct{ Changes int }
		if err := json.Unmarshal(e.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if e.Type == doc.SectionEdited {
			logged += payload.Changes
		}
	}
	if logged != 1023 {
		t.Errorf("the log has %d changes, want 1,023", logged)
	}
	peer := w.typed(id, section.ID, 70)
	peer.at.Detach()
	time.Sleep(3 * time.Minute) // idle: compacted
	synctest.Wait()
	if rows, upto := w.rows(id); rows != 0 || upto != 1024+70 {
		t.Errorf("the next compaction left %d rows behind change %d", rows, upto)
	}
	w.crash()
	if words := strings.Fields(w.read(id).Sections[0].Text); len(words) != 1022+3+70 {
		t.Errorf("then the text has %d words", len(words))
	}
}

// compactAndKill has a process kill itself at a step.
func compactAndKill(t *testing.T, dir string, id crdt.DocumentID, step string) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), compactAndDie+"="+dir, compactDocument+"="+id.String(), compactStep+"="+step)
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
}
