package socket

import (
	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/repo"
)

// askedBytes is how large a peer's message about a document that is not there may be to be kept until it is.
const askedBytes = 64 << 10

// wasOpen stands for the question of a peer that had the document open when it was blocked, deleted, or renamed to what its key
// does not cover.
var wasOpen = []byte{}

// deal is what a worker does with a note. done is told once when that has come to its end, which may be later, and
// whether the document can be synced on.
func (s *socket) deal(c *conversation, n note, done func(error)) {
	if n.gone != nil && c.attachment != nil {
		s.leave(c)
		if missing(n.gone) && s.wait(c, wasOpen) && s.attach(c, false) == nil { // it was back before this was told
			s.back(c)
			done(nil)
			return
		}
		s.unavailable(c, n.gone)
	}
	if n.appeared && c.attachment == nil && c.asked != nil {
		s.retry(c)
	}
	switch f := n.frame.(type) {
	case repo.Sync:
		s.out.Rest()
		s.sync(c, f.Data, repo.HasContent(f.Data), done)
		return
	case repo.Request:
		s.out.Rest()
		s.sync(c, f.Data, false, done)
		return
	case repo.Ephemeral:
		s.hub.Relay(c.id, s, f)
	}
	done(nil)
}

// quickBytes is how large a message may be for the reader to parse it.
const quickBytes = 16 << 10

// offer is deal for the reader, which may not wait: false says that nothing was done.
func (s *socket) offer(c *conversation, n note, done func(error)) bool {
	a, open := c.attachment.(hub.Pipelined)
	f, isSync := n.frame.(repo.Sync)
	return open && isSync && len(f.Data) <= quickBytes && s.out.Rested() && a.Offer(s.work, f.Data, done)
}

// sync takes in a message about a document. A peer that brings content makes the document where there is none.
func (s *socket) sync(c *conversation, message []byte, brings bool, done func(error)) {
	if c.attachment == nil {
		hadOpen := c.hadOpen()
		err := s.attach(c, brings)
		if missing(err) && s.wait(c, message) {
			err = s.attach(c, brings) // it may have appeared just before
		}
		if err != nil {
			s.unavailable(c, err)
			done(nil)
			return
		}
		if hadOpen {
			s.back(c)
			done(nil)
			return
		}
	}
	if a, ok := c.attachment.(hub.Pipelined); ok {
		a.Enqueue(s.work, message, done)
		return
	}
	s.hand(c, message)
	done(nil)
}

// hand gives a message to the document that is open.
func (s *socket) hand(c *conversation, message []byte) {
	if err := c.attachment.Receive(s.work, message); err != nil {
		s.leave(c)
		s.unavailable(c, err)
	}
}

// retry opens a document that the peer waits for with the message in which it asked. If it still is not there the
// peer has been told before.
func (s *socket) retry(c *conversation) {
	message, hadOpen := c.asked, c.hadOpen()
	switch err := s.attach(c, false); {
	case err == nil && hadOpen:
		s.back(c)
	case err == nil:
		s.hand(c, message)
	case !missing(err):
		s.leave(c)
		s.unavailable(c, err)
	}
}

// back has the peer connect again for a document that it had open: it has no reason to speak of it again, and where it
// stands by now only the peer can say.
func (s *socket) back(c *conversation) {
	s.End(code.New(code.Busy, "document %s is back, connect again", c.name))
}

func (s *socket) attach(c *conversation, create bool) error {
	a, err := s.hub.Documents().Attach(s.work, s.key, c.id, replica{s, c}, create)
	if err != nil {
		return err
	}
	s.stopWaiting(c)
	c.attachment = a
	s.hub.Enter(c.id, s)
	return nil
}

// missing says whether a document may yet come to be there for the peer.
func missing(err error) bool {
	return code.Is(err, code.DocumentNotFound) || code.Is(err, code.Forbidden) || code.Is(err, code.DocumentBlocked) || code.Is(err, code.DocumentDeleted)
}

// hadOpen says whether the peer waits for a document that it had open. It may go on to write, but its messages go by what was
// said before: with none of them the document can be begun anew.
func (c *conversation) hadOpen() bool { return c.asked != nil && len(c.asked) == 0 }

// wait remembers that the peer asked for the document.
func (s *socket) wait(c *conversation, message []byte) bool {
	if len(message) > askedBytes || !s.hub.Wait(c.id, s) {
		return false
	}
	if !c.hadOpen() {
		c.asked = message
	}
	return true
}

func (s *socket) stopWaiting(c *conversation) {
	if c.asked != nil {
		c.asked = nil
		s.hub.StopWaiting(c.id, s)
	}
}

// leave undoes attach and wait.
func (s *socket) leave(c *conversation) {
	s.stopWaiting(c)
	if c.attachment != nil {
		s.hub.Leave(c.id, s)
		c.attachment.Detach()
		c.attachment = nil
	}
}

// unavailable tells the peer that a document cannot be synced. What concerns the document alone leaves the
// socket open; anything else ends it with its code.
func (s *socket) unavailable(c *conversation, err error) {
	why := code.From(err)
	switch why.Code {
	case code.TooLarge, code.DocumentFull:
		s.complain(why)
	case code.DocumentNotFound, code.DocumentDeleted, code.DocumentBlocked, code.Forbidden:
	default:
		s.End(why)
		return
	}
	s.say(repo.Unavailable{SenderID: s.server, TargetID: s.joined(), Document: c.name})
}

// replica is a conversation as the document's desk sees it.
type replica struct {
	s *socket
	c *conversation
}

func (r replica) Deliver(_ crdt.DocumentID, message []byte) bool {
	full := r.s.out.Put(repo.Sync{SenderID: r.s.server, TargetID: r.s.joined(), Document: r.c.name, Data: message}, len(message))
	if full {
		r.s.End(slowReader())
	}
	return !full
}

func (r replica) Gone(_ crdt.DocumentID, why error) { r.s.in.gone(r.c, code.From(why)) }
