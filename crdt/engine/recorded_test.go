package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"cowrite/crdt"
)

// followed is a document of others' changes, and the sequence of its text.
type followed struct {
	Document
	graph    *crdt.Graph
	sequence *crdt.Sequence
	versions [][]crdt.Hash
}

func follow(t *testing.T, changes []crdt.Change) *followed {
	t.Helper()
	f := &followed{Document: load(t, New(Options{Random: seeded(1)})), graph: crdt.NewGraph()}
	f.sequence = crdt.NewSequence(f.graph, bodyPath)
	ready, orphans, refused := f.graph.Sort(changes)
	if len(orphans)+len(refused) > 0 {
		t.Fatalf("%d wait, %d are refused", len(orphans), len(refused))
	}
	if err := f.Apply(t.Context(), ready); err != nil {
		t.Fatal(err)
	}
	for _, c := range ready {
		f.graph.Add(c)
		f.sequence.Add(c)
		f.versions = append(f.versions, f.graph.Heads())
	}
	return f
}

func (f *followed) text(t *testing.T, at []crdt.Hash) string {
	t.Helper()
	return string(read(t, f.Document, at, bodyPath...).(Text))
}

func (f *followed) past(t *testing.T, at []crdt.Hash) *crdt.Past {
	t.Helper()
	p, err := f.sequence.Past(at)
	if err != nil {
		t.Fatal(err)
	}
	then, err := p.Text(f.text(t, nil))
	if want := f.text(t, at); err != nil || then != want {
		t.Fatalf("the past is %q, %v, want %q", then, err, want)
	}
	return p
}

func decodeAll(t *testing.T, raws [][]byte) []crdt.Change {
	t.Helper()
	changes, saved, err := crdt.ParseEntry(bytes.Join(raws, nil), crdt.NoLimits)
	if err != nil || len(saved) > 0 {
		t.Fatal(len(saved), err)
	}
	return changes
}

// The ends of marks stand in a text like characters, but nobody sees them. The changes are by @automerge/automerge 3.5:
// two authors mark, write inside and at the ends of marks, and take marks away. What is inserted beside the end of a
// mark may stand before or behind what others inserted there since: the engine decides between the sides of the mark.
func TestSequenceWithMarks(t *testing.T) {
	data, err := os.ReadFile("testdata/marks.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct{ Changes [][]byte }
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	f := follow(t, decodeAll(t, recorded.Changes))
	if got := f.text(t, nil); got != "hello🙂, very ave! new world" {
		t.Fatalf("the text is %q", got)
	}
	const inserted = "INS"
	for _, at := range f.versions {
		length := utf8.RuneCountInString(f.text(t, at))
		for i := range length + 1 {
			ops := []crdt.Splice{{At: i, Delete: min(2, length-i), Insert: inserted}}
			lowest := New(Options{Random: io.MultiReader(strings.NewReader(strings.Repeat("\xff", 16)), zeros{})})
			oracle := load(t, lowest, save(t, f.Document))
			edit(t, oracle, at, onText(ops)...)
			mapped := load(t, New(Options{}), save(t, f.Document))
			edit(t, mapped, nil, onText(f.past(t, at).Onto(ops))...)
			got, want := string(read(t, mapped, nil, bodyPath...).(Text)), string(read(t, oracle, nil, bodyPath...).(Text))
			if got != want && !otherOrder(t, mapped, at, got, want, inserted) {
				t.Errorf("%v at version %v gave %q, want %q", ops, at, got, want)
			}
		}
	}
}

// otherOrder says whether two texts differ only in where an insert stands among those of others that came into the
// document since a version: each of them whole, and nothing that the version shows between. d has the first text.
func otherOrder(t *testing.T, d Document, version []crdt.Hash, got, want, inserted string) bool {
	t.Helper()
	before, behind, one := strings.Cut(got, inserted)
	beforeWanted, behindWanted, other := strings.Cut(want, inserted)
	if !one || !other || before+behind != beforeWanted+behindWanted {
		return false
	}
	changes, err := New(Options{}).Unpack(t.Context(), save(t, d))
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, changes)
	since := make(map[int]bool)
	for _, h := range f.graph.Since(version) {
		n, _ := f.graph.Number(h)
		since[n] = true
	}
	from, to := utf8.RuneCountInString(before), utf8.RuneCountInString(beforeWanted)
	if from < to {
		to += utf8.RuneCountInString(inserted)
	} else {
		from, to = to, from
	}
	for _, w := range f.past(t, f.graph.Heads()).Written() {
		if w.At < to && w.At+w.Length > from && !since[w.Change] {
			return false
		}
	}
	return true
}

// A session that two people typed in JavaScript reads the same at all its versions.
func TestSequenceOfARecordedSession(t *testing.T) {
	file, err := os.Open("../../../shared/traces/friendsforever.changes.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Seed       []byte
		Own        [][][]byte
		EndContent string
	}
	if err := json.NewDecoder(z).Decode(&recorded); err != nil {
		t.Fatal(err)
	}
	changes, err := New(Options{}).Unpack(t.Context(), recorded.Seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range recorded.Own {
		changes = append(changes, decodeAll(t, own)...)
	}
	f := follow(t, changes)
	if f.text(t, nil) != recorded.EndContent {
		t.Fatal("the engine has another end")
	}
	const samples = 6
	for i := range samples {
		f.past(t, f.versions[len(f.versions)*i/samples])
	}
	if size := f.sequence.Size(); size > 200*len(changes) {
		t.Errorf("%d bytes for %d changes", size, len(changes))
	} else {
		t.Logf("%d bytes for %d changes", size, len(changes))
	}
}

// Where the path led to another text, or to none, and where something was written that is no character, the sequence
// says so.
func TestSequenceThatCannotTell(t *testing.T) {
	d := load(t, New(Options{Random: seeded(1)}))
	g := crdt.NewGraph()
	s := crdt.NewSequence(g, bodyPath)
	do := func(base []crdt.Hash, ops ...Op) []crdt.Hash {
		t.Helper()
		c := edit(t, d, base, ops...)
		g.Add(*c)
		s.Add(*c)
		return g.Heads()
	}
	want := func(at []crdt.Hash, want error) {
		t.Helper()
		if _, err := s.Past(at); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	empty := do(nil, PutMap{bodyPath[:1]}, PutMap{bodyPath[:2]}, Put{bodyPath, "scalar"})
	want([]crdt.Hash{}, crdt.ErrNoText)
	want(empty, crdt.ErrNoText)
	first := do(nil, PutText{bodyPath, "one"})
	want(empty, crdt.ErrNoText)
	want(first, nil)
	second := do(nil, PutText{bodyPath, "two"})
	want(first, crdt.ErrUnmapped)
	want(second, nil)
	removed := do(nil, Delete{bodyPath[:2]})
	want(removed, crdt.ErrNoText)
	want(second, crdt.ErrUnmapped) // there is no present text to map it to
	// What is written to a text that was replaced is nothing to the one that stands there now.
	do(nil, PutMap{bodyPath[:2]}, PutText{bodyPath, "three"})
	want(do(first, Splice{bodyPath, 0, 0, "of the first"}), nil)
	if n, err := s.Len(); err != nil || n != len("three") {
		t.Errorf("%d characters, %v", n, err)
	}
}
