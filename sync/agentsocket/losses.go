package agentsocket

import (
	"sync"

	"cowrite/lease"
)

// lostQueue is how many commits' losses wait to be told to one socket. What does not fit is told when it opens again.
const lostQueue = 64

// Losses tells the sockets of an agent of the leases that it lost. The zero value is ready; it is made before the
// keeper that it observes, and may be used concurrently.
type Losses struct {
	mu      sync.Mutex
	byAgent map[lease.Agent]map[*socket]struct{}
}

// Observe is for [lease.Options]: it passes on what ended without its holder's doing. It does not block.
func (l *Losses) Observe(c lease.Commit) {
	lost := map[lease.Agent][]lease.Event{}
	for _, e := range c.Events {
		switch e.Kind {
		case lease.Expired, lease.Broken, lease.Ended:
			if e.Actor != e.Lease.Holder {
				lost[e.Lease.Holder] = append(lost[e.Lease.Holder], e)
			}
		}
	}
	if len(lost) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for holder, events := range lost {
		for s := range l.byAgent[holder] {
			select {
			case s.lost <- events:
			default:
			}
		}
	}
}

func (l *Losses) add(s *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byAgent == nil {
		l.byAgent = map[lease.Agent]map[*socket]struct{}{}
	}
	of := l.byAgent[s.key.Agent]
	if of == nil {
		of = map[*socket]struct{}{}
		l.byAgent[s.key.Agent] = of
	}
	of[s] = struct{}{}
}

func (l *Losses) remove(s *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byAgent[s.key.Agent], s)
	if len(l.byAgent[s.key.Agent]) == 0 {
		delete(l.byAgent, s.key.Agent)
	}
}

// tellLost tells the client of the leases that its agent lost: before the socket opened, and from then on.
func (s *socket) tellLost() {
	if before := s.Library.Leases().TakeLost(s.key.Agent); len(before) > 0 {
		s.say(s.lostOf(before))
	}
	for {
		select {
		case <-s.life.Done():
			return
		case events := <-s.lost:
			s.say(s.lostOf(events))
		}
	}
}
