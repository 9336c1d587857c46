// Package story tells what a lease kernel does, line by line: a command in, the trace of events and the answer
// out. The kernel's tests are such stories, and so are the scenes that a reader may play. It keeps its own clock,
// which stands still but for the command "after".
//
// The commands, with what may be added in brackets (durations as Go writes them, reasons without spaces):
//
//	acquire AGENT RESOURCE DURATION [read|write|delete] [queue] [waiting] [place=DURATION] [reason=WORD]
//	renew AGENT RESOURCE DURATION
//	act AGENT RESOURCE
//	release AGENT RESOURCE [if=ID]
//	break AGENT RESOURCE [holder=AGENT] [if=ID] [reason=WORD]
//	transfer AGENT RESOURCE TO
//	leave AGENT RESOURCE
//	detach AGENT RESOURCE
//	retire AGENT [reason=WORD]
//	clear AGENT RESOURCE [reason=WORD]
//	herd NUMBER RESOURCE DURATION [as for acquire]    agent-1, agent-2, ... acquire in turn
//	after DURATION                                     time passes, and what has ended is taken back
//	crash DURATION                                     nobody is served for a time, then the kernel resumes
//	status RESOURCE
//	agent AGENT
package story

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cowrite/lease"
)

// Story is a kernel and a clock.
type Story struct {
	kernel *lease.Kernel
	began  time.Time
	now    time.Time
	ids    int
}

// New begins a story at an instant; the trace gives times since then.
func New(began time.Time) *Story {
	return &Story{kernel: lease.NewKernel(lease.KernelOptions{}), began: began, now: began}
}

// Run runs one command and gives its trace, each line ended. An error is one of spelling.
func (s *Story) Run(line string) (string, error) {
	step, err := Parse(line, s.newID)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	switch step := step.(type) {
	case Pass:
		s.now = s.now.Add(time.Duration(step))
		s.do(&out, lease.Sweep{})
	case Crash:
		s.now = s.now.Add(time.Duration(step))
		s.crash(&out)
	case Herd:
		for _, ask := range step {
			var trace strings.Builder
			s.do(&trace, ask)
			lines := strings.Split(strings.TrimSpace(trace.String()), "\n")
			fmt.Fprintf(&out, "%s %s\n", ask.Agent, lines[len(lines)-1])
		}
	case Status:
		s.status(&out, s.kernel.Status(s.now, lease.Resource(step)))
	case Standing:
		s.agent(&out, lease.Agent(step))
	case Do:
		s.do(&out, step.Command)
	}
	return out.String(), nil
}

func (s *Story) newID() lease.ID {
	s.ids++
	return lease.ID(fmt.Sprintf("lease-%d", s.ids))
}

// crash starts another kernel from what this one would have saved.
func (s *Story) crash(out *strings.Builder) {
	saved := s.kernel.State()
	s.kernel = lease.NewKernel(lease.KernelOptions{})
	s.kernel.Load(saved)
	s.do(out, lease.Resume{})
}

func (s *Story) do(out *strings.Builder, cmd lease.Command) {
	answer, commits, err := s.kernel.Do(s.now, cmd)
	for _, c := range commits {
		for _, e := range c.Events {
			s.event(out, e)
		}
	}
	switch refusal, refused := errors.AsType[*lease.Refusal](err); {
	case refused:
		s.refusal(out, refusal)
	case err != nil:
		fmt.Fprintf(out, "%v\n", err)
	case answer.Lease.ID != "":
		fmt.Fprintf(out, "ok: %s\n", s.lease(answer.Lease))
	default:
		out.WriteString("ok\n")
	}
}

// since is an instant as the story tells it.
func (s *Story) since(t time.Time) time.Duration { return t.Sub(s.began) }

func (s *Story) lease(l lease.Lease) string {
	return fmt.Sprintf("%s %s %s fence %d until %v", l.ID, l.Holder, l.Mode, l.Fence, s.since(l.ExpiresAt))
}

func (s *Story) waiter(w lease.Waiter) string {
	switch {
	case !w.Reserved.IsZero():
		return fmt.Sprintf("%s %s reserved until %v", w.Agent, w.Mode, s.since(w.Reserved))
	case w.Until.IsZero():
		return fmt.Sprintf("%s %s waiting", w.Agent, w.Mode)
	}
	return fmt.Sprintf("%s %s place until %v", w.Agent, w.Mode, s.since(w.Until))
}

func (s *Story) event(out *strings.Builder, e lease.Event) {
	fmt.Fprintf(out, "%v %s %s", s.since(e.At), e.Kind, e.Resource)
	switch e.Kind {
	case lease.Granted, lease.Renewed:
		fmt.Fprintf(out, " %s", s.lease(e.Lease))
	case lease.Handed:
		fmt.Fprintf(out, " %s -> %s", s.lease(e.Previous), s.lease(e.Lease))
	case lease.Released, lease.Expired:
		fmt.Fprintf(out, " %s %s trust %s", e.Lease.ID, e.Lease.Holder, points(e.Trust))
	case lease.Broken, lease.Ended:
		fmt.Fprintf(out, " %s %s by %s", e.Lease.ID, e.Lease.Holder, e.Actor)
	case lease.Queued, lease.Reserved:
		fmt.Fprintf(out, " %s", s.waiter(e.Waiter))
	case lease.Unqueued, lease.Lapsed:
		fmt.Fprintf(out, " %s", e.Waiter.Agent)
	case lease.Deadlocked:
		fmt.Fprintf(out, " %s", cycle(e.Cycle))
	}
	if e.Reason != "" {
		fmt.Fprintf(out, " (%s)", e.Reason)
	}
	out.WriteString("\n")
}

func (s *Story) refusal(out *strings.Builder, r *lease.Refusal) {
	fmt.Fprintf(out, "refused: %s", r.Why)
	switch {
	case r.Why == lease.Deadlock:
		fmt.Fprintf(out, ", waiting on %s: %s", r.WaitingOn, cycle(r.Cycle))
	case len(r.Status.Holders) > 0:
		for _, l := range r.Status.Holders {
			fmt.Fprintf(out, ", %s until %v", l.Holder, s.since(l.ExpiresAt))
		}
	case len(r.Status.Queue) > 0:
		fmt.Fprintf(out, ", %s", s.waiter(r.Status.Queue[0]))
	}
	if r.Position > 0 {
		fmt.Fprintf(out, ", position %d", r.Position)
	}
	if r.Wait > 0 {
		fmt.Fprintf(out, ", wait %v", r.Wait)
	}
	if r.Limit > 0 {
		fmt.Fprintf(out, ", limit %d", r.Limit)
	}
	out.WriteString("\n")
}

func (s *Story) status(out *strings.Builder, st lease.Status) {
	for _, l := range st.Holders {
		fmt.Fprintf(out, "held: %s\n", s.lease(l))
	}
	for i, w := range st.Queue {
		fmt.Fprintf(out, "%d: %s\n", i+1, s.waiter(w))
	}
	if len(st.Holders)+len(st.Queue) == 0 {
		out.WriteString("free\n")
	}
}

func (s *Story) agent(out *strings.Builder, a lease.Agent) {
	rec, leases, waiters := s.kernel.Agent(s.now, a)
	fmt.Fprintf(out, "trust %s, %d grants, %d releases, %d expiries, %d refusals\n",
		points(rec.Trust), rec.Grants, rec.Releases, rec.Expiries, rec.Refusals)
	for _, l := range leases {
		fmt.Fprintf(out, "holds %s\n", l.Resource)
	}
	for _, w := range waiters {
		fmt.Fprintf(out, "waits for %s\n", w.Resource)
	}
}

// points is trust as people read it.
func points(t lease.TrustHalves) string {
	return strconv.FormatFloat(float64(t)/2, 'f', -1, 64)
}

func cycle(edges []lease.Edge) string {
	var parts []string
	for _, e := range edges {
		parts = append(parts, fmt.Sprintf("%s waits for %s", e.Agent, e.Resource))
	}
	return strings.Join(parts, ", ")
}
