package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Migrations are applied in the order of their names, each in a transaction of its own. One that was
// released is never changed. schema.sql is what they come to, for reading; a test compares the two.
//
//go:embed migration/*.sql
var migrationFiles embed.FS

var (
	errForeign = errors.New("it is a database, but not one of Cowrite")
	errDamaged = errors.New("it is damaged, or no database")
)

// migrations gives the names of the embedded migrations, in order.
func migrations() ([]string, error) {
	entries, err := migrationFiles.ReadDir("migration")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".sql")
	}
	return names, nil
}

// pending gives the migrations that the database lacks. A database with migrations that this program does
// not know is newer than it, and refused.
func pending(ctx context.Context, conn *sql.Conn) ([]string, error) {
	known, err := migrations()
	if err != nil {
		return nil, err
	}
	var tables, ours int
	err = conn.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE name = 'migrations') FROM sqlite_schema WHERE type = 'table'`).
		Scan(&tables, &ours)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read schema: %w", err)
	case tables == 0:
		return known, nil
	case ours == 0:
		return nil, errForeign
	}
	rows, err := conn.QueryContext(ctx, `SELECT name FROM migrations`)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("a newer version of Cowrite wrote it (migration %s)", name)
		}
		known = slices.Delete(known, i, i+1)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return known, nil
}

// migrate brings the schema up to date. The caller holds the folder's lock.
func migrate(ctx context.Context, conn *sql.Conn) error {
	names, err := pending(ctx, conn)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := applyMigration(ctx, conn, name); err != nil {
			return fmt.Errorf("migrate to %s: %w", name, err)
		}
	}
	return nil
}

func applyMigration(ctx context.Context, conn *sql.Conn, name string) error {
	statements, err := migrationFiles.ReadFile(path.Join("migration", name+".sql"))
	if err != nil {
		return err
	}
	t, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback() // after a commit it does nothing
	if _, err := t.ExecContext(ctx, string(statements)); err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `INSERT INTO migrations (name) VALUES (?)`, name); err != nil {
		return err
	}
	return t.Commit()
}

// awaitSchema waits until the schema is up to date: the server that has the folder may be making it right now.
func awaitSchema(ctx context.Context, conn *sql.Conn, patience time.Duration) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		names, err := pending(ctx, conn)
		if err != nil || len(names) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("the server that has it open is of an older version (it lacks migration %s); stop it first", names[0])
		case <-time.After(pollInterval):
		}
	}
}

// explain says what SQLite's own words leave open.
func explain(err error) error {
	var e sqlite3.Error
	if errors.As(err, &e) && (e.Code == sqlite3.ErrNotADB || e.Code == sqlite3.ErrCorrupt) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}
