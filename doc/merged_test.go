package doc_test

import (
	"reflect"
	"testing"

	"cowrite/doc"
)

// Each range that was merged in has its own author, also where those of several meet, where one took out what another
// left, and where the writer's own earlier words are among them.
func TestEachMergedRangeHasItsAuthor(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("one two three four five six\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		base := &doc.Base{Version: s.Version}
		ops := func(k doc.Key, ops ...doc.TextOp) doc.Written {
			t.Helper()
			got, err := w.EditSection(t.Context(), k, id, sid, doc.OpsEdit{Ops: ops}, base)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		ops(alice, doc.TextOp{At: 4, Insert: "à "}, doc.TextOp{At: 14, Delete: 5})
		ops(bob, doc.TextOp{At: 8, Insert: "𝄞 "}, doc.TextOp{At: 19, Delete: 5})
		ops(editor("carol"), doc.TextOp{At: 0, Insert: "zero "})
		got := ops(editor("carol"), doc.TextOp{At: 5, Delete: 2, Insert: "2"}, doc.TextOp{At: 24, Delete: 3, Insert: "6"})
		if want := "zero one à t2 𝄞 three 6\n"; got.Section.Text != want {
			t.Fatalf("it reads %q, want %q", got.Section.Text, want)
		}
		want := &doc.MergedFrom{Agents: []doc.Agent{"alice", "bob"}, Ranges: []doc.MergedRange{
			{At: 0, Length: 5, Agent: "carol"},
			{At: 9, Length: 2, Agent: "alice"},
			{At: 14, Length: 2, Agent: "bob"},
			{At: 22, Deleted: 5, Agent: "alice"},
			{At: 22, Deleted: 5, Agent: "bob"},
		}}
		if !reflect.DeepEqual(got.MergedFrom, want) {
			t.Errorf("merged from %+v, want %+v", got.MergedFrom, want)
		}
	})
}

// What the writer takes out too is nobody's merge.
func TestWhatBothRemoveIsNotMerged(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("one two three\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		base := &doc.Base{Version: s.Version}
		for _, c := range []struct {
			by   doc.Key
			op   doc.TextOp
			want *doc.MergedFrom
		}{
			{alice, doc.TextOp{At: 4, Delete: 4}, nil},
			{bob, doc.TextOp{At: 4, Delete: 4}, nil},
			{editor("carol"), doc.TextOp{At: 6, Delete: 4}, &doc.MergedFrom{Agents: []doc.Agent{"alice"}, Ranges: []doc.MergedRange{{At: 4, Deleted: 2, Agent: "alice"}}}},
		} {
			got, err := w.EditSection(t.Context(), c.by, id, sid, doc.OpsEdit{Ops: []doc.TextOp{c.op}}, base)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.MergedFrom, c.want) {
				t.Errorf("%s merged from %+v, want %+v", c.by.Agent, got.MergedFrom, c.want)
			}
		}
	})
}
