package crdt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
)

// Version is an opaque token that encodes heads: base64url without padding over a format byte and the
// heads' hashes in ascending order, so that equal heads give equal tokens.
type Version string

// ErrVersion says that a string is no version token.
var ErrVersion = errors.New("not a version")

const (
	versionFormat   = 1
	maxVersionHeads = 4096
)

// VersionOf encodes heads, in any order. No heads is the version of the empty document.
func VersionOf(heads []Hash) Version {
	sorted := slices.Compact(SortHashes(slices.Clone(heads)))
	raw := make([]byte, 1, 1+len(sorted)*len(Hash{}))
	raw[0] = versionFormat
	for _, h := range sorted {
		raw = append(raw, h[:]...)
	}
	return Version(base64.RawURLEncoding.EncodeToString(raw))
}

// Heads decodes the token, sorted. Errors are ErrVersion, wrapped: also for a token of more than 4096 heads.
func (v Version) Heads() ([]Hash, error) {
	const size = len(Hash{})
	if len(v) > base64.RawURLEncoding.EncodedLen(1+maxVersionHeads*size) {
		return nil, fmt.Errorf("%w: %d characters", ErrVersion, len(v))
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(v))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if len(raw)%size != 1 || raw[0] != versionFormat {
		return nil, fmt.Errorf("%w: %d bytes", ErrVersion, len(raw))
	}
	heads := make([]Hash, len(raw)/size)
	for i := range heads {
		heads[i] = Hash(raw[1+i*size:])
	}
	if VersionOf(heads) != v {
		return nil, fmt.Errorf("%w: not as it is written", ErrVersion)
	}
	return heads, nil
}
