package agentsocket

import (
	"sync"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/agent"
)

// rooms say who has which document open, and what they say of themselves. Their lock is held over memory alone.
type rooms struct {
	mu   sync.Mutex
	byID map[crdt.DocumentID]*room
}

// room is one document's.
type room struct {
	members map[*followed]*presence // nil: it says nothing of itself
	encoder encoder
	recent  recent
}

// presence is what a member says of itself, and when that ends.
type presence struct {
	frame agent.Present // without the name of the document, which each reader calls in its own way
	until time.Time
	end   *time.Timer
}

func newRooms() *rooms { return &rooms{byID: map[crdt.DocumentID]*room{}} }

// enter lets a document's follower in, and tells what the others say of themselves.
func (r *rooms) enter(f *followed) (*room, []*agent.Present) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.byID[f.id]
	if in == nil {
		in = &room{members: map[*followed]*presence{}}
		r.byID[f.id] = in
	}
	var others []*agent.Present
	for _, p := range in.members {
		if p != nil {
			others = append(others, p.to(f.name))
		}
	}
	in.members[f] = nil
	return in, others
}

// leave ends a follower's presence with it.
func (r *rooms) leave(f *followed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.byID[f.id]
	if in == nil {
		return
	}
	in.clear(f)
	delete(in.members, f)
	if len(in.members) == 0 {
		delete(r.byID, f.id)
	}
}

// set replaces what a follower says of itself, for so long; nil takes it back.
func (r *rooms) set(f *followed, frame *agent.Present, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.byID[f.id]
	if in == nil {
		return // it has left
	}
	former, here := in.members[f]
	if !here {
		return
	}
	if frame == nil {
		in.clear(f)
		return
	}
	if former != nil {
		former.end.Stop()
	}
	p := &presence{frame: *frame, until: time.Now().Add(ttl)}
	p.end = time.AfterFunc(ttl, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if in.members[f] == p {
			in.clear(f)
		}
	})
	in.members[f] = p
	in.tell(f, p)
}

// clear takes a presence back.
func (in *room) clear(f *followed) {
	p := in.members[f]
	if p == nil {
		return
	}
	p.end.Stop()
	in.members[f] = nil
	in.tell(f, &presence{frame: agent.Present{Agent: p.frame.Agent, Session: p.frame.Session, Gone: true}})
}

// tell hands a presence to all members but its own.
func (in *room) tell(from *followed, p *presence) {
	for f := range in.members {
		if f.s != from.s {
			f.meet(p.to(f.name))
		}
	}
}

// to is the presence for a reader who calls the document by that name.
func (p *presence) to(name agent.Document) *agent.Present {
	frame := p.frame
	frame.Document = name
	if !frame.Gone {
		frame.ExpiresInMs = max(0, time.Until(p.until).Milliseconds())
	}
	return &frame
}

// meet leaves another's presence in the outbox, where there is room: it is told again, or runs out by itself.
func (f *followed) meet(p *agent.Present) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ready || f.over {
		return
	}
	b, err := agent.Encode(p)
	if err != nil {
		f.s.End(code.From(err))
		return
	}
	if full := f.s.out.Offer(b, len(b)); full {
		if dropped := f.s.Hub.Metrics().Dropped; dropped != nil {
			dropped("full")
		}
	}
}

// present says something of this socket to who else has the document open.
func (s *socket) present(r *agent.Presence) error {
	s.mu.Lock()
	f := s.open[r.Document]
	s.mu.Unlock()
	if f == nil {
		return code.New(code.BadRequest, "the document is not open on this socket")
	}
	if r.Section != "" {
		if _, err := doc.ParseSectionID(string(r.Section)); err != nil {
			return err
		}
	}
	if len(r.State) == 0 || string(r.State) == "null" {
		s.rooms.set(f, nil, 0)
		return nil
	}
	ttl := doc.Seconds(r.TTLSeconds)
	if ttl == 0 {
		ttl = agent.PresenceTTL * time.Second
	}
	s.rooms.set(f, &agent.Present{Agent: s.key.Agent, Session: s.session, Section: r.Section, State: r.State}, ttl)
	return nil
}

// encoder writes an update once for all who call the document by the same name.
type encoder struct {
	mu   sync.Mutex
	of   *doc.Update
	name agent.Document
	b    []byte
}

func (in *room) encoded(u *doc.Update, name agent.Document) ([]byte, error) {
	e := &in.encoder
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == u && e.name == name {
		return e.b, nil
	}
	b, err := agent.Encode(changed(u, name, func(doc.SectionID) bool { return true }))
	if err != nil {
		return nil, err
	}
	e.of, e.name, e.b = u, name, b
	return b, nil
}
