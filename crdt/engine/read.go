package engine

import (
	"unicode/utf8"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
)

// maxDepth bounds how deep a value is read; what lies deeper reads as nil.
const maxDepth = 64

// lookUp follows a path of map keys. It gives nil when there is nothing, or when the path leads through
// something that is no map.
func lookUp(doc *automerge.Doc, path crdt.Path) (*automerge.Value, error) {
	v := doc.Root()
	for _, key := range path {
		if v.Kind() != automerge.KindMap || key == "" || !utf8.ValidString(key) {
			return nil, nil // the core cannot be asked for such keys
		}
		next, err := v.Map().Get(key)
		if err != nil || next.IsVoid() {
			return nil, err
		}
		v = next
	}
	return v, nil
}

func readPath(doc *automerge.Doc, path crdt.Path) (Value, error) {
	v, err := lookUp(doc, path)
	if v == nil || err != nil {
		return nil, err
	}
	return readValue(v, maxDepth)
}

func readValue(v *automerge.Value, depth int) (Value, error) {
	switch v.Kind() {
	case automerge.KindMap:
		values, err := v.Map().Values()
		if err != nil || depth == 0 {
			return nil, err
		}
		out := make(map[string]Value, len(values))
		for key, v := range values {
			if out[key], err = readValue(v, depth-1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case automerge.KindList:
		values, err := v.List().Values()
		if err != nil || depth == 0 {
			return nil, err
		}
		out := make([]Value, len(values))
		for i, v := range values {
			if out[i], err = readValue(v, depth-1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case automerge.KindText:
		s, err := v.Text().Get()
		return Text(s), err
	case automerge.KindCounter:
		n, err := v.Counter().Get()
		return Counter(n), err
	case automerge.KindStr:
		return v.Str(), nil
	case automerge.KindBool:
		return v.Bool(), nil
	case automerge.KindInt64:
		return v.Int64(), nil
	case automerge.KindUint64:
		return v.Uint64(), nil
	case automerge.KindFloat64:
		return v.Float64(), nil
	case automerge.KindBytes:
		return v.Bytes(), nil
	case automerge.KindTime:
		return v.Time().UTC(), nil
	default: // null, void, and what a later version may bring
		return nil, nil
	}
}
