package socket

import (
	"sync"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/repo"
)

// inbox holds what was read and is not dealt with yet, by document, and runs the workers that deal with it.
// A document is with at most one worker at a time, which takes one frame and then lets the next document
// have its turn: so frames of one document stay in order, and a slow document holds up no other. A frame that has its
// place at the document needs no worker to wait for it, and one that gets its place at once needs no worker at all. An
// ephemeral message has no place at the document: it waits until all before it have come to their end.
type inbox struct {
	limits hub.Limits
	handle func(c *conversation, n note, done func(error))
	offer  func(c *conversation, n note, done func(error)) bool // handle for the reader: false, it would have to wait

	mu            sync.Mutex
	change        *sync.Cond // there is more room, a worker has ended, or the box was closed
	conversations map[repo.DocumentName]*conversation
	ready         []*conversation // have notes and are with no worker
	workers       int             // there is one while any conversation is ready
	frames, bytes int             // of all notes that wait or are being dealt with
	closed        bool
	stalled       bool   // the reader waits for room
	stalls        uint64 // how often it did
}

// note is one thing for a worker to deal with.
type note struct {
	frame    repo.Frame  // a Sync, Request or Ephemeral; nil: none
	bytes    int         // of its data
	appeared bool        // the document may be there now
	gone     *code.Error // the desk has let go of the document, and why
}

// conversation is what a socket and one document have to do with each other: it is open, or the peer waits for
// the document, or notes about it are on their way.
type conversation struct {
	name repo.DocumentName
	id   crdt.DocumentID

	// Guarded by the inbox.
	frames   []note // in order of arrival
	appeared bool
	gone     *code.Error
	busy     bool // ready, or with a worker
	under    int  // frames that were taken and have not come to their end

	// The worker's.
	attachment hub.Attachment // nil: not open
	asked      []byte         // not nil: the peer's last message about a document that it waits for
}

func newInbox(limits hub.Limits, handle func(*conversation, note, func(error)), offer func(*conversation, note, func(error)) bool) *inbox {
	b := &inbox{limits: limits, handle: handle, offer: offer, conversations: make(map[repo.DocumentName]*conversation)}
	b.change = sync.NewCond(&b.mu)
	return b
}

// put adds a frame about a document, once there is room. TOO_MANY_DOCUMENTS when it would begin one
// conversation too many, crdt.ErrDocumentID when the name is no id.
func (b *inbox) put(name repo.DocumentName, frame repo.Frame, data int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && (b.frames >= b.limits.InboundFrames || b.bytes >= b.limits.InboundBytes) {
		if !b.stalled {
			b.stalled = true
			b.stalls++
		}
		b.change.Wait()
	}
	b.stalled = false
	if b.closed {
		return nil
	}
	c := b.conversations[name]
	if c == nil {
		id, err := name.ID()
		if err != nil {
			return err
		}
		if len(b.conversations) >= b.limits.Documents {
			return code.New(code.TooManyDocuments, "a socket may have %d documents", b.limits.Documents).With("limit", b.limits.Documents)
		}
		c = &conversation{name: name, id: id}
		b.conversations[name] = c
	}
	b.frames++
	b.bytes += data
	n := note{frame: frame, bytes: data}
	if c.busy || len(c.frames) > 0 {
		c.frames = append(c.frames, n)
		return nil
	}
	c.busy = true
	c.under++
	b.mu.Unlock()
	placed := b.offer(c, n, func(err error) { b.finish(c, n, err) })
	b.mu.Lock()
	if !placed {
		c.under--
		c.frames = append(c.frames, n)
	}
	b.next(c)
	b.staff()
	return nil
}

// appeared notes that a document may be there now.
func (b *inbox) appeared(name repo.DocumentName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.conversations[name]; c != nil && !b.closed {
		c.appeared = true
		b.schedule(c)
	}
}

// gone notes that the desk has let go of a conversation's document.
func (b *inbox) gone(c *conversation, why *code.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		c.gone = why
		b.schedule(c)
	}
}

func (b *inbox) schedule(c *conversation) {
	if c.busy {
		return
	}
	c.busy = true
	b.ready = append(b.ready, c)
	b.staff()
}

// staff sees to it that what is ready is dealt with.
func (b *inbox) staff() {
	if len(b.ready) > 0 && b.workers < b.limits.Workers {
		b.workers++
		go b.work()
	}
}

// work deals with what is ready until nothing is. drain waits for its end.
func (b *inbox) work() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.ready) > 0 {
		c := b.ready[0]
		b.ready = b.ready[1:]
		n := c.next()
		b.mu.Unlock()
		b.handle(c, n, func(err error) { b.finish(c, n, err) })
		b.mu.Lock()
		b.next(c)
	}
	b.ready = nil
	b.workers--
	b.change.Broadcast()
}

func (c *conversation) next() note {
	n := note{appeared: c.appeared, gone: c.gone}
	c.appeared, c.gone = false, nil
	if len(c.frames) > 0 && !c.waits() {
		n.frame, n.bytes = c.frames[0].frame, c.frames[0].bytes
		c.frames[0] = note{}
		c.frames = c.frames[1:]
		c.under++
	}
	return n
}

// waits says whether the next frame must not be taken yet.
func (c *conversation) waits() bool {
	_, ephemeral := c.frames[0].frame.(repo.Ephemeral)
	return ephemeral && c.under > 0
}

// finish makes room for another frame. A conversation that cannot go on ends as if the desk had let go of it.
func (b *inbox) finish(c *conversation, n note, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && !b.closed {
		c.gone = code.From(err)
		b.schedule(c)
	}
	if n.frame != nil {
		b.frames--
		b.bytes -= n.bytes
		if c.under--; c.under == 0 && len(c.frames) > 0 {
			b.schedule(c)
		}
		b.change.Broadcast()
	}
}

// next puts a conversation back in line, or away, or forgets it when nothing is left of it.
func (b *inbox) next(c *conversation) {
	switch {
	case c.appeared || c.gone != nil || len(c.frames) > 0 && !c.waits():
		b.ready = append(b.ready, c)
		return
	case len(c.frames) > 0: // finish comes back to it
		c.busy = false
		return
	case c.attachment == nil && c.asked == nil && b.conversations[c.name] == c:
		delete(b.conversations, c.name)
	}
	c.frames, c.busy = nil, false
}

// close takes no more notes.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
}

// drain waits until a closed box has been dealt with, and returns the conversations that are left.
func (b *inbox) drain() []*conversation {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.workers > 0 || b.frames > 0 {
		b.change.Wait()
	}
	left := make([]*conversation, 0, len(b.conversations))
	for _, c := range b.conversations {
		left = append(left, c)
	}
	return left
}

func (b *inbox) documents() []crdt.DocumentID {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]crdt.DocumentID, 0, len(b.conversations))
	for _, c := range b.conversations {
		ids = append(ids, c.id)
	}
	return ids
}

// stall says whether the reader waits for room, and how often it has had to.
func (b *inbox) stall() (now bool, times uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stalled, b.stalls
}
