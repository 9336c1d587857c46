package agentsocket

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
	"cowrite/sync/line"
	"cowrite/sync/repo"
)

// socket is one connection. run owns it: when run returns, nothing of it is left.
type socket struct {
	*server
	limits  hub.Limits
	key     doc.Key
	line    *line.Line
	session string
	remote  string
	since   time.Time

	out   *line.Outbox[[]byte]
	lanes *lanes
	lost  chan []lease.Event // to be told

	work     context.Context // of the calls to the library
	stopWork context.CancelFunc
	life     context.Context // ends with the first End: of whatever nobody waits for then
	die      context.CancelFunc
	waits    waits
	gone     sync.WaitGroup // documents being left

	mu   sync.Mutex
	open map[agent.Document]*followed
	over bool        // End was called
	why  *code.Error // nil: the peer has gone
	late *time.Timer // cuts the connection when the end takes too long
}

func newSocket(srv *server, key doc.Key, l *line.Line, remote string) *socket {
	limits := srv.Hub.Limits()
	s := &socket{
		server: srv, limits: limits, key: key, line: l, session: uuid.NewString(), remote: remote, since: time.Now(),
		out:  line.NewOutbox[[]byte](limits.OutboundMessages, limits.OutboundBytes),
		lost: make(chan []lease.Event, lostQueue), open: map[agent.Document]*followed{},
	}
	s.lanes = newLanes(limits, s.deal)
	s.work, s.stopWork = context.WithCancel(context.Background())
	s.life, s.die = context.WithCancel(context.Background())
	return s
}

// refuse closes a socket that was never let in.
func (s *socket) refuse(why *code.Error) {
	s.log(why)
	s.stopWork()
	s.End(why)
	s.farewell(why)
	s.late.Stop()
}

// run lets the socket live until its peer goes or someone ends it. What the peer had sent by then is still
// dealt with, unless it was thrown out.
func (s *socket) run() {
	metrics := s.Hub.Metrics()
	if metrics.Opened != nil {
		metrics.Opened()
	}
	s.say(&agent.Welcome{
		Protocol: agent.Subprotocol, Agent: s.key.Agent, Role: string(s.key.Role), Session: s.session, MaxFrameBytes: s.limits.FrameBytes,
	})
	s.Losses.add(s)
	var alive sync.WaitGroup
	alive.Go(s.write)
	alive.Go(func() { s.line.Watch(s.life.Done(), s.limits.PingEvery, s.lanes.excused) })
	alive.Go(s.tellLost)
	s.End(s.read())
	s.Losses.remove(s)
	alive.Wait()
	s.late.Stop()

	why := s.reason()
	s.lanes.close()
	patience := time.AfterFunc(s.limits.DrainTime, s.stopWork)
	s.lanes.drain()
	s.waits.end()
	for _, f := range s.followed() {
		f.leave()
	}
	s.gone.Wait()
	patience.Stop()
	s.stopWork()
	s.Hub.Remove(s, "")
	s.log(why)
	if metrics.Closed != nil {
		var word code.Code
		if why != nil {
			word = why.Code
		}
		metrics.Closed(word)
	}
}

// log is the edge at which the private cause of a socket's end is written down.
func (s *socket) log(why *code.Error) {
	log := s.Hub.Log().With("key", s.key.ID, "agent", s.key.Agent, "remote", s.remote, "after", time.Since(s.since))
	switch {
	case why == nil:
		log.Debug("the peer closed the agent socket")
	case why.Code == code.Internal:
		log.Error("agent socket closed", "code", why.Code, "why", why.Message, "cause", why.Cause)
	default:
		log.Info("agent socket closed", "code", why.Code, "why", why.Message)
	}
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
	s.die()
}

func (s *socket) Info() hub.Info {
	documents := []crdt.DocumentID{}
	for _, f := range s.followed() {
		documents = append(documents, f.id)
	}
	return hub.Info{
		Door: hub.AgentDoor, Key: s.key.ID, Agent: s.key.Agent, Remote: s.remote, Since: s.since,
		Documents: documents, Queued: s.out.QueuedBytes(), Page: s.line.OfPage(),
	}
}

// Ephemeral is for replicas: agents have presences.
func (s *socket) Ephemeral(repo.Ephemeral) {}

// Appeared is for replicas: an agent that opens what is not there is refused.
func (s *socket) Appeared(crdt.DocumentID) {}

func (s *socket) reason() *code.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// read takes in frames until there are no more, and says why; nil when the peer has gone or the socket had ended.
func (s *socket) read() *code.Error {
	for {
		b, err := s.line.Read(websocket.MessageText, s.limits.FrameBytes)
		if err != nil || s.life.Err() != nil {
			refusal, _ := errors.AsType[*code.Error](err)
			return refusal
		}
		if received := s.Hub.Metrics().Received; received != nil {
			received(len(b))
		}
		var request agent.Request
		var id agent.RequestID
		s.lanes.aside(func() { request, id, err = agent.DecodeRequest(b) })
		if err != nil {
			s.out.Rest() // whoever does not take its answers is not listened to
			s.fail(id, "", err)
			continue
		}
		s.lanes.put(request, len(b))
	}
}

// write sends what is in the outbox, and says goodbye when the socket has ended.
func (s *socket) write() {
	for {
		b, ok := s.out.Take()
		if !ok {
			break
		}
		if err := s.line.Send(websocket.MessageText, b, s.limits.WriteTime); err != nil {
			s.End(nil)
			break
		}
		if sent := s.Hub.Metrics().Sent; sent != nil {
			sent(len(b))
		}
	}
	if why := s.reason(); why != nil {
		s.farewell(why)
	}
	s.line.CloseNow()
}

// farewell says why the socket is closed: in an error frame with the facts, and in the close frame.
func (s *socket) farewell(why *code.Error) {
	if b, err := agent.Encode(&agent.Error{Code: why.Code, Message: why.Message, Facts: why.Facts}); err == nil {
		_ = s.line.Send(websocket.MessageText, b, s.limits.WriteTime) // the peer may have gone
	}
	s.line.Close(why)
}

// say leaves a frame in the outbox.
func (s *socket) say(f agent.Frame) {
	b, err := agent.Encode(f)
	if err != nil {
		s.End(code.From(err))
		return
	}
	s.post(b)
}

// post leaves a frame's bytes in the outbox. ok is false when there is no room, which ends the socket.
func (s *socket) post(b []byte) (ok bool) {
	if full := s.out.Put(b, len(b)); full {
		s.End(code.New(code.SlowReader, "too much waits to be sent to this socket"))
		return false
	}
	return true
}

// fail answers a request with what it was refused for.
func (s *socket) fail(id agent.RequestID, document agent.Document, err error) {
	if s.work.Err() != nil || (s.life.Err() != nil && errors.Is(err, context.Canceled)) {
		return // nobody listens any more
	}
	e := code.From(err)
	if e.Code == code.Internal {
		s.Hub.Log().Error("agent request failed", "key", s.key.ID, "agent", s.key.Agent, "request", id, "cause", e.Cause)
	}
	s.say(&agent.Error{Header: agent.Header{ID: id}, Document: document, Code: e.Code, Message: e.Message, Facts: e.Facts})
}

// deal is what a worker does with a request.
func (s *socket) deal(r agent.Request) {
	s.out.Rest()
	answer, err := s.answer(r)
	switch {
	case err != nil:
		s.fail(agent.IDOf(r), r.About(), err)
	case answer != nil:
		s.say(answer)
	}
}

// answer does a request. A nil answer has been given, or comes later.
func (s *socket) answer(r agent.Request) (agent.Frame, error) {
	switch r := r.(type) {
	case *agent.Open:
		return nil, s.follow(r)
	case *agent.Close:
		return s.unfollow(r)
	case *agent.Edit:
		return s.edit(r)
	case *agent.Create:
		return s.create(r)
	case *agent.Move:
		return s.move(r)
	case *agent.Remove:
		return s.remove(r)
	case *agent.Restore:
		return s.restore(r)
	case *agent.LeaseRequest:
		return s.leaseRequest(r)
	case *agent.Presence:
		return nil, s.present(r)
	case *agent.Post:
		return s.message(r)
	}
	return nil, code.New(code.BadRequest, "this frame is not for a server")
}

// locate is find for what asks the library anyway whether the document is there and open to the key. A name leads to the
// same document for ever, so that one which is open here is not looked up again.
func (s *socket) locate(d agent.Document, name agent.SectionID) (crdt.DocumentID, doc.SectionID, error) {
	s.mu.Lock()
	f := s.open[d]
	s.mu.Unlock()
	if f == nil {
		meta, sid, err := s.find(d, name)
		return meta.ID, sid, err
	}
	if name == "" {
		return f.id, "", nil
	}
	sid, err := doc.ParseSectionID(string(name))
	return f.id, sid, err
}

// find resolves a document, and a section's name where there is one.
func (s *socket) find(d agent.Document, name agent.SectionID) (doc.Meta, doc.SectionID, error) {
	meta, err := s.Library.Find(s.work, s.key, string(d))
	if err != nil || name == "" {
		return meta, "", err
	}
	sid, err := doc.ParseSectionID(string(name))
	return meta, sid, err
}
