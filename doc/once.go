package doc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cowrite/doc/code"
)

// turns lets one call of a name at a time go on. The zero value is ready.
type turns struct {
	mu       sync.Mutex
	underWay map[callName]chan struct{} // closed when the call is over
}

type callName struct {
	agent Agent
	key   IdempotencyKey
}

// enter waits until no other call of that name is under way.
func (t *turns) enter(ctx context.Context, name callName) (over func(), err error) {
	for {
		t.mu.Lock()
		other, busy := t.underWay[name]
		if !busy {
			mine := make(chan struct{})
			if t.underWay == nil {
				t.underWay = map[callName]chan struct{}{}
			}
			t.underWay[name] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.underWay, name)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// once does a write to a document that is no edit of a section, or gives what is remembered of it when it was done
// before. Of those with the same key that come at once, one is done and the others wait for it.
func (l *Library) once(ctx context.Context, by Agent, o writeOptions, do func() error, again func(EditCall) error) error {
	if o.key == "" {
		return do()
	}
	over, err := l.calls.enter(ctx, callName{by, o.key})
	if err != nil {
		return err
	}
	defer over()
	former, remembered, err := l.recall(ctx, by, o.key)
	switch {
	case err != nil:
		return err
	case !remembered:
		return do()
	case former.Request != o.request:
		return idempotencyMismatch()
	}
	return again(former)
}

// recall gives the write that an agent made with a key, while that is remembered.
func (l *Library) recall(ctx context.Context, by Agent, key IdempotencyKey) (former EditCall, remembered bool, err error) {
	former, err = l.store.EditCall(ctx, by, key)
	if errors.Is(err, ErrNotFound) {
		return EditCall{}, false, nil
	}
	if err != nil {
		return EditCall{}, false, fmt.Errorf("recall write: %w", err)
	}
	return former, l.now().Sub(former.At) < EditCallsKept, nil
}

// makeOnce makes a document, or gives the one that was made before under the same key, as it is now.
func (l *Library) makeOnce(ctx context.Context, k Key, o writeOptions, make func() (Snapshot, error)) (snap Snapshot, err error) {
	err = l.once(ctx, k.Agent, o, func() error {
		snap, err = make()
		return err
	}, func(former EditCall) error {
		snap, err = l.Read(ctx, k, former.Document)
		return err
	})
	return snap, err
}

func idempotencyMismatch() *code.Error {
	return code.New(code.IdempotencyMismatch, "this Idempotency-Key was used for another request")
}
