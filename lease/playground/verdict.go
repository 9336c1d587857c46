package playground

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cowrite/lease"
	"cowrite/lease/wire"
)

// Tone is whether an answer is what was asked for.
type Tone string

const (
	Yes     Tone = "yes"
	No      Tone = "no"
	Waits   Tone = "waits"
	Neutral Tone = "neutral"
)

// Verdict is what was decided, for a person.
type Verdict struct {
	Word string `json:"word"` // the error's, or one such as granted
	Tone Tone   `json:"tone"`
	Text string `json:"text"`
}

// refusal is an answer that is none: as the door sends it, with its status.
type refusal struct {
	status int
	word   string
	text   string
	facts  map[string]any
	told   string // the verdict, where it says more than the message
}

func refuse(status int, word, format string, args ...any) *refusal {
	return &refusal{status: status, word: word, text: fmt.Sprintf(format, args...)}
}

func (r *refusal) with(name string, value any) *refusal {
	r.facts = map[string]any{name: value}
	return r
}

// MarshalJSON puts the facts behind the word and the message.
func (r *refusal) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		OK      bool   `json:"ok"`
		Error   string `json:"error"`
		Message string `json:"message"`
	}{false, r.word, r.text})
	if err != nil || len(r.facts) == 0 {
		return head, err
	}
	facts, err := json.Marshal(r.facts)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), facts[1:]...), nil
}

func (r *refusal) reply() reply {
	text := r.told
	if text == "" {
		text = strings.ToUpper(r.text[:1]) + r.text[1:] + "."
	}
	tone := No
	if r.word == "lease_held" && r.facts["position"] != nil {
		tone = Waits
	}
	return reply{r.status, r, Verdict{Word: r.word, Tone: tone, Text: text}}
}

// statuses are those of HTTP that the door gives the kernel's refusals.
var statuses = map[string]int{
	"lease_held": 409, "deadlock": 409, "queue_full": 409, "stale_lease": 409,
	"not_holder": 403, "no_active_lease": 404, "too_many_leases": 429,
}

// refused says an error of the kernel.
func (w *world) refused(err error) reply {
	r, ok := errors.AsType[*lease.Refusal](err)
	if !ok {
		return refuse(400, "bad_request", "%v", err).reply()
	}
	said, err := wire.RefusalOf(r, w.now, asCalled)
	if err != nil {
		panic(err) // asCalled never fails
	}
	out := &refusal{status: statuses[said.Word], word: said.Word, text: said.Message, facts: said.Facts, told: w.told(r)}
	return out.reply()
}

// granted says a lease that was granted or whose end was set anew.
func (w *world) granted(l lease.Lease) Verdict {
	does, end := "holds", "."
	if l.Mode == lease.Shared {
		does = "reads"
	}
	word := "granted"
	if l.AcquiredAt.Before(w.now) {
		word, end = "renewed", " more."
	}
	return Verdict{Word: word, Tone: Yes, Text: fmt.Sprintf("%s %s %s for %s%s Fence %d.", l.Holder, does, l.Resource, span(l.ExpiresAt.Sub(w.now)), end, l.Fence)}
}

// told is a refusal of the kernel in a sentence or two, "" where its message says it.
func (w *world) told(r *lease.Refusal) string {
	switch r.Why {
	case lease.Deadlock:
		var steps []string
		for _, e := range r.Cycle {
			steps = append(steps, fmt.Sprintf("%s would wait for %s", e.Agent, e.Resource))
		}
		for i := range steps[1:] {
			steps[i+1] = strings.Replace(steps[i+1], "would wait", "waits", 1)
		}
		return "Refused at once: " + strings.Join(steps, ", ") + ", and so round again."
	case lease.QueueFull:
		return fmt.Sprintf("%s The queue of %d is full: back off for %s and ask again.", w.inTheWay(r.Status), r.Limit, span(r.Wait))
	case lease.Held, lease.NotQueued:
		text := w.inTheWay(r.Status)
		if r.Position > 0 {
			text += fmt.Sprintf(" The caller is %s in line.", ordinal(r.Position))
		}
		if r.Wait > 0 {
			text += fmt.Sprintf(" Back off for %s.", span(r.Wait))
		}
		return text
	case lease.NoActiveLease:
		return "Nobody holds a lease on this resource: there is nothing to renew or to give back."
	}
	return ""
}

// inTheWay says who is.
func (w *world) inTheWay(s lease.Status) string {
	switch {
	case len(s.Holders) > 0:
		var names []string
		for _, l := range s.Holders {
			names = append(names, string(l.Holder))
		}
		verb := "holds"
		if len(names) > 1 {
			verb = "hold"
		}
		return fmt.Sprintf("%s %s it for %s more.", strings.Join(names, " and "), verb, span(s.Holders[0].ExpiresAt.Sub(w.now)))
	case len(s.Queue) > 0 && !s.Queue[0].Reserved.IsZero():
		return fmt.Sprintf("It is kept for %s, who waited first, for %s.", s.Queue[0].Agent, span(s.Queue[0].Reserved.Sub(w.now)))
	}
	return "Others come before."
}

// span is a duration as people write it: milliseconds below a second, else seconds.
func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// ordinal is a place in a line: queues are short.
func ordinal(n int) string {
	switch n {
	case 1:
		return "1st"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", n)
}
