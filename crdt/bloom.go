package crdt

import (
	"encoding/binary"
	"math"
)

// bloomFilter is a summary of the changes that a peer has, in the form of the Automerge sync protocol
// (rust/automerge/src/sync/bloom.rs): counts of entries, of bits per entry and of probes, then the bits.
type bloomFilter struct {
	probes int
	bits   []byte
}

// What this side writes: one false positive in a hundred.
const (
	bloomBits   = 10 // per entry
	bloomProbes = 7
)

// What this side accepts of peers; stock peers write the figures above.
const (
	maxBloomBits   = 64
	maxBloomProbes = 32
)

// parseBloom checks the parameters against the bytes that are there. No bytes is the filter of nothing.
func parseBloom(b []byte) (bloomFilter, error) {
	if len(b) == 0 {
		return bloomFilter{}, nil
	}
	r := reader{rest: b}
	entries, bits, probes := r.uint(), r.uint(), r.uint()
	switch {
	case r.err != nil:
		return bloomFilter{}, r.err
	case entries == 0:
		return bloomFilter{}, nil
	case entries > math.MaxUint32:
		return bloomFilter{}, &ParseError{What: "Bloom filter of too many entries"}
	case bits == 0 || bits > maxBloomBits:
		return bloomFilter{}, &ParseError{What: "Bloom filter with a bad number of bits"}
	case probes == 0 || probes > maxBloomProbes:
		return bloomFilter{}, &ParseError{What: "Bloom filter with a bad number of probes"}
	}
	f := bloomFilter{probes: int(probes), bits: r.bytes(bloomSize(entries, bits))}
	if r.err != nil {
		return bloomFilter{}, r.err
	}
	return f, nil
}

func bloomSize(entries, bits uint64) uint64 { return (entries*bits + 7) / 8 }

// appendBloom writes the filter of hashes, which is no bytes at all for none.
func appendBloom(out []byte, hashes []Hash) []byte {
	if len(hashes) == 0 {
		return out
	}
	f := bloomFilter{probes: bloomProbes, bits: make([]byte, bloomSize(uint64(len(hashes)), bloomBits))}
	for _, h := range hashes {
		f.probe(h, func(bit uint64) bool {
			f.bits[bit>>3] |= 1 << (bit & 7)
			return true
		})
	}
	out = binary.AppendUvarint(out, uint64(len(hashes)))
	out = binary.AppendUvarint(out, bloomBits)
	out = binary.AppendUvarint(out, bloomProbes)
	return append(out, f.bits...)
}

// has says whether the hash may be among the entries.
func (f bloomFilter) has(h Hash) bool {
	if len(f.bits) == 0 {
		return false
	}
	return f.probe(h, func(bit uint64) bool { return f.bits[bit>>3]&(1<<(bit&7)) != 0 })
}

// probe visits the bits of a hash until visit says no: triple hashing over its first twelve bytes.
func (f bloomFilter) probe(h Hash, visit func(bit uint64) bool) bool {
	size := 8 * uint64(len(f.bits))
	x := uint64(binary.LittleEndian.Uint32(h[0:])) % size
	y := uint64(binary.LittleEndian.Uint32(h[4:])) % size
	z := uint64(binary.LittleEndian.Uint32(h[8:])) % size
	for range f.probes {
		if !visit(x) {
			return false
		}
		x = (x + y) % size
		y = (y + z) % size
	}
	return true
}
