package sqlite

import (
	"fmt"
	"time"
)

// fixed scans a blob into an array of the same length, given as array[:].
type fixed []byte

func (f fixed) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok || len(b) != len(f) {
		return fmt.Errorf("%T of the wrong length, want %d bytes", v, len(f))
	}
	copy(f, b)
	return nil
}

// instant scans milliseconds into a time; NULL is the zero time.
type instant struct{ t *time.Time }

func (i instant) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*i.t = time.Time{}
	case int64:
		*i.t = time.UnixMilli(v).UTC()
	default:
		return fmt.Errorf("%T is no instant", v)
	}
	return nil
}

// optional is the instant in milliseconds, NULL for the zero time.
func optional(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}
