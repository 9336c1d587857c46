package agent

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// Every request that is written is read as the same one.
func TestRequestsSurviveTheWire(t *testing.T) {
	text, after, since := "x", SectionID(""), Seq("7")
	for _, want := range []Request{
		&Open{Document: "d", View: OneSection, Section: "s", Version: "v", Since: &since},
		&Close{Document: "d"},
		&Edit{Document: "d", Section: "s", Text: &text, Base: Current, Fence: 1 << 63},
		&Edit{Document: "d", Section: "s", Ops: []TextOp{{At: 1, Delete: 2, Insert: "\U0001F600"}}},
		&Edit{Document: "d", Section: "s", Replace: []Replacement{{Find: "a", With: "b", Occurrence: 2}}},
		&Create{Document: "d", Text: &text, After: "s"},
		&Create{Slug: "d", Markdown: "# x", Level: 3},
		&Move{Document: "d", Section: "s", After: &after},
		&Remove{Document: "d", Section: "s", Fence: 7},
		&Restore{Document: "d", Section: "s"},
		&LeaseRequest{Document: "d", Section: "s", Action: Acquire, LeaseDurationSeconds: 1.5, Queue: true, WaitSeconds: 3, PlaceSeconds: 9, Reason: "r"},
		&Presence{Document: "d", State: json.RawMessage(`{"a":[1]}`), TTLSeconds: 5},
		&Post{Document: "d", Payload: json.RawMessage(`{}`)},
	} {
		want.header().ID = "id-1"
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, id, err := DecodeRequest(b)
		if err != nil || id != "id-1" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s was read as %+v (id %q, %v)", b, got, id, err)
		}
		if got != nil && got.About() != want.About() {
			t.Errorf("%s is about %q", b, got.About())
		}
	}
}

// Facts stand beside the code, and never in the way of what every error has.
func TestErrorsCarryTheirFacts(t *testing.T) {
	for _, want := range []*Error{
		{Header: Header{ID: "1"}, Document: "d", Code: code.SectionLeased, Message: "held", Facts: map[string]any{"holder": "alice", "expiresInMs": 5.}},
		{Code: code.BadFrame, Message: "no frame", Facts: map[string]any{}},
	} {
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeAnswer(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s was read as %+v, %v", b, got, err)
		}
	}
}

func TestFramesOfLaterVersionsAreSkipped(t *testing.T) {
	if f, err := DecodeAnswer([]byte(`{"type":"sparkle","x":1}`)); f != nil || err != nil {
		t.Errorf("an unknown frame is %v, %v", f, err)
	}
	if f, err := DecodeAnswer([]byte(`{"type":"ack","id":"1","sparkle":1}`)); err != nil || IDOf(f) != "1" {
		t.Errorf("an unknown field: %v, %v", f, err)
	}
	if _, err := DecodeAnswer([]byte(`{"type":"ack","id":{}}`)); err == nil {
		t.Error("a frame that is none was read")
	}
}

// A frame that does not lead on from where a mirror is, or cannot be, leaves it as it was.
func TestMirrorRefusesGaps(t *testing.T) {
	m := new(Mirror)
	m.Begin(&Opened{Version: "v1", Title: "T", Sections: []Section{{ID: "a", Text: "abc", Position: "P"}}})
	change := func(from string, s SectionChange) *Changed {
		return &Changed{From: crdt.Version("v" + from), To: "v9", Sections: []SectionChange{{Section: Section{ID: "a"}, Ops: []TextOp{{Insert: "x"}}}, s}}
	}
	for _, c := range []struct {
		change *Changed
		gap    bool
	}{
		{change("2", SectionChange{Section: Section{ID: "b"}, Made: true}), true},
		{change("1", SectionChange{Section: Section{ID: "b"}}), true},
		{change("1", SectionChange{Section: Section{ID: "a"}, Ops: []TextOp{{At: 4}}}), false},
		{change("1", SectionChange{Section: Section{ID: "a"}, Ops: []TextOp{{At: 2, Delete: 2}}}), false},
		{change("1", SectionChange{Section: Section{ID: "a"}, Ops: []TextOp{{At: 2}, {At: 1}}}), false},
		{change("1", SectionChange{Section: Section{ID: "a"}, Ops: []TextOp{{At: 0, Delete: -1}}}), false},
	} {
		if err := m.Apply(c.change); err == nil || errors.Is(err, ErrGap) != c.gap {
			t.Errorf("%+v was answered %v", c.change, err)
		}
		if m.Version != "v1" || m.Markdown() != "abc" {
			t.Fatalf("the mirror is now %q at %s", m.Markdown(), m.Version)
		}
	}
	title := "U"
	gone := &Changed{From: "v1", To: "v2", Title: &title, Sections: []SectionChange{{Section: Section{ID: "a"}, Gone: true}}}
	if err := m.Apply(gone); err != nil || m.Title != "U" || m.Version != "v2" || len(m.Sections()) != 0 {
		t.Errorf("after the section has gone: %+v, %v", m, err)
	}
}

// ApplyOps against a slow twin that does the operations one by one from the end, on code points.
func TestApplyOps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab é\U0001F600\n"))).Draw(t, "text")
		var ops []TextOp
		for at, length := 0, utf8.RuneCountInString(text); at <= length; {
			op := TextOp{At: rapid.IntRange(at, length).Draw(t, "at"), Insert: rapid.StringN(0, 3, -1).Draw(t, "insert")}
			op.Delete = rapid.IntRange(0, length-op.At).Draw(t, "delete")
			ops = append(ops, op)
			if at = op.At + op.Delete; rapid.Bool().Draw(t, "last") {
				break
			}
		}
		want := []rune(text)
		for i := len(ops) - 1; i >= 0; i-- {
			op := ops[i]
			want = []rune(string(want[:op.At]) + op.Insert + string(want[op.At+op.Delete:]))
		}
		if got, err := ApplyOps(text, ops); err != nil || got != string(want) {
			t.Fatalf("%v on %q gives %q, %v; want %q", ops, text, got, err, string(want))
		}
	})
}

// No bytes from a client do more than be refused, in words that tell nothing of the program.
func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{`{"type":"edit","document":"d","section":"s","ops":[{"at":1}]}`, `{"type":"open","since":null}`, `{}`, `{"type":{}}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, _, err := DecodeRequest(b)
		if err == nil {
			again, err := Encode(r)
			if err != nil {
				t.Fatalf("%s cannot be written: %v", b, err)
			}
			if _, _, err := DecodeRequest(again); err != nil {
				t.Fatalf("%s was read, and written as %s it is refused: %v", b, again, err)
			}
			return
		}
		refusal, ok := errors.AsType[*code.Error](err)
		if !ok || strings.Contains(refusal.Message, "agent.") {
			t.Fatalf("%q was refused with %v", b, err)
		}
	})
}
