// Package crdt says what a change is and how replicas sync, in pure Go: it parses and hashes Automerge
// change chunks, keeps the graph of a document's changes, and speaks the Automerge sync protocol. It
// promises that no input makes it panic, allocate more than a small multiple of the input's size, or run
// longer than in proportion to it. What changes come to as a document's content is the engine's part (package
// crdt/engine), but for which objects each touches, and the sequence of one text (Sequence).
//
// It imports nothing of ours, and so never sees a lease: that is how a lease can never stop a merge.
package crdt

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// Hash names a change: the SHA-256 of its uncompressed chunk.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// CompareHashes orders hashes by their bytes, the order in which Automerge writes heads and deps.
func CompareHashes(a, b Hash) int { return bytes.Compare(a[:], b[:]) }

// SortHashes sorts in place and returns its argument.
func SortHashes(hs []Hash) []Hash {
	slices.SortFunc(hs, CompareHashes)
	return hs
}

// ActorID is the raw bytes of an Automerge actor id, as a string so that it can be a map key.
type ActorID string

func (a ActorID) String() string { return hex.EncodeToString([]byte(a)) }

// Path leads from the root of a document through map keys to an object or a property.
type Path []string
