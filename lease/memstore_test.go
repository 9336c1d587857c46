package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// memStore keeps leases in memory, all or nothing, and fails when told to.
type memStore struct {
	mu     sync.Mutex
	kernel *Kernel // what was saved
	events []Event
	saves  int
	fault  func(call int) fault // nil: none
	calls  int
}

// fault is how a call fails.
type fault int

const (
	works     fault = iota
	fails           // nothing is saved
	failsLate       // everything is saved, but the caller is told that it was not
)

var errDisk = errors.New("disk full")

func newMemStore() *memStore { return &memStore{kernel: NewKernel(KernelOptions{})} }

func (s *memStore) next() fault {
	s.calls++
	if s.fault == nil {
		return works
	}
	return s.fault(s.calls)
}

func (s *memStore) LoadLeases(context.Context) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next() != works {
		return State{}, errDisk
	}
	return s.kernel.State(), nil
}

func (s *memStore) SaveLeases(_ context.Context, commits []Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.next()
	if f == fails {
		return errDisk
	}
	s.saves++
	for _, c := range commits {
		s.kernel.Apply(c)
		s.events = append(s.events, c.Events...)
	}
	if f == failsLate {
		return errDisk
	}
	return nil
}

func (s *memStore) setFault(f func(call int) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.calls = f, 0
}

// saved gives the state and the events as they are on disk.
func (s *memStore) saved() (State, []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernel.State(), slices.Clone(s.events)
}

func open(t *testing.T, s Store, opts Options) *Keeper {
	t.Helper()
	k, err := Open(t.Context(), s, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// agrees says whether the saved events, replayed, give the saved state. free says which events cost nothing.
func (s *memStore) agrees(t *testing.T) {
	t.Helper()
	state, events := s.saved()
	book := newLedger()
	for _, e := range events {
		if err := book.add(e, e.Kind == Expired && e.Reason != ""); err != nil {
			t.Fatalf("%s: %v", e.Kind, err)
		}
	}
	if err := book.compare(state); err != nil {
		t.Fatal(err)
	}
}

// kinds gives what happened to a resource.
func (s *memStore) kinds(r Resource) []Kind {
	_, events := s.saved()
	var kinds []Kind
	for _, e := range events {
		if e.Resource == r {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// gate is a store whose saves wait until they are let through.
type gate struct {
	*memStore
	entered chan []Commit
	let     chan struct{}
}

func newGate() *gate {
	return &gate{memStore: newMemStore(), entered: make(chan []Commit), let: make(chan struct{})}
}

func (g *gate) SaveLeases(ctx context.Context, commits []Commit) error {
	select {
	case g.entered <- commits:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-g.let:
	case <-ctx.Done():
		return ctx.Err()
	}
	return g.memStore.SaveLeases(ctx, commits)
}
