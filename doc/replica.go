package doc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// Replica is a peer with an Automerge document of its own, attached to a desk by [Library.Attach].
type Replica interface {
	// Deliver hands the peer a sync message. It is called on the desk's goroutine, in order, and must not
	// block; false says that the peer's queue is full and detaches it.
	Deliver(id crdt.DocumentID, message []byte) bool
	// Gone says that the document cannot be synced any further, and why (a *code.Error); the peer is
	// detached. It must not block.
	Gone(id crdt.DocumentID, why error)
}

// Attachment is a replica at a desk: one sync conversation about one document.
type Attachment struct {
	lib     *Library
	desk    *desk
	key     Key
	replica Replica
	canSend bool
	detach  sync.Once

	heard   bool          // a message came: of who calls Receive
	session *crdt.Session // the desk's goroutine's
	barred  error         // why its messages are refused, likewise; nil: they are not
}

// Attach opens a sync conversation; a key that may only read is told so and sent everything. create lets the
// document be made by the peer's first change when it does not exist; else that is DOCUMENT_NOT_FOUND. FORBIDDEN,
// DOCUMENT_DELETED, DOCUMENT_BLOCKED. The replica is told FORBIDDEN when the document is given a slug that the key does not cover.
func (l *Library) Attach(ctx context.Context, k Key, id crdt.DocumentID, r Replica, create bool) (*Attachment, error) {
	for {
		a, err := l.attach(ctx, k, id, r, create)
		if err != errRestood {
			return a, err
		}
	}
}

func (l *Library) attach(ctx context.Context, k Key, id crdt.DocumentID, r Replica, create bool) (*Attachment, error) {
	_, asked := l.standing(id)
	meta, err := l.store.Document(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		meta = Meta{ID: id}
		if !create || k.Role == Viewer {
			return nil, documentNotFound(id.String())
		}
	case err != nil:
		return nil, fmt.Errorf("find document: %w", err)
	case !meta.Deletion.At.IsZero():
		return nil, deleted(meta)
	}
	if !k.CanRead(meta) {
		return nil, notCovered()
	}
	if !meta.Block.At.IsZero() {
		return nil, blocked(meta)
	}
	d, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	a := &Attachment{lib: l, desk: d, key: k, replica: r, canSend: k.CanWrite(meta)}
	a.session = crdt.NewSession(!a.canSend)
	err = d.do(&request{ctx: ctx, stage: func(*step) error {
		if err := l.stood(asked); err != nil {
			return err
		}
		d.peers[a] = struct{}{}
		return nil
	}})
	if err != nil {
		l.release(d)
		return nil, a.because(err)
	}
	return a, nil
}

// Receive takes in a sync message of the peer. It returns when the peer's changes are stored and the answer, and what the
// other peers lack, was handed to Deliver. An error is a refusal that ends the conversation: BAD_FRAME for what
// is no sync message, BAD_CHANGE for a change that is not valid, TOO_LARGE for one that is too large, DOCUMENT_FULL when the document
// has no room for them.
func (a *Attachment) Receive(ctx context.Context, message []byte) error {
	done := make(chan error, 1)
	a.Enqueue(ctx, message, func(err error) { done <- err })
	return <-done
}

// Enqueue is Receive for a caller that has more messages: it returns when the message has its place behind those
// before it, and done is told, once, what Receive would return. It must not block. Nobody else may be in Enqueue,
// Offer or Receive.
func (a *Attachment) Enqueue(ctx context.Context, message []byte, done func(error)) {
	b, err := a.open(ctx, message)
	if err == nil {
		a.heard = true
		err = a.desk.put(a.request(ctx, b, done))
	}
	if err != nil {
		done(a.because(err))
	}
}

// Offer is Enqueue for a caller that cannot wait: false says that the message would have to, and nothing was done.
func (a *Attachment) Offer(ctx context.Context, message []byte, done func(error)) bool {
	b, err := a.read(message)
	if err != nil {
		done(err)
		return true
	}
	if a.canSend && len(b.message.Documents) > 0 {
		return false
	}
	placed := a.desk.offer(a.request(ctx, b, done))
	a.heard = a.heard || placed
	return placed
}

func (a *Attachment) request(ctx context.Context, b *brought, done func(error)) *request {
	return &request{ctx: ctx, brought: b, done: func(err error) { a.received(b, err, done) }}
}

// received is told by the desk what became of a message.
func (a *Attachment) received(b *brought, err error, done func(error)) {
	switch {
	case err != nil:
		done(a.because(err))
	case a.lib.holdsAny(a.key.Agent, a.desk.id, b.acted):
		a.lib.wg.Go(func() { // a lease is renewed by more than memory
			a.lib.act(a.lib.ctx, a.key.Agent, a.desk.id, b.acted)
			done(b.refused)
		})
	default:
		done(b.refused)
	}
}

// open reads a message, and unpacks the saved documents in it.
func (a *Attachment) open(ctx context.Context, message []byte) (*brought, error) {
	b, err := a.read(message)
	if err != nil || !a.canSend {
		return b, err
	}
	for _, chunk := range b.message.Documents {
		more, err := a.lib.engine.Unpack(ctx, chunk)
		if err != nil {
			return nil, badChange(err)
		}
		b.changes = append(b.changes, more...)
	}
	return b, nil
}

func (a *Attachment) read(message []byte) (*brought, error) {
	m, err := crdt.ParseMessage(message, a.lib.limits.change())
	if bad := (*crdt.ParseError)(nil); errors.As(err, &bad) && bad.TooLarge {
		return nil, a.lib.changeTooLarge(err)
	}
	if err != nil {
		return nil, code.New(code.BadFrame, "this is no sync message: %v", err).Because(err)
	}
	b := &brought{author: a.key.Agent, from: a, message: m, asks: !a.heard || !m.Acknowledges()}
	if a.canSend {
		b.changes = m.Changes
	}
	return b, nil
}

// because gives the reason of a desk that ended before it came to a request: the peer has to attach anew.
func (a *Attachment) because(err error) error {
	if err == errUnserved {
		return a.desk.err
	}
	return err
}

// Detach ends the conversation. It may be called more than once.
func (a *Attachment) Detach() {
	a.detach.Do(func() {
		// The desk's own context: the peer's has usually ended by now.
		_ = a.desk.do(&request{ctx: a.lib.ctx, stage: func(*step) error {
			delete(a.desk.peers, a)
			return nil
		}})
		a.lib.release(a.desk)
	})
}

// tellPeers sends every peer what it lacks.
func (d *desk) tellPeers() {
	for a := range d.peers {
		d.tell(a)
	}
}

// tell sends a peer what it lacks.
func (d *desk) tell(a *Attachment) {
	if _, here := d.peers[a]; !here {
		return
	}
	message, ok, err := a.session.Generate(d.graph, d)
	if err != nil {
		d.lib.log.Error("make sync message", "document", d.id, "err", err)
		delete(d.peers, a)
		a.replica.Gone(d.id, code.From(err))
		return
	}
	if ok && !a.replica.Deliver(d.id, message) {
		delete(d.peers, a)
	}
}
