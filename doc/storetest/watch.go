package storetest

import (
	"testing"
	"time"

	"cowrite/doc"
	"cowrite/lease"
)

var watchPromises = []promise{
	{"a watcher wakes on events of its document alone", watcherWakes},
	{"wake-ups do not pile up and never block an append", wakesDoNotPileUp},
	{"every watcher wakes", everyWatcherWakes},
	{"a watcher that reads after each wake-up misses nothing", noLostWake},
	{"a watcher that stopped is not woken", stoppedWatcher},
	{"who looks after another process wakes the watchers of a document", wakeForAnother},
}

// patience is how long a wake-up may take before it counts as lost.
const patience = 30 * time.Second

func awaitWake(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(patience):
		t.Fatal("a wake-up was lost")
	}
}

func wantAsleep(t *testing.T, why string, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
		t.Errorf("woken: %s", why)
	default:
	}
}

func watcherWakes(t *testing.T, s doc.Store) {
	m, other := newDocument("plan"), newDocument("other")
	wake, stop := s.Watch(m.ID)
	defer stop()
	create(t, s, other, posted(1)...)
	wantAsleep(t, "another document was created", wake)
	create(t, s, m, posted(1)...)
	awaitWake(t, wake)
	appendEvents(t, s, m.ID, posted(1)...)
	awaitWake(t, wake)
	_, err := s.Append(t.Context(), m.ID, doc.Append{Expect: 77, Events: posted(1)})
	wantError(t, err, doc.ErrConflict)
	wantAsleep(t, "an append was refused", wake)
	saveLeases(t, s, doc.LeaseCommit{Commit: lease.Commit{Fence: 1}, Document: m.ID, Events: posted(1)})
	awaitWake(t, wake)
}

func wakesDoNotPileUp(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	wake, stop := s.Watch(m.ID)
	defer stop()
	for range 50 {
		appendEvents(t, s, m.ID, posted(1)...)
	}
	awaitWake(t, wake)
	wantAsleep(t, "more than one value was waiting", wake)
}

func everyWatcherWakes(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	var wakes []<-chan struct{}
	for range 10 {
		wake, stop := s.Watch(m.ID)
		defer stop()
		wakes = append(wakes, wake)
	}
	appendEvents(t, s, m.ID, posted(1)...)
	for _, wake := range wakes {
		awaitWake(t, wake)
	}
}

func noLostWake(t *testing.T, s doc.Store) {
	const watchers, writers, rounds = 4, 4, 50
	m := newDocument("plan")
	create(t, s, m)
	together(watchers+writers, func(i int) {
		if i >= watchers {
			for range rounds {
				if _, err := s.Append(t.Context(), m.ID, doc.Append{Expect: doc.AnySeq, Events: posted(1)}); err != nil {
					t.Errorf("append: %v", err)
				}
			}
			return
		}
		wake, stop := s.Watch(m.ID)
		defer stop()
		late := time.After(patience)
		for seen := doc.Seq(0); seen < writers*rounds; {
			page, err := s.Events(t.Context(), m.ID, seen, 7)
			if err != nil {
				t.Errorf("read: %v", err)
				return
			}
			if len(page) > 0 {
				seen = page[len(page)-1].Seq
				continue
			}
			select {
			case <-wake:
			case <-late:
				t.Errorf("asleep at event %s", seen)
				return
			}
		}
	})
}

func stoppedWatcher(t *testing.T, s doc.Store) {
	m := newDocument("plan")
	create(t, s, m)
	wake, stop := s.Watch(m.ID)
	other, stopOther := s.Watch(m.ID)
	defer stopOther()
	stop()
	stop()
	appendEvents(t, s, m.ID, posted(1)...)
	awaitWake(t, other)
	wantAsleep(t, "it had stopped", wake)
}

func wakeForAnother(t *testing.T, s doc.Store) {
	m, other := newDocument("plan"), newDocument("other")
	wake, stop := s.Watch(m.ID)
	defer stop()
	s.Wake(other.ID)
	wantAsleep(t, "it was another document", wake)
	s.Wake(m.ID)
	awaitWake(t, wake)
}
