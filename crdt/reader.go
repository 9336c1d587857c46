package crdt

import "unicode/utf8"

// reader takes Automerge's primitive encodings off a byte slice. The first failure sticks: later reads give
// zero values, so that a parser may check once behind several reads. It never copies.
type reader struct {
	rest []byte
	err  *ParseError
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = &ParseError{What: what}
	}
	r.rest = nil
}

func (r *reader) empty() bool { return len(r.rest) == 0 }

// bytes takes the next n bytes.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail("unexpected end")
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// uint reads an unsigned LEB128 number in its shortest form, as the format demands.
func (r *reader) uint() uint64 {
	var n uint64
	for shift := uint(0); ; shift += 7 {
		if len(r.rest) == 0 {
			r.fail("unexpected end")
			return 0
		}
		b := r.rest[0]
		r.rest = r.rest[1:]
		if shift == 63 && b > 1 {
			r.fail("number above 64 bits")
			return 0
		}
		n |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b == 0 && shift > 0 {
				r.fail("number not in its shortest form")
				return 0
			}
			return n
		}
	}
}

// int reads a signed LEB128 number in its shortest form.
func (r *reader) int() int64 {
	var n int64
	var previous byte
	for shift := uint(0); ; shift += 7 {
		if len(r.rest) == 0 {
			r.fail("unexpected end")
			return 0
		}
		b := r.rest[0]
		r.rest = r.rest[1:]
		if shift == 63 && b != 0 && b != 0x7f {
			r.fail("number above 64 bits")
			return 0
		}
		n |= int64(b&0x7f) << shift
		if b&0x80 != 0 {
			previous = b
			continue
		}
		if shift > 0 && ((b == 0 && previous&0x40 == 0) || (b == 0x7f && previous&0x40 != 0)) {
			r.fail("number not in its shortest form")
			return 0
		}
		if shift < 57 && b&0x40 != 0 {
			n |= -1 << (shift + 7)
		}
		return n
	}
}

// prefixed reads a length and that many bytes.
func (r *reader) prefixed() []byte { return r.bytes(r.uint()) }

// text reads length-prefixed UTF-8.
func (r *reader) text() string {
	b := r.prefixed()
	if !utf8.Valid(b) {
		r.fail("text that is no UTF-8")
		return ""
	}
	return string(b)
}

// count reads how many items follow, each of at least size bytes, so that a slice of that length may be made.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.rest)/size) {
		r.fail("a count of more items than there are bytes")
		return 0
	}
	return int(n)
}

func (r *reader) hash() (h Hash) {
	copy(h[:], r.bytes(uint64(len(h))))
	return h
}

func (r *reader) hashes() []Hash {
	n := r.count(len(Hash{}))
	if n == 0 {
		return nil
	}
	hs := make([]Hash, n)
	for i := range hs {
		hs[i] = r.hash()
	}
	return hs
}
