package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"
)

const (
	// queueLength bounds the steps that wait; who comes then waits to be let in.
	queueLength = 1024
	// batchLength bounds the steps of one commit, and so how long the first of them waits for the last.
	batchLength = 256
	// busyPause is between two tries to write while another process does.
	busyPause = 500 * time.Microsecond
)

// writer owns the one connection that writes. Its goroutine takes the steps that wait and commits them together.
type writer struct {
	db    *sql.DB
	conn  *sql.Conn
	queue chan *job
	ended chan struct{}
}

// job is a step on its way through the writer.
type job struct {
	step  func(tx) error
	taken atomic.Bool // by the writer, or by a caller that gave up before the writer came to it
	err   error       // to be read after done
	done  chan struct{}
}

func openWriter(ctx context.Context, file string) (*writer, error) {
	db, err := sql.Open("sqlite3", dataSource(file, url.Values{"_auto_vacuum": {"incremental"}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &writer{db, conn, make(chan *job, queueLength), make(chan struct{})}, nil
}

// do runs a step. A caller whose context ends takes back a step that was not begun; one that was begun it
// waits for, so that an answer always says what became of the step, and the caller's bytes are free.
func (w *writer) do(ctx context.Context, step func(tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{step: step, done: make(chan struct{})}
	select {
	case w.queue <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-j.done
	}
	return j.err
}

// ready ends the set-up of the connection. From now on begin alone waits for other processes; a sync reaches
// the medium on macOS too, where it else stops at the drive's cache; and what one large import leaves of the
// write-ahead log does not stay for ever.
func (w *writer) ready(ctx context.Context) error {
	for _, pragma := range []string{"busy_timeout = 0", "fullfsync = 1", "checkpoint_fullfsync = 1", "journal_size_limit = 67108864"} {
		if _, err := w.conn.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return fmt.Errorf("set %s: %w", pragma, err)
		}
	}
	return nil
}

// run serves the queue until close.
func (w *writer) run() {
	defer close(w.ended)
	batch := make([]*job, 0, batchLength)
	for first := range w.queue {
		batch = w.gather(batch[:0], first)
		w.serve(batch)
		clear(batch)
	}
}

// gather takes what waits behind the first job, without waiting for more.
func (w *writer) gather(batch []*job, first *job) []*job {
	next, ok := first, true
	for {
		if next.taken.CompareAndSwap(false, true) {
			batch = append(batch, next)
		}
		if len(batch) == batchLength {
			return batch
		}
		select {
		case next, ok = <-w.queue:
			if !ok {
				return batch
			}
		default:
			return batch
		}
	}
}

// serve answers every job of the batch. A batch that fails as a whole, because SQLite gave up its transaction or
// the commit, is tried again one by one: the job that was too much fails alone.
func (w *writer) serve(batch []*job) {
	err := w.commit(batch)
	var begin *beginError
	for i, j := range batch {
		if err != nil && len(batch) > 1 && !errors.As(err, &begin) {
			if alone := w.commit(batch[i : i+1]); alone != nil {
				j.err = alone
			}
		} else if err != nil {
			j.err = err
		}
		close(j.done)
	}
}

// beginError says that a transaction could not even begin: the database is busy or gone for everybody.
type beginError struct{ err error }

func (e *beginError) Error() string { return fmt.Sprintf("begin to write: %v", e.err) }
func (e *beginError) Unwrap() error { return e.err }

// commit runs the steps in one transaction, each under a savepoint so that one that is refused harms no
// other. An error means that nothing of the whole batch was written.
func (w *writer) commit(batch []*job) error {
	if len(batch) == 0 {
		return nil
	}
	t := tx{w.conn}
	if err := t.begin(); err != nil {
		return &beginError{err}
	}
	if len(batch) == 1 { // nothing else is to be kept when it is refused
		j := batch[0]
		if j.err = j.step(t); j.err != nil {
			return t.rollback(j.err)
		}
		return t.end()
	}
	for _, j := range batch {
		if j.err = t.exec("SAVEPOINT step"); j.err == nil {
			j.err = j.step(t)
		}
		if j.err != nil {
			if t.exec("ROLLBACK TO step") != nil { // SQLite gave up the whole transaction for what j.err says
				return t.rollback(j.err)
			}
		}
		if err := t.exec("RELEASE step"); err != nil {
			return t.rollback(fmt.Errorf("release savepoint: %w", err))
		}
	}
	return t.end()
}

// close waits until the queue is empty. Nobody may be in do any more.
func (w *writer) close() error {
	close(w.queue)
	<-w.ended
	return w.closeConnection()
}

func (w *writer) closeConnection() error {
	if err := errors.Join(w.conn.Close(), w.db.Close()); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

// tx is the writer's connection within a transaction. It is not bound to a caller's context: what was
// begun is ended.
type tx struct{ conn *sql.Conn }

// begin begins to write, as soon as no other process writes. SQLite's own way to wait tries every 100 ms, and beside a
// busy server, which pauses for microseconds between two commits, seldom meets a pause.
func (t tx) begin() error {
	for start := time.Now(); ; time.Sleep(busyPause) {
		err := t.exec("BEGIN IMMEDIATE")
		var e sqlite3.Error
		if !errors.As(err, &e) || e.Code != sqlite3.ErrBusy || time.Since(start) > busyTimeout {
			return err
		}
	}
}

// end commits.
func (t tx) end() error {
	if err := t.exec("COMMIT"); err != nil {
		return t.rollback(fmt.Errorf("commit: %w", err))
	}
	return nil
}

func (t tx) exec(query string, args ...any) error {
	_, err := t.conn.ExecContext(context.Background(), query, args...)
	return err
}

// removed is exec that tells how many rows it removed.
func (t tx) removed(query string, args ...any) (int64, error) {
	res, err := t.conn.ExecContext(context.Background(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert is exec that tells the number that the row was given.
func (t tx) insert(query string, args ...any) (int64, error) {
	res, err := t.conn.ExecContext(context.Background(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (t tx) row(query string, args ...any) *sql.Row {
	return t.conn.QueryRowContext(context.Background(), query, args...)
}

// rollback ends the transaction, which SQLite may have ended by itself, and returns the reason.
func (t tx) rollback(reason error) error {
	var inside bool
	err := t.conn.Raw(func(c any) error {
		inside = !c.(*sqlite3.SQLiteConn).AutoCommit()
		return nil
	})
	if err == nil && inside {
		err = t.exec("ROLLBACK")
	}
	if err != nil {
		return fmt.Errorf("%w; then rollback: %w", reason, err)
	}
	return reason
}
