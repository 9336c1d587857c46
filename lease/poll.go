package lease

import (
	"context"
	"errors"
	"slices"
	"time"
)

// poll is one long poll. What is not fixed belongs to the loop.
type poll struct {
	ctx   context.Context
	ask   Acquire
	reply chan outcome // holds one

	replied bool
	granted Lease // made for this poll alone: to be undone if its client turns out to be gone
}

// pollEnd is why a caller ends its long poll.
type pollEnd int

const (
	notEnding pollEnd = iota
	timeUp            // a place that was asked for stays, for as long as after an ask
	withdrawn         // the caller is gone: so is its place, and what was granted to it meanwhile
)

// polls are those that stand, by resource in the order in which they came.
type polls map[Resource][]*poll

func (ps polls) add(p *poll) { ps[p.ask.Resource] = append(ps[p.ask.Resource], p) }

func (ps polls) remove(p *poll) {
	r := p.ask.Resource
	ps[r] = slices.DeleteFunc(ps[r], func(q *poll) bool { return q == p })
	if len(ps[r]) == 0 {
		delete(ps, r)
	}
}

// of gives the polls behind one place.
func (ps polls) of(r Resource, a Agent) []*poll {
	var of []*poll
	for _, p := range ps[r] {
		if p.ask.Agent == a {
			of = append(of, p)
		}
	}
	return of
}

func (ps polls) inOrder() []*poll {
	var all []*poll
	for _, r := range sortedKeys(ps) {
		all = append(all, ps[r]...)
	}
	return all
}

// Wait is a long poll: it acquires, waiting in the queue for at most the given time, itself at most MaxWait.
// When the time is up it returns the refusal, and the place lives on as after an ask if the command, or an earlier one,
// asked for it (Queue); else it ends. When ctx ends first the place is given up and nothing is granted: what was in the
// same moment is released again before Wait returns.
func (k *Keeper) Wait(ctx context.Context, cmd Acquire, wait time.Duration) (Answer, error) {
	return k.WaitUntil(ctx, cmd, wait, nil)
}

// WaitUntil is Wait whose time is also up once another channel is closed: who has to send its callers away for a
// while lets them keep the places that they asked for.
func (k *Keeper) WaitUntil(ctx context.Context, cmd Acquire, wait time.Duration, up <-chan struct{}) (Answer, error) {
	if wait <= 0 {
		return k.Do(ctx, cmd)
	}
	cmd.Waiting = true
	p := &poll{ctx: ctx, ask: k.named(cmd).(Acquire), reply: make(chan outcome, 1)}
	if err := k.send(ctx, &request{ctx: ctx, poll: p}); err != nil {
		return Answer{}, err
	}
	timer := time.NewTimer(min(wait, MaxWait))
	defer timer.Stop()
	var o outcome
	select {
	case o = <-p.reply:
	case <-ctx.Done():
	case <-timer.C:
		k.endPoll(p, timeUp)
		o = k.outcome(p.reply)
	case <-up:
		k.endPoll(p, timeUp)
		o = k.outcome(p.reply)
	case <-k.done:
		o = k.outcome(p.reply)
	}
	if ctx.Err() != nil {
		k.endPoll(p, withdrawn)
		return Answer{}, ctx.Err()
	}
	return o.Answer, o.err
}

// endPoll tells the loop that a poll ends, and waits until that is done.
func (k *Keeper) endPoll(p *poll, ends pollEnd) {
	req := &request{ctx: p.ctx, poll: p, ends: ends, reply: make(chan outcome, 1)}
	select {
	case k.requests <- req:
		k.outcome(req.reply)
	case <-k.done:
	}
}

// outcome waits for a reply. Who asked too late to be heard before the end of the loop gets ErrClosed.
func (k *Keeper) outcome(reply chan outcome) outcome {
	select {
	case o := <-reply:
		return o
	case <-k.done:
	}
	select {
	case o := <-reply:
		return o
	default:
		return outcome{err: ErrClosed}
	}
}

// begin lets a poll ask; it stands if it got a place.
func (k *Keeper) begin(b *batch, p *poll) {
	if err := p.ctx.Err(); err != nil {
		k.finish(b, p, Answer{}, err)
		return
	}
	k.ask(b, p)
	if !p.replied {
		b.begun = append(b.begun, p)
	}
}

// ask asks for a poll that shall stand behind its place, and answers it unless it has to wait.
func (k *Keeper) ask(b *batch, p *poll) {
	k.polls.remove(p)
	alone := len(k.polls.of(p.ask.Resource, p.ask.Agent)) == 0
	answer, err := k.do(b, p.ask)
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Why == Held && refusal.Position > 0 {
		k.polls.add(p)
		return
	}
	if alone && answer.Lease.ID == p.ask.NewID {
		p.granted = answer.Lease
	}
	k.finish(b, p, answer, err)
}

// finish answers a poll once, when the batch is durable.
func (k *Keeper) finish(b *batch, p *poll, answer Answer, err error) {
	if p.replied {
		return
	}
	p.replied = true
	k.polls.remove(p)
	b.reply(p.reply, answer, err)
}

// tend answers the polls at a resource whose places have come to an end or to a reservation.
func (k *Keeper) tend(b *batch, r Resource) {
	for _, p := range slices.Clone(k.polls[r]) {
		holds, waits, reserved := k.kernel.stands(r, p.ask.Agent)
		switch {
		case p.replied || waits && !reserved:
		case p.ctx.Err() != nil:
			k.withdraw(b, p)
		case holds || reserved:
			k.take(b, p)
		default:
			status := k.kernel.Status(b.now, r)
			k.finish(b, p, Answer{}, &Refusal{Why: NotQueued, Status: status})
		}
	}
}

// take grants a poll what is kept for its agent, or what its agent got in another way meanwhile.
func (k *Keeper) take(b *batch, p *poll) {
	k.polls.remove(p)
	alone := len(k.polls.of(p.ask.Resource, p.ask.Agent)) == 0
	answer, err := k.do(b, p.plain())
	if alone && answer.Lease.ID == p.ask.NewID {
		p.granted = answer.Lease
	}
	k.finish(b, p, answer, err)
}

// plain is the poll's question without the waiting.
func (p *poll) plain() Acquire {
	ask := p.ask
	ask.Queue, ask.Waiting = false, false
	return ask
}

// end ends a poll for its caller.
func (k *Keeper) end(b *batch, p *poll, ends pollEnd) {
	switch {
	case ends == timeUp && !p.replied:
		k.polls.remove(p)
		if len(k.polls.of(p.ask.Resource, p.ask.Agent)) == 0 {
			_, _ = k.do(b, Detach{p.ask.Resource, p.ask.Agent})
		}
		answer, err := k.do(b, p.plain())
		k.finish(b, p, answer, err)
	case ends == withdrawn && !p.replied:
		k.withdraw(b, p)
	case ends == withdrawn && p.granted.ID != "":
		if k.kernel.holds(p.granted) {
			_, _ = k.do(b, Release{Resource: p.ask.Resource, Agent: p.ask.Agent, IfID: p.granted.ID})
		}
	}
}

// withdraw ends a poll whose caller is gone, and gives up its place unless another poll stands behind it.
func (k *Keeper) withdraw(b *batch, p *poll) {
	k.finish(b, p, Answer{}, p.ctx.Err())
	if len(k.polls.of(p.ask.Resource, p.ask.Agent)) == 0 {
		_, _ = k.do(b, Leave{p.ask.Resource, p.ask.Agent})
	}
}
