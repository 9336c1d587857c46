package engine

import (
	"crypto/sha256"
	"errors"
	"sync"

	"cowrite/crdt"
)

// maxConvicts bounds the memory of what ended workers; the oldest is forgotten first.
const maxConvicts = 4096

var errConvict = errors.New("it ended a worker before")

// convicts remembers what ended fresh workers, so that a peer that sends it again and again costs nothing: changes by
// their hash, saved documents by the hash of their bytes.
type convicts struct {
	mu    sync.Mutex
	known map[crdt.Hash]bool
	ring  []crdt.Hash
	next  int
}

func newConvicts() *convicts { return &convicts{known: make(map[crdt.Hash]bool)} }

func (c *convicts) has(h crdt.Hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[h]
}

func (c *convicts) add(h crdt.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[h] {
		return
	}
	if len(c.ring) < maxConvicts {
		c.ring = append(c.ring, h)
	} else {
		delete(c.known, c.ring[c.next])
		c.ring[c.next] = h
		c.next = (c.next + 1) % maxConvicts
	}
	c.known[h] = true
}

func nameOf(chunk []byte) crdt.Hash { return sha256.Sum256(chunk) }
