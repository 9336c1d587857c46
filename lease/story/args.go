package story

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cowrite/lease"
)

// args are the words of a command that are not read yet. The first error stays.
type args struct {
	words []string
	err   error
}

func (a *args) next() string {
	if len(a.words) == 0 {
		a.fail(errors.New("a word is missing"))
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *args) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *args) duration() time.Duration { return a.parseDuration(a.next()) }

func (a *args) parseDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		a.fail(err)
	}
	return d
}

func (a *args) number() int {
	n, err := strconv.Atoi(a.next())
	if err != nil {
		a.fail(err)
	}
	return n
}

// flag takes a word that stands anywhere among the rest.
func (a *args) flag(name string) bool {
	for i, w := range a.words {
		if w == name {
			a.words = append(a.words[:i:i], a.words[i+1:]...)
			return true
		}
	}
	return false
}

// option takes name=value from among the rest.
func (a *args) option(name string) string {
	for i, w := range a.words {
		if value, ok := strings.CutPrefix(w, name+"="); ok {
			a.words = append(a.words[:i:i], a.words[i+1:]...)
			return value
		}
	}
	return ""
}

// end says whether everything was understood.
func (a *args) end() error {
	if a.err == nil && len(a.words) > 0 {
		a.fail(fmt.Errorf("not understood: %s", strings.Join(a.words, " ")))
	}
	return a.err
}

// herd is what a herd's agents ask for, which they do in turn.
func (a *args) herd(newID func() lease.ID) Herd {
	n, r := a.number(), lease.Resource(a.next())
	if n < 0 || n > maxHerd {
		a.fail(fmt.Errorf("a herd has at most %d agents, not %d", maxHerd, n))
		n = 0
	}
	first := a.acquire("agent-1", r, "")
	herd := make(Herd, 0, n)
	for i := range n {
		ask := first
		ask.Agent, ask.NewID = lease.Agent(fmt.Sprintf("agent-%d", i+1)), newID()
		herd = append(herd, ask)
	}
	return herd
}

func (a *args) command(verb string, newID func() lease.ID) lease.Command {
	agent := lease.Agent(a.next())
	if verb == "retire" {
		return lease.Retire{Agent: agent, Reason: a.option("reason")}
	}
	r := lease.Resource(a.next())
	switch verb {
	case "acquire":
		return a.acquire(agent, r, newID())
	case "renew":
		return lease.Renew{Resource: r, Agent: agent, Duration: a.duration()}
	case "act":
		return lease.Act{Resource: r, Agent: agent}
	case "release":
		return lease.Release{Resource: r, Agent: agent, IfID: lease.ID(a.option("if"))}
	case "break":
		return lease.Break{Resource: r, By: agent, Holder: lease.Agent(a.option("holder")), IfID: lease.ID(a.option("if")), Reason: a.option("reason")}
	case "transfer":
		return lease.Transfer{Resource: r, Agent: agent, To: lease.Agent(a.next()), NewID: newID()}
	case "leave":
		return lease.Leave{Resource: r, Agent: agent}
	case "detach":
		return lease.Detach{Resource: r, Agent: agent}
	case "clear":
		return lease.Clear{Resource: r, By: agent, Reason: a.option("reason")}
	}
	a.fail(fmt.Errorf("unknown command %q", verb))
	return lease.Sweep{}
}

func (a *args) acquire(agent lease.Agent, r lease.Resource, id lease.ID) lease.Acquire {
	cmd := lease.Acquire{Resource: r, Agent: agent, Duration: a.duration(), NewID: id}
	for _, op := range []lease.Operation{lease.Read, lease.Write, lease.Delete} {
		if a.flag(string(op)) {
			cmd.Operation = op
		}
	}
	cmd.Queue, cmd.Waiting = a.flag("queue"), a.flag("waiting")
	if place := a.option("place"); place != "" {
		cmd.Place = a.parseDuration(place)
	}
	cmd.Reason = a.option("reason")
	return cmd
}
