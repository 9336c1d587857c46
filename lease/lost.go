package lease

import "time"

const (
	lostPerAgent = 16
	lostFor      = time.Hour
)

// lostLeases remembers how leases ended without their holders' doing, until the holders are told.
type lostLeases struct {
	byAgent map[Agent][]Event
	pruned  time.Time
}

func (l *lostLeases) add(events []Event) {
	for _, e := range events {
		switch e.Kind {
		case Expired, Broken, Ended:
		default:
			continue
		}
		a := e.Lease.Holder
		if e.Actor == a {
			continue
		}
		of := l.byAgent[a]
		if len(of) == lostPerAgent {
			of = of[1:]
		}
		l.byAgent[a] = append(of, e)
	}
}

func (l *lostLeases) take(a Agent) []Event {
	of := l.byAgent[a]
	delete(l.byAgent, a)
	return of
}

// prune forgets agents that have not come back for their news.
func (l *lostLeases) prune(now time.Time) {
	if now.Sub(l.pruned) < lostFor/60 {
		return
	}
	l.pruned = now
	for a, of := range l.byAgent {
		if now.Sub(of[len(of)-1].At) >= lostFor {
			delete(l.byAgent, a)
		}
	}
}
