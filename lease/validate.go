package lease

import (
	"cmp"
	"fmt"
	"time"
)

// validate finds what makes no sense in a command, whatever the state.
func validate(cmd Command) error {
	switch c := cmd.(type) {
	case Acquire:
		switch c.Operation {
		case "", Read, Write, Delete:
		default:
			return invalid("an operation is read, write or delete, not %q", c.Operation)
		}
		if c.Place != 0 && (c.Place < MinPlace || c.Place > MaxPlace) {
			return invalid("a place lives %v to %v, not %v", MinPlace, MaxPlace, c.Place)
		}
		if c.NewID == "" {
			return invalid("an id for the grant is missing")
		}
		return cmp.Or(checkNames(c.Resource, c.Agent), checkDuration(c.Duration), checkReason(c.Reason))
	case Renew:
		return cmp.Or(checkNames(c.Resource, c.Agent), checkDuration(c.Duration))
	case Act:
		return checkNames(c.Resource, c.Agent)
	case Release:
		return checkNames(c.Resource, c.Agent)
	case Break:
		return cmp.Or(checkNames(c.Resource, c.By), checkReason(c.Reason))
	case Transfer:
		if c.NewID == "" {
			return invalid("an id for the grant is missing")
		}
		if c.To == c.Agent {
			return invalid("a lease is handed to somebody else")
		}
		return cmp.Or(checkNames(c.Resource, c.Agent), checkNames(c.Resource, c.To))
	case Leave:
		return checkNames(c.Resource, c.Agent)
	case Detach:
		return checkNames(c.Resource, c.Agent)
	case Retire:
		return cmp.Or(checkAgent(c.Agent), checkReason(c.Reason))
	case Clear:
		return cmp.Or(checkNames(c.Resource, c.By), checkReason(c.Reason))
	case Sweep, Resume:
		return nil
	}
	return invalid("unknown command %T", cmd)
}

func checkNames(r Resource, a Agent) error {
	if len(r) == 0 || len(r) > MaxResource {
		return invalid("a resource's name has 1 to %d bytes, not %d", MaxResource, len(r))
	}
	return checkAgent(a)
}

func checkAgent(a Agent) error {
	if a == "" {
		return invalid("an agent's name is missing")
	}
	return nil
}

func checkDuration(d time.Duration) error {
	if d < MinDuration || d > MaxDuration {
		return invalid("a lease lasts %v to %v, not %v", MinDuration, MaxDuration, d)
	}
	return nil
}

func checkReason(s string) error {
	if len(s) > MaxReason {
		return invalid("a reason has at most %d bytes, not %d", MaxReason, len(s))
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
