package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"cowrite/crdt"
)

// WorkerOptions are those of an engine in worker processes. Zero values mean the defaults given.
type WorkerOptions struct {
	// Command makes the command that runs ServeWorker on its standard input and output. nil is this binary with
	// the argument WorkerCommand.
	Command func() *exec.Cmd

	Workers     int           // beside one spare; 0 is one per CPU
	CallTimeout time.Duration // of one call, loading a document among them; 0 is 30 s
	Memory      int64         // bytes that the documents of one worker may take; 0 is 1 GiB
	Log         *slog.Logger  // nil is slog.Default
}

// WorkerCommand is the hidden argument with which the binary runs a worker.
const WorkerCommand = "worker"

// Errors that say that a call came to nothing and that the document is as before.
var (
	// ErrTimeout: the call took too long. Nobody says that it is at fault: the machine may be slow.
	ErrTimeout = errors.New("the engine takes too long")
	// ErrWorker: its worker ended more than once, or no worker can be started.
	ErrWorker = errors.New("the engine's worker ended")
	// ErrClosed: the engine is closed.
	ErrClosed = errors.New("the engine is closed")
)

// NewWorkers is the engine in worker processes, which are started when first needed. Nothing that a peer sends
// stops this process: see DESIGN.md. Errors of its documents always leave them as before the call.
//
// A call waits for its turn at the document's worker no longer than its context; once begun it is bounded by
// CallTimeout alone. The parts given to Load are kept, and not to be changed.
func NewWorkers(opts WorkerOptions) Engine {
	if opts.Command == nil {
		opts.Command = func() *exec.Cmd {
			self, err := os.Executable()
			if err != nil {
				self = os.Args[0]
			}
			return exec.Command(self, WorkerCommand)
		}
	}
	opts.Workers = cmp.Or(opts.Workers, runtime.NumCPU())
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 30*time.Second)
	opts.Memory = cmp.Or(opts.Memory, 1<<30)
	opts.Log = cmp.Or(opts.Log, slog.Default())
	w := &workers{opts: opts, closed: make(chan struct{}), spare: newSeat(), saver: newSeat(), convicts: newConvicts()}
	for range opts.Workers {
		w.seats = append(w.seats, newSeat())
	}
	return w
}

type workers struct {
	opts     WorkerOptions
	seats    []*seat
	spare    *seat // for what is not trusted
	saver    *seat // for what nobody waits for
	convicts *convicts
	closed   chan struct{}
	closing  sync.Once
}

// seat is the place of one worker, which may be empty. Who has its turn owns the process.
type seat struct {
	turn chan struct{} // holds one token when nobody has the turn

	process    *process
	generation uint64 // of the process: counts from 1
	lastDoc    uint64 // documents are numbered over all generations

	mu      sync.Mutex
	running *process // the same for Close, which does not wait for its turn
	leaving []uint64 // documents to be closed
}

func newSeat() *seat {
	s := &seat{turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// with runs a function on the seat's process, which is started if there is none. When the function comes back
// with a *death the seat is empty again.
func (w *workers) with(ctx context.Context, s *seat, use func(*process) error) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return fmt.Errorf("wait for a worker: %w", ctx.Err())
	case <-w.closed:
		return ErrClosed
	}
	defer func() { s.turn <- struct{}{} }()
	if w.isClosed() {
		return ErrClosed
	}
	if s.process == nil {
		p, err := start(w.opts.Command(), w.opts.CallTimeout, w.opts.Memory)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrWorker, err)
		}
		s.seat(p)
		if s == w.saver {
			p.yield()
		}
	}
	if w.isClosed() { // Close may not have seen this process
		s.process.kill()
	}
	err := use(s.process)
	var d *death
	if errors.As(err, &d) && w.isClosed() {
		s.seat(nil)
		return ErrClosed
	}
	if d != nil {
		w.lost(s, d)
		return err
	}
	w.tidy(s)
	return err
}

func (w *workers) isClosed() bool {
	select {
	case <-w.closed:
		return true
	default:
		return false
	}
}

func (w *workers) lost(s *seat, d *death) {
	w.opts.Log.Warn("engine worker ended", "state", d.state, "stderr", d.stderr)
	s.seat(nil)
}

func (s *seat) seat(p *process) {
	s.process = p
	if p != nil {
		s.generation++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.leaving = p, nil
}

// tidy closes the documents that are no longer wanted, and ends a worker that has grown over its limit: its
// documents are loaded again as they are needed.
func (w *workers) tidy(s *seat) {
	s.mu.Lock()
	leaving := s.leaving
	s.leaving = nil
	s.mu.Unlock()
	for _, id := range leaving {
		_, err := s.process.call(request{Method: methodClose, Doc: id})
		var d *death
		if errors.As(err, &d) {
			w.lost(s, d)
			return
		}
	}
	if resident := s.process.resident; resident > w.opts.Memory {
		w.opts.Log.Info("engine worker grew over its limit", "bytes", resident, "limit", w.opts.Memory)
		s.process.end()
		s.seat(nil)
	}
}

// leave has a document closed: at once if the worker is idle, else by who has the turn.
func (w *workers) leave(s *seat, number uint64) {
	s.mu.Lock()
	s.leaving = append(s.leaving, number)
	s.mu.Unlock()
	select {
	case <-s.turn:
		if s.process != nil {
			w.tidy(s)
		}
		s.turn <- struct{}{}
	default:
	}
}

// Seat says which of so many workers a document belongs to.
func Seat(id crdt.DocumentID, workers int) int {
	sum := fnv.New32a()
	sum.Write(id[:])
	return int(sum.Sum32() % uint32(workers))
}

func (w *workers) Load(ctx context.Context, id crdt.DocumentID, parts [][]byte) (Document, error) {
	d := &workerDocument{workers: w, foreign: len(parts) > 1, seat: w.seats[Seat(id, len(w.seats))], journal: journal{parts: slices.Clip(parts)}}
	for _, p := range parts {
		d.journal.bytes += len(p)
	}
	// Saving is a call on the loaded document like any other, and makes the journal as small as it can be.
	if d.journal.bytes > compactFrom && len(parts) > 1 {
		if _, err := d.Save(ctx); err != nil && !errors.Is(err, ErrUnsavable) {
			return nil, err
		}
		return d, nil
	}
	if _, err := d.call(ctx, request{Method: methodHello}); err != nil {
		return nil, err
	}
	return d, nil
}

// attempts is how often something is tried when workers end that may have ended for other reasons.
const attempts = 3

func (w *workers) Unpack(ctx context.Context, chunk []byte) ([]crdt.Change, error) {
	name := nameOf(chunk)
	if w.convicts.has(name) {
		return nil, &BadChangeError{Cause: errConvict}
	}
	a, err := w.try(ctx, w.spare, func(p *process) (reply, error) {
		return p.call(request{Method: methodUnpack, Parts: [][]byte{chunk}})
	})
	var d *death
	if errors.As(err, &d) && d.cause == crashed {
		w.convicts.add(name)
		return nil, &BadChangeError{Cause: err}
	}
	if err != nil {
		return nil, outcome(err)
	}
	var changes []crdt.Change
	for _, part := range a.Parts {
		more, _, err := crdt.ParseEntry(part, crdt.NoLimits)
		if err != nil {
			return nil, &BadChangeError{Cause: err}
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// Save is the saver's work: nobody's document is on it, and it is behind all others in line for the processor.
func (w *workers) Save(ctx context.Context, parts [][]byte) ([]byte, error) {
	var number uint64
	a, err := w.try(ctx, w.saver, func(p *process) (reply, error) {
		w.saver.lastDoc++
		number = w.saver.lastDoc
		if a, err := p.call(request{Method: methodLoad, Doc: number, Parts: parts}); err != nil {
			return a, fmt.Errorf("load: %w", err)
		}
		return p.call(request{Method: methodSave, Doc: number})
	})
	w.leave(w.saver, number)
	var d *death
	if errors.As(err, &d) && d.cause == crashed {
		return nil, fmt.Errorf("%w: %w", ErrUnsavable, err)
	}
	if err != nil {
		return nil, outcome(err)
	}
	return a.Parts[0], w.verify(ctx, w.saver, a.Parts[0])
}

// verify has a worker that has nobody's document load a saved one.
func (w *workers) verify(ctx context.Context, s *seat, saved []byte) error {
	var number uint64
	_, err := w.try(ctx, s, func(p *process) (reply, error) {
		s.lastDoc++
		number = s.lastDoc
		return p.call(request{Method: methodLoad, Doc: number, Parts: [][]byte{saved}})
	})
	w.leave(s, number)
	var bad *BadChangeError
	var d *death
	if errors.As(err, &bad) || errors.As(err, &d) && d.cause == crashed {
		return fmt.Errorf("%w: %w", ErrUnsavable, err)
	}
	return outcome(err)
}

// try calls on a worker that has nobody's document. What ends it counts once it has ended two of them by itself: the first may have
// been worn out.
func (w *workers) try(ctx context.Context, s *seat, call func(*process) (reply, error)) (a reply, err error) {
	crashes := 0
	for range attempts {
		err = w.with(ctx, s, func(p *process) error {
			a, err = call(p)
			return err
		})
		var d *death
		if !errors.As(err, &d) {
			return a, err
		}
		if d.cause == crashed {
			crashes++
		}
		if crashes == 2 || d.cause == expired {
			return a, err
		}
	}
	return a, err
}

// outcome turns a death that is nobody's fault into the error for callers.
func outcome(err error) error {
	var d *death
	switch {
	case !errors.As(err, &d):
		return err
	case d.cause == expired:
		return fmt.Errorf("%w: %w", ErrTimeout, err)
	default:
		return fmt.Errorf("%w: %w", ErrWorker, err)
	}
}

func (w *workers) Close() error {
	w.closing.Do(func() {
		close(w.closed)
		for _, s := range slices.Concat(w.seats, []*seat{w.spare, w.saver}) {
			s.mu.Lock()
			if s.running != nil {
				s.running.kill()
			}
			s.mu.Unlock()
			<-s.turn // whoever has it finds its worker dead
			if s.process != nil {
				s.process.end()
				s.seat(nil)
			}
			s.turn <- struct{}{}
		}
	})
	return nil
}
