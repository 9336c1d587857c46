// Package crdttest makes what a hostile peer might send: chunks that are damaged within, but whose length and checksum
// are right, so that they come through to whoever reads their columns. What did harm once is kept as a file.
package crdttest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// headLength is that of a chunk before its length: magic, checksum and type (https://automerge.org/automerge-binary-format-spec).
const headLength = 9

// Mutate turns over, puts in or takes out one to three bytes of the body of a plain chunk (a change or a saved
// document), and gives the chunk a right length and checksum.
func Mutate(random *rand.Rand, chunk []byte) []byte {
	_, n := binary.Uvarint(chunk[headLength:])
	return seal(chunk, Scramble(random, chunk[headLength+n:]))
}

// Scramble returns the bytes, of which there must be some, with one to three of them turned over, put in or taken out.
func Scramble(random *rand.Rand, data []byte) []byte {
	data = slices.Clone(data)
	for range 1 + random.IntN(3) {
		if len(data) == 0 {
			return data
		}
		switch i := random.IntN(len(data)); random.IntN(4) {
		case 0:
			data[i] ^= 1 << random.IntN(8)
		case 1:
			data[i] = byte(random.IntN(256))
		case 2:
			data = slices.Insert(data, i, byte(random.IntN(256)))
		case 3:
			data = slices.Delete(data, i, i+1)
		}
	}
	return data
}

// Renumber numbers the operations of a plain change from another number on. What they say of one another is left as it is.
func Renumber(change []byte, startOp uint64) []byte {
	_, n := binary.Uvarint(change[headLength:])
	body := change[headLength+n:]
	at := 0
	number := func() int {
		v, n := binary.Uvarint(body[at:])
		at += n
		return int(v)
	}
	at += number() * sha256.Size // dependencies
	at += number()               // author
	number()                     // its number among the author's
	start := at
	number()
	return seal(change, slices.Concat(body[:start], binary.AppendUvarint(nil, startOp), body[at:]))
}

// seal puts a body into a chunk of the same type.
func seal(chunk, body []byte) []byte {
	head := binary.AppendUvarint([]byte{chunk[headLength-1]}, uint64(len(body)))
	sum := sha256.Sum256(append(slices.Clone(head), body...))
	out := append(slices.Clone(chunk[:4]), sum[:4]...)
	return append(append(out, head...), body...)
}

// Keep writes what did harm to a folder, named by its kind and what it is: of a change its whole history, chunk behind
// chunk, with the change itself last.
func Keep(folder, kind string, chunks ...[]byte) error {
	raw := slices.Concat(chunks...)
	sum := sha256.Sum256(chunks[len(chunks)-1])
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("keep a crasher: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%x", kind, sum[:4])), raw, 0o644); err != nil {
		return fmt.Errorf("keep a crasher: %w", err)
	}
	return nil
}
