package crdt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"
)

// A caught-up peer gets each change in one message, the same bytes as all others that are caught up, and what
// that costs does not depend on the history.
func TestFanOut(t *testing.T) {
	n := newNode()
	author := newReplica(t, 0)
	var sessions []*Session
	for i := range 3 {
		s := NewSession(false)
		s.Receive(n.graph, Message{caps: capabilities{v2: i > 0}})
		if _, ok, err := s.Generate(n.graph, n); !ok || err != nil {
			t.Fatalf("first message: %v, %v", ok, err)
		}
		sessions = append(sessions, s)
	}
	for i := range 50 {
		if err := author.doc.RootMap().Set("k", int64(i)); err != nil {
			t.Fatal(err)
		}
		if _, err := author.doc.Commit("m"); err != nil {
			t.Fatal(err)
		}
		n.accept(t, author.changes(t))
		var messages [][]byte
		for _, s := range sessions {
			data, ok, err := s.Generate(n.graph, n)
			if !ok || err != nil {
				t.Fatalf("generate: %v, %v", ok, err)
			}
			messages = append(messages, data)
			m, err := ParseMessage(data, testLimits)
			if err != nil || len(m.Documents) > min(1, 1-min(i, 1)) || len(m.Changes)+len(m.Documents) != 1 || !slices.Equal(m.Heads, n.graph.Heads()) {
				t.Fatalf("change %d: %d changes, %d documents, %v", i, len(m.Changes), len(m.Documents), err)
			}
			if len(m.have) != 1 || !slices.Equal(m.have[0].lastSync, n.graph.Heads()) || len(m.have[0].filter.bits) != 0 {
				t.Fatalf("change %d: summary %v", i, m.have)
			}
			if _, ok, _ := s.Generate(n.graph, n); ok {
				t.Fatal("says it twice")
			}
		}
		if bytes.Equal(messages[0], messages[1]) || &messages[1][0] != &messages[2][0] {
			t.Fatal("peers of the second version do not share one message")
		}
	}
}

// A peer that asks for what its orphans wait for, without a summary, gets it with all that it builds on, once: not one
// generation each time.
func TestWhatIsNeededComesWithItsPast(t *testing.T) {
	n := newNode()
	author := newReplica(t, 0)
	for i := range 20 {
		if err := author.doc.RootMap().Set("k", int64(i)); err != nil {
			t.Fatal(err)
		}
		if _, err := author.doc.Commit("m"); err != nil {
			t.Fatal(err)
		}
	}
	n.accept(t, author.changes(t))
	asked := n.graph.Hash(14)
	s := NewSession(false)
	say := func(want int) {
		t.Helper()
		s.Receive(n.graph, Message{Heads: []Hash{{1}}, Need: []Hash{asked}})
		data, ok, err := s.Generate(n.graph, n)
		if !ok || err != nil {
			t.Fatalf("it says nothing: %v", err)
		}
		m, err := ParseMessage(data, testLimits)
		if err != nil || len(m.Changes) != want || m.Changes[want-1].Hash != asked {
			t.Fatalf("it sends %d changes, want %d (%v)", len(m.Changes), want, err)
		}
	}
	say(15)
	say(1)
}

// Reset: a peer that throws away what it had been sent gets it again.
func TestSyncReset(t *testing.T) {
	n := newNode()
	author := newReplica(t, 0)
	if err := author.doc.RootMap().Set("k", "v"); err != nil {
		t.Fatal(err)
	}
	n.accept(t, author.changes(t))
	s := NewSession(false)
	hello := Message{caps: capabilities{v2: true, flags: flagReadOnly | flagSupportsSyncReset}}
	s.Receive(n.graph, hello)
	data, ok, err := s.Generate(n.graph, n)
	if m, perr := ParseMessage(data, testLimits); !ok || err != nil || perr != nil || len(m.Changes)+len(m.Documents) != 0 {
		t.Fatalf("a peer that takes nothing in was sent something: %v %v %v", ok, err, perr)
	}
	hello.caps.flags = flagSyncReset | flagSupportsSyncReset
	s.Receive(n.graph, hello)
	data, ok, err = s.Generate(n.graph, n)
	if m, perr := ParseMessage(data, testLimits); !ok || err != nil || perr != nil || len(m.Changes)+len(m.Documents) != 1 {
		t.Fatalf("not sent again: %v %v %v", ok, err, perr)
	}
}

// A peer that claims heads which it never sends does not make the server ask for ever.
func TestAskingEnds(t *testing.T) {
	n := newNode()
	s := NewSession(false)
	said := 0
	for range 100 {
		s.Receive(n.graph, Message{Heads: []Hash{{1}, {2}}, have: []have{{}}, caps: capabilities{v2: true}})
		if _, ok, err := s.Generate(n.graph, n); err != nil {
			t.Fatal(err)
		} else if ok {
			said++
		}
	}
	asked := 0
	for _, r := range s.asked {
		asked = max(asked, r.asked)
	}
	if asked > maxAsked || len(s.asked) != 2 {
		t.Errorf("asked %d times, for %d changes", asked, len(s.asked))
	}
	if said > 100 {
		t.Errorf("%d answers to 100 messages", said)
	}
}

func TestRefusedMessages(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<40)
	message := func(filter ...byte) []byte { // version, heads, need, one summary
		out := []byte{messageV1, 0, 0, 1, 0}
		out = binary.AppendUvarint(out, uint64(len(filter)))
		return append(append(out, filter...), 0)
	}
	for name, data := range map[string][]byte{
		"nothing":              {},
		"type":                 {0x41, 0, 0, 0, 0},
		"cut":                  {messageV1, 0, 0},
		"heads":                append([]byte{messageV1}, huge...),
		"need":                 append([]byte{messageV1, 0}, huge...),
		"summaries":            append([]byte{messageV1, 0, 0}, huge...),
		"many summaries":       append([]byte{messageV1, 0, 0, maxHaves + 1}, make([]byte, 100)...),
		"last sync":            append([]byte{messageV1, 0, 0, 1}, huge...),
		"filter length":        append([]byte{messageV1, 0, 0, 1, 0}, huge...),
		"entries":              append([]byte{messageV1, 0, 0, 0}, huge...),
		"entry length":         append([]byte{messageV1, 0, 0, 0, 1}, huge...),
		"flags length":         append([]byte{messageV1, 0, 0, 0, 0}, huge...),
		"zero bits":            message(1, 0, 7),
		"many bits":            message(1, maxBloomBits+1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"zero probes":          message(1, 10, 0, 0, 0),
		"2^32 probes":          message(append(append([]byte{1, 10}, binary.AppendUvarint(nil, 1<<32-1)...), 0, 0)...),
		"2^40 entries":         message(append(slices.Clone(huge), 10, 7)...),
		"more bits than bytes": message(2, 10, 7, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseMessage(data, testLimits)
			var e *ParseError
			if !errors.As(err, &e) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, data := range map[string][]byte{
		"without flags":    {messageV1, 0, 0, 0, 0},
		"early flags":      {messageV1, 0, 0, 0, 0, 1, 2},
		"later flags":      {messageV2, 0, 0, 0, 0, 3, 2, 0xff, 0x30},
		"filter":           message(2, 10, 7, 0, 0, 0),
		"empty filter":     message(0, 0, 0),
		"something behind": {messageV1, 0, 0, 0, 0, 1, 2, 9, 9},
	} {
		if _, err := ParseMessage(data, testLimits); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The filter written here is the one that the engine reads, and the other way round.
func TestBloomAgreesWithTheEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReplica(t, 0)
		for range rapid.IntRange(1, 20).Draw(t, "edits") {
			r.edit(t)
		}
		m, ok := automerge.NewSyncState(r.doc).GenerateMessage()
		if !ok {
			t.Fatalf("no message")
		}
		parsed, err := ParseMessage(m.Bytes(), testLimits)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		var hashes []Hash
		for _, c := range r.changes(t) {
			hashes = append(hashes, c.Hash)
			if !parsed.have[0].filter.has(c.Hash) {
				t.Errorf("%v is not in the engine's filter", c.Hash)
			}
		}
		if len(hashes) == 0 {
			return
		}
		ours, err := parseBloom(appendBloom(nil, hashes))
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		if !bytes.Equal(ours.bits, parsed.have[0].filter.bits) {
			t.Errorf("other bits")
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte{messageV1, 0, 0, 1, 0, 0, 0, 2, 2, 0x84})
	_, own := readTrace(f)
	c := parseAll(f, own[0][0])[0]
	d := draft{v2: true, heads: []Hash{c.Hash}, need: c.Deps, have: true, lastSync: c.Deps, summary: []Hash{c.Hash}, chunks: [][]byte{c.Raw}}
	f.Add(d.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMessage(data, Limits{ChangeBytes: 1 << 20})
		var pe *ParseError
		if err != nil {
			if !errors.As(err, &pe) {
				t.Fatalf("not a ParseError: %v", err)
			}
			return
		}
		n := newNode()
		ready, _, _ := n.graph.Sort(m.Changes)
		n.graph.Add(ready...)
		for _, c := range ready {
			n.raw[c.Hash] = c.Raw
		}
		for _, readOnly := range []bool{false, true} {
			s := NewSession(readOnly)
			for range 2 {
				s.Receive(n.graph, m)
				if data, ok, err := s.Generate(n.graph, n); err != nil {
					t.Fatalf("generate: %v", err)
				} else if ok {
					if _, err := ParseMessage(data, testLimits); err != nil {
						t.Fatalf("a message that cannot be read: %v", err)
					}
				}
			}
		}
	})
}
