package crdt

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/automerge/automerge-go"

	"cowrite/crdt/crdttest"
)

// A change with bytes turned over is taken in without harm, also where nothing has checked what it refers to. Where it
// refers to what is there, and the engine takes it, both show a text of the same length.
func TestSequenceTakesInAnything(t *testing.T) {
	data, err := os.ReadFile("engine/testdata/marks.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct{ Changes [][]byte }
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	var changes []Change
	for _, raw := range recorded.Changes {
		changes = append(changes, parseAll(t, raw)...)
	}
	random := rand.New(rand.NewPCG(21, 22))
	passed, told := 0, 0
	for range 20_000 {
		n := 1 + random.IntN(len(changes)-1)
		mutants, _, err := ParseEntry(crdttest.Mutate(random, changes[n].Plain()), testLimits)
		if err != nil || mutants[0].Hash == changes[n].Hash {
			continue
		}
		g, r := NewGraph(), NewReferences()
		s := NewSequence(g, Path{"sections", "s", "body"})
		versions := [][]Hash{g.Heads()}
		ready, _, _ := g.Sort(append(changes[:n:n], mutants...))
		sound := true
		for _, c := range ready {
			g.Add(c)
			s.Add(c)
			sound = r.Add(c) == nil && sound
			versions = append(versions, g.Heads())
		}
		if len(ready) <= n {
			continue
		}
		passed++
		length, _ := s.Len()
		for _, v := range versions {
			p, err := s.Past(v)
			if err != nil {
				continue
			}
			total := 0
			for _, w := range p.Written() {
				total += w.Length
			}
			at := random.IntN(total + 1)
			end := 0
			for _, op := range p.Onto([]Splice{{At: at, Delete: random.IntN(total - at + 1), Insert: "x"}}) {
				if op.At < end || op.At+op.Delete > length {
					t.Fatalf("%+v in a text of %d", op, length)
				}
				end = op.At + op.Delete
			}
		}
		if _, err := s.Len(); err != nil || !sound {
			continue
		}
		doc := automerge.New()
		for _, c := range ready {
			if err := doc.LoadIncremental(c.Raw); err != nil {
				doc = nil
				break
			}
		}
		if doc == nil || len(doc.Heads()) != len(g.Heads()) {
			continue
		}
		told++
		text, err := doc.Path("sections", "s", "body").Text().Get()
		if err != nil || utf8.RuneCountInString(text) != length {
			t.Errorf("%d characters, the engine has %q, %v\n%x", length, text, err, ready[n].Raw)
		}
	}
	t.Logf("%d passed, %d told", passed, told)
	if passed < 100 || told < 20 {
		t.Errorf("only %d mutants came so far, %d to the end", passed, told)
	}
}

// A deletion of a hundred thousand characters, which takes few bytes, takes few steps.
func TestSequenceOfAGreatDeletion(t *testing.T) {
	r := newReplica(t, 0)
	commit := func() {
		t.Helper()
		if _, err := r.doc.Commit("m"); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.doc.RootMap().Set("k", automerge.NewText(strings.Repeat("é", 100_000))); err != nil {
		t.Fatal(err)
	}
	commit()
	if err := r.doc.Path("k").Text().Delete(10, 99_980); err != nil {
		t.Fatal(err)
	}
	commit()
	g := NewGraph()
	s := NewSequence(g, Path{"k"})
	for _, c := range r.changes(t) {
		g.Add(c)
		s.Add(c)
	}
	if n, err := s.Len(); n != 20 || err != nil {
		t.Errorf("%d characters are left, %v", n, err)
	}
	if runs, _ := s.at(nil).place(nil); runs != 3 {
		t.Errorf("in %d runs", runs)
	}
	p, err := s.Past(g.From(0)[:1])
	if err != nil {
		t.Fatal(err)
	}
	if then, err := p.Text(strings.Repeat("é", 20)); err != nil || then != strings.Repeat("é", 100_000) {
		t.Errorf("it was %d bytes, %v", len(then), err)
	}
}
