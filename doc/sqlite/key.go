package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"cowrite/doc"
)

// AddKey adds a key.
func (s *Store) AddKey(ctx context.Context, k doc.Key) error {
	if err := s.write(ctx, func(t tx) error { return addKey(t, k) }); err != nil {
		return fmt.Errorf("add key: %w", err)
	}
	return nil
}

func addKey(t tx, k doc.Key) error {
	var there bool
	if err := t.row(`SELECT EXISTS (SELECT 1 FROM keys WHERE id = ? OR digest = ?)`, k.ID, k.Digest[:]).Scan(&there); err != nil {
		return err
	}
	if there {
		return fmt.Errorf("its id or digest exists: %w", doc.ErrConflict)
	}
	var document any
	if k.IsShare() {
		document = k.Document[:]
	}
	return t.exec(`INSERT INTO keys (id, digest, agent, kind, role, pattern, document, maker, created_at, expires_at, revoked_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.ID, k.Digest[:], k.Agent, k.Kind, k.Role, k.Pattern, document, k.Maker, k.CreatedAt.UnixMilli(), optional(k.ExpiresAt), optional(k.RevokedAt))
}

// RevokeKey ends a key, unless it ended earlier.
func (s *Store) RevokeKey(ctx context.Context, id doc.KeyID, at time.Time) error {
	err := s.write(ctx, func(t tx) error {
		var revokedAt time.Time
		if err := t.row(`SELECT revoked_at FROM keys WHERE id = ?`, id).Scan(instant{&revokedAt}); err != nil {
			return notFound(err)
		}
		if !revokedAt.IsZero() && revokedAt.UnixMilli() <= at.UnixMilli() {
			return nil
		}
		return t.exec(`UPDATE keys SET revoked_at = ? WHERE id = ?`, at.UnixMilli(), id)
	})
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return nil
}

// SetKeyKind says whose key it is.
func (s *Store) SetKeyKind(ctx context.Context, id doc.KeyID, kind doc.Kind) error {
	err := s.write(ctx, func(t tx) error {
		var there bool
		if err := t.row(`SELECT EXISTS (SELECT 1 FROM keys WHERE id = ?)`, id).Scan(&there); err != nil {
			return err
		}
		if !there {
			return doc.ErrNotFound
		}
		return t.exec(`UPDATE keys SET kind = ?1 WHERE id = ?2 AND kind <> ?1`, kind, id)
	})
	if err != nil {
		return fmt.Errorf("set kind of key: %w", err)
	}
	return nil
}

// People gives those of the agents with a person's key.
func (s *Store) People(ctx context.Context, among []doc.Agent) ([]doc.Agent, error) {
	names, err := json.Marshal(among)
	if err != nil {
		return nil, fmt.Errorf("marshal names: %w", err)
	}
	var people []doc.Agent
	err = s.read(ctx, func(v view) error {
		const query = `SELECT DISTINCT agent FROM keys WHERE kind = 'person' AND agent IN (SELECT value FROM json_each(?)) ORDER BY agent`
		return v.each(query, []any{string(names)}, func(rows *sql.Rows) error {
			var name doc.Agent
			err := rows.Scan(&name)
			people = append(people, name)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("find people: %w", err)
	}
	return people, nil
}

const selectKeys = `SELECT id, digest, agent, kind, role, pattern, document, maker, created_at, expires_at, revoked_at FROM keys`

func scanKey(row interface{ Scan(...any) error }) (doc.Key, error) {
	var k doc.Key
	var document []byte
	err := row.Scan(&k.ID, fixed(k.Digest[:]), &k.Agent, &k.Kind, &k.Role, &k.Pattern, &document, &k.Maker,
		instant{&k.CreatedAt}, instant{&k.ExpiresAt}, instant{&k.RevokedAt})
	copy(k.Document[:], document)
	return k, notFound(err)
}

// Key finds a key by its digest.
func (s *Store) Key(ctx context.Context, d doc.KeyDigest) (doc.Key, error) {
	return s.key(ctx, selectKeys+` WHERE digest = ?`, d[:])
}

// KeyByID finds a key by its id.
func (s *Store) KeyByID(ctx context.Context, id doc.KeyID) (doc.Key, error) {
	return s.key(ctx, selectKeys+` WHERE id = ?`, id)
}

func (s *Store) key(ctx context.Context, query string, arg any) (k doc.Key, err error) {
	err = s.read(ctx, func(v view) error {
		k, err = scanKey(v.row(query, arg))
		return err
	})
	if err != nil {
		return doc.Key{}, fmt.Errorf("find key: %w", err)
	}
	return k, nil
}

// Keys lists all keys, oldest first.
func (s *Store) Keys(ctx context.Context) ([]doc.Key, error) {
	var keys []doc.Key
	err := s.read(ctx, func(v view) error {
		return v.each(selectKeys+` ORDER BY created_at, number`, nil, func(rows *sql.Rows) error {
			k, err := scanKey(rows)
			keys = append(keys, k)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return keys, nil
}

// KeysVersion is a counter in the database, so that it follows what other processes do.
func (s *Store) KeysVersion(ctx context.Context) (int64, error) {
	var version int64
	err := s.read(ctx, func(v view) error {
		return v.row(`SELECT value FROM counters WHERE name = 'keys'`).Scan(&version)
	})
	if err != nil {
		return 0, fmt.Errorf("read version of keys: %w", err)
	}
	return version, nil
}
