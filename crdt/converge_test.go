package crdt

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// accept takes in what can be taken in and lets the rest wait. Every second change is stored deflated.
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

// party has a replica of the document.
type party interface {
	edit(t *rapid.T)
	heads() []Hash
	open(readOnly bool) end
}

// end is what a party knows of one connection.
type end interface {
	generate(t require) ([]byte, bool)
	receive(t require, message []byte)
}

// ownParty is a node whose author writes.
type ownParty struct {
	*node
	author *replica
}

func newOwnParty(t require, actor int) *ownParty {
	return &ownParty{node: newNode(), author: newReplica(t, actor)}
}

func (p *ownParty) heads() []Hash { return p.graph.Heads() }

func (p *ownParty) edit(t *rapid.T) {
	if _, err := p.author.doc.Merge(p.whole); err != nil {
		t.Fatalf("merge: %v", err)
	}
	p.author.edit(t)
	p.accept(t, p.author.changes(t))
}

func (p *ownParty) open(readOnly bool) end { return &ownEnd{p.node, NewSession(readOnly)} }

type ownEnd struct {
	*node
	session *Session
}

func (e *ownEnd) generate(t require) ([]byte, bool) {
	t.Helper()
	m, ok, err := e.session.Generate(e.graph, e.node)
	if err != nil {
		t.Fatalf("generate: %v", err)
	}
	return m, ok
}

func (e *ownEnd) receive(t require, message []byte) {
	t.Helper()
	m, err := ParseMessage(message, testLimits)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if !e.session.readOnly {
		e.accept(t, append(m.Changes, unpack(t, m.Documents)...))
	}
	e.session.Receive(e.graph, m)
}

// engineParty speaks with the engine's own sync state, which knows version 1 only.
type engineParty struct{ *replica }

func (p engineParty) open(bool) end { return &engineEnd{automerge.NewSyncState(p.doc)} }

type engineEnd struct{ state *automerge.SyncState }

func (e *engineEnd) generate(require) ([]byte, bool) {
	m, ok := e.state.GenerateMessage()
	if !ok {
		return nil, false
	}
	return m.Bytes(), true
}

func (e *engineEnd) receive(t require, message []byte) {
	t.Helper()
	if _, err := e.state.ReceiveMessage(message); err != nil {
		t.Fatalf("the engine cannot read the message: %v", err)
	}
}

// line is one connection between two parties, the first of which may let the other only read: messages under way in both
// directions, in order.
type line struct {
	parties  [2]party
	readOnly bool

	ends  [2]end
	under [2][][]byte // way from the first party, and from the second
	sent  int
	lost  bool // a message was
}

func connect(a, b party, readOnly bool) *line {
	l := &line{parties: [2]party{a, b}, readOnly: readOnly}
	l.reconnect()
	return l
}

// reconnect cuts the connection and makes another.
func (l *line) reconnect() {
	l.ends = [2]end{l.parties[0].open(l.readOnly), l.parties[1].open(false)}
	l.under, l.lost = [2][][]byte{}, false
}

// talk lets a side say what it has to say.
func (l *line) talk(t require, side int) {
	t.Helper()
	if m, ok := l.ends[side].generate(t); ok {
		l.under[side] = append(l.under[side], m)
		l.sent++
	}
}

// deliver lets what a side said longest ago arrive, and says whether there was anything.
func (l *line) deliver(t require, side int) bool {
	t.Helper()
	if len(l.under[side]) == 0 {
		return false
	}
	m := l.under[side][0]
	l.under[side] = l.under[side][1:]
	l.ends[1-side].receive(t, m)
	return true
}

// Whatever is typed where, whichever messages are lost or come twice, whichever connections are cut in whatever state or
// stand beside one that was not cut yet: in the end all have the same, and nobody talks on. A connection that lost
// something is cut some time: they deliver all or break.
func TestPeersConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parties := []party{newOwnParty(t, 0)}
		for i := range rapid.IntRange(1, 3).Draw(t, "peers") {
			if rapid.Bool().Draw(t, "own") {
				parties = append(parties, newOwnParty(t, i+1))
			} else {
				parties = append(parties, engineParty{newReplica(t, i+1)})
			}
		}
		var lines []*line
		for i, p := range parties {
			for range rapid.IntRange(0, 8).Draw(t, "before") {
				p.edit(t)
			}
			for _, q := range parties[:i] {
				if _, own := q.(*ownParty); own && (q == parties[0] || rapid.Bool().Draw(t, "linked")) {
					lines = append(lines, connect(q, p, false))
				}
			}
		}
		edits, faults := 0, len(lines)
		// rapid prefers small numbers, with which hardly a message would be under way when something happens to it.
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "schedule"), 0))
		for range rapid.IntRange(0, 100).Draw(t, "steps") + chance.IntN(50) {
			l, side := lines[chance.IntN(len(lines))], chance.IntN(2)
			under := &l.under[side]
			switch chance.IntN(14) {
			case 0, 1:
				l.parties[side].edit(t)
				edits++
			case 2, 3, 4, 5:
				l.talk(t, side)
			case 6, 7, 8, 9:
				l.deliver(t, side)
			case 10:
				if len(*under) > 0 {
					*under, l.lost = (*under)[1:], true
					faults++
				}
			case 11:
				if len(*under) > 0 {
					*under = slices.Insert(*under, 0, (*under)[0])
					faults++
				}
			case 12:
				l.reconnect()
				faults++
			case 13:
				if len(lines) < 2*len(parties) {
					lines = append(lines, connect(l.parties[0], l.parties[1], false))
					faults++
				}
			}
		}
		for _, l := range lines {
			if l.lost {
				l.reconnect()
				faults++
			}
		}
		settle(t, lines, edits, faults)
		want := parties[0].heads()
		for i, p := range parties {
			if !slices.Equal(p.heads(), want) {
				t.Errorf("party %d has %v, the first %v", i, p.heads(), want)
			}
			own, ok := p.(*ownParty)
			if !ok {
				continue
			}
			if len(own.orphans) > 0 {
				t.Errorf("%d changes wait for ever at party %d", len(own.orphans), i)
			}
			if got := (&replica{own.whole}).heads(); !slices.Equal(got, want) {
				t.Errorf("the engine of party %d has %v, its graph %v", i, got, want)
			}
		}
	})
}

// settle lets all talk until there is nothing more to say, and fails if that takes longer than a conversation of so
// much news may.
func settle(t require, lines []*line, edits, faults int) {
	t.Helper()
	for round, busy := 0, true; busy; round++ {
		busy = false
		for _, l := range lines {
			for side := range l.ends {
				l.talk(t, side)
				for l.deliver(t, side) {
					busy = true
				}
			}
		}
		if round > 20+2*edits {
			t.Fatalf("still talking after %d rounds", round)
		}
	}
	sent := 0
	for _, l := range lines {
		sent += l.sent
	}
	if most := len(lines) * (2*edits + 8*faults + 60); sent > most {
		t.Errorf("%d messages, at most %d", sent, most)
	}
}

// A viewer gets all that is written and is asked for nothing; what it wrote itself does not make it or the
// server talk without end.
func TestViewer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server := newOwnParty(t, 2)
		writer, viewer := engineParty{newReplica(t, 0)}, engineParty{newReplica(t, 1)}
		if rapid.Bool().Draw(t, "own change") {
			viewer.edit(t)
		}
		own := viewer.heads()
		lines := []*line{connect(server, writer, false), connect(server, viewer, true)}
		edits := rapid.IntRange(1, 5).Draw(t, "edits")
		for range edits {
			writer.edit(t)
			if rapid.Bool().Draw(t, "settle") {
				settle(t, lines, edits, 2)
			}
		}
		settle(t, lines, edits, 2)
		want := SortHashes(append(slices.Clone(own), server.heads()...))
		if got := viewer.heads(); !slices.Equal(got, want) {
			t.Errorf("the viewer has %v, want %v", got, want)
		}
		for _, h := range own {
			if server.graph.Has(h) {
				t.Errorf("the viewer's own change was taken in")
			}
		}
	})
}

// A peer that has nothing and understands version 2 gets the document in one chunk, deflated and all.
func TestNewcomerGetsTheWhole(t *testing.T) {
	server := newOwnParty(t, 0)
	seed, own := readTrace(t)
	server.accept(t, unpack(t, [][]byte{seed}))
	for _, raw := range own[0][:200] {
		server.accept(t, parseAll(t, raw))
	}
	for _, server.noWhole = range []bool{false, true} { // without it, all changes in one message
		server.wholes = 0
		clear(server.graph.encoded)
		newcomer := newOwnParty(t, 1)
		l := connect(server, newcomer, false)
		settle(t, []*line{l}, 0, 1)
		if !slices.Equal(newcomer.heads(), server.heads()) || len(server.heads()) == 0 {
			t.Errorf("the newcomer has %v, want %v", newcomer.heads(), server.heads())
		}
		if server.wholes != 1 || l.sent > 4 {
			t.Errorf("%d wholes in %d messages", server.wholes, l.sent)
		}
	}
}
