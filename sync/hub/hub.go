// Package hub is the register of live sockets: by key, so that a revoked key loses its own within a
// second; by peer id, so that no stranger takes another's; by document, so that ephemeral messages reach
// everyone who has it open; and by the documents that sockets wait for.
//
// The hub never waits for a socket: whatever it asks of one is a note to that socket's own goroutines. Its
// one lock is held over memory alone and before any lock of a socket.
package hub

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/repo"
)

// Socket is a live connection, as the hub sees it. It is its own identity: a value may be a map key.
// None of its methods blocks or calls the hub.
type Socket interface {
	// Key is the credential that the socket was opened with.
	Key() doc.Key
	// End closes the socket with a code and a reason. Only the first call counts.
	End(why *code.Error)
	// Ephemeral hands over a message of another socket. It may be dropped.
	Ephemeral(m repo.Ephemeral)
	// Appeared says that a document which the socket waits for may have come to be.
	Appeared(id crdt.DocumentID)
	// Info is what an administrator may know of the socket.
	Info() Info
}

// Info describes a socket to an administrator.
type Info struct {
	Door      Door
	Key       doc.KeyID
	Agent     doc.Agent
	Peer      repo.PeerID // "" before it joined, and at doors where nobody does
	Remote    string      // network address
	Since     time.Time
	Documents []crdt.DocumentID // open on it, or waited for, in no order
	Queued    int               // bytes that wait to be sent
	Page      bool              // a page has it open, for a person who reads it
}

// Door is what is spoken on a socket.
type Door string

// The doors.
const (
	SyncDoor  Door = "sync"  // the automerge-repo protocol
	AgentDoor Door = "agent" // cowrite.agent.v1
)

// Metrics are told what happens, for counting. Each may be nil; they are called concurrently and must not block.
type Metrics struct {
	Opened   func()
	Closed   func(why code.Code) // "" when the peer closed, or the link broke
	Received func(bytes int)     // one frame
	Sent     func(bytes int)     // one frame
	Dropped  func(what string)   // an ephemeral message: "echo", "large", "full"; a frame of another sender is an echo
}

// Options of a hub. Documents is required.
type Options struct {
	Documents Documents
	Limits    Limits
	Metrics   Metrics
	Log       *slog.Logger // nil: discards
}

// Hub is the register. It may be used concurrently.
type Hub struct {
	documents Documents
	limits    Limits
	metrics   Metrics
	log       *slog.Logger

	mu      sync.RWMutex
	closed  bool
	empty   chan struct{} // closed once the hub is closed and the last socket has gone
	sockets map[Socket]struct{}
	byKey   map[doc.KeyID]map[Socket]struct{}
	byPeer  map[repo.PeerID]Socket
	rooms   map[crdt.DocumentID]map[Socket]struct{}
	waiting map[crdt.DocumentID]map[Socket]struct{}
	ended   map[doc.KeyID]*code.Error // keys never live again, so that none that is here may open a socket
}

// New makes a hub without sockets.
func New(opts Options) *Hub {
	h := &Hub{
		documents: opts.Documents,
		limits:    opts.Limits.withDefaults(),
		metrics:   opts.Metrics,
		log:       opts.Log,
		empty:     make(chan struct{}),
		sockets:   make(map[Socket]struct{}),
		byKey:     make(map[doc.KeyID]map[Socket]struct{}),
		byPeer:    make(map[repo.PeerID]Socket),
		rooms:     make(map[crdt.DocumentID]map[Socket]struct{}),
		waiting:   make(map[crdt.DocumentID]map[Socket]struct{}),
		ended:     make(map[doc.KeyID]*code.Error),
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	return h
}

// Documents is where sockets attach.
func (h *Hub) Documents() Documents { return h.documents }

// Limits are those in force.
func (h *Hub) Limits() Limits { return h.limits }

// Metrics are where to count.
func (h *Hub) Metrics() Metrics { return h.metrics }

// Log is where a socket's private causes go.
func (h *Hub) Log() *slog.Logger { return h.log }

// Add registers a socket: SHUTTING_DOWN, TOO_MANY_SOCKETS of its key, or what its key was ended with. One
// that was added is removed when it has ended.
func (h *Hub) Add(s Socket) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.Key().ID
	if why, ok := h.ended[key]; ok {
		return why
	}
	if h.closed {
		return code.New(code.ShuttingDown, "the server is shutting down")
	}
	if n := len(h.byKey[key]); n >= h.limits.SocketsPerKey {
		return code.New(code.TooManySockets, "a key may have %d sockets", h.limits.SocketsPerKey).With("limit", h.limits.SocketsPerKey)
	}
	h.sockets[s] = struct{}{}
	put(h.byKey, key, s)
	return nil
}

// Remove forgets a socket. Its rooms and what it waited for must have been left before.
func (h *Hub) Remove(s Socket, peer repo.PeerID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sockets, s)
	take(h.byKey, s.Key().ID, s)
	if h.byPeer[peer] == s {
		delete(h.byPeer, peer)
	}
	if h.closed && len(h.sockets) == 0 {
		h.signalEmpty()
	}
}

func (h *Hub) signalEmpty() {
	select {
	case <-h.empty:
	default:
		close(h.empty)
	}
}

// Claim binds a peer id to a socket. Peer ids are self-asserted: another key's is refused with
// ACTOR_MISMATCH, and the same key's older socket is ended, because it is the same peer come back.
func (h *Hub) Claim(peer repo.PeerID, s Socket) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	other, taken := h.byPeer[peer]
	if taken && other != s {
		if other.Key().ID != s.Key().ID {
			return code.New(code.ActorMismatch, "another key's socket has joined with this peer id")
		}
		other.End(code.New(code.ActorMismatch, "another socket of this key has joined with this peer id"))
	}
	h.byPeer[peer] = s
	return nil
}

// CloseKey ends all sockets of a key that is no longer live, now and for ever: a socket that was being opened
// meanwhile is refused with the same reason.
func (h *Hub) CloseKey(id doc.KeyID, why *code.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[id] = why
	for s := range h.byKey[id] {
		s.End(why)
	}
}

// Close refuses new sockets, ends all with SHUTTING_DOWN and returns when what they had received is dealt
// with. When ctx ends first it returns with ctx's error.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	for s := range h.sockets {
		s.End(code.New(code.ShuttingDown, "the server is shutting down"))
	}
	if len(h.sockets) == 0 {
		h.signalEmpty()
	}
	h.mu.Unlock()
	select {
	case <-h.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close sockets: %w", ctx.Err())
	}
}

// Count is how many sockets there are.
func (h *Hub) Count() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.sockets)
}

// Sockets describes all sockets, in no order.
func (h *Hub) Sockets() []Info {
	h.mu.RLock()
	sockets := make([]Socket, 0, len(h.sockets))
	for s := range h.sockets {
		sockets = append(sockets, s)
	}
	h.mu.RUnlock()
	infos := make([]Info, len(sockets))
	for i, s := range sockets {
		infos[i] = s.Info()
	}
	return infos
}

// put adds a socket to a set of a map of sets, and take removes it; no empty set stays.
func put[K comparable](sets map[K]map[Socket]struct{}, key K, s Socket) {
	set := sets[key]
	if set == nil {
		set = make(map[Socket]struct{})
		sets[key] = set
	}
	set[s] = struct{}{}
}

func take[K comparable](sets map[K]map[Socket]struct{}, key K, s Socket) {
	delete(sets[key], s)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
