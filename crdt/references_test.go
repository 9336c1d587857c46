package crdt

import (
	"math/rand/v2"
	"testing"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"

	"cowrite/crdt/crdttest"
)

// Whatever the engine writes refers to what is there.
func TestReferencesOfTheEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewReferences()
		for _, c := range randomHistory(t) {
			if err := r.Add(c); err != nil {
				t.Fatal(err)
			}
		}
	})
	seed, own := readTrace(t)
	r, g := NewReferences(), NewGraph()
	all := unpack(t, [][]byte{seed})
	for _, author := range own {
		for _, raw := range author {
			all = append(all, parseAll(t, raw)...)
		}
	}
	ready, _, _ := g.Sort(all)
	for _, c := range ready {
		if err := r.Add(c); err != nil {
			t.Fatal(err)
		}
	}
}

// A change with bytes turned over that gets past the parser, the graph and the references can be saved by the core, and
// what it saves can be loaded.
func TestWhatPassesCanBeSaved(t *testing.T) {
	author := newReplica(t, 0)
	for _, edit := range []func() error{
		func() error { return author.doc.RootMap().Set("text", automerge.NewText("some text")) },
		func() error { return author.doc.RootMap().Set("map", map[string]any{"n": int64(1234)}) },
		func() error { return author.doc.RootMap().Set("list", []any{"a", int64(2), map[string]any{"x": true}}) },
		func() error {
			if err := author.doc.Path("text").Text().Splice(2, 3, "xyz"); err != nil {
				return err
			}
			if err := author.doc.Path("list").List().Set(1, 2.5); err != nil {
				return err
			}
			return author.doc.Path("map").Map().Delete("n")
		},
	} {
		if err := edit(); err != nil {
			t.Fatal(err)
		}
		if _, err := author.doc.Commit("m"); err != nil {
			t.Fatal(err)
		}
	}
	changes := author.changes(t)
	random := rand.New(rand.NewPCG(11, 12))
	passed := 0
	for range 20_000 {
		n := random.IntN(len(changes))
		mutants, _, err := ParseEntry(crdttest.Mutate(random, changes[n].Plain()), testLimits)
		if err != nil || mutants[0].Hash == changes[n].Hash {
			continue
		}
		g, r, doc := NewGraph(), NewReferences(), automerge.New()
		for _, c := range changes[:n] {
			g.Add(c)
			if err := r.Add(c); err != nil {
				t.Fatal(err)
			}
			if err := doc.LoadIncremental(c.Raw); err != nil {
				t.Fatal(err)
			}
		}
		ready, _, _ := g.Sort(mutants)
		if len(ready) == 0 || r.Add(ready[0]) != nil {
			continue
		}
		passed++
		if err := doc.LoadIncremental(ready[0].Raw); err != nil {
			continue // the core says no, which harms nobody
		}
		if _, err := automerge.Load(doc.Save()); err != nil {
			t.Errorf("saved, it cannot be loaded: %v\n%x", err, ready[0].Raw)
		}
	}
	t.Logf("%d mutants passed", passed)
	if passed < 100 {
		t.Errorf("only %d mutants came so far", passed)
	}
}
