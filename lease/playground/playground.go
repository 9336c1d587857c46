// Package playground plays lease scenes: requests in the shape that the coordination door takes, answers in the
// shape that it gives, on a kernel of their own and a clock that moves only when it is told to. It is pure: the
// same moves always come to the same turns, so a reader may change one and play them again. There are no keys; who
// acts is whom a request names.
package playground

import (
	"fmt"
	"time"

	"cowrite/lease"
	"cowrite/lease/wire"
)

// Limits of what is played.
const (
	MaxMoves = 500
	MaxPass  = 24 * time.Hour
)

// began is when every scene begins.
var began = time.Date(2026, 4, 16, 3, 0, 0, 0, time.UTC)

// Move is one thing that happens in a scene: a request, or else time that passes.
type Move struct {
	Note    string `json:"note,omitempty"`    // told before it
	Request string `json:"request,omitempty"` // as it is sent: method and path, headers, an empty line, the body
	PassMs  int64  `json:"passMs,omitempty"`
}

// Turn is what a move came to.
type Turn struct {
	Status   int                `json:"status"` // of HTTP; 0 where time passed, or while a long poll waits
	Answer   string             `json:"answer"` // the body, indented; "" with status 0
	Verdict  Verdict            `json:"verdict"`
	Happened []wire.LedgerEntry `json:"happened"`
	Late     []Late             `json:"late"` // answers to long polls of earlier moves
	World    View               `json:"world"`
}

// Late is the answer to a long poll that waited.
type Late struct {
	Move    int     `json:"move"` // whose request it was, from 0
	Status  int     `json:"status"`
	Answer  string  `json:"answer"`
	Verdict Verdict `json:"verdict"`
}

// Play plays moves from the beginning. It fails only on moves that no world could make: too many, or a time
// that is none.
func Play(moves []Move) ([]Turn, error) {
	if len(moves) > MaxMoves {
		return nil, fmt.Errorf("a scene has at most %d moves, not %d", MaxMoves, len(moves))
	}
	w := &world{kernel: lease.NewKernel(lease.KernelOptions{}), now: began}
	turns := make([]Turn, 0, len(moves))
	for i, m := range moves {
		w.move, w.happened, w.late, w.circle = i, []wire.LedgerEntry{}, []Late{}, nil
		var turn Turn
		if m.Request != "" {
			turn = w.send(m.Request).turn()
			w.tend()
		} else {
			d := wire.Milliseconds(m.PassMs)
			if d < 0 || d > MaxPass {
				return nil, fmt.Errorf("move %d: 0 to %v can pass, not %v", i+1, MaxPass, d)
			}
			w.pass(d)
			turn.Verdict = Verdict{Word: "time passes", Tone: Neutral, Text: span(d) + " pass."}
		}
		turn.Happened, turn.Late, turn.World = w.happened, w.late, w.view()
		turns = append(turns, turn)
	}
	return turns, nil
}

// world is a kernel, its clock, its ledger, and the long polls that stand.
type world struct {
	kernel *lease.Kernel
	now    time.Time
	ids    int
	ledger []lease.Event
	polls  []poll

	move     int // the present one
	happened []wire.LedgerEntry
	late     []Late
	circle   []lease.Edge // of waiting, that the present move would have closed
}

// poll is a request that waits for its lease.
type poll struct {
	move int
	ask  lease.Acquire
	end  time.Time
}

func (w *world) newID() lease.ID {
	w.ids++
	return lease.ID(fmt.Sprintf("lease-%d", w.ids))
}

// do has the kernel do a command, and keeps its transitions.
func (w *world) do(cmd lease.Command) (lease.Answer, error) {
	answer, commits, err := w.kernel.Do(w.now, cmd)
	for _, c := range commits {
		for _, e := range c.Events {
			w.ledger = append(w.ledger, e)
			w.happened = append(w.happened, w.entry(len(w.ledger)))
			if e.Kind == lease.Deadlocked {
				w.circle = e.Cycle
			}
		}
	}
	return answer, err
}

// entry is the transition at a position of the ledger, from 1.
func (w *world) entry(seq int) wire.LedgerEntry {
	e := w.ledger[seq-1]
	return wire.LedgerEntryOf(fmt.Sprint(seq), e, string(e.Resource), circle(e.Cycle))
}

// asCalled is what resources are called here: as they are.
func asCalled(r lease.Resource) (string, error) { return string(r), nil }

func circle(edges []lease.Edge) []wire.CircleStep {
	steps, err := wire.Circle(edges, asCalled)
	if err != nil {
		panic(err) // asCalled never fails
	}
	return steps
}

// pass lets time pass, stopping wherever something ends.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); ; {
		w.now = w.nextStop(end)
		w.sweep()
		w.tend()
		if w.now.Equal(end) {
			return
		}
	}
}

// sweep takes back what has ended; it is never refused.
func (w *world) sweep() {
	if _, err := w.do(lease.Sweep{}); err != nil {
		panic(err)
	}
}

// nextStop is when the next lease, place or long poll ends, at most end.
func (w *world) nextStop(end time.Time) time.Time {
	stop := end
	if next, ok := w.kernel.Next(); ok && next.Before(stop) {
		stop = next
	}
	for _, p := range w.polls {
		if p.end.Before(stop) {
			stop = p.end
		}
	}
	return stop
}

// tend answers the long polls whose wait is over: because the resource is kept for them, because their agent has
// it or has no place any more, or because their time is up.
func (w *world) tend() {
	for i := 0; i < len(w.polls); {
		p := w.polls[i]
		up := !w.now.Before(p.end)
		if !up && w.waits(p.ask) {
			i++
			continue
		}
		w.polls = append(w.polls[:i:i], w.polls[i+1:]...)
		if up {
			_, _ = w.do(lease.Detach{Resource: p.ask.Resource, Agent: p.ask.Agent}) // is never refused
		}
		ask := p.ask
		ask.Queue, ask.Waiting = false, false
		r := w.leased(w.do(ask))
		w.late = append(w.late, Late{Move: p.move, Status: r.status, Answer: r.answer(), Verdict: r.verdict})
		i = 0 // what it took or gave up may end another's wait
	}
}

// waits says whether a long poll has a place that is not served yet.
func (w *world) waits(ask lease.Acquire) bool {
	for _, waiter := range w.kernel.Status(w.now, ask.Resource).Queue {
		if waiter.Agent == ask.Agent {
			return waiter.Reserved.IsZero()
		}
	}
	return false
}
