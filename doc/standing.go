package doc

import (
	"context"

	"cowrite/crdt"
	"cowrite/doc/code"
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

// errRestood is the refusal of who comes to a desk by what the store said before some document's standing changed.
var errRestood = code.New(code.Busy, "a document was renamed or blocked just now, ask again")

// stood is errRestood if any document's standing has changed since the store was asked.
func (l *Library) stood(asked uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standings != asked {
		return errRestood
	}
	return nil
}

// uncover has a document's desk let go of those whose keys do not cover it any more, now that it is called something else: of
// the replicas, whose messages count that had come before, and of the followers.
func (l *Library) uncover(m Meta) {
	l.mu.Lock()
	d := l.desks[m.ID]
	if d == nil || d.leaving { // nobody has it open, or they are all let go
		l.mu.Unlock()
		return
	}
	d.users++
	l.isUsed(d)
	l.mu.Unlock()
	defer l.release(d)
	_ = d.do(&request{ctx: l.ctx, stage: func(*step) error { // a desk that ended has let go of all
		why := notCovered()
		for a := range d.peers {
			if !a.key.CanRead(m) {
				delete(d.peers, a)
				a.barred = why
				a.replica.Gone(d.id, why)
			}
		}
		for f := range d.feeds.all {
			if !f.key.CanRead(m) {
				delete(d.feeds.all, f)
				f.follower.Gone(d.id, why)
			}
		}
		return nil
	}})
}

func notCovered() *code.Error { return forbidden("this key does not cover the document") }

// restand forgets a document's standing after a write to the store that may have changed it.
func (l *Library) restand(id crdt.DocumentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standings++
	if d := l.desks[id]; d != nil {
		d.standing = nil
	}
}
