// Package sqlite is the store on one SQLite database in a folder. What it acknowledges is on disk: it
// commits with synchronous=FULL, many waiting appends in one commit. One server at a time may serve a folder;
// a short command may open the same folder beside it to manage keys. Nobody may assume that two
// documents change in one transaction, although here they sometimes do. DESIGN.md says how and why.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"cowrite/doc"
)

// busyTimeout is how long a writer waits for another process that is writing.
const busyTimeout = 10 * time.Second

var errClosed = errors.New("the store is closed")

// Options of a store.
type Options struct {
	// Beside opens the data for a short command, such as one that makes a key, whether a server has it open
	// or not. Watchers hear of the appends of their own store only, so a server must not be opened so.
	Beside bool
}

// Store is a [doc.Store] on a folder.
type Store struct {
	lock     *folderLock // nil when opened beside a server
	writer   *writer
	readers  *sql.DB
	watchers watchers

	mu       sync.Mutex
	closed   bool
	underWay sync.WaitGroup // calls; none is added once closed
}

var _ doc.Store = (*Store)(nil)

// Open opens the data in the folder and makes what is missing of it. It is doc.ErrInUse when another
// server has the folder. The folder and its files are made for their owner alone.
func Open(ctx context.Context, dir string, opts Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	lock, err := lockFolder(ctx, dir, opts.Beside)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, filepath.Join(dir, databaseName), lock != nil)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	if opts.Beside {
		if err := lock.release(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		lock = nil
	}
	s.lock = lock
	if !opts.Beside {
		if err := s.finishPurges(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// open opens the database. Only who may migrate brings its schema up to date.
func open(ctx context.Context, file string, mayMigrate bool) (*Store, error) {
	w, err := openWriter(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", file, explain(err))
	}
	if mayMigrate {
		err = migrate(ctx, w.conn)
	} else {
		err = awaitSchema(ctx, w.conn, busyTimeout)
	}
	if err == nil {
		err = w.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", file, explain(err)), w.closeConnection())
	}
	readers, err := sql.Open("sqlite3", dataSource(file, url.Values{"_query_only": {"on"}}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", file, err), w.closeConnection())
	}
	n := max(4, 2*runtime.GOMAXPROCS(0))
	readers.SetMaxOpenConns(n)
	readers.SetMaxIdleConns(n)
	go w.run()
	return &Store{writer: w, readers: readers}, nil
}

// dataSource names the database with the pragmas that every connection has to begin with.
func dataSource(file string, more url.Values) string {
	more.Set("_busy_timeout", fmt.Sprint(busyTimeout.Milliseconds()))
	more.Set("_foreign_keys", "on")
	more.Set("_journal_mode", "WAL")
	more.Set("_synchronous", "FULL")
	more.Set("_stmt_cache_size", "64")
	return (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: more.Encode()}).String()
}

// Close waits for what is under way and lets go of the folder. Calls after it fail; Close again does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.underWay.Wait()
	return errors.Join(s.writer.close(), s.readers.Close(), s.lock.release())
}

// enter begins a call that Close waits for; leave ends it.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.underWay.Add(1)
	return nil
}

func (s *Store) leave() { s.underWay.Done() }

// write runs a step in a transaction of the writer and returns when it is on disk, or with an error and nothing
// written. The step may run more than once, and never after write returned.
func (s *Store) write(ctx context.Context, step func(tx) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return s.writer.do(ctx, step)
}

// read runs a step that reads. Statements of one step may see different commits.
func (s *Store) read(ctx context.Context, step func(view) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return step(view{ctx, s.readers})
}

// readAtOnce runs a step whose statements all see the same commits.
func (s *Store) readAtOnce(ctx context.Context, step func(view) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	t, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer t.Rollback() // it only ends the view: there is nothing to lose
	return step(view{ctx, t})
}

// view is what a step reads from.
type view struct {
	ctx  context.Context
	from interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
}

func (v view) row(query string, args ...any) *sql.Row {
	return v.from.QueryRowContext(v.ctx, query, args...)
}

// each calls scan for every row of the query's answer.
func (v view) each(query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := v.from.QueryContext(v.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
