package socket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/line"
	"cowrite/sync/repo"
)

// socket is one connection. run owns it: when run returns, nothing of it is left.
type socket struct {
	hub    *hub.Hub
	limits hub.Limits
	key    doc.Key
	server repo.PeerID
	line   *line.Line
	remote string
	since  time.Time

	out *line.Outbox[repo.Frame]
	in  *inbox

	work     context.Context // of the calls to the library
	stopWork context.CancelFunc
	ended    chan struct{} // closed by the first End

	mu   sync.Mutex
	peer repo.PeerID // "" before join
	over bool        // End was called
	why  *code.Error // nil: the peer has gone
	late *time.Timer // cuts the connection when the end takes too long
}

func newSocket(h *hub.Hub, key doc.Key, server repo.PeerID, l *line.Line, remote string) *socket {
	limits := h.Limits()
	s := &socket{
		hub: h, limits: limits, key: key, server: server, line: l, remote: remote, since: time.Now(),
		out:   line.NewOutbox[repo.Frame](limits.OutboundMessages, limits.OutboundBytes),
		ended: make(chan struct{}),
	}
	s.in = newInbox(limits, s.deal, s.offer)
	s.work, s.stopWork = context.WithCancel(context.Background())
	return s
}

// refuse closes a socket that was never let in.
func (s *socket) refuse(why *code.Error) {
	s.log(why)
	s.stopWork()
	s.End(why)
	farewell(s.line, s.server, "", why, s.limits.WriteTime)
	s.late.Stop()
}

// run lets the socket live until its peer goes or someone ends it. What the peer had sent by then is still
// dealt with, unless it was thrown out.
func (s *socket) run() {
	count(s.hub.Metrics().Opened)
	var alive sync.WaitGroup
	alive.Go(s.write)
	alive.Go(func() { s.line.Watch(s.ended, s.limits.PingEvery, s.excused) })
	join := time.AfterFunc(s.limits.JoinTime, func() {
		if s.joined() == "" {
			s.End(code.New(code.JoinTimeout, "no join within %v", s.limits.JoinTime))
		}
	})
	s.End(s.read())
	join.Stop()
	alive.Wait()
	s.late.Stop()

	why := s.reason()
	s.in.close()
	patience := time.AfterFunc(s.limits.DrainTime, s.stopWork)
	for _, c := range s.in.drain() {
		s.leave(c)
	}
	patience.Stop()
	s.stopWork()
	s.hub.Remove(s, s.joined())
	s.log(why)
	if closed := s.hub.Metrics().Closed; closed != nil {
		var word code.Code
		if why != nil {
			word = why.Code
		}
		closed(word)
	}
}

// log is the edge at which private causes are written down.
func (s *socket) log(why *code.Error) {
	at := []any{"key", s.key.ID, "agent", s.key.Agent, "peer", s.joined(), "remote", s.remote, "after", time.Since(s.since)}
	level, text := slog.LevelDebug, "the peer closed the socket"
	if why != nil {
		level, text = slog.LevelInfo, "socket closed"
		at = append(at, "code", why.Code, "why", why.Message)
		if why.Cause != nil {
			at = append(at, "cause", why.Cause)
		}
		if why.Code == code.Internal {
			level = slog.LevelError
		}
	}
	s.hub.Log().Log(context.Background(), level, text, at...)
}

// End, Key, Info, Ephemeral and Appeared are what the hub asks of a socket.

func (s *socket) Key() doc.Key { return s.key }

// End begins the end, for which there is CloseTime. What waits of a peer that is thrown out is refused from now on, and not
// only when the peer has taken its leave. Calls after the first do nothing.
func (s *socket) End(why *code.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over, s.why = true, why
	if why != nil && line.CloseCode(why)/100 == 44 {
		s.stopWork()
	}
	s.late = time.AfterFunc(s.limits.CloseTime, s.line.Cut)
	s.out.Close()
	close(s.ended)
}

func (s *socket) Info() hub.Info {
	return hub.Info{
		Door: hub.SyncDoor, Key: s.key.ID, Agent: s.key.Agent, Peer: s.joined(), Remote: s.remote, Since: s.since,
		Documents: s.in.documents(), Queued: s.out.QueuedBytes(), Page: s.line.OfPage(),
	}
}

func (s *socket) Ephemeral(m repo.Ephemeral) {
	m.TargetID = s.joined()
	if full := s.out.Offer(m, len(m.Data)); full {
		s.dropped("full")
	}
}

func (s *socket) Appeared(id crdt.DocumentID) { s.in.appeared(repo.NameOf(id)) }

func (s *socket) joined() repo.PeerID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

func (s *socket) reason() *code.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *socket) isOver() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// write sends what is in the outbox, and says goodbye when the socket has ended.
func (s *socket) write() {
	for {
		frame, ok := s.out.Take()
		if !ok {
			break
		}
		b, err := repo.Encode(frame)
		if err != nil {
			s.End(code.From(err))
			break
		}
		if err := s.line.Send(websocket.MessageBinary, b, s.limits.WriteTime); err != nil {
			s.End(nil)
			break
		}
		if sent := s.hub.Metrics().Sent; sent != nil {
			sent(len(b))
		}
	}
	if why := s.reason(); why != nil {
		farewell(s.line, s.server, s.joined(), why, s.limits.WriteTime)
	}
	s.line.CloseNow()
}

// excused begins to watch for the one good reason not to have seen a pong: the reader waits for room in the inbox,
// or has since then.
func (s *socket) excused() func() bool {
	before, times := s.in.stall()
	return func() bool {
		now, since := s.in.stall()
		return before || now || since != times
	}
}

// read takes in frames until there are no more, and says why; nil when the peer has gone or the socket had ended.
func (s *socket) read() *code.Error {
	before, bytes := 0, 0 // frames and their bytes that came before join
	for {
		limit := s.limits.FrameBytes
		if s.joined() == "" {
			limit = s.limits.JoinBytes - bytes
		}
		b, err := s.line.Read(websocket.MessageBinary, limit)
		if err != nil || s.isOver() {
			var refusal *code.Error
			errors.As(err, &refusal)
			return refusal
		}
		if received := s.hub.Metrics().Received; received != nil {
			received(len(b))
		}
		frame, err := repo.Decode(b)
		if err != nil {
			return code.From(err)
		}
		join, isJoin := frame.(repo.Join)
		switch {
		case isJoin:
			err = s.join(join)
		case s.joined() != "":
			s.receive(frame)
		default: // as the reference server does, but not for ever
			if before, bytes = before+1, bytes+len(b); before > s.limits.JoinFrames {
				err = code.New(code.BadFrame, "%d frames before join", before)
			}
		}
		if err != nil {
			return code.From(err)
		}
	}
}

// join greets a peer. A socket is one peer's for its whole life.
func (s *socket) join(j repo.Join) error {
	switch s.joined() {
	case j.SenderID: // again: it is greeted again
	case "":
		if !j.Speaks(repo.Version) {
			return code.New(code.UnsupportedProtos, "this server speaks version %s", repo.Version)
		}
		if err := s.hub.Claim(j.SenderID, s); err != nil {
			return err
		}
		s.mu.Lock()
		s.peer = j.SenderID
		s.mu.Unlock()
	default:
		return code.New(code.BadFrame, "this socket has joined as another peer")
	}
	// Ephemeral: the peer is to keep no sync state for us beyond this run of the server.
	s.say(repo.Peer{SenderID: s.server, TargetID: j.SenderID, Metadata: repo.Metadata{IsEphemeral: true}, Version: repo.Version})
	return nil
}

// receive sorts out a frame of a joined peer.
func (s *socket) receive(frame repo.Frame) {
	if frame.Sender() != s.joined() {
		// Clients send every ephemeral message that they are given straight back, with its first sender.
		s.dropped("echo")
		return
	}
	switch f := frame.(type) {
	case repo.Sync:
		s.about(f.Document, f, len(f.Data))
	case repo.Request:
		s.about(f.Document, f, len(f.Data))
	case repo.Ephemeral:
		if len(f.Data) > s.limits.EphemeralBytes {
			s.dropped("large")
			return
		}
		// What cannot be put in is about a document that is not open on this socket, and so goes nowhere.
		_ = s.in.put(f.Document, f, len(f.Data))
	}
	// The rest is news of remote heads, leave, and whatever later versions may say.
}

// about leaves a message about a document for the workers. A document that cannot be here, or is one too many, is
// unavailable: the socket's others are not to suffer for it.
func (s *socket) about(name repo.DocumentName, frame repo.Frame, data int) {
	err := s.in.put(name, frame, data)
	if err == nil {
		return
	}
	if code.Is(err, code.TooManyDocuments) {
		s.complain(code.From(err))
	}
	s.say(repo.Unavailable{SenderID: s.server, TargetID: s.joined(), Document: name})
}

// say leaves a frame without data in the outbox.
func (s *socket) say(frame repo.Frame) {
	if full := s.out.Put(frame, 0); full {
		s.End(slowReader())
	}
}

// complain tells the peer's log of a refusal that does not end the socket.
func (s *socket) complain(why *code.Error) {
	s.say(repo.Error{SenderID: s.server, TargetID: s.joined(), Message: fmt.Sprintf("%s: %s", why.Code, why.Message)})
}

func slowReader() *code.Error {
	return code.New(code.SlowReader, "too much waits to be sent to this socket")
}

func (s *socket) dropped(what string) {
	if dropped := s.hub.Metrics().Dropped; dropped != nil {
		dropped(what)
	}
}

func count(f func()) {
	if f != nil {
		f()
	}
}
