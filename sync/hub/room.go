package hub

import (
	"cowrite/crdt"
	"cowrite/sync/repo"
)

// Enter puts a socket into a document's room, where ephemeral messages are heard. Whoever may read the
// document may enter.
func (h *Hub) Enter(id crdt.DocumentID, s Socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	put(h.rooms, id, s)
}

// Leave takes a socket out of the room. It need not be in it.
func (h *Hub) Leave(id crdt.DocumentID, s Socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	take(h.rooms, id, s)
}

// Relay hands a message to everyone else in the document's room; from must be in it itself. The message keeps
// its sender.
func (h *Hub) Relay(id crdt.DocumentID, from Socket, m repo.Ephemeral) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	room := h.rooms[id]
	if _, in := room[from]; !in {
		return
	}
	for s := range room {
		if s != from {
			s.Ephemeral(m)
		}
	}
}

// Wait remembers that a socket asked for a document that is not there, or not for it. ok is false when too many
// documents are waited for: then nothing is remembered, and the client has to ask again. A caller that
// waits looks once more for the document, lest it appeared just before.
func (h *Hub) Wait(id crdt.DocumentID, s Socket) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting[id]) == 0 && len(h.waiting) >= h.limits.AwaitedDocuments {
		return false
	}
	put(h.waiting, id, s)
	return true
}

// StopWaiting forgets what Wait remembered. It need not have been called.
func (h *Hub) StopWaiting(id crdt.DocumentID, s Socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	take(h.waiting, id, s)
}

// Appeared tells everyone who waits for a document that it may be there now. It does not block, as
// [doc.Library.OnCreated] asks.
func (h *Hub) Appeared(id crdt.DocumentID) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.waiting[id] {
		s.Appeared(id)
	}
}
