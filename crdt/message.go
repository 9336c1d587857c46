package crdt

import "encoding/binary"

// Message is a parsed sync message.
type Message struct {
	Heads     []Hash   // of the sender
	Need      []Hash   // changes that the sender asks for by name
	Changes   []Change // parsed out of all entries
	Documents [][]byte // whole-document chunks, unopened

	have []have
	caps capabilities
}

// Acknowledges says whether the message only tells which changes its sender has, as one does that was sent some: it brings
// nothing and asks for nothing.
func (m *Message) Acknowledges() bool {
	return len(m.Heads) > 0 && len(m.Need)+len(m.Changes)+len(m.Documents) == 0 && m.caps.flags&flagSyncReset == 0 && !startsOver(*m)
}

// have is a summary of what the sender has: everything up to lastSync, and what the filter holds.
type have struct {
	lastSync []Hash
	filter   bloomFilter
}

// The first byte of a message (rust/automerge/src/sync.rs). Version 1 carries one change an entry. Version 2
// carries chunks of any kind behind one another, and is sent only to who has shown flags.
const (
	messageV1 = 0x42
	messageV2 = 0x43
)

// capabilities is the section behind the message proper: a length, one byte that says "version 2 is
// understood", and a byte of flags whose high bit is set. Earlier peers send no such section, or no flags.
type capabilities struct {
	v2    bool
	flags byte
}

// Flags.
const (
	flagSyncReset         = 1 << 0 // forget what you sent me
	flagReadOnly          = 1 << 1 // the sender takes in no changes
	flagSupportsSyncReset = 1 << 2
	flagMarker            = 0x80
	flagsMessageV2        = 0x02
)

// maxHaves bounds the filters of one message. Stock peers send one.
const maxHaves = 8

// ParseMessage reads a sync message; every count in it is checked against the bytes that are there. What is
// returned shares the memory of data. Errors are *ParseError.
func ParseMessage(data []byte, limits Limits) (Message, error) {
	r := reader{rest: data}
	version := r.byte()
	if r.err == nil && version != messageV1 && version != messageV2 {
		return Message{}, &ParseError{What: "not a sync message"}
	}
	m := Message{Heads: r.hashes(), Need: r.hashes()}
	haves := r.count(2)
	if haves > maxHaves {
		return Message{}, &ParseError{What: "more than one summary"}
	}
	for range haves {
		h := have{lastSync: r.hashes()}
		filter, err := parseBloom(r.prefixed())
		if err != nil {
			return Message{}, err
		}
		h.filter = filter
		m.have = append(m.have, h)
	}
	p := newParser(limits, len(data))
	for range r.count(1) {
		if err := p.entry(r.prefixed()); err != nil {
			return Message{}, err
		}
	}
	if r.err == nil && !r.empty() {
		for _, b := range r.prefixed() {
			if b&flagMarker != 0 {
				m.caps.flags |= b &^ flagMarker
			}
			m.caps.v2 = m.caps.v2 || b&flagMarker != 0 || b == flagsMessageV2
		}
	}
	if r.err != nil {
		return Message{}, r.err
	}
	m.Changes, m.Documents = p.changes, p.documents
	return m, nil
}

// draft is a message to be sent. Entries are chunks; have and need are sorted.
type draft struct {
	v2          bool
	heads, need []Hash
	have        bool     // whether to say anything of what is there
	lastSync    []Hash   // the peer has them, or gets them in this message
	summary     []Hash   // what is there besides, as a filter
	chunks      [][]byte // plain ones in version 1
	flags       byte
}

func (d *draft) encode() []byte {
	size := 64 + 32*(len(d.heads)+len(d.need)+len(d.lastSync)) + 2*len(d.summary)
	for _, c := range d.chunks {
		size += len(c) + binary.MaxVarintLen64
	}
	out := make([]byte, 0, size)
	if d.v2 {
		out = append(out, messageV2)
	} else {
		out = append(out, messageV1)
	}
	out = appendHashes(out, d.heads)
	out = appendHashes(out, d.need)
	if d.have {
		out = binary.AppendUvarint(out, 1)
		out = appendHashes(out, d.lastSync)
		filter := appendBloom(nil, d.summary)
		out = binary.AppendUvarint(out, uint64(len(filter)))
		out = append(out, filter...)
	} else {
		out = binary.AppendUvarint(out, 0)
	}
	out = d.appendChunks(out)
	return append(out, 2, flagsMessageV2, flagMarker|d.flags)
}

func (d *draft) appendChunks(out []byte) []byte {
	if !d.v2 || len(d.chunks) == 0 {
		out = binary.AppendUvarint(out, uint64(len(d.chunks)))
		for _, c := range d.chunks {
			out = binary.AppendUvarint(out, uint64(len(c)))
			out = append(out, c...)
		}
		return out
	}
	var size int
	for _, c := range d.chunks {
		size += len(c)
	}
	out = binary.AppendUvarint(out, 1)
	out = binary.AppendUvarint(out, uint64(size))
	for _, c := range d.chunks {
		out = append(out, c...)
	}
	return out
}

func appendHashes(out []byte, hs []Hash) []byte {
	out = binary.AppendUvarint(out, uint64(len(hs)))
	for _, h := range hs {
		out = append(out, h[:]...)
	}
	return out
}
