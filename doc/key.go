package doc

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// Secret is a key as its owner holds it: "cw_" and 32 random bytes in base64url. It is never stored or logged.
type Secret string

// KeyDigest is the SHA-256 of a secret, which is what is stored.
type KeyDigest [sha256.Size]byte

// KeyID names a key.
type KeyID string

// Role is what a key allows: a viewer reads, an editor writes and leases, an admin does everything.
type Role string

const (
	Viewer Role = "viewer"
	Editor Role = "editor"
	Admin  Role = "admin"
)

// ParseRole checks a role.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case Viewer, Editor, Admin:
		return r, nil
	}
	return "", code.New(code.InvalidRole, "a role is viewer, editor or admin")
}

// Kind is whether a key's agent is a program or a person. It decides nothing: readers are told whose writing they read.
type Kind string

const (
	Program Kind = "agent"
	Person  Kind = "person"
)

// Key is an API key, or a share link, without its secret.
type Key struct {
	ID        KeyID
	Digest    KeyDigest
	Agent     Agent
	Kind      Kind // "": Program
	Role      Role
	Pattern   string          // which documents: "*" all, else a glob on slugs with *
	Document  crdt.DocumentID // not zero: a share link, for this document alone
	Maker     Agent           // of a share link: who made it; "" for one that was made before this was kept
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: not
}

const secretPrefix = "cw_"

// NewSecret draws a secret from random.
func NewSecret(random io.Reader) (Secret, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("draw key: %w", err)
	}
	return Secret(secretPrefix + base64.RawURLEncoding.EncodeToString(b[:])), nil
}

// Digest of the secret.
func (s Secret) Digest() KeyDigest { return sha256.Sum256([]byte(s)) }

// ParsePattern checks a document pattern: 1 to 64 of a-z, 0-9, - and *; "" is "*".
func ParsePattern(s string) (string, error) {
	if s == "" {
		return "*", nil
	}
	if len(s) > maxNameLength || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-*") != "" {
		return "", code.New(code.BadRequest, "a document pattern is 1 to %d of a-z, 0-9, - and *", maxNameLength)
	}
	return s, nil
}

// Live says whether the key opens anything at this instant.
func (k Key) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// CanRead says whether the key may read the document.
func (k Key) CanRead(m Meta) bool {
	if k.IsShare() {
		return k.Document == m.ID
	}
	return k.CoversSlug(m.Slug)
}

// CanWrite says whether the key may write to the document and lease its sections.
func (k Key) CanWrite(m Meta) bool { return k.Role != Viewer && k.CanRead(m) }

// IsShare says whether the key is a share link.
func (k Key) IsShare() bool { return k.Document != (crdt.DocumentID{}) }

// AdministersAll says whether the key is an admin's for all documents, those to come too.
func (k Key) AdministersAll() bool { return k.Role == Admin && k.Pattern == "*" && !k.IsShare() }

// CoversSlug says whether the key's pattern covers a document of that slug. Documents without one are
// covered by "*" alone.
func (k Key) CoversSlug(s Slug) bool {
	if k.Pattern == "*" {
		return true
	}
	ok, err := path.Match(k.Pattern, string(s))
	return err == nil && ok && s != ""
}
