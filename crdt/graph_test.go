package crdt

import (
	"maps"
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

// Which paths a change touches, for all kinds of places.
func TestObjects(t *testing.T) {
	r := newReplica(t, 0)
	root := r.doc.RootMap()
	objects := NewObjects()
	step := func(edit func() error, want ...Path) {
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
		if !slices.EqualFunc(got, want, func(a, b Path) bool { return slices.Equal(a, b) }) {
			t.Errorf("touched %q, want %q", got, want)
		}
	}
	step(func() error { return root.Set("schema", int64(1)) }, Path{"schema"})
	step(func() error { return root.Set("title", automerge.NewText("hello")) }, Path{"title"})
	step(func() error { return root.Set("sections", map[string]any{}) }, Path{"sections"})
	step(func() error { return r.doc.Path("sections", "s").Set(map[string]any{"position": "a0"}) },
		Path{"sections", "s"}, Path{"sections", "s", "position"})
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
	step(func() error { return r.doc.Path("sections").Map().Delete("s") }, Path{"sections", "s"})
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
