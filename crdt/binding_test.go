package crdt

import (
	"fmt"
	"testing"
	"time"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"
)

var testLimits = Limits{ChangeBytes: 1 << 24}

// replica is a document of the engine's, as the oracle for what is made of its changes here.
type replica struct{ doc *automerge.Doc }

func newReplica(t require, actor int) *replica {
	d := automerge.New()
	if err := d.SetActorID(fmt.Sprintf("%08x", actor+1)); err != nil {
		t.Fatalf("set actor: %v", err)
	}
	return &replica{d}
}

// require is what testing.T and rapid.T have in common.
type require interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// edit makes one change of a few random operations.
func (r *replica) edit(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "ops") {
		key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
		var err error
		switch rapid.IntRange(0, 5).Draw(t, "op") {
		case 0:
			err = r.doc.RootMap().Set(key, rapid.String().Draw(t, "value"))
		case 1:
			err = r.doc.RootMap().Set(key, automerge.NewText(rapid.StringN(0, 300, -1).Draw(t, "text")))
		case 2:
			err = r.doc.RootMap().Set(key, map[string]any{"x": int64(1), "y": automerge.NewText("y")})
		case 3:
			err = r.doc.RootMap().Set(key, []any{"p", map[string]any{"q": true}})
		case 4:
			err = r.doc.RootMap().Delete(key)
		case 5:
			v, e := r.doc.RootMap().Get(key)
			if e == nil && v.Kind() == automerge.KindText {
				text := v.Text()
				at := rapid.IntRange(0, text.Len()).Draw(t, "at")
				e = text.Splice(at, rapid.IntRange(0, text.Len()-at).Draw(t, "delete"), rapid.StringN(0, 9, -1).Draw(t, "insert"))
			}
			err = e
		}
		if err != nil {
			t.Fatalf("edit: %v", err)
		}
	}
	if _, err := r.doc.Commit("m", automerge.CommitOptions{AllowEmpty: true, Time: new(time.Unix(1, 0))}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func (r *replica) heads() []Hash {
	var hs []Hash
	for _, h := range r.doc.Heads() {
		hs = append(hs, Hash(h))
	}
	return SortHashes(hs)
}

// changes gives all changes of the replica, parsed.
func (r *replica) changes(t require) []Change {
	t.Helper()
	theirs, err := r.doc.Changes()
	if err != nil {
		t.Fatalf("read changes: %v", err)
	}
	var ours []Change
	for _, c := range theirs {
		parsed, documents, err := ParseEntry(c.Save(), testLimits)
		if err != nil || len(parsed) != 1 || len(documents) != 0 {
			t.Fatalf("parse change: %d changes, %d documents, %v", len(parsed), len(documents), err)
		}
		ours = append(ours, parsed[0])
	}
	return ours
}

// parseAll is ParseEntry where nothing may go wrong.
func parseAll(t testing.TB, entry []byte) []Change {
	t.Helper()
	changes, _, err := ParseEntry(entry, testLimits)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return changes
}
