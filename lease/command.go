package lease

import (
	"errors"
	"fmt"
	"time"
)

// Limits of what can be asked.
const (
	MinDuration     = time.Second // of a lease
	MaxDuration     = 300 * time.Second
	DefaultPlace    = 30 * time.Second // how long a place lives after the last ask
	MinPlace        = time.Second
	MaxPlace        = 300 * time.Second
	MaxWaiters      = 8               // in one queue
	DefaultPerAgent = 256             // leases and places of one agent
	MaxResource     = 512             // bytes
	MaxReason       = 1024            // bytes
	Reservation     = 5 * time.Second // how long a freed resource is kept for who waits first
	MaxBackoff      = 800 * time.Millisecond

	firstBackoff = 25 * time.Millisecond
)

// ErrInvalid is in the chain of errors of commands that make no sense; they change nothing.
var ErrInvalid = errors.New("invalid lease command")

// Command is one thing to do: exactly one of the types below.
type Command interface{ command() }

// Acquire asks for a lease. The holder asking again extends it, never shortens it.
type Acquire struct {
	Resource  Resource
	Agent     Agent
	Operation Operation // "" is Write
	Duration  time.Duration
	Reason    string
	Queue     bool          // take a place if refused; one that is there is kept and refreshed in any case
	Place     time.Duration // how long the place lives after this ask; 0 is DefaultPlace
	Waiting   bool          // a long poll stands behind the place, which is taken also without Queue: it lives until Leave or Detach
	NewID     ID            // for the grant, if there is one
}

// Renew sets the end of the agent's lease to now + Duration.
type Renew struct {
	Resource Resource
	Agent    Agent
	Duration time.Duration
}

// Act says that the holder acted in the resource: its lease is extended to its own duration from now, once
// a third of it has passed. By an agent that holds nothing there it does nothing and is no refusal.
type Act struct {
	Resource Resource
	Agent    Agent
}

// Release ends the agent's own lease. IfID, where not empty, refuses when the present lease is another one.
type Release struct {
	Resource Resource
	Agent    Agent
	IfID     ID
}

// Break ends every lease of the resource, or Holder's alone, or that grant alone, in the name of an administrator.
type Break struct {
	Resource Resource
	By       Agent
	Holder   Agent // "" is all
	IfID     ID    // "" is any; refuses when there are leases, and none is this grant
	Reason   string
}

// Transfer hands the agent's lease to another agent in one step.
type Transfer struct {
	Resource Resource
	Agent    Agent
	To       Agent
	NewID    ID
}

// Leave gives up the agent's place in the queue.
type Leave struct {
	Resource Resource
	Agent    Agent
}

// Detach says that no long poll stands behind the agent's place any more: it lives on as after an ask, or ends where no
// ask was for a place. Where there is no such place it does nothing and is no refusal.
type Detach struct {
	Resource Resource
	Agent    Agent
}

// Retire ends, at no cost, everything that an agent holds and waits for.
type Retire struct {
	Agent  Agent
	Reason string
}

// Clear ends, at no cost, every lease and place of a resource, because what it names is gone.
type Clear struct {
	Resource Resource
	By       Agent
	Reason   string
}

// Sweep takes back what has expired or lapsed. Every command but Resume does that first.
type Sweep struct{}

// Resume goes on after a time in which nobody could be served: what ran out meanwhile expires at no cost, and
// places and reservations get a fresh life. Ends of leases stay, but none is further off than MaxDuration.
type Resume struct{}

func (Acquire) command()  {}
func (Renew) command()    {}
func (Act) command()      {}
func (Release) command()  {}
func (Break) command()    {}
func (Transfer) command() {}
func (Leave) command()    {}
func (Retire) command()   {}
func (Clear) command()    {}
func (Detach) command()   {}
func (Sweep) command()    {}
func (Resume) command()   {}

// Answer is what a command that was not refused came to.
type Answer struct {
	Lease   Lease       // granted, extended, renewed, released or handed
	Granted bool        // the command made the lease; one that was extended, upgraded or renewed was there before
	Trust   TrustHalves // of the lease's holder
}

// Why is the reason of a refusal.
type Why string

const (
	Held          Why = "held"
	Deadlock      Why = "deadlock"
	QueueFull     Why = "queue_full"
	NotHolder     Why = "not_holder"
	NoActiveLease Why = "no_active_lease"
	StaleLease    Why = "stale_lease"
	NotQueued     Why = "not_queued"
	TooMany       Why = "too_many_leases"
)

// Refusal is the error of a command that was refused, with what the caller needs to decide what to do.
type Refusal struct {
	Why       Why
	Status    Status        // of the resource, at the refusal
	Position  int           // the caller's place in the queue, from 1; 0 is none
	Wait      time.Duration // how long to back off
	WaitingOn Resource      // of Deadlock: what the holder itself waits for
	Cycle     []Edge        // of Deadlock
	Limit     int           // of TooMany and QueueFull
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("lease of %s refused: %s", r.Status.Resource, r.Why)
}
