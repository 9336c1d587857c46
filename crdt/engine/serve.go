package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"cowrite/crdt"
)

// ServeWorker is the whole of a worker process: it does what it is asked on in and answers on out until in
// ends. ctx is looked at between requests. It must be the only thing that the process does: the core may abort it
// at any time, and the memory limit is the process's.
func ServeWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	runtime.GOMAXPROCS(1) // it does one thing at a time
	s := server{engine: New(Options{}), docs: make(map[uint64]Document)}
	in = bufio.NewReader(in)
	for n := 1; ctx.Err() == nil; n++ {
		if n%collectEvery == 0 {
			runtime.GC()
		}
		var q request
		if err := readFrame(in, &q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := s.serve(ctx, q)
		a.fail(err)
		a.Resident = s.resident()
		if err := writeFrame(out, a); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// collectEvery is after how many requests the Go heap is collected. What the core allocated for results is let go by
// finalizers, and the heap of a worker grows too slowly for them to run in time.
const collectEvery = 1024

type server struct {
	engine Engine
	docs   map[uint64]Document

	memory   int64 // as last measured
	measured time.Time
}

// measureEvery is how often a worker looks at its memory, which costs as much as a keystroke. The process's limit
// holds in between.
const measureEvery = 100 * time.Millisecond

func (s *server) resident() int64 {
	if now := time.Now(); now.Sub(s.measured) >= measureEvery {
		s.memory, s.measured = residentMemory(), now
	}
	return s.memory
}

func (s *server) serve(ctx context.Context, q request) (a reply, err error) {
	switch q.Method {
	case methodHello:
		return a, limitMemory(q.Memory)
	case methodLoad:
		d, err := s.engine.Load(ctx, crdt.DocumentID{}, q.Parts)
		if err != nil {
			return a, err
		}
		s.docs[q.Doc] = d
		return a, nil
	case methodUnpack:
		changes, err := s.engine.Unpack(ctx, q.Parts[0])
		for _, c := range changes {
			a.Parts = append(a.Parts, c.Raw)
		}
		return a, err
	case methodClose:
		if d := s.docs[q.Doc]; d != nil {
			delete(s.docs, q.Doc)
			err = d.Close()
			runtime.GC()
		}
		return a, err
	}
	d := s.docs[q.Doc]
	if d == nil {
		return a, fmt.Errorf("no document %d", q.Doc)
	}
	switch q.Method {
	case methodApply:
		var changes []crdt.Change
		for _, part := range q.Parts {
			more, _, err := crdt.ParseEntry(part, crdt.NoLimits)
			if err != nil {
				return a, err
			}
			changes = append(changes, more...)
		}
		return a, d.Apply(ctx, changes)
	case methodEdit:
		c, err := d.Edit(ctx, fromWireHeads(q.Heads), time.Unix(q.At, 0), fromWireOps(q.Ops))
		if c != nil {
			a.Parts = [][]byte{c.Raw}
		}
		if err != nil || len(q.Path) == 0 {
			return a, err
		}
		v, err := d.Read(ctx, nil, q.Path)
		w := toWireValue(v)
		a.Value = &w
		return a, err
	case methodRead:
		v, err := d.Read(ctx, fromWireHeads(q.Heads), q.Path)
		w := toWireValue(v)
		a.Value = &w
		return a, err
	case methodSave:
		saved, err := d.Save(ctx)
		a.Parts = [][]byte{saved}
		return a, err
	default:
		return a, fmt.Errorf("no method %d", q.Method)
	}
}

// fail writes an error into the reply, and err reads it out again.
func (a *reply) fail(err error) {
	var change *BadChangeError
	var op *OpError
	switch {
	case err == nil:
	case errors.As(err, &change):
		a.Fault, a.Hash, a.What = faultChange, change.Hash[:], change.Cause.Error()
	case errors.As(err, &op):
		a.Fault, a.Index, a.What = faultOp, op.Index, op.What
	case errors.Is(err, ErrUnknownVersion):
		a.Fault, a.What = faultVersion, err.Error()
	default:
		a.Fault, a.What = faultOther, err.Error()
	}
}

func (a *reply) err() error {
	switch a.Fault {
	case faultNone:
		return nil
	case faultChange:
		e := &BadChangeError{Cause: errors.New(a.What)}
		copy(e.Hash[:], a.Hash)
		return e
	case faultOp:
		return &OpError{Index: a.Index, What: a.What}
	case faultVersion:
		return &versionError{a.What}
	default:
		return fmt.Errorf("worker: %s", a.What)
	}
}

// versionError is ErrUnknownVersion with the text that the worker gave.
type versionError struct{ what string }

func (e *versionError) Error() string        { return e.what }
func (e *versionError) Is(target error) bool { return target == ErrUnknownVersion }
