package lease

import (
	"fmt"
	"time"
)

// dice throws a number from 0 to n-1.
type dice func(n int) int

func pick[T any](throw dice, from ...T) T { return from[throw(len(from))] }

// history makes up commands of a few agents at a few resources.
type history struct {
	throw   dice
	crowded bool // all at one resource
	ids     int
}

var (
	historyAgents    = []Agent{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	historyResources = []Resource{"lock:deploy", "section:doc/intro", "file", "repo:x/y"}
)

func (h *history) agent() Agent {
	if h.crowded {
		return pick(h.throw, historyAgents...)
	}
	return pick(h.throw, historyAgents[:5]...)
}

func (h *history) resource() Resource {
	if h.crowded {
		return historyResources[2]
	}
	return pick(h.throw, historyResources...)
}

func (h *history) id() ID {
	h.ids++
	return ID(fmt.Sprintf("lease-%d", h.ids))
}

// earlier is an id that may have been given.
func (h *history) earlier() ID { return ID(fmt.Sprintf("lease-%d", 1+h.throw(h.ids+1))) }

func (h *history) duration() time.Duration {
	return time.Duration(pick(h.throw, 1000, 2000, 5000, 20_000, 60_001, 300_000)) * time.Millisecond
}

// pause is how much time passes between two commands.
func (h *history) pause() time.Duration {
	if h.throw(500) == 0 {
		return time.Hour
	}
	return time.Duration(pick(h.throw, 0, 0, 0, 1, 300, 999, 1000, 4000, 7000)) * time.Millisecond
}

func (h *history) command() Command {
	r, a := h.resource(), h.agent()
	switch h.throw(20) {
	case 0:
		return Renew{r, a, h.duration()}
	case 1:
		return Act{r, a}
	case 2, 3, 4, 5:
		return Release{Resource: r, Agent: a}
	case 6:
		return Release{Resource: r, Agent: a, IfID: h.earlier()}
	case 7:
		return Break{Resource: r, By: h.agent(), Holder: pick(h.throw, "", a), IfID: pick(h.throw, "", "", h.earlier()), Reason: "stuck"}
	case 8:
		to := h.agent()
		if to == a {
			return Sweep{}
		}
		return Transfer{Resource: r, Agent: a, To: to, NewID: h.id()}
	case 9:
		return Leave{r, a}
	case 10:
		return Detach{r, a}
	case 11:
		switch h.throw(8) {
		case 0:
			return Retire{Agent: a, Reason: "its key was revoked"}
		case 1:
			return Clear{Resource: r, By: a, Reason: "document deleted"}
		}
		return Sweep{}
	}
	return Acquire{
		Resource: r, Agent: a, NewID: h.id(), Duration: h.duration(),
		Operation: pick(h.throw, "", Read, Read, Write, Delete),
		Queue:     h.throw(4) > 0,
		Waiting:   h.throw(4) == 0,
		Place:     pick(h.throw, 0, 0, time.Second, 40*time.Second),
	}
}
