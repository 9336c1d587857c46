package crdt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"
)

// randomHistory is a document written by a few actors on forks of one another, with objects at several places.
func randomHistory(t *rapid.T) []Change {
	docs := []*automerge.Doc{automerge.New()}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range rapid.IntRange(0, 30).Draw(t, "steps") {
		d := docs[rapid.IntRange(0, len(docs)-1).Draw(t, "doc")]
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0:
			fork, err := d.Fork()
			must(err)
			docs = append(docs, fork)
			continue
		case 1:
			if d != docs[0] { // the binding locks both
				_, err := d.Merge(docs[0])
				must(err)
			}
			continue
		case 2:
			must(d.Path("sections", fmt.Sprint("s", rapid.IntRange(0, 3).Draw(t, "section"))).Set(map[string]any{"body": automerge.NewText("x"), "n": 1}))
		case 3:
			must(d.Path("list").Set([]any{map[string]any{"a": 1}, automerge.NewText("y")}))
		case 4:
			must(d.Path("title").Set(rapid.String().Draw(t, "title")))
		}
		_, err := d.Commit("")
		if err != nil && err.Error() != "Commit is empty" {
			continue
		}
	}
	for _, d := range docs[1:] {
		_, err := docs[0].Merge(d)
		must(err)
	}
	theirs, err := docs[0].Changes()
	must(err)
	var all []Change
	for _, c := range theirs {
		parsed, _, err := ParseEntry(c.Save(), Limits{ChangeBytes: 1 << 20})
		must(err)
		all = append(all, parsed...)
	}
	return all
}

func TestSavedHeadsAreThoseOfTheDocument(t *testing.T) {
	d := automerge.New()
	for n := range 3 {
		fork, err := d.Fork()
		if err != nil {
			t.Fatal(err)
		}
		if err := fork.Path("n").Set(n); err != nil {
			t.Fatal(err)
		}
		if _, err := fork.Commit(""); err != nil {
			t.Fatal(err)
		}
		if n > 0 { // two heads, then three
			if _, err := d.Merge(fork); err != nil {
				t.Fatal(err)
			}
		}
		chunk := d.Save()
		var want []Hash
		for _, h := range d.Heads() {
			want = append(want, Hash(h))
		}
		got, err := SavedHeads(chunk)
		if err != nil || !slices.Equal(got, SortHashes(want)) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		for i := range chunk {
			bad := slices.Clone(chunk)
			bad[i] ^= 1
			if _, err := SavedHeads(bad); !errors.Is(err, ErrSaved) {
				t.Errorf("byte %d damaged: %v", i, err)
			}
		}
		if _, err := SavedHeads(append(chunk, 0)); !errors.Is(err, ErrSaved) {
			t.Errorf("more behind it: %v", err)
		}
	}
}

func TestASavedIndexIsTheIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := randomHistory(t)
		cut := rapid.IntRange(0, len(changes)).Draw(t, "cut")
		g, o := NewGraph(), NewObjects()
		for _, c := range changes[:cut] {
			g.Add(c)
			o.Add(c)
		}
		savedGraph, err := g.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		savedObjects, err := o.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(1, 3).Draw(t, "form") {
		case firstGraph:
			savedGraph = firstForm(g)
		case secondGraph:
			savedGraph = secondForm(t, g)
		}
		g2, o2 := NewGraph(), NewObjects()
		if err := g2.UnmarshalBinary(savedGraph); err != nil {
			t.Fatal(err)
		}
		if err := o2.UnmarshalBinary(savedObjects); err != nil {
			t.Fatal(err)
		}
		for _, c := range changes[cut:] { // they go on alike
			g.Add(c)
			g2.Add(c)
			if want, got := o.Add(c), o2.Add(c); !reflect.DeepEqual(got, want) {
				t.Fatalf("the saved objects say %v, want %v", got, want)
			}
		}
		if g2.Len() != len(changes) || !slices.Equal(g2.Heads(), g.Heads()) || !slices.Equal(g2.From(0), g.From(0)) {
			t.Fatalf("the saved graph went on to %d changes with heads %v, want %d with %v", g2.Len(), g2.Heads(), g.Len(), g.Heads())
		}
		for _, c := range changes {
			if !g2.Has(c.Hash) {
				t.Fatalf("the saved graph lacks %s", c.Hash)
			}
		}
	})
}

// firstForm writes a graph as it was saved at first.
func firstForm(g *Graph) []byte {
	actors := slices.Sorted(maps.Keys(g.actors))
	authors := make([]int, g.Len())
	for i, actor := range actors {
		own := g.actors[actor]
		for seq := range own.size {
			authors[own.at(seq)] = i
		}
	}
	b := appendActors([]byte{firstGraph}, actors)
	b = binary.AppendUvarint(b, uint64(g.Len()))
	for i, author := range authors {
		n, h := uint32(i), g.Hash(i)
		b = append(b, h[:]...)
		b = binary.AppendUvarint(b, uint64(author))
		b = binary.AppendUvarint(b, uint64(g.maxOp(n)))
		deps := g.depsOf(n, new(step))
		b = binary.AppendUvarint(b, uint64(len(deps)))
		for _, d := range deps {
			b = binary.AppendUvarint(b, uint64(n-d))
		}
	}
	return b
}

// secondForm writes a graph as it was saved before its operations were counted.
func secondForm(t require, g *Graph) []byte {
	t.Helper()
	counted := g.ops
	g.ops = 0
	b, err := g.AppendBinary(nil)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	g.ops = counted
	return append([]byte{secondGraph}, b[2:]...)
}

func TestDamagedIndexesAreRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changes := randomHistory(t)
		g, o := NewGraph(), NewObjects()
		for _, c := range changes {
			g.Add(c)
			o.Add(c)
		}
		saved := [][]byte{}
		for _, s := range []interface{ AppendBinary([]byte) ([]byte, error) }{g, o} {
			b, err := s.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			saved = append(saved, b)
		}
		saved = append(saved, firstForm(g), secondForm(t, g))
		for i, into := range []interface{ UnmarshalBinary([]byte) error }{NewGraph(), NewObjects(), NewGraph(), NewGraph()} {
			b := saved[i]
			if err := into.UnmarshalBinary(b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]); !errors.Is(err, ErrSaved) {
				t.Fatalf("a piece is read: %v", err)
			}
			if err := into.UnmarshalBinary(append(slices.Clone(b), 0)); !errors.Is(err, ErrSaved) {
				t.Fatalf("more than there is is read: %v", err)
			}
			// Any other damage is read as something or refused, but never panics.
			b = slices.Clone(b)
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
			_ = into.UnmarshalBinary(b)
		}
	})
}

// typed is a graph of changes as one author types them, saved.
func typed(tb testing.TB, changes int) []byte {
	tb.Helper()
	g := NewGraph()
	var last []Hash
	for n := range changes {
		c := Change{Actor: "a", Seq: uint64(n + 1), StartOp: uint64(n + 1), NumOps: 1, Deps: last}
		c.Hash = hashChunk(chunkChange, fmt.Append(nil, n))
		g.Add(c)
		last = []Hash{c.Hash}
	}
	saved, err := g.AppendBinary(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return saved
}

// inMemory is how many bytes of the heap something takes, which open makes.
func inMemory[T any](open func() T) (size int, opened T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	opened = open()
	return heap() - before, opened
}

// A document of 260,000 one-character changes is to be opened in 10 MB, which is 38 bytes a change.
func TestAnOpenedGraphIsSmall(t *testing.T) {
	const changes = 50_000
	data := typed(t, changes)
	size, g := inMemory(func() *Graph {
		g := NewGraph()
		if err := g.UnmarshalBinary(bytes.Clone(data)); err != nil {
			t.Fatal(err)
		}
		return g
	})
	if g.Len() != changes || size > 38*changes {
		t.Errorf("%d changes take %d bytes, %.1f each", g.Len(), size, float64(size)/changes)
	}
}

func BenchmarkOpenSavedGraph(b *testing.B) {
	const changes = 260_000
	data := typed(b, changes)
	open := func() *Graph {
		g := NewGraph()
		if err := g.UnmarshalBinary(data); err != nil {
			b.Fatal(err)
		}
		return g
	}
	size, g := inMemory(open)
	for b.Loop() {
		open()
	}
	b.ReportMetric(float64(len(data))/changes, "saved-bytes/change")
	b.ReportMetric(float64(size+len(data))/float64(g.Len()), "held-bytes/change")
}
