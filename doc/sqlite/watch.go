package sqlite

import (
	"sync"

	"cowrite/crdt"
)

// watchers are those who want to hear of a document's events. The zero value is ready.
type watchers struct {
	mu     sync.Mutex
	of     map[crdt.DocumentID]map[int]chan struct{}
	lastID int
}

// Watch gives a channel that receives whenever events were appended to the document through this store.
// It holds one value at most, is never closed, and needs no document to be there. stop may be called again.
func (s *Store) Watch(id crdt.DocumentID) (wake <-chan struct{}, stop func()) {
	w := &s.watchers
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	me := w.lastID
	if w.of == nil {
		w.of = make(map[crdt.DocumentID]map[int]chan struct{})
	}
	if w.of[id] == nil {
		w.of[id] = make(map[int]chan struct{})
	}
	w.of[id][me] = c
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.of[id], me)
		if len(w.of[id]) == 0 {
			delete(w.of, id)
		}
	}
}

// Wake tells the document's watchers.
func (s *Store) Wake(id crdt.DocumentID) { s.watchers.wake(id) }

// wake tells the document's watchers. One that has not yet read its last wake-up needs no second one.
func (w *watchers) wake(id crdt.DocumentID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.of[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
