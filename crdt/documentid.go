package crdt

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/google/uuid"
)

// DocumentID names a document for ever: a UUID, which automerge-repo spells in base58check.
type DocumentID uuid.UUID

// ErrDocumentID says that a string is no document id.
var ErrDocumentID = errors.New("not a document id")

const base58Digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// maxBase58Length bounds the work done for a string that cannot be an id: 20 bytes need at most 28 digits.
const maxBase58Length = 28

// String spells the id in base58check, as automerge-repo does on the wire.
func (id DocumentID) String() string { return base58check(id[:]) }

// UUID spells the id in hexadecimal with hyphens.
func (id DocumentID) UUID() string { return uuid.UUID(id).String() }

// URL spells the id as automerge-repo's document URL.
func (id DocumentID) URL() string { return "automerge:" + id.String() }

// ParseDocumentID reads any of the three spellings. Errors are ErrDocumentID, wrapped.
func ParseDocumentID(s string) (DocumentID, error) {
	s = strings.TrimPrefix(s, "automerge:")
	if len(s) == 36 {
		u, err := uuid.Parse(s)
		if err != nil {
			return DocumentID{}, fmt.Errorf("%w: %q", ErrDocumentID, s)
		}
		return DocumentID(u), nil
	}
	if len(s) == 0 || len(s) > maxBase58Length {
		return DocumentID{}, fmt.Errorf("%w: %d characters", ErrDocumentID, len(s))
	}
	n, radix := new(big.Int), big.NewInt(58)
	for _, c := range []byte(s) {
		d := strings.IndexByte(base58Digits, c)
		if d < 0 {
			return DocumentID{}, fmt.Errorf("%w: %q", ErrDocumentID, s)
		}
		n.Add(n.Mul(n, radix), big.NewInt(int64(d)))
	}
	if n.BitLen() > 20*8 {
		return DocumentID{}, fmt.Errorf("%w: %q is too long", ErrDocumentID, s)
	}
	var raw [20]byte
	n.FillBytes(raw[:])
	var id DocumentID
	copy(id[:], raw[:16])
	if id.String() != s { // checksum and leading zeros
		return DocumentID{}, fmt.Errorf("%w: wrong checksum in %q", ErrDocumentID, s)
	}
	return id, nil
}

// base58check appends the first four bytes of a double SHA-256 and writes the whole in base 58, a leading
// zero byte as the digit 1.
func base58check(payload []byte) string {
	first := sha256.Sum256(payload)
	sum := sha256.Sum256(first[:])
	raw := append(append([]byte{}, payload...), sum[:4]...)
	n, radix, digit := new(big.Int).SetBytes(raw), big.NewInt(58), new(big.Int)
	var out []byte
	for n.Sign() > 0 {
		n.DivMod(n, radix, digit)
		out = append(out, base58Digits[digit.Int64()])
	}
	for _, b := range raw {
		if b != 0 {
			break
		}
		out = append(out, base58Digits[0])
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return string(out)
}
