package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite schema.sql from the migrations")

// schemaOf gives the statements that make up a database's schema, by kind and name.
func schemaOf(t *testing.T, conn *sql.Conn) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL
		ORDER BY CASE type WHEN 'table' THEN 1 WHEN 'index' THEN 2 ELSE 3 END, name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			t.Fatal(err)
		}
		all = append(all, statement+";\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func emptyDatabase(t *testing.T) *sql.Conn {
	t.Helper()
	w, err := openWriter(context.Background(), filepath.Join(t.TempDir(), databaseName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.closeConnection() })
	return w.conn
}

// schema.sql is the sum of the migrations, and by itself makes the same database.
func TestSchema(t *testing.T) {
	migrated := emptyDatabase(t)
	if err := migrate(t.Context(), migrated); err != nil {
		t.Fatal(err)
	}
	sum := schemaOf(t, migrated)
	if *update {
		if err := os.WriteFile("schema.sql", []byte(sum), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if sum != string(golden) {
		t.Errorf("schema.sql is not the sum of the migrations (go test -update rewrites it); they come to:\n%s", sum)
	}
	direct := emptyDatabase(t)
	if _, err := direct.ExecContext(t.Context(), string(golden)); err != nil {
		t.Fatal(err)
	}
	if got := schemaOf(t, direct); got != sum {
		t.Errorf("schema.sql by itself makes another database:\n%s", got)
	}
}

func TestMigrateAgainDoesNothing(t *testing.T) {
	conn := emptyDatabase(t)
	for range 2 {
		if err := migrate(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := pending(t.Context(), conn); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	names, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(names) {
		t.Errorf("migrations are not in order: %v", names)
	}
}

// A migration that fails leaves neither a part of itself nor its name.
func TestFailedMigration(t *testing.T) {
	conn := emptyDatabase(t)
	if _, err := conn.ExecContext(t.Context(), `CREATE TABLE keys (id TEXT)`); err != nil {
		t.Fatal(err)
	}
	before := schemaOf(t, conn)
	first, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if err := applyMigration(t.Context(), conn, first[0]); err == nil {
		t.Fatal("it did not fail")
	}
	if got := schemaOf(t, conn); got != before {
		t.Errorf("it left:\n%s", got)
	}
}

// A command beside a server waits while the server makes the schema, and gives up beside one of an older version.
func TestAwaitSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), databaseName)
	var conns [2]*sql.Conn
	for i := range conns {
		w, err := openWriter(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer w.closeConnection()
		conns[i] = w.conn
	}
	err := awaitSchema(t.Context(), conns[0], pollInterval)
	if err == nil || !strings.Contains(err.Error(), "older version") {
		t.Errorf("beside a server that does not make the schema: %v", err)
	}
	waited := make(chan error)
	go func() { waited <- awaitSchema(t.Context(), conns[0], busyTimeout) }()
	if err := migrate(t.Context(), conns[1]); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("beside a server that makes the schema: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitSchema(ctx, emptyDatabase(t), busyTimeout); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
}
