package agentsocket

import (
	"sync"

	"cowrite/crdt"
	"cowrite/doc"
)

// How much of a document's latest past is kept while somebody follows it.
const (
	recentUpdates = 256
	recentBytes   = 1 << 20
)

// recent is the latest updates of a document, each leading on from the one before. A client whose line broke is handed
// what it missed out of them: to compare two versions costs the document's history.
type recent struct {
	mu    sync.Mutex
	all   []*doc.Update
	bytes int
}

// record adds an update, of which every follower tells.
func (r *recent) record(u *doc.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.all); n > 0 {
		last := r.all[n-1]
		if last == u {
			return
		}
		if last.To != u.From {
			r.all, r.bytes = nil, 0
		}
	}
	r.all = append(r.all, u)
	r.bytes += sizeOf(u)
	for len(r.all) > recentUpdates || r.bytes > recentBytes && len(r.all) > 0 {
		r.bytes -= sizeOf(r.all[0])
		r.all[0] = nil
		r.all = r.all[1:]
	}
}

// between gives the updates that lead from one version to another; ok is false when they are not kept.
func (r *recent) between(from, to crdt.Version) (updates []*doc.Update, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun := false
	for _, u := range r.all {
		begun = begun || u.From == from
		if begun {
			updates = append(updates, u)
		}
		if begun && u.To == to {
			return updates, true
		}
	}
	return nil, false
}

// sizeOf is about what an update holds.
func sizeOf(u *doc.Update) int {
	const envelope = 200
	n := envelope
	for _, s := range u.Sections {
		n += envelope + len(s.Text)
		for _, op := range s.Ops {
			n += len(op.Insert)
		}
	}
	return n
}
