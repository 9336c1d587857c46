package crdt

import "errors"

// Version is an opaque token that encodes heads.
type Version string

// ErrVersion says that a string is no version token.
var ErrVersion = errors.New("not a version")

// VersionOf encodes heads, in any order.
func VersionOf(heads []Hash) Version { panic("stub") }

// Heads decodes the token, sorted.
func (v Version) Heads() ([]Hash, error) { panic("stub") }
