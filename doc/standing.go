package doc

import (
	"context"

	"cowrite/crdt"
)

// mayWrite says whether a document is living and the key may write to it, as meta does. Of an open document the store is
// asked once, and again when it was renamed or blocked; one that is deleted has no desk any more.
func (l *Library) mayWrite(ctx context.Context, k Key, id crdt.DocumentID) error {
	m, asked := l.standing(id)
	if m != nil && k.CanWrite(*m) {
		return nil
	}
	found, err := l.meta(ctx, k, id, true)
	if err == nil {
		l.stands(found, asked)
	}
	return err
}

// standing is the Meta of a living document as far as it says who may write, nil when that is not known; and how often
// any document's has changed.
func (l *Library) standing(id crdt.DocumentID) (m *Meta, changes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.desks[id]; d != nil && !d.leaving {
		m = d.standing
	}
	return m, l.standings
}

// stands keeps what the store said, unless it may have changed since it was asked.
func (l *Library) stands(m Meta, asked uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.desks[m.ID]; d != nil && !d.leaving && l.standings == asked {
		d.standing = &m
	}
}

// restand forgets a document's standing after a write to the store that may have changed it.
func (l *Library) restand(id crdt.DocumentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standings++
	if d := l.desks[id]; d != nil {
		d.standing = nil
	}
}
