package crdt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"
)

// node is what a server makes of this package for one document: a graph, the changes' bytes, a place for orphans,
// and one session a peer.
type node struct {
	graph   *Graph
	raw     map[Hash][]byte
	orphans []Change
	whole   *automerge.Doc
	wholes  int // how often the whole document was asked for
	noWhole bool
}

func newNode() *node {
	return &node{graph: NewGraph(), raw: make(map[Hash][]byte), whole: automerge.New()}
}

func (n *node) Raw(hashes []Hash, _ bool) ([][]byte, error) {
	var out [][]byte
	for _, h := range hashes {
		if n.raw[h] == nil {
			return nil, fmt.Errorf("%v is not stored", h)
		}
		out = append(out, n.raw[h])
	}
	return out, nil
}

func (n *node) Whole() ([]byte, error) {
	n.wholes++
	if n.noWhole {
		return nil, errors.New("it cannot be saved")
	}
	return n.whole.Save(), nil
}

// accept takes in what can be taken in and lets the rest wait. deflated stores every second change deflated.
func (n *node) accept(t require, changes []Change) {
	t.Helper()
	ready, orphans, refused := n.graph.Sort(append(n.orphans, changes...))
	if len(refused) > 0 {
		t.Fatalf("%d changes refused", len(refused))
	}
	n.orphans = orphans
	for i, c := range ready {
		n.raw[c.Hash] = c.Raw
		if i%2 == 1 {
			n.raw[c.Hash] = deflate(c.Plain())
		}
		if err := n.whole.LoadIncremental(c.Raw); err != nil {
			t.Fatalf("apply: %v", err)
		}
	}
	n.graph.Add(ready...)
}

// unpack opens whole-document chunks, which is the engine's part.
func unpack(t require, documents [][]byte) []Change {
	t.Helper()
	var all []Change
	for _, d := range documents {
		doc, err := automerge.Load(d)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		all = append(all, (&replica{doc}).changes(t)...)
	}
	return all
}

// link is one connection between a node and a peer: messages under way in both directions, in order.
type link struct {
	node     *node
	peer     peer
	session  *Session
	up, down [][]byte
	sent     int
}

// peer is who is at the other end of a link.
type peer interface {
	edit(t *rapid.T)
	heads() []Hash
	connect()
	generate(t require) ([]byte, bool)
	receive(t require, message []byte)
}

func (l *link) connect(readOnly bool) {
	l.session, l.up, l.down = NewSession(readOnly), nil, nil
	l.peer.connect()
}

// talk lets both sides say what they have to say.
func (l *link) talk(t require) {
	t.Helper()
	if m, ok := l.peer.generate(t); ok {
		l.up = append(l.up, m)
		l.sent++
	}
	l.say(t)
}

func (l *link) say(t require) {
	t.Helper()
	m, ok, err := l.session.Generate(l.node.graph, l.node)
	if err != nil {
		t.Fatalf("generate: %v", err)
	}
	if ok {
		l.down = append(l.down, m)
		l.sent++
	}
}

func (l *link) deliverUp(t require) {
	t.Helper()
	data := l.up[0]
	l.up = l.up[1:]
	m, err := ParseMessage(data, testLimits)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if !l.session.readOnly {
		l.node.accept(t, append(m.Changes, unpack(t, m.Documents)...))
	}
	l.session.Receive(l.node.graph, m)
}

func (l *link) deliverDown(t require) {
	t.Helper()
	data := l.down[0]
	l.down = l.down[1:]
	l.peer.receive(t, data)
}

// enginePeer speaks with the engine's own sync state, which knows version 1 only.
type enginePeer struct {
	*replica
	state *automerge.SyncState
}

func (p *enginePeer) connect() { p.state = automerge.NewSyncState(p.doc) }

func (p *enginePeer) generate(require) ([]byte, bool) {
	m, ok := p.state.GenerateMessage()
	if !ok {
		return nil, false
	}
	return m.Bytes(), true
}

func (p *enginePeer) receive(t require, message []byte) {
	t.Helper()
	if _, err := p.state.ReceiveMessage(message); err != nil {
		t.Fatalf("the engine cannot read the message: %v", err)
	}
}

// ownPeer is another node.
type ownPeer struct {
	*node
	author  *replica
	session *Session
}

func (p *ownPeer) heads() []Hash { return p.graph.Heads() }
func (p *ownPeer) connect()      { p.session = NewSession(false) }

func (p *ownPeer) edit(t *rapid.T) {
	if _, err := p.author.doc.Merge(p.whole); err != nil {
		t.Fatalf("merge: %v", err)
	}
	p.author.edit(t)
	p.accept(t, p.author.changes(t))
}

func (p *ownPeer) generate(t require) ([]byte, bool) {
	m, ok, err := p.session.Generate(p.graph, p)
	if err != nil {
		t.Fatalf("generate: %v", err)
	}
	return m, ok
}

func (p *ownPeer) receive(t require, message []byte) {
	m, err := ParseMessage(message, testLimits)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	p.accept(t, append(m.Changes, unpack(t, m.Documents)...))
	p.session.Receive(p.graph, m)
}

// Whatever is typed where and whichever connections are cut in whatever state, in the end all have the same,
// and nobody talks on.
func TestPeersConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		var links []*link
		for i := range rapid.IntRange(1, 3).Draw(t, "peers") {
			l := &link{node: n}
			if rapid.Bool().Draw(t, "own") {
				l.peer = &ownPeer{node: newNode(), author: newReplica(t, i)}
			} else {
				l.peer = &enginePeer{replica: newReplica(t, i)}
			}
			for range rapid.IntRange(0, 8).Draw(t, "before") {
				l.peer.edit(t)
			}
			l.connect(false)
			links = append(links, l)
		}
		edits, cuts := 0, len(links)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			l := rapid.SampledFrom(links).Draw(t, "link")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				l.peer.edit(t)
				edits++
			case 2, 3, 4:
				l.talk(t)
			case 5, 6:
				if len(l.up) > 0 {
					l.deliverUp(t)
				}
			case 7, 8:
				if len(l.down) > 0 {
					l.deliverDown(t)
				}
			case 9:
				l.connect(false)
				cuts++
			}
		}
		settle(t, links, edits, cuts)
		for i, l := range links {
			if !slices.Equal(l.peer.heads(), n.graph.Heads()) {
				t.Errorf("peer %d has %v, the server %v", i, l.peer.heads(), n.graph.Heads())
			}
		}
		if len(n.orphans) > 0 {
			t.Errorf("%d changes wait for ever", len(n.orphans))
		}
		if got := (&replica{n.whole}).heads(); !slices.Equal(got, n.graph.Heads()) {
			t.Errorf("the engine has %v, the graph %v", got, n.graph.Heads())
		}
	})
}

// settle lets all talk until there is nothing more to say, and fails if that takes longer than a conversation of so
// much news may.
func settle(t require, links []*link, edits, cuts int) {
	t.Helper()
	for round := 0; ; round++ {
		busy := false
		for _, l := range links {
			l.talk(t)
			for len(l.up) > 0 {
				l.deliverUp(t)
				l.say(t)
				busy = true
			}
			for len(l.down) > 0 {
				l.deliverDown(t)
				busy = true
			}
		}
		if !busy {
			break
		}
		if round > 20+2*edits {
			t.Fatalf("still talking after %d rounds", round)
		}
	}
	sent := 0
	for _, l := range links {
		sent += l.sent
	}
	if most := len(links) * (2*edits + 8*cuts + 60); sent > most {
		t.Errorf("%d messages, at most %d", sent, most)
	}
}

// A viewer gets all that is written and is asked for nothing; what it wrote itself does not make it or the
// server talk without end.
func TestViewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNode()
		writer := &link{node: n, peer: &enginePeer{replica: newReplica(t, 0)}}
		viewer := &link{node: n, peer: &enginePeer{replica: newReplica(t, 1)}}
		if rapid.Bool().Draw(t, "own change") {
			viewer.peer.edit(t)
		}
		own := viewer.peer.heads()
		writer.connect(false)
		viewer.connect(true)
		edits := rapid.IntRange(1, 5).Draw(t, "edits")
		for range edits {
			writer.peer.edit(t)
			if rapid.Bool().Draw(t, "settle") {
				settle(t, []*link{writer, viewer}, edits, 2)
			}
		}
		settle(t, []*link{writer, viewer}, edits, 2)
		want := SortHashes(append(slices.Clone(own), n.graph.Heads()...))
		if got := viewer.peer.heads(); !slices.Equal(got, want) {
			t.Errorf("the viewer has %v, want %v", got, want)
		}
		for _, h := range own {
			if n.graph.Has(h) {
				t.Errorf("the viewer's own change was taken in")
			}
		}
	})
}

// A peer that has nothing and understands version 2 gets the document in one chunk, deflated and all.
func TestNewcomerGetsTheWhole(t *testing.T) {
	n := newNode()
	seed, own := readTrace(t)
	n.accept(t, unpack(t, [][]byte{seed}))
	for _, raw := range own[0][:200] {
		n.accept(t, parseAll(t, raw))
	}
	for _, n.noWhole = range []bool{false, true} { // without it, all changes in one message
		n.wholes = 0
		clear(n.graph.encoded)
		newcomer := &ownPeer{node: newNode()}
		l := &link{node: n, peer: newcomer}
		l.connect(false)
		settle(t, []*link{l}, 0, 1)
		if !slices.Equal(newcomer.heads(), n.graph.Heads()) || len(n.graph.Heads()) == 0 {
			t.Errorf("the newcomer has %v, want %v", newcomer.heads(), n.graph.Heads())
		}
		if n.wholes != 1 || l.sent > 4 {
			t.Errorf("%d wholes in %d messages", n.wholes, l.sent)
		}
	}
}

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
