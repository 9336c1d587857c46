package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"

	"cowrite/crdt"
)

var (
	noon  = time.Date(2026, 11, 29, 12, 0, 0, 500e6, time.UTC)
	docID = crdt.DocumentID{1}
)

// seeded gives randomness that is the same in each run.
func seeded(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	key[0] = byte(seed)
	return rand.NewChaCha8(key)
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

func load(t fataler, e Engine, parts ...[]byte) Document {
	t.Helper()
	d, err := e.Load(t.Context(), docID, parts)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return d
}

func edit(t fataler, d Document, base []crdt.Hash, ops ...Op) *crdt.Change {
	t.Helper()
	c, err := d.Edit(t.Context(), base, noon, ops)
	if err != nil {
		t.Fatalf("edit: %v", err)
	}
	return c
}

func read(t fataler, d Document, at []crdt.Hash, path ...string) Value {
	t.Helper()
	v, err := d.Read(t.Context(), at, path)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return v
}

func save(t fataler, d Document) []byte {
	t.Helper()
	b, err := d.Save(t.Context())
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return b
}

// The engine in this process passes the same suite as the one in workers.
func TestInProcess(t *testing.T) {
	testEngine(t, func(t *testing.T) Engine { return New(Options{Random: seeded(1)}) })
}

// testEngine is what an engine promises.
func testEngine(t *testing.T, open func(t *testing.T) Engine) {
	t.Run("EditReadSave", func(t *testing.T) {
		e := open(t)
		d := load(t, e)
		if v := read(t, d, nil); !reflect.DeepEqual(v, map[string]Value{}) {
			t.Errorf("the empty document reads as %#v", v)
		}
		c := edit(t, d, nil,
			Put{crdt.Path{"schema"}, int64(1)},
			PutText{crdt.Path{"title"}, "héllo"},
			PutMap{crdt.Path{"sections"}},
			PutMap{crdt.Path{"sections", "s"}},
			PutText{crdt.Path{"sections", "s", "body"}, "# 🙂 one\n"},
			Splice{crdt.Path{"sections", "s", "body"}, 3, 1, "two"},
			Put{crdt.Path{"sections", "s", "position"}, "a0"},
			Put{crdt.Path{"sections", "s", "removed"}, true},
			Put{crdt.Path{"f"}, 1.5},
			Put{crdt.Path{"n"}, nil},
			Delete{crdt.Path{"not there"}},
		)
		if c == nil || c.Seq != 1 || !c.Time.Equal(noon.Truncate(time.Second)) || c.StartOp != 1 {
			t.Fatalf("change %+v", c)
		}
		want := map[string]Value{
			"schema": int64(1), "title": Text("héllo"), "f": 1.5, "n": nil,
			"sections": map[string]Value{"s": map[string]Value{"body": Text("# 🙂twoone\n"), "position": "a0", "removed": true}},
		}
		if v := read(t, d, nil); !reflect.DeepEqual(v, want) {
			t.Errorf("reads as %#v", v)
		}
		second := edit(t, d, []crdt.Hash{c.Hash}, Delete{crdt.Path{"sections", "s"}}, Splice{crdt.Path{"title"}, 0, 5, ""})
		if second.Actor != c.Actor || second.Seq != 2 || !slices.Equal(second.Deps, []crdt.Hash{c.Hash}) {
			t.Errorf("the second change is by %v, number %d", second.Actor, second.Seq)
		}
		if v := read(t, d, nil, "sections"); !reflect.DeepEqual(v, map[string]Value{}) {
			t.Errorf("sections read as %#v", v)
		}
		if v := read(t, d, []crdt.Hash{c.Hash}, "sections", "s", "body"); v != Text("# 🙂twoone\n") {
			t.Errorf("the former version reads as %#v", v)
		}
		if v := read(t, d, []crdt.Hash{}); !reflect.DeepEqual(v, map[string]Value{}) {
			t.Errorf("the first version reads as %#v", v)
		}
		if v := read(t, d, nil, "title", "deeper"); v != nil {
			t.Errorf("something below a text: %#v", v)
		}
		for name, parts := range map[string][][]byte{
			"saved":          {save(t, d)},
			"changes":        {c.Raw, second.Raw},
			"together":       {append(slices.Clone(c.Raw), second.Raw...)},
			"saved and more": {c.Raw, save(t, d), second.Raw},
		} {
			again := load(t, e, parts...)
			if a, b := read(t, again, nil), read(t, d, nil); !reflect.DeepEqual(a, b) {
				t.Errorf("loaded from %s: %#v, want %#v", name, a, b)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		}
		unpacked, err := e.Unpack(t.Context(), save(t, d))
		if err != nil || len(unpacked) != 2 || unpacked[0].Hash != c.Hash || unpacked[1].Hash != second.Hash || string(unpacked[1].Raw) != string(second.Raw) {
			t.Errorf("unpacked %d changes, %v", len(unpacked), err)
		}
	})

	t.Run("NothingToDo", func(t *testing.T) {
		d := load(t, open(t))
		if c := edit(t, d, nil, Delete{crdt.Path{"x"}}); c != nil {
			t.Errorf("a change that does nothing: %+v", c)
		}
		if c := edit(t, d, nil); c != nil {
			t.Errorf("a change of nothing: %+v", c)
		}
	})

	t.Run("EditRead", func(t *testing.T) {
		d := load(t, open(t))
		first, _, err := d.EditRead(t.Context(), nil, noon, []Op{PutMap{crdt.Path{"map"}}, PutText{crdt.Path{"map", "text"}, "abc"}}, crdt.Path{"map"})
		if err != nil {
			t.Fatal(err)
		}
		edit(t, d, nil, Splice{crdt.Path{"map", "text"}, 3, 0, "d"})
		old := []crdt.Hash{first.Hash}
		c, v, err := d.EditRead(t.Context(), old, noon, []Op{Splice{crdt.Path{"map", "text"}, 0, 1, "A"}}, crdt.Path{"map"})
		if err != nil || c == nil || !slices.Equal(c.Deps, old) || !reflect.DeepEqual(v, map[string]Value{"text": Text("Abcd")}) {
			t.Errorf("made %+v, which reads %#v, %v", c, v, err)
		}
		c, v, err = d.EditRead(t.Context(), nil, noon, nil, crdt.Path{"map", "text"})
		if err != nil || c != nil || v != Text("Abcd") {
			t.Errorf("nothing made %+v, which reads %#v, %v", c, v, err)
		}
		var e *OpError
		if c, v, err = d.EditRead(t.Context(), nil, noon, []Op{nil}, crdt.Path{"map"}); !errors.As(err, &e) || c != nil || v != nil {
			t.Errorf("an impossible edit made %+v, which reads %#v, %v", c, v, err)
		}
	})

	t.Run("ImpossibleEdits", func(t *testing.T) {
		d := load(t, open(t))
		edit(t, d, nil, PutText{crdt.Path{"text"}, "héy"}, Put{crdt.Path{"string"}, "x"}, PutMap{crdt.Path{"map"}})
		before := string(save(t, d))
		text := crdt.Path{"text"}
		for name, ops := range map[string][]Op{
			"beyond the end":      {Splice{text, 4, 0, "x"}},
			"deletes too much":    {Splice{text, 1, 3, ""}},
			"negative":            {Splice{text, -1, 0, "x"}},
			"deletes less than 0": {Splice{text, 1, -1, "x"}},
			"not a text":          {Splice{crdt.Path{"string"}, 0, 0, "x"}},
			"nothing there":       {Splice{crdt.Path{"map", "x"}, 0, 0, "x"}},
			"below a text":        {Put{crdt.Path{"text", "x"}, "x"}},
			"the root":            {PutMap{nil}},
			"not UTF-8":           {Splice{text, 0, 0, "\xff"}},
			"text not UTF-8":      {PutText{text, "\xff"}},
			"key not UTF-8":       {Put{crdt.Path{"\xff"}, "x"}},
			"empty key":           {Put{crdt.Path{"map", ""}, "x"}},
			"below an empty key":  {Put{crdt.Path{"", "x"}, "x"}},
			"value not UTF-8":     {Put{crdt.Path{"x"}, "\xff"}},
			"type":                {Put{crdt.Path{"x"}, []int{1}}},
			"no operation":        {nil},
			"removed before":      {Delete{crdt.Path{"map"}}, Put{crdt.Path{"map", "x"}, "x"}},
			"shortened before":    {Splice{text, 0, 3, ""}, Splice{text, 1, 0, "x"}},
			"replaced before":     {PutMap{crdt.Path{"map", "a"}}, PutMap{crdt.Path{"map"}}, Put{crdt.Path{"map", "a", "b"}, "x"}},
		} {
			c, err := d.Edit(t.Context(), nil, noon, ops)
			var e *OpError
			if !errors.As(err, &e) || c != nil || e.Index != len(ops)-1 {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		}
		if string(save(t, d)) != before {
			t.Error("an impossible edit left something behind")
		}
		edit(t, d, nil, PutMap{crdt.Path{"a"}}, PutMap{crdt.Path{"a", "b"}}, Put{crdt.Path{"a", "b", "c"}, "x"},
			PutText{text, "long"}, Splice{text, 4, 0, "er"})
		if v := read(t, d, nil, "text"); v != Text("longer") {
			t.Errorf("text is %#v", v)
		}
	})

	t.Run("UnknownVersion", func(t *testing.T) {
		d := load(t, open(t))
		if _, err := d.Read(t.Context(), []crdt.Hash{{1}}, nil); !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("read: %v", err)
		}
		if _, err := d.Edit(t.Context(), []crdt.Hash{{1}}, noon, []Op{Put{crdt.Path{"a"}, "b"}}); !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("edit: %v", err)
		}
	})

	t.Run("BadChanges", func(t *testing.T) {
		e := open(t)
		d := load(t, e)
		one := edit(t, d, nil, Put{crdt.Path{"a"}, "1"})
		two := edit(t, d, nil, Put{crdt.Path{"a"}, "2"})
		other := New(Options{Random: seeded(2)})
		o := load(t, other, one.Raw, two.Raw)
		three := edit(t, o, nil, Put{crdt.Path{"a"}, "3"})
		four := edit(t, o, nil, Put{crdt.Path{"a"}, "4"})
		err := load(t, e, one.Raw).Apply(t.Context(), []crdt.Change{*two, *four})
		var bad *BadChangeError
		if !errors.As(err, &bad) || bad.Hash != four.Hash {
			t.Errorf("a change without its dependency gives %v", err)
		}
		if err := d.Apply(t.Context(), []crdt.Change{*one, *three, *four, *three}); err != nil {
			t.Errorf("apply: %v", err)
		}
		if v := read(t, d, nil, "a"); v != "4" {
			t.Errorf("a is %#v", v)
		}
		for name, chunk := range map[string][]byte{
			"nothing": {}, "junk": []byte("junk"), "a change": one.Raw,
			"damaged": func() []byte { b := save(t, d); b[len(b)-1]++; return b }(),
			"two":     append(save(t, d), save(t, d)...),
		} {
			if changes, err := e.Unpack(t.Context(), chunk); !errors.As(err, &bad) || changes != nil {
				t.Errorf("unpack %s: %d changes, %v", name, len(changes), err)
			}
			if name == "damaged" || name == "junk" {
				if _, err := e.Load(t.Context(), docID, [][]byte{chunk}); !errors.As(err, &bad) {
					t.Errorf("load %s: %v", name, err)
				}
			}
		}
	})

	t.Run("AnythingCanBeRead", func(t *testing.T) {
		doc := automerge.New()
		values := map[string]any{
			"bytes": []byte{1, 2}, "uint": uint64(1 << 63), "counter": automerge.NewCounter(3), "time": time.UnixMilli(1e12),
			"list": []any{int64(1), "x", automerge.NewText("t"), map[string]any{"k": nil}}, "null\x00": "zero",
		}
		for k, v := range values {
			if err := doc.RootMap().Set(k, v); err != nil {
				t.Fatal(err)
			}
		}
		deep := make([]any, maxDepth+10)
		for i := range deep {
			deep[i] = "d"
		}
		if err := doc.Path(deep...).Set("end"); err != nil {
			t.Fatal(err)
		}
		v := read(t, load(t, open(t), doc.Save()), nil).(map[string]Value)
		depth := 0
		for m, ok := v["d"].(map[string]Value); ok; m, ok = m["d"].(map[string]Value) {
			depth++
		}
		if depth != maxDepth-1 {
			t.Errorf("read %d levels deep", depth)
		}
		delete(v, "d")
		want := map[string]Value{
			"bytes": []byte{1, 2}, "uint": uint64(1 << 63), "counter": Counter(3), "time": time.UnixMilli(1e12).UTC(),
			"list": []Value{int64(1), "x", Text("t"), map[string]Value{"k": nil}}, "null\x00": "zero",
		}
		if !reflect.DeepEqual(v, want) {
			t.Errorf("reads as %#v", v)
		}
	})

	t.Run("EditOnAnOlderVersion", func(t *testing.T) {
		e := open(t)
		rapid.Check(t, func(t *rapid.T) { checkOlderVersion(t, e) })
	})
}

// checkOlderVersion holds an edit on any version of a text against the definition: fork there, type, merge.
func checkOlderVersion(t *rapid.T, e Engine) {
	path := crdt.Path{"text"}
	d := load(t, e)
	defer d.Close()
	versions := [][]crdt.Hash{{edit(t, d, nil, PutText{path, rapid.StringOfN(rapid.RuneFrom([]rune("ab🙂")), 0, 8, -1).Draw(t, "text")}).Hash}}
	oracle, err := automerge.Load(save(t, d))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	for range rapid.IntRange(1, 8).Draw(t, "edits") {
		base := rapid.SampledFrom(versions).Draw(t, "base")
		text := string(read(t, d, base, "text").(Text))
		size := len([]rune(text))
		at := rapid.IntRange(0, size).Draw(t, "at")
		op := Splice{path, at, rapid.IntRange(0, size-at).Draw(t, "delete"), rapid.StringOfN(rapid.RuneFrom([]rune("ab🙂")), 0, 3, -1).Draw(t, "insert")}
		c := edit(t, d, base, op)
		if c == nil {
			continue
		}
		for _, h := range base { // the core adds its author's last change
			if !slices.Contains(c.Deps, h) {
				t.Fatalf("depends on %v, want %v", c.Deps, base)
			}
		}
		theirs := make([]automerge.ChangeHash, len(base))
		for i, h := range base {
			theirs[i] = automerge.ChangeHash(h)
		}
		fork, err := oracle.Fork(theirs...)
		if err != nil {
			t.Fatalf("fork: %v", err)
		}
		if err := fork.SetActorID(c.Actor.String()); err != nil {
			t.Fatalf("set actor: %v", err)
		}
		if err := fork.Path("text").Text().Splice(op.At, op.Delete, op.Insert); err != nil {
			t.Fatalf("splice: %v", err)
		}
		if _, err := fork.Commit(""); err != nil {
			t.Fatalf("commit: %v", err)
		}
		want, err := fork.Path("text").Text().Get()
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if got := read(t, d, []crdt.Hash{c.Hash}, "text"); got != Text(want) {
			t.Fatalf("the edit alone gives %q, want %q", got, want)
		}
		if err := oracle.LoadIncremental(c.Raw); err != nil {
			t.Fatalf("apply: %v", err)
		}
		merged, err := oracle.Path("text").Text().Get()
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if got := read(t, d, nil, "text"); got != Text(merged) {
			t.Fatalf("merged it is %q, want %q", got, merged)
		}
		var heads []crdt.Hash
		for _, h := range oracle.Heads() {
			heads = append(heads, crdt.Hash(h))
		}
		versions = append(versions, heads, []crdt.Hash{c.Hash})
	}
}

// The same seed gives the same document.
func TestRandomnessIsInjected(t *testing.T) {
	var saved []string
	for range 2 {
		d := load(t, New(Options{Random: seeded(7)}))
		c := edit(t, d, nil, Put{crdt.Path{"a"}, "b"})
		edit(t, d, []crdt.Hash{}, Put{crdt.Path{"c"}, "d"})
		edit(t, d, []crdt.Hash{c.Hash}, Put{crdt.Path{"e"}, "f"})
		saved = append(saved, string(save(t, d)))
	}
	if saved[0] != saved[1] {
		t.Error("two runs, two documents")
	}
}
