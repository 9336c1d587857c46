package doc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cowrite/crdt"
	"cowrite/lease"
)

// LedgerEntry is one lease transition as it was recorded, of a section or of any other resource. The ledger
// counts from 1 over the whole server, without gaps but for those that purged documents leave ([Library.Purge]).
type LedgerEntry struct {
	Seq Seq
	lease.Event
}

// LedgerQuery says which entries of the ledger are asked for. The zero value of a field leaves it open.
type LedgerQuery struct {
	After    Seq // only what comes behind it
	Before   Seq // only what comes before it
	Resource lease.Resource
	Agent    Agent       // who did it, or whose lease or place it was
	Kind     lease.Kind  // of the transition
	Since    time.Time   // noticed then or later
	MinFence lease.Fence // only grants and transfers with at least this fence
	MaxFence lease.Fence // only grants and transfers with at most this fence
	Newest   bool        // the newest first
	Limit    int         // at most so many
}

// Ledger gives entries of the ledger, in order, whatever documents they are about: a door asks [Library.Sight]
// which of them a key may see.
func (l *Library) Ledger(ctx context.Context, q LedgerQuery) ([]LedgerEntry, error) {
	entries, err := l.store.Ledger(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return entries, nil
}

// Sight is what one key may see of resources, and what it calls them. It asks for each document once, so it is
// made anew for each request. It is not for concurrent use.
type Sight struct {
	library   *Library
	key       Key
	documents map[crdt.DocumentID]seen
}

type seen struct {
	ref  string // what the document is called
	mine bool   // the key covers it
}

// Sight of a key.
func (l *Library) Sight(k Key) *Sight {
	return &Sight{l, k, map[crdt.DocumentID]seen{}}
}

// Name is what the key's owner calls a resource: a section is section:<slug>/<section id>. ok says whether the
// resource is any business of the key: a section of a document that it covers, deleted ones included, or any
// other resource unless the key is a share link. The slug of a document that the key does not cover is not told.
func (s *Sight) Name(ctx context.Context, r lease.Resource) (name string, ok bool, err error) {
	id, sid, isSection := ParseSectionResource(r)
	if !isSection {
		return string(r), !s.key.IsShare(), nil
	}
	d, known := s.documents[id]
	if !known {
		m, err := s.library.store.Document(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			m = Meta{ID: id}
		case err != nil:
			return "", false, fmt.Errorf("find document: %w", err)
		}
		d = seen{ref: id.String(), mine: s.key.CanRead(m)}
		if d.mine {
			d.ref = m.Ref()
		}
		s.documents[id] = d
	}
	return sectionPrefix + d.ref + "/" + string(sid), d.mine, nil
}
