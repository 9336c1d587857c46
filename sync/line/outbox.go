package line

import "sync"

// Outbox holds the frames that wait to be written: bounded, and nobody who puts one in ever waits.
type Outbox[F any] struct {
	maxFrames, maxBytes int

	mu     sync.Mutex
	change *sync.Cond // a frame was put in or taken out, or the box was closed
	frames []queued[F]
	bytes  int
	closed bool
}

type queued[F any] struct {
	frame F
	bytes int
}

// envelopeBytes is about what a frame is around its data.
const envelopeBytes = 200

// NewOutbox makes one for so many frames and bytes.
func NewOutbox[F any](maxFrames, maxBytes int) *Outbox[F] {
	o := &Outbox[F]{maxFrames: maxFrames, maxBytes: maxBytes}
	o.change = sync.NewCond(&o.mu)
	return o
}

// Put adds a frame with so many bytes of data. full says that there is no room, which there always is for a
// first frame; a closed box takes frames for nothing.
func (o *Outbox[F]) Put(frame F, data int) (full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.add(frame, data, o.maxFrames, o.maxBytes)
}

// Offer adds a frame that may as well be dropped: it is when the box is half full.
func (o *Outbox[F]) Offer(frame F, data int) (full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.add(frame, data, o.maxFrames/2, o.maxBytes/2)
}

func (o *Outbox[F]) add(frame F, data, maxFrames, maxBytes int) (full bool) {
	if o.closed {
		return false
	}
	n := data + envelopeBytes
	if len(o.frames) > 0 && (len(o.frames) >= maxFrames || o.bytes+n > maxBytes) {
		return true
	}
	o.frames = append(o.frames, queued[F]{frame, n})
	o.bytes += n
	o.change.Broadcast()
	return false
}

// Take waits for a frame and removes it; ok is false once the box is closed. What was still in it is lost.
func (o *Outbox[F]) Take() (frame F, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.frames) == 0 && !o.closed {
		o.change.Wait()
	}
	if o.closed {
		return frame, false
	}
	q := o.frames[0]
	o.frames[0] = queued[F]{}
	o.frames = o.frames[1:]
	if len(o.frames) == 0 {
		o.frames = nil // an idle socket holds no memory for a past rush
	}
	o.bytes -= q.bytes
	o.change.Broadcast()
	return q.frame, true
}

// Rest waits until the box is less than half full, or closed. Whoever makes frames in answer to the peer's own
// rests first, so that a peer which does not take its answers is not listened to either.
func (o *Outbox[F]) Rest() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.restless() {
		o.change.Wait()
	}
}

// Rested says whether Rest would not wait.
func (o *Outbox[F]) Rested() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.restless()
}

func (o *Outbox[F]) restless() bool {
	return !o.closed && (len(o.frames) > o.maxFrames/2 || o.bytes > o.maxBytes/2)
}

// Close drops what waits, and takes nothing more.
func (o *Outbox[F]) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.frames, o.bytes = nil, 0
	o.change.Broadcast()
}

// QueuedBytes is how much waits.
func (o *Outbox[F]) QueuedBytes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
