package crdt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Session is what one peer is known to have of one document: the Automerge sync protocol, V1 and V2.
// It lives as long as the peer's connection, which must deliver messages in order. Not safe for concurrent use.
//
// The protocol's own way is to describe what one has by a Bloom filter in each message. Here a filter is used only
// while the peer names heads that are not known: from then on what it lacks is read off the graph, at a cost that
// does not grow with the history, and no false positive can hold a change back. See DESIGN.md.
type Session struct {
	readOnly bool

	heard bool // anything at all
	their Message
	exact bool // all of their heads are in the graph

	v2        bool   // they understand version 2
	common    []Hash // what they surely have, or will have when all that was sent has arrived, with all ancestors
	guessed   []Hash // set while they are not exact: up to here everything was sent or is in their filter
	sent      map[Hash]bool
	spoken    bool   // anything was ever sent
	lastHeads []Hash // as last told
	answer    bool   // they start over and wait for a word
	asking    bool   // the last message asked for what their heads need, and they have not spoken since

	asked   map[Hash]request
	waiting map[Hash][]Hash // changes that came without their dependencies, and which these are
}

// request counts for a change how often it was asked for and how often it came without staying.
type request struct{ asked, came int }

const (
	// maxAsked: a change that came and was dropped again (by a full waiting place) is asked for once more.
	maxAsked = 2

	// These bound what is remembered about a peer: requests and changes sent on a guess, changes waiting, and
	// what one of them waits for. Beyond it changes may be sent twice, or wait for the peer's next connection.
	maxTracked = 1 << 16
	maxWaiting = 1 << 12
	maxMissing = 64

	// maxNeed bounds the changes asked for in one message.
	maxNeed = 1024

	// wholeFrom is the number of changes from which on a peer that lacks more than half of the document gets the
	// whole, which is many times smaller than its changes one by one.
	wholeFrom = 64

	// maxEncoded bounds the messages that a graph keeps for other peers that need the same.
	maxEncoded = 64
)

// NewSession begins a conversation. A readOnly peer is told so with the READ_ONLY flag, is sent everything
// and never asked for anything.
func NewSession(readOnly bool) *Session {
	return &Session{readOnly: readOnly, asked: make(map[Hash]request), waiting: make(map[Hash][]Hash), sent: make(map[Hash]bool)}
}

// PeerHeads are the heads that the peer last named, which need not be in the graph.
func (s *Session) PeerHeads() []Hash { return s.their.Heads }

// Receive takes note of a message whose changes the graph already has (those that were accepted).
func (s *Session) Receive(g *Graph, m Message) {
	s.heard, s.asking = true, false
	s.v2 = s.v2 || m.caps.v2
	if !s.readOnly {
		s.await(g, m.Changes)
	}
	m.Changes, m.Documents = nil, nil
	s.their = m

	if slices.Equal(m.Heads, g.heads) && len(m.Heads) > 0 && m.caps.flags&flagSyncReset == 0 && !startsOver(m) {
		s.exact, s.common, s.guessed = true, g.sharedHeads(), nil
		return
	}
	var known []Hash
	for _, h := range m.Heads {
		if g.Has(h) {
			known = append(known, h)
		}
	}
	s.exact = len(known) == len(m.Heads)
	if len(m.Heads) == 0 || m.caps.flags&flagSyncReset != 0 || startsOver(m) {
		s.answer = len(m.Heads) > 0
		s.common, s.guessed = g.Maximal(known), nil
		clear(s.sent)
		return
	}
	for _, h := range m.have {
		known = append(known, h.lastSync...)
	}
	s.common = g.Maximal(append(known, s.common...))
	if s.exact {
		s.guessed = nil
	}
}

// startsOver recognises what a peer of the protocol's own implementation sends when it was told of heads that it
// does not have: that it has something, and an empty summary of it.
func startsOver(m Message) bool {
	return len(m.Heads) > 0 && len(m.have) == 1 && len(m.have[0].lastSync) == 0 && len(m.have[0].filter.bits) == 0
}

// await remembers the changes that came but are not in the graph, because others are missing or because
// they were refused.
func (s *Session) await(g *Graph, changes []Change) {
	maps.DeleteFunc(s.waiting, func(h Hash, _ []Hash) bool { return g.Has(h) })
	maps.DeleteFunc(s.asked, func(h Hash, _ request) bool { return g.Has(h) })
	for i := range changes {
		c := &changes[i]
		if g.Has(c.Hash) || len(s.waiting) >= maxWaiting || len(s.asked) >= maxTracked {
			continue
		}
		r := s.asked[c.Hash]
		r.came++
		s.asked[c.Hash] = r
		var missing []Hash
		for _, d := range c.Deps {
			if len(missing) < maxMissing && !g.Has(d) {
				missing = append(missing, d)
			}
		}
		s.waiting[c.Hash] = missing
	}
}

// missing gives what to ask for: their heads and the dependencies of what waits, as far as they are not there.
// It is sorted. fresh says whether it contains anything that they do not already owe an answer to.
func (s *Session) missing(g *Graph) (need []Hash, fresh bool) {
	if s.readOnly || !s.heard || s.exact && len(s.waiting) == 0 {
		return nil, false
	}
	wanted := make(map[Hash]bool)
	want := func(h Hash) {
		if _, waits := s.waiting[h]; !waits && !g.Has(h) {
			wanted[h] = true
		}
	}
	for h, deps := range s.waiting {
		complete := true
		for _, d := range deps {
			complete = complete && g.Has(d)
		}
		if complete { // it was refused, or dropped from a full waiting place
			delete(s.waiting, h)
		}
	}
	for _, deps := range s.waiting {
		for _, d := range deps {
			want(d)
		}
	}
	for _, h := range s.their.Heads {
		want(h)
	}
	for h := range wanted {
		if r := s.asked[h]; r.asked < maxAsked {
			need = append(need, h)
			fresh = fresh || r.asked <= r.came
		}
	}
	SortHashes(need)
	return need[:min(len(need), maxNeed)], fresh
}

// Source gives the bytes of changes for Generate.
type Source interface {
	// Raw returns the chunks of the given changes, in the same order. When some are kept only as part of the whole it may
	// give ErrCompacted, unless must is set.
	Raw(hashes []Hash, must bool) ([][]byte, error)
	// Whole returns the document as a saved chunk, change chunks, or both one behind the other, that contain at least
	// the graph's changes.
	Whole() ([]byte, error)
}

// ErrCompacted says that changes are not kept one by one any more. A peer that understands version 2 gets the
// whole document instead.
var ErrCompacted = errors.New("the changes are kept only as part of the whole")

// Generate returns the next message for the peer, or ok false when there is nothing to say. The bytes may be
// shared with the messages for other peers and are not to be written to. After an error the session is as before.
func (s *Session) Generate(g *Graph, src Source) (data []byte, ok bool, err error) {
	need, fresh := s.missing(g)
	if s.asking {
		return nil, false, nil // its answer will change all that is said here
	}
	told := s.spoken && !s.answer && !fresh && slices.Equal(s.lastHeads, g.heads)
	key := s.encodedKey(g, need)
	if data, ok = g.encoded[string(key)]; ok && !(told && slices.Equal(s.common, g.heads)) {
		s.note(g, nil, need)
		return data, true, nil
	}
	numbers := s.lacks(g)
	if told && len(numbers) == 0 {
		return nil, false, nil
	}
	d, err := s.draft(g, src, numbers, need)
	if err != nil {
		return nil, false, err
	}
	data = d.encode()
	if key != nil && len(g.encoded) < maxEncoded {
		if g.encoded == nil {
			g.encoded = make(map[string][]byte)
		}
		g.encoded[string(key)] = data
	}
	s.asking = len(d.summary) > 0 && len(need) > 0
	s.note(g, numbers, need)
	return data, true, nil
}

// encodedKey is equal for peers that need the same message, nil for a peer with needs of its own. It is good until the
// graph's next.
func (s *Session) encodedKey(g *Graph, need []Hash) []byte {
	if !s.heard || !s.exact || len(need)+len(s.their.Need)+len(s.sent) > 0 || s.sendsNothing() {
		return nil
	}
	var first byte
	if s.v2 {
		first |= 1
	}
	if s.readOnly {
		first |= 2
	}
	g.key = append(g.key[:0], first)
	for _, h := range s.common {
		g.key = append(g.key, h[:]...)
	}
	return g.key
}

// sendsNothing: a peer that says of itself that it is read-only throws changes away.
func (s *Session) sendsNothing() bool { return s.their.caps.flags&flagReadOnly != 0 }

// lacks gives the numbers of the changes to send, in ascending order.
func (s *Session) lacks(g *Graph) []uint32 {
	if !s.heard || s.sendsNothing() {
		return nil
	}
	var numbers []uint32
	switch {
	case s.exact:
		numbers = s.unsent(g, g.since(s.common))
	case s.guessed != nil:
		numbers = s.unsent(g, g.since(s.guessed))
	case len(s.their.have) > 0:
		numbers = s.unsent(g, s.filter(g, g.since(s.common)))
	case len(s.their.Need) > 0:
		numbers = s.unsent(g, s.needed(g, g.since(s.common)))
	}
	for _, h := range s.their.Need {
		if n, ok := g.number(h); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

func (s *Session) unsent(g *Graph, numbers []uint32) []uint32 {
	if len(s.sent) == 0 {
		return numbers
	}
	return slices.DeleteFunc(numbers, func(n uint32) bool { return s.sent[g.hash(n)] })
}

// filter keeps the changes that are not in all of their filters, and those that depend on such a one.
func (s *Session) filter(g *Graph, numbers []uint32) []uint32 {
	chosen := make(map[uint32]bool)
	var scratch step
	for _, n := range numbers {
		absent := true
		for _, h := range s.their.have {
			absent = absent && !h.filter.has(g.hash(n))
		}
		for _, d := range g.depsOf(n, &scratch) {
			absent = absent || chosen[d]
		}
		if absent {
			chosen[n] = true
		}
	}
	return slices.DeleteFunc(numbers, func(n uint32) bool { return !chosen[n] })
}

// needed keeps the changes that they ask for, and those that these build on. A peer that knows only what its orphans wait for
// gives no summary, and would have to ask again for each generation before them; and one of the protocol's first
// implementation says nothing more when what came did not let it go on.
func (s *Session) needed(g *Graph, numbers []uint32) []uint32 {
	chosen := make(map[uint32]bool)
	for _, h := range s.their.Need {
		if n, ok := g.number(h); ok {
			chosen[n] = true
		}
	}
	var scratch step
	for _, n := range slices.Backward(numbers) {
		if chosen[n] {
			for _, d := range g.depsOf(n, &scratch) {
				chosen[d] = true
			}
		}
	}
	return slices.DeleteFunc(numbers, func(n uint32) bool { return !chosen[n] })
}

func (s *Session) draft(g *Graph, src Source, numbers []uint32, need []Hash) (*draft, error) {
	d := &draft{v2: s.v2, heads: g.heads, need: need, flags: flagSupportsSyncReset}
	if s.readOnly {
		d.flags |= flagReadOnly
	}
	if s.heard && !s.readOnly {
		s.summarise(g, d)
	}
	if len(numbers) == 0 {
		return d, nil
	}
	hashes := g.names(numbers)
	whole := s.v2 && (2*len(numbers) > g.Len() && len(numbers) >= wholeFrom || len(numbers) == g.Len())
	var chunks [][]byte
	var err error
	if !whole {
		chunks, err = src.Raw(hashes, !s.v2)
		whole = errors.Is(err, ErrCompacted)
	}
	if whole {
		saved, wholeErr := src.Whole()
		if wholeErr == nil {
			d.chunks = [][]byte{saved}
			return d, nil
		}
		// A document that cannot be saved as a whole has all its changes one by one.
		chunks, err = src.Raw(hashes, true)
		if err != nil {
			err = errors.Join(wholeErr, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read changes: %w", err)
	}
	if len(chunks) != len(numbers) {
		return nil, fmt.Errorf("read changes: %d of %d", len(chunks), len(numbers))
	}
	if !s.v2 {
		for i := range chunks {
			if chunks[i], err = plainChunk(chunks[i]); err != nil {
				return nil, fmt.Errorf("inflate change: %w", err)
			}
		}
	}
	d.chunks = chunks
	return d, nil
}

// summarise says what is here. It names only heads that the peer has or gets in the same message: a stock peer
// that is told of others answers with an empty summary each time and never sends its own changes.
func (s *Session) summarise(g *Graph, d *draft) {
	switch {
	case s.exact && !s.sendsNothing():
		d.have, d.lastSync = true, g.heads
	case s.exact || len(d.need) == 0:
		d.have, d.lastSync = true, s.common
	default:
		// Dependencies of theirs that are not their heads come first: what it sends on a summary before it sent
		// those could only wait.
		for _, h := range d.need {
			if !slices.Contains(s.their.Heads, h) {
				return
			}
		}
		d.have, d.lastSync, d.summary = true, s.common, g.Since(s.common)
	}
}

// note remembers what the message just made says.
func (s *Session) note(g *Graph, numbers []uint32, need []Hash) {
	s.spoken, s.answer = true, false
	s.lastHeads = g.sharedHeads()
	s.their.Need = nil
	for _, h := range need {
		r := s.asked[h]
		r.asked++
		s.asked[h] = r
	}
	switch {
	case !s.heard || s.sendsNothing():
	case s.exact:
		s.common, s.guessed = s.lastHeads, nil
		clear(s.sent)
	default:
		if s.guessed != nil || len(s.their.have) > 0 {
			s.guessed = s.lastHeads
		}
		for _, n := range numbers {
			if !s.readOnly && len(s.sent) < maxTracked {
				s.sent[g.hash(n)] = true
			}
		}
	}
}

// plainChunk inflates a deflated change chunk of the store's own.
func plainChunk(raw []byte) ([]byte, error) {
	changes, _, err := ParseEntry(raw, NoLimits)
	if err != nil {
		return nil, err
	}
	if len(changes) != 1 {
		return nil, fmt.Errorf("%d changes in one chunk", len(changes))
	}
	return changes[0].plain, nil
}
