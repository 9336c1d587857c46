package crdt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"
)

// Sorting and the graph against a twin that looks at everything again and again.
func TestGraphAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newReplica(t, 0), newReplica(t, 1)
		for range rapid.IntRange(1, 12).Draw(t, "edits") {
			r := rapid.SampledFrom([]*replica{a, b}).Draw(t, "author")
			r.edit(t)
			if rapid.IntRange(0, 3).Draw(t, "merge") == 0 {
				if _, err := a.doc.Merge(b.doc); err != nil {
					t.Fatalf("merge: %v", err)
				}
			}
		}
		if _, err := a.doc.Merge(b.doc); err != nil {
			t.Fatalf("merge: %v", err)
		}
		all := a.changes(t)
		if lead, _ := leadOf(all); lead > 0 {
			t.Fatalf("the engine numbers %d ahead", lead)
		}
		byHash := make(map[Hash]Change)
		for _, c := range all {
			byHash[c.Hash] = c
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		g := NewGraph()
		ready, orphans, refused := g.Sort(append(shuffled[:cut:cut], shuffled[:cut]...))
		if len(ready)+len(orphans) != cut || len(refused) > 0 {
			t.Fatalf("%d ready, %d orphans, %d refused of %d", len(ready), len(orphans), len(refused), cut)
		}
		g.Add(ready...)
		if g.Len() != len(ready) {
			t.Fatalf("%d of %d in the graph", g.Len(), len(ready))
		}
		if rapid.Bool().Draw(t, "packed") {
			g.pack()
		}
		ready, orphans, _ = g.Sort(append(orphans, shuffled[cut:]...))
		if len(orphans) > 0 {
			t.Fatalf("%d orphans in the end", len(orphans))
		}
		g.Add(ready...)
		if !slices.Equal(g.Heads(), a.heads()) {
			t.Fatalf("heads %v, want %v", g.Heads(), a.heads())
		}
		ancestors := func(of []Hash) map[Hash]bool {
			seen := make(map[Hash]bool)
			for stack := slices.Clone(of); len(stack) > 0; {
				h := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				if !seen[h] {
					seen[h] = true
					stack = append(stack, byHash[h].Deps...)
				}
			}
			return seen
		}
		var base []Hash
		for _, c := range all {
			if rapid.Bool().Draw(t, "base") {
				base = append(base, c.Hash)
			}
		}
		old := ancestors(base)
		since := g.Since(append(base, Hash{9}))
		if len(since)+len(old) != len(all) {
			t.Errorf("%d since and %d old of %d", len(since), len(old), len(all))
		}
		for i, h := range since {
			if old[h] {
				t.Errorf("%v is old", h)
			}
			for _, d := range byHash[h].Deps {
				if slices.Contains(since[i:], d) {
					t.Errorf("%v stands before its dependency", h)
				}
			}
		}
		top := g.Maximal(append(base, base...))
		if !maps.Equal(ancestors(top), old) {
			t.Errorf("the maximal of %v are not %v", base, top)
		}
		for _, h := range top {
			if rest := slices.DeleteFunc(slices.Clone(top), func(o Hash) bool { return o == h }); ancestors(rest)[h] {
				t.Errorf("%v is not maximal", h)
			}
		}
		heads, err := VersionOf(rapid.Permutation(top).Draw(t, "order of heads")).Heads()
		if err != nil || !slices.Equal(heads, top) {
			t.Errorf("the version of %v gives %v, %v", top, heads, err)
		}
	})
}

// Two changes with one author and number: the first one stays, what builds on the second waits for ever.
func TestOneNumberTwice(t *testing.T) {
	a, b := newReplica(t, 0), newReplica(t, 0)
	for i, r := range []*replica{a, b, b} {
		if err := r.doc.RootMap().Set("k", int64(i)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.doc.Commit("m"); err != nil {
			t.Fatal(err)
		}
	}
	g := NewGraph()
	first, second := a.changes(t), b.changes(t)
	ready, orphans, refused := g.Sort(append(first, second...))
	if len(ready) != 1 || ready[0].Hash != first[0].Hash || len(refused) != 1 || refused[0].Hash != second[0].Hash || len(orphans) != 1 {
		t.Fatalf("%d ready, %d orphans, %d refused", len(ready), len(orphans), len(refused))
	}
	g.Add(ready...)
	g.Add(second...)
	if !slices.Equal(g.Heads(), a.heads()) || g.Len() != 1 {
		t.Errorf("%d changes, heads %v", g.Len(), g.Heads())
	}
	if _, _, refused = g.Sort(second[:1]); len(refused) != 1 {
		t.Errorf("taken in later")
	}
}

// numbered is a change by an author of its own, whose operations are numbered from start on.
func numbered(name string, start, ops uint64, deps ...Hash) Change {
	return Change{Actor: ActorID(name), Seq: 1, StartOp: start, NumOps: ops, Deps: SortHashes(deps), Hash: hashChunk(chunkChange, []byte(name))}
}

// A change may number its operations so far ahead as an honest author can ever need, all that do together no farther, and what builds
// on one that was refused waits. A graph that was saved says the same.
func TestOperationsNumberedFarAhead(t *testing.T) {
	const ops = 1000
	first := numbered("first", 1, ops)
	for _, c := range []struct {
		lead uint64
		fits bool
	}{
		{0, true}, {1, true}, {ops, true}, {maxLead / 2, true}, {maxLead, true},
		{maxLead + 1, false}, {1 << 20, false}, {1 << 31, false}, {math.MaxUint32 - ops - 1, false},
	} {
		for _, saved := range []bool{false, true} {
			g := NewGraph()
			g.Add(first)
			if saved {
				g = reopened(t, g)
			}
			ahead := numbered("ahead", ops+1+c.lead, 1, first.Hash)
			behind := numbered("behind", ops+2+c.lead, 1, ahead.Hash)
			ready, orphans, refused := g.Sort([]Change{behind, ahead})
			if fits := len(ready) == 2; fits != c.fits || !fits && (len(refused) != 1 || len(orphans) != 1) {
				t.Errorf("%d ahead: %d ready, %d orphans, %d refused", c.lead, len(ready), len(orphans), len(refused))
			}
			g.Add(ready...)
			more := numbered("more", ops+1+maxLead, 1) // on no heads at all
			if ready, _, _ := g.Sort([]Change{more}); len(ready) != 1 {
				t.Errorf("%d ahead: another one at the bound is refused", c.lead)
			}
			more.StartOp = uint64(ops + len(ready) + 2 + maxLead)
			if _, _, refused := g.Sort([]Change{more}); len(refused) != 1 {
				t.Errorf("%d ahead: the bound has moved", c.lead)
			}
		}
	}
}

// What is in a graph, whatever its numbers, is there, and whoever knows it writes on.
func TestWhatWasFarAheadIsBuiltOn(t *testing.T) {
	for _, lead := range []uint64{maxLead, maxLead + 1, 1 << 31, math.MaxUint32 - 10} {
		first := numbered("first", 1, 1)
		ahead := numbered("ahead", 2+lead, 1, first.Hash)
		g := NewGraph()
		g.Add(first, ahead)
		for range 3 {
			if g.Len() != 2 || g.MaxOp() != uint32(2+lead) {
				t.Fatalf("%d changes, operations up to %d", g.Len(), g.MaxOp())
			}
			next := numbered("next", 3+lead, 1, ahead.Hash)
			if ready, _, _ := g.Sort([]Change{next}); len(ready) != 1 {
				t.Errorf("%d ahead: what builds on it is refused", lead)
			}
			far := numbered("far", 4+lead+maxLead, 1)
			if _, _, refused := g.Sort([]Change{far}); len(refused) != 1 {
				t.Errorf("%d ahead: another one as far is taken", lead)
			}
			g = reopened(t, g)
		}
	}
}

// leadOf is the greatest by which a change of a history numbers its operations above the count of those before it, and how
// far the last number is from their count.
func leadOf(history []Change) (lead, end int) {
	var ops, greatest uint64
	for _, c := range history {
		lead = max(lead, int(c.StartOp)-int(ops)-1)
		ops += c.NumOps
		greatest = max(greatest, c.StartOp+c.NumOps-1)
	}
	return lead, int(greatest) - int(ops)
}

// reopened is a graph that was saved.
func reopened(t require, g *Graph) *Graph {
	t.Helper()
	saved, err := g.AppendBinary(nil)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	out := NewGraph()
	if err := out.UnmarshalBinary(saved); err != nil {
		t.Fatalf("open: %v", err)
	}
	return out
}

// Authors who type on what they have, or on older heads, and hear of one another now and then number no operation above the
// count of those that they know: a graph that hears of their changes in the order of any one of them takes all, however many
// operations each has.
func TestHonestNumbersAreTaken(t *testing.T) {
	type author struct {
		graph *Graph
		own   []Hash
		known []Change
	}
	rapid.Check(t, func(t *rapid.T) {
		authors := make([]author, rapid.IntRange(1, 4).Draw(t, "authors"))
		for i := range authors {
			authors[i].graph = NewGraph()
		}
		take := func(a *author, changes ...Change) {
			ready, orphans, refused := a.graph.Sort(changes)
			if len(orphans)+len(refused) > 0 {
				t.Fatalf("%d orphans, %d refused", len(orphans), len(refused))
			}
			a.graph.Add(ready...)
			a.known = append(a.known, ready...)
			if len(a.known) > 0 && rapid.IntRange(0, 9).Draw(t, "reopen") == 0 {
				a.graph = reopened(t, a.graph)
			}
		}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(authors)-1).Draw(t, "author")
			a := &authors[i]
			if rapid.IntRange(0, 3).Draw(t, "hears") == 0 {
				take(a, authors[rapid.IntRange(0, len(authors)-1).Draw(t, "of")].known...)
				continue
			}
			deps := a.graph.Heads()
			name := fmt.Sprint("author ", i)
			if len(a.known) > 0 && rapid.IntRange(0, 3).Draw(t, "old heads") == 0 {
				name = fmt.Sprint("step ", step) // who types there is another author to the engine
				deps = []Hash{rapid.SampledFrom(a.known).Draw(t, "heads").Hash}
			}
			c := numbered(name, uint64(a.graph.MaxOp())+1, rapid.Uint64Range(0, 5<<20).Draw(t, "operations"), deps...)
			c.Hash = hashChunk(chunkChange, fmt.Append(nil, step))
			if name == fmt.Sprint("author ", i) {
				c.Seq = uint64(len(a.own) + 1)
				a.own = append(a.own, c.Hash)
			}
			take(a, c)
		}
		all := NewGraph()
		for i := range authors {
			ready, orphans, refused := all.Sort(authors[i].known)
			if len(orphans)+len(refused) > 0 {
				t.Fatalf("of author %d's, %d wait and %d are refused", i, len(orphans), len(refused))
			}
			all.Add(ready...)
		}
	})
}

// Which paths a change touches, for all kinds of places.
func TestObjects(t *testing.T) {
	r := newReplica(t, 0)
	root := r.doc.RootMap()
	objects := NewObjects()
	step := func(edit func() error, want ...Path) []Touch {
		t.Helper()
		if err := edit(); err != nil {
			t.Fatal(err)
		}
		hash, err := r.doc.Commit("m")
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.doc.Change(hash)
		if err != nil {
			t.Fatal(err)
		}
		got := objects.Add(parseAll(t, c.Save())[0])
		if !slices.EqualFunc(got, want, func(a Touch, b Path) bool { return slices.Equal(a.Path, b) }) {
			t.Errorf("touched %v, want %q", got, want)
		}
		return got
	}
	step(func() error { return root.Set("schema", int64(1)) }, Path{"schema"})
	step(func() error { return root.Set("title", automerge.NewText("hello")) }, Path{"title"})
	step(func() error { return root.Set("sections", map[string]any{}) }, Path{"sections"})
	made := step(func() error { return r.doc.Path("sections", "s").Set(map[string]any{"position": "a0"}) },
		Path{"sections", "s"}, Path{"sections", "s", "position"})
	if !made[0].MakeMap || made[1].MakeMap {
		t.Errorf("a map with a property is made as %v", made)
	}
	step(func() error { return r.doc.Path("sections", "s", "body").Set(automerge.NewText("text")) },
		Path{"sections", "s", "body"})
	step(func() error {
		if err := r.doc.Path("title").Text().Insert(1, "x"); err != nil {
			return err
		}
		if err := r.doc.Path("sections", "s", "body").Text().Delete(0, 2); err != nil {
			return err
		}
		return r.doc.Path("title").Text().Append("y")
	}, Path{"title"}, Path{"sections", "s", "body"})
	for _, put := range []func() error{
		func() error { return r.doc.Path("sections").Map().Delete("s") },
		func() error { return r.doc.Path("sections", "s").Set("a word") },
		func() error { return r.doc.Path("sections", "s").Set(automerge.NewText("a text")) },
	} {
		if touched := step(put, Path{"sections", "s"}); touched[0].MakeMap {
			t.Errorf("what is no map is made as one: %v", touched)
		}
	}
	step(func() error { return root.Set("list", []any{map[string]any{"deep": []any{true}}}) }, Path{"list"})
	step(func() error { return r.doc.Path("list", 0, "deep").List().Append("z") }, Path{"list"})
	deep := []any{"0"}
	for range maxPathLength + 5 {
		deep = append(deep, "x")
	}
	step(func() error { return r.doc.Path(deep[:maxPathLength-1]...).Set(map[string]any{}) }, pathsDown(maxPathLength-1)...)
	step(func() error { return r.doc.Path(deep...).Set("end") }, pathsDown(maxPathLength)[maxPathLength-1:]...)
}

// pathsDown are the paths 0, 0/x, 0/x/x and so on.
func pathsDown(n int) []Path {
	var all []Path
	path := Path{"0"}
	for range n {
		all = append(all, slices.Clone(path))
		path = append(path, "x")
	}
	return all
}

// What a graph keeps of each change is little, and asking what is new costs nothing of the history.
func TestGraphSize(t *testing.T) {
	g := NewGraph()
	previous := Change{Actor: "a"}
	const changes = 100_000
	for i := range uint64(changes) {
		c := Change{Actor: "a", Seq: i + 1, StartOp: i + 1, NumOps: 1, Hash: hashChunk(chunkChange, []byte{byte(i), byte(i >> 8), byte(i >> 16)})}
		if i > 0 {
			c.Deps = []Hash{previous.Hash}
		}
		g.Add(c)
		previous = c
	}
	if g.Len() != changes || len(g.Heads()) != 1 || g.Heads()[0] != previous.Hash {
		t.Fatalf("%d changes, heads %v", g.Len(), g.Heads())
	}
	before := g.Heads()
	g.Add(Change{Actor: "c", Seq: 1, StartOp: changes, NumOps: 1, Hash: Hash{2}, Deps: before})
	if g.Len() != changes {
		t.Error("a change whose operations are numbered like those that it builds on was added")
	}
	g.Add(Change{Actor: "b", Seq: 1, StartOp: changes + 1, NumOps: 1, Hash: Hash{1}, Deps: before})
	if allocs := testing.AllocsPerRun(10, func() { g.Since(before) }); allocs > 20 {
		t.Errorf("%v allocations to find one new change", allocs)
	}
}
