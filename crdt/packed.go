package crdt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// packed is the first changes of a graph, those that it was read with or that were packed since, in about 37 bytes each:
// the hash, its place among all hashes, and a byte or two for the rest. Nothing of it changes.
type packed struct {
	hashes []byte   // one behind the other, by number
	steps  []byte   // one a change: see appendStep
	marks  []mark   // where every markEvery-th step begins
	order  []uint32 // the numbers, in the order of their hashes
	starts []uint32 // where in order each bucket begins, and its end; a bucket is the hashes with the same first bits
}

const (
	hashLength = len(Hash{})
	markEvery  = 64
	bucketSize = 8 // hashes, on average
)

// mark is where a step begins, and the maxOp of the change before it.
type mark struct{ at, maxOp uint32 }

// step is what is kept of a change beside its hash and its author.
type step struct {
	deps  []uint32
	maxOp uint32
}

// appendStep writes a step. 0 is the common one: the change depends on the one before it alone and has one operation. Any other is
// the number of its dependencies and one, how far each lies back, and how much greater its maxOp is than that of the change
// before it, zigzagged.
func appendStep(b []byte, n uint32, s step, before uint32) []byte {
	if len(s.deps) == 1 && s.deps[0] == n-1 && s.maxOp == before+1 {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(s.deps))+1)
	for _, d := range s.deps {
		b = binary.AppendUvarint(b, uint64(n-d))
	}
	return binary.AppendVarint(b, int64(s.maxOp)-int64(before))
}

// readStep reads the step of change n into s, whose deps it overwrites. Failures are r's.
func readStep(r *reader, n uint32, s *step, before uint32) {
	s.deps = s.deps[:0]
	count := r.count(1)
	if count == 0 {
		if n == 0 || before+1 == 0 {
			r.fail("a change behind none")
			return
		}
		s.deps, s.maxOp = append(s.deps, n-1), before+1
		return
	}
	for range count - 1 {
		back := r.uint()
		if back == 0 || back > uint64(n) {
			r.fail("a change that depends on none before it")
			return
		}
		s.deps = append(s.deps, n-uint32(back))
	}
	zigzag := r.uint()
	maxOp := int64(before) + (int64(zigzag>>1) ^ -int64(zigzag&1))
	if maxOp < 0 || maxOp > 1<<32-1 {
		r.fail("a number of an operation that is too great")
	}
	s.maxOp = uint32(maxOp)
}

func (p *packed) len() int { return len(p.hashes) / hashLength }

func (p *packed) bytes(n uint32) []byte { return p.hashes[int(n)*hashLength:][:hashLength] }

func (p *packed) hash(n uint32) Hash { return Hash(p.bytes(n)) }

// step reads what is kept of a change into s.
func (p *packed) step(n uint32, s *step) {
	m := p.marks[n/markEvery]
	r := reader{rest: p.steps[m.at:]}
	s.maxOp = m.maxOp
	for i := n - n%markEvery; i <= n; i++ {
		readStep(&r, i, s, s.maxOp)
	}
}

// add appends a change; index has to be called behind the last.
func (p *packed) add(h Hash, s step, before uint32) {
	n := uint32(p.len())
	if n%markEvery == 0 {
		p.marks = append(p.marks, mark{uint32(len(p.steps)), before})
	}
	p.hashes = append(p.hashes, h[:]...)
	p.steps = appendStep(p.steps, n, s, before)
}

// bucket is the one of a hash: its first bits, of which there are as many as it takes to number the buckets.
func (p *packed) bucket(h []byte) uint32 {
	return uint32(uint64(binary.BigEndian.Uint32(h)) * uint64(len(p.starts)-1) >> 32)
}

// index sorts the hashes.
func (p *packed) index() {
	n := p.len()
	p.starts = make([]uint32, 1<<bits.Len(uint(n/bucketSize))+1)
	for i := 0; i < len(p.hashes); i += hashLength {
		p.starts[p.bucket(p.hashes[i:])]++
	}
	end := uint32(0)
	for b, size := range p.starts { // now each bucket's end, which the next loop moves to its start
		end += size
		p.starts[b] = end
	}
	type keyed struct { // so that memory is not gone through crosswise
		key    uint64
		number uint32
	}
	all := make([]keyed, n)
	for i := range uint32(n) {
		h := p.hashes[int(i)*hashLength:]
		b := p.bucket(h)
		p.starts[b]--
		all[p.starts[b]] = keyed{binary.BigEndian.Uint64(h), i}
	}
	p.order = make([]uint32, n)
	for b := range len(p.starts) - 1 {
		in := all[p.starts[b]:p.starts[b+1]]
		slices.SortFunc(in, func(a, b keyed) int {
			if a.key != b.key {
				return cmp.Compare(a.key, b.key)
			}
			return bytes.Compare(p.bytes(a.number), p.bytes(b.number))
		})
		for i, k := range in {
			p.order[int(p.starts[b])+i] = k.number
		}
	}
}

// number finds a change.
func (p *packed) number(h Hash) (uint32, bool) {
	if len(p.order) == 0 {
		return 0, false
	}
	b := p.bucket(h[:])
	in := p.order[p.starts[b]:p.starts[b+1]]
	i, ok := slices.BinarySearchFunc(in, h[:], func(n uint32, h []byte) int {
		return bytes.Compare(p.bytes(n), h)
	})
	if !ok {
		return 0, false
	}
	return in[i], true
}

// numbers is the changes of one author by their seqs, in runs of consecutive ones.
type numbers struct {
	runs []numberRun
	size uint32
}

// numberRun is changes with consecutive seqs and numbers, up to the next run.
type numberRun struct{ seq, number uint32 } // of the first; seqs count from 0

func (s *numbers) add(n uint32) {
	if l := len(s.runs); l == 0 || s.runs[l-1].number+(s.size-s.runs[l-1].seq) != n {
		s.runs = append(s.runs, numberRun{s.size, n})
	}
	s.size++
}

// at gives the number of a change by its seq, counted from 0.
func (s *numbers) at(seq uint32) uint32 {
	i, found := slices.BinarySearchFunc(s.runs, seq, func(r numberRun, seq uint32) int { return int(r.seq) - int(seq) })
	if !found {
		i--
	}
	return s.runs[i].number + (seq - s.runs[i].seq)
}

// run gives, of run i, the first number and how many there are.
func (s *numbers) run(i int) (first, length uint32) {
	end := s.size
	if i+1 < len(s.runs) {
		end = s.runs[i+1].seq
	}
	return s.runs[i].number, end - s.runs[i].seq
}
