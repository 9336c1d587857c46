package syncbench

import (
	"slices"
	"sync"
	"time"

	"cowrite/crdt"
)

// notes is what all clients of a run saw.
type notes struct {
	mu       sync.Mutex
	on       bool // the run is measured
	sentAt   map[crdt.Hash]time.Time
	arrivals []time.Duration
	acks     []time.Duration
}

func newNotes() *notes { return &notes{sentAt: map[crdt.Hash]time.Time{}} }

func (n *notes) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = true
}

func (n *notes) sent(h crdt.Hash, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on {
		n.sentAt[h] = at
	}
}

func (n *notes) arrived(h crdt.Hash, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sent, ok := n.sentAt[h]; ok {
		n.arrivals = append(n.arrivals, at.Sub(sent))
	}
}

func (n *notes) acknowledged(after time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on {
		n.acks = append(n.acks, after)
	}
}

func (n *notes) count() (edits, deliveries, acks int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sentAt), len(n.arrivals), len(n.acks)
}

func (n *notes) acknowledgements() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.acks)
}

// quantiles gives the 50th, 95th and 99th percentile of how long changes took to arrive.
func (n *notes) quantiles() (p50, p95, p99 time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.arrivals) == 0 {
		return 0, 0, 0
	}
	slices.Sort(n.arrivals)
	at := func(percent int) time.Duration { return n.arrivals[(len(n.arrivals)-1)*percent/100] }
	return at(50), at(95), at(99)
}
