package lease

import (
	"context"
	"time"
)

// outcome is the answer to one request.
type outcome struct {
	Answer
	err error
}

// request is what is asked of the loop: a command, or that a long poll begins or ends.
type request struct {
	ctx   context.Context
	cmd   Command // nil: about poll
	poll  *poll
	ends  pollEnd
	reply chan outcome // holds one; nil: the poll's own is replied to
}

// batch is what is run and saved together.
type batch struct {
	now     time.Time
	commits []Commit
	replies []reply
	begun   []*poll // that stand since this batch
}

// reply waits to be given until the batch is durable.
type reply struct {
	to chan outcome
	outcome
}

func (k *Keeper) newBatch() *batch {
	now := k.now()
	if now.Before(k.last) {
		now = k.last
	}
	k.last = now
	return &batch{now: now}
}

func (b *batch) reply(to chan outcome, a Answer, err error) {
	b.replies = append(b.replies, reply{to, outcome{a, err}})
}

// fail turns every reply into the error that kept the batch from becoming durable.
func (b *batch) fail(err error) {
	for i := range b.replies {
		b.replies[i].outcome = outcome{err: err}
	}
}

func (b *batch) answer() {
	for _, r := range b.replies {
		r.to <- r.outcome
	}
}

// send hands a request to the loop, which will reply unless the keeper is closed first.
func (k *Keeper) send(ctx context.Context, req *request) error {
	select {
	case <-k.closing:
		return ErrClosed
	default:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-k.closing:
		return ErrClosed
	case k.requests <- req:
		return nil
	}
}

// run serves one request within a batch.
func (k *Keeper) run(b *batch, req *request) {
	switch {
	case req.poll != nil && req.ends == notEnding:
		k.begin(b, req.poll)
	case req.poll != nil:
		k.end(b, req.poll, req.ends)
		b.reply(req.reply, Answer{}, nil)
	case req.ctx.Err() != nil:
		b.reply(req.reply, Answer{}, req.ctx.Err())
	default:
		answer, err := k.do(b, req.cmd)
		b.reply(req.reply, answer, err)
	}
}

// fail answers a request that cannot be run.
func (k *Keeper) fail(b *batch, req *request, err error) {
	if req.poll != nil {
		k.finish(b, req.poll, Answer{}, err)
	}
	if req.reply != nil {
		b.reply(req.reply, Answer{}, err)
	}
}

// do runs a command and sees to the long polls that it concerns.
func (k *Keeper) do(b *batch, cmd Command) (Answer, error) {
	answer, commits, err := k.kernel.Do(b.now, cmd)
	b.commits = append(b.commits, commits...)
	for _, c := range commits {
		k.tend(b, c.Record.Resource)
	}
	return answer, err
}

// shut answers everybody for good.
func (k *Keeper) shut() {
	b := k.newBatch()
	for _, p := range k.polls.inOrder() {
		k.finish(b, p, Answer{}, ErrClosed)
	}
	for _, req := range k.drain(nil) {
		k.fail(b, req, ErrClosed)
	}
	b.answer()
}
