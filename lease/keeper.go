package lease

import (
	"context"
	"log/slog"
	"time"
)

// Store is where a keeper's state lives.
type Store interface {
	// LoadLeases returns what was last saved.
	LoadLeases(ctx context.Context) (State, error)
	// SaveLeases makes commits durable, records and events, all of them or none. On an error it is unknown
	// whether they were.
	SaveLeases(ctx context.Context, commits []Commit) error
}

// Options of a keeper. The zero value is safe.
type Options struct {
	Now   func() time.Time    // nil: the monotonic clock
	NewID func() ID           // nil: random UUIDs
	Class func(Resource) bool // may two reads of it share? nil: all but "lock:"
	Log   *slog.Logger
}

// Keeper keeps leases for concurrent callers: what it answers is durable.
type Keeper struct{}

// Open loads the state and starts the sweep.
func Open(ctx context.Context, store Store, opts Options) (*Keeper, error) { panic("stub") }

// Now is the keeper's clock: it follows the monotonic clock from the wall time at which the keeper was opened.
func (k *Keeper) Now() time.Time { panic("stub") }

// Do runs one command and returns when what it changed is durable. Errors are *Refusal, the context's, or the store's.
func (k *Keeper) Do(ctx context.Context, cmd Command) (Answer, error) { panic("stub") }

// Wait is a long poll: it acquires, waiting in the queue for at most the given time. When ctx ends first the
// place is given up and nothing is granted.
func (k *Keeper) Wait(ctx context.Context, cmd Acquire, wait time.Duration) (Answer, error) {
	panic("stub")
}

// Status says who holds and waits for a resource now.
func (k *Keeper) Status(r Resource) Status { panic("stub") }

// List gives the status of every resource whose name begins with prefix and that is held or waited for, by name.
func (k *Keeper) List(prefix string) []Status { panic("stub") }

// Agent gives what is remembered of an agent, what it holds and what it waits for.
func (k *Keeper) Agent(a Agent) (AgentRecord, []Lease, []Waiter) { panic("stub") }

// Close ends the sweep and waits for what is under way.
func (k *Keeper) Close() error { panic("stub") }
