package agentsocket

import (
	"sync"

	"cowrite/sync/agent"
	"cowrite/sync/hub"
)

// lanes hold the requests that wait to be dealt with: bounded, one lane a document. A lane's requests are dealt with
// in order; lanes side by side, by at most Limits.Workers goroutines, which live while there is something to do.
type lanes struct {
	limits hub.Limits
	deal   func(agent.Request)

	mu      sync.Mutex
	change  *sync.Cond // a request is done, a worker has ended, or the lanes were closed
	byName  map[agent.Document]*lane
	ready   []*lane
	frames  int
	bytes   int
	workers int
	closed  bool
	stalled bool   // the reader waits for room, or is aside
	stalls  uint64 // how often it was
}

type lane struct {
	name  agent.Document
	queue []queued
}

type queued struct {
	request agent.Request
	bytes   int
}

func newLanes(limits hub.Limits, deal func(agent.Request)) *lanes {
	l := &lanes{limits: limits, deal: deal, byName: map[agent.Document]*lane{}}
	l.change = sync.NewCond(&l.mu)
	return l
}

// put waits for room and leaves a request to the workers. Closed lanes drop it.
func (l *lanes) put(r agent.Request, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && (l.frames >= l.limits.InboundFrames || l.bytes >= l.limits.InboundBytes) {
		if !l.stalled {
			l.stalled = true
			l.stalls++
		}
		l.change.Wait()
	}
	l.stalled = false
	if l.closed {
		return
	}
	l.frames++
	l.bytes += bytes
	name := r.About()
	to, busy := l.byName[name]
	if !busy {
		to = &lane{name: name}
		l.byName[name] = to
		l.ready = append(l.ready, to)
		if l.workers < l.limits.Workers {
			l.workers++
			go l.run()
		}
	}
	to.queue = append(to.queue, queued{r, bytes})
}

// run deals with what is ready until nothing is. drain waits for its end.
func (l *lanes) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) > 0 {
		of := l.ready[0]
		l.ready = l.ready[1:]
		q := of.queue[0]
		of.queue = of.queue[1:]
		l.mu.Unlock()
		l.deal(q.request)
		l.mu.Lock()
		l.frames--
		l.bytes -= q.bytes
		l.change.Broadcast()
		if len(of.queue) > 0 {
			l.ready = append(l.ready, of)
		} else {
			delete(l.byName, of.name)
		}
	}
	l.ready = nil
	l.workers--
	l.change.Broadcast()
}

// close takes no more requests.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.change.Broadcast()
}

// drain waits until closed lanes have been dealt with.
func (l *lanes) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.workers > 0 {
		l.change.Wait()
	}
}

// aside has the reader do something else than reading.
func (l *lanes) aside(do func()) {
	set := func(stalled bool, times uint64) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stalled = stalled
		l.stalls += times
	}
	set(true, 1)
	do()
	set(false, 0)
}

// excused begins to watch for the good reasons not to have seen a pong: the reader waits for room or takes a large frame
// apart, or has since.
func (l *lanes) excused() func() bool {
	stall := func() (bool, uint64) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.stalled, l.stalls
	}
	before, times := stall()
	return func() bool {
		now, since := stall()
		return before || now || since != times
	}
}
