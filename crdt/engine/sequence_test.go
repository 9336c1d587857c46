package engine

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"cowrite/crdt"
)

var bodyPath = crdt.Path{"sections", "s", "body"}

// zeros is an endless supply of the lowest actor id.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// writers is a document that several write at the same time: peers with copies of their own, and edits on old versions.
type writers struct {
	t        *rapid.T
	engine   Engine
	main     Document
	graph    *crdt.Graph
	sequence *crdt.Sequence
	changes  []crdt.Change // in the order of the graph
	versions [][]crdt.Hash
	peers    []*peer
}

type peer struct {
	Document
	unsent []crdt.Change
	seen   int // of the changes
}

func newWriters(t *rapid.T) *writers {
	w := &writers{t: t, engine: New(Options{Random: seeded(rapid.Uint64().Draw(t, "seed"))}), graph: crdt.NewGraph()}
	w.sequence = crdt.NewSequence(w.graph, bodyPath)
	w.main = load(t, w.engine)
	w.take(*edit(t, w.main, nil, PutMap{bodyPath[:1]}, PutMap{bodyPath[:2]}, PutText{bodyPath, rapid.StringOf(letters).Draw(t, "text")}))
	for range 2 {
		p := &peer{Document: load(t, w.engine)}
		w.peers = append(w.peers, p)
		w.sync(p)
	}
	return w
}

// Few letters, so that a comparison of texts would often go wrong; one of them is outside of the basic plane.
var letters = rapid.SampledFrom([]rune("aab🙂"))

func (w *writers) take(c crdt.Change) {
	w.changes = append(w.changes, c)
	w.graph.Add(c)
	w.sequence.Add(c)
	w.versions = append(w.versions, w.graph.Heads())
}

// sync exchanges what the peer and the document have.
func (w *writers) sync(p *peer) {
	w.t.Helper()
	if err := w.main.Apply(w.t.Context(), p.unsent); err != nil {
		w.t.Fatal(err)
	}
	known := len(w.changes)
	for _, c := range p.unsent {
		w.take(c)
	}
	if err := p.Apply(w.t.Context(), w.changes[p.seen:known]); err != nil {
		w.t.Fatal(err)
	}
	p.unsent, p.seen = nil, len(w.changes)
}

// splices draws operations on a text, sorted and apart.
func (w *writers) splices(length int) []crdt.Splice {
	var out []crdt.Splice
	at := 0
	for range rapid.IntRange(1, 3).Draw(w.t, "operations") {
		at = rapid.IntRange(at, length).Draw(w.t, "at")
		op := crdt.Splice{At: at, Delete: rapid.IntRange(0, min(4, length-at)).Draw(w.t, "delete")}
		if op.Delete == 0 || rapid.Bool().Draw(w.t, "replace") {
			op.Insert = rapid.StringOfN(letters, 1, 3, -1).Draw(w.t, "insert")
		}
		at += op.Delete
		out = append(out, op)
	}
	return out
}

// onText turns them into operations of the engine, each of which counts in what those before it left.
func onText(ops []crdt.Splice) []Op {
	var out []Op
	shift := 0
	for _, op := range ops {
		out = append(out, Splice{bodyPath, op.At + shift, op.Delete, op.Insert})
		shift += utf8.RuneCountInString(op.Insert) - op.Delete
	}
	return out
}

func (w *writers) text(d Document, at []crdt.Hash) string {
	w.t.Helper()
	return string(read(w.t, d, at, bodyPath...).(Text))
}

func (w *writers) version() []crdt.Hash {
	return rapid.SampledFrom(w.versions).Draw(w.t, "version")
}

// mapped edits an older version by its sequence, and compares with what a fork of the document there, edited by the
// author with the lowest id of all and merged, comes to. They are equal, down to the order of inserts at the same place.
func (w *writers) mapped() {
	t := w.t
	t.Helper()
	base, now := w.version(), w.text(w.main, nil)
	past, err := w.sequence.Past(base)
	if err != nil {
		t.Fatalf("past: %v", err)
	}
	then, err := past.Text(now)
	if want := w.text(w.main, base); err != nil || then != want {
		t.Fatalf("the past is %q, %v, want %q", then, err, want)
	}
	ops := w.splices(utf8.RuneCountInString(then))

	lowest := New(Options{Random: io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)), zeros{})})
	oracle := load(t, lowest, save(t, w.main))
	defer oracle.Close()
	edit(t, oracle, base, onText(ops)...)
	onto := past.Onto(ops)
	if c := edit(t, w.main, nil, onText(onto)...); c != nil {
		w.take(*c)
	}
	if got, want := w.text(w.main, nil), w.text(oracle, nil); got != want {
		t.Fatalf("%v on %q, which is now %q, as %v, gave %q, want %q", ops, then, now, onto, got, want)
	}
}

// rebuilt checks that the sequence is the same when it is made of the saved document.
func (w *writers) rebuilt() {
	t := w.t
	t.Helper()
	changes, err := w.engine.Unpack(t.Context(), save(t, w.main))
	if err != nil {
		t.Fatal(err)
	}
	number := func(c crdt.Change) int { n, _ := w.graph.Number(c.Hash); return n }
	slices.SortFunc(changes, func(a, b crdt.Change) int { return cmp.Compare(number(a), number(b)) })
	w.sequence = crdt.NewSequence(w.graph, bodyPath)
	for _, c := range changes {
		w.sequence.Add(c)
	}
}

// written checks that the changes that are said to have inserted a version's characters cover it, and are in it.
func (w *writers) written() {
	t := w.t
	t.Helper()
	base := w.version()
	past, err := w.sequence.Past(base)
	if err != nil {
		t.Fatal(err)
	}
	younger := w.graph.Since(base)
	at := 0
	for _, r := range past.Written() {
		if r.At != at || r.Length < 1 || slices.Contains(younger, w.changes[r.Change].Hash) {
			t.Fatalf("%+v at %d", r, at)
		}
		at += r.Length
	}
	if want := utf8.RuneCountInString(w.text(w.main, base)); at != want {
		t.Fatalf("the changes cover %d characters of %d", at, want)
	}
}

// Edits on older versions are what a fork and a merge give, whoever else writes.
func TestSequenceIsForkAndMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWriters(t)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				w.t = t
				n, err := w.sequence.Len()
				if want := utf8.RuneCountInString(w.text(w.main, nil)); err != nil || n != want {
					t.Fatalf("%d characters, %v, want %d", n, err, want)
				}
			},
			"type": func(t *rapid.T) {
				w.t = t
				p := rapid.SampledFrom(w.peers).Draw(t, "peer")
				ops := w.splices(utf8.RuneCountInString(w.text(p, nil)))
				p.unsent = append(p.unsent, *edit(t, p, nil, onText(ops)...))
			},
			"sync": func(t *rapid.T) {
				w.t = t
				w.sync(rapid.SampledFrom(w.peers).Draw(t, "peer"))
			},
			"fork": func(t *rapid.T) {
				w.t = t
				base := w.version()
				w.take(*edit(t, w.main, base, onText(w.splices(utf8.RuneCountInString(w.text(w.main, base))))...))
			},
			"edit an older version":  func(t *rapid.T) { w.t = t; w.mapped() },
			"make the sequence anew": func(t *rapid.T) { w.t = t; w.rebuilt() },
			"say who wrote what":     func(t *rapid.T) { w.t = t; w.written() },
		})
	})
}
