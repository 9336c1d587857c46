package doc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// MaxReason is how many bytes the reason of a block may have.
const MaxReason = 512

// blockedPayload is the payload of document.blocked.
type blockedPayload struct {
	Reason string `json:"reason,omitempty"`
}

// Block takes a document out of service until [Library.Unblock]: its replicas and followers are told DOCUMENT_BLOCKED,
// its desk ends, and every later call is refused with the same. Its leases end, at no cost to their holders,
// who could neither renew nor release them. A document that is
// blocked already is so for the new reason. FORBIDDEN but for an admin's key that covers the document, TOO_LARGE.
func (l *Library) Block(ctx context.Context, k Key, ref, reason string) (Meta, error) {
	if err := l.checkText("reason", reason, MaxReason); err != nil {
		return Meta{}, err
	}
	return l.setBlock(ctx, k, ref, DocumentBlocked, blockedPayload{reason}, func(now time.Time) Block { return Block{now, k.Agent, reason} })
}

// Unblock brings a document back; who waits for it is told. One that is not blocked stays as it is. FORBIDDEN but for an admin's
// key that covers the document.
func (l *Library) Unblock(ctx context.Context, k Key, ref string) (Meta, error) {
	return l.setBlock(ctx, k, ref, DocumentUnblocked, struct{}{}, func(time.Time) Block { return Block{} })
}

func (l *Library) setBlock(ctx context.Context, k Key, ref string, t EventType, payload any, block func(now time.Time) Block) (Meta, error) {
	m, err := l.Find(ctx, k, ref)
	if err != nil && !code.Is(err, code.DocumentBlocked) {
		return Meta{}, err
	}
	if k.Role != Admin {
		return Meta{}, forbidden("a document is blocked and unblocked with an admin's key")
	}
	event, err := l.newEvent(t, k.Agent, payload)
	if err != nil {
		return Meta{}, err
	}
	b := block(event.At)
	if b.At.IsZero() && m.Block.At.IsZero() {
		return m, nil
	}
	_, err = l.store.Append(ctx, m.ID, Append{Expect: AnySeq, Block: &b, Events: []NewEvent{event}})
	l.restand(m.ID)
	if err != nil {
		return Meta{}, fmt.Errorf("set block of document: %w", err)
	}
	if m, err = l.store.Document(ctx, m.ID); err != nil {
		return Meta{}, fmt.Errorf("find document: %w", err)
	}
	l.log.Info(string(t), "document", m.ID, "slug", m.Slug, "by", k.Agent, "reason", b.Reason)
	if b.At.IsZero() {
		l.announce(m)
	} else {
		l.evict(m.ID, blocked(m))
		l.clearLeases(ctx, k.Agent, m.ID, wasBlocked)
	}
	return m, nil
}

// evict has a document's desk end with a reason, if there is one.
func (l *Library) evict(id crdt.DocumentID, why *code.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.desks[id]; ok {
		d.end(why)
	}
}

func blocked(m Meta) *code.Error {
	return code.New(code.DocumentBlocked, "an operator has blocked this document").
		With("blockedAt", FormatTime(m.Block.At)).With("blockedBy", m.Block.By).With("reason", m.Block.Reason)
}

// Fault is that a document could not be worked on: it was not to be loaded into the engine, or its desk ended of something
// else than a refusal. It stands until the engine has loaded the document again, and is forgotten with the process.
type Fault struct {
	Code  code.Code // of the latest
	At    time.Time // of the latest
	Count int
}

// maxFaults is how many documents' faults are remembered.
const maxFaults = 1024

// fault notes that a document could not be worked on.
func (l *Library) fault(id crdt.DocumentID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, known := l.faults[id]
	if known || len(l.faults) < maxFaults {
		l.faults[id] = Fault{code.From(err).Code, l.now(), f.Count + 1}
	}
}

func (l *Library) mended(id crdt.DocumentID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.faults, id)
}

// Usage is what a document costs the server.
type Usage struct {
	Meta
	Open   bool  // it has a desk
	Loaded bool  // it is in the engine
	Fault  Fault // zero: none
}

// Largest gives the documents of most bytes in the store, the largest first, at most limit. It asks for no key.
func (l *Library) Largest(ctx context.Context, limit int) ([]Usage, error) {
	metas, err := l.store.Largest(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("list documents by size: %w", err)
	}
	return l.usage(metas), nil
}

// OutOfService gives the documents that are blocked, the latest first, and then those with a fault. It asks for no key.
func (l *Library) OutOfService(ctx context.Context) ([]Usage, error) {
	metas, err := l.store.Blocked(ctx)
	if err != nil {
		return nil, fmt.Errorf("list blocked documents: %w", err)
	}
	l.mu.Lock()
	faulty := make([]crdt.DocumentID, 0, len(l.faults))
	for id := range l.faults {
		faulty = append(faulty, id)
	}
	l.mu.Unlock()
	for _, id := range faulty {
		switch m, err := l.store.Document(ctx, id); {
		case errors.Is(err, ErrNotFound), err == nil && !m.Deletion.At.IsZero():
			l.mended(id) // nobody comes to a document that is not there
		case err != nil:
			return nil, fmt.Errorf("find document: %w", err)
		case m.Block.At.IsZero():
			metas = append(metas, m)
		}
	}
	return l.usage(metas), nil
}

func (l *Library) usage(metas []Meta) []Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Usage, len(metas))
	for i, m := range metas {
		d := l.desks[m.ID]
		all[i] = Usage{Meta: m, Open: d != nil, Loaded: l.weights[d].loaded, Fault: l.faults[m.ID]}
	}
	return all
}
