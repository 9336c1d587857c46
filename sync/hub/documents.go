package hub

import (
	"context"

	"cowrite/crdt"
	"cowrite/doc"
)

// Documents is where replicas attach: a [doc.Library], behind [Library].
type Documents interface {
	// Attach opens a sync conversation. create makes the document when it does not exist.
	// DOCUMENT_NOT_FOUND, DOCUMENT_DELETED, FORBIDDEN.
	Attach(ctx context.Context, k doc.Key, id crdt.DocumentID, r doc.Replica, create bool) (Attachment, error)
}

// Attachment is a conversation, as of [doc.Attachment].
type Attachment interface {
	Receive(ctx context.Context, message []byte) error
	Detach()
}

// Pipelined is an attachment that takes in a message before it is done with the one before it, as [doc.Attachment]
// does. done is told once what Receive would return.
type Pipelined interface {
	Attachment
	// Enqueue returns when the message has its place behind those before it.
	Enqueue(ctx context.Context, message []byte, done func(error))
	// Offer does not wait for that: false says that the message has none, and nothing was done.
	Offer(ctx context.Context, message []byte, done func(error)) bool
}

// Library makes a library a Documents.
func Library(l *doc.Library) Documents { return library{l} }

type library struct{ *doc.Library }

func (l library) Attach(ctx context.Context, k doc.Key, id crdt.DocumentID, r doc.Replica, create bool) (Attachment, error) {
	a, err := l.Library.Attach(ctx, k, id, r, create)
	if err != nil {
		return nil, err // not a nil *doc.Attachment in an interface
	}
	return a, nil
}
