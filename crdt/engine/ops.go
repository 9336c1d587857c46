package engine

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
)

// shape is what an operation needs to know of a place.
type shape struct {
	kind automerge.Kind
	size int // of a text, in code points
}

var (
	nothing = shape{kind: automerge.KindVoid}
	aScalar = shape{kind: automerge.KindNull}
	aMap    = shape{kind: automerge.KindMap}
)

// outline is what a document looks like after some of an edit's operations, without performing them: the core
// cannot take back half an edit.
type outline struct {
	doc     *automerge.Doc
	changed map[string]shape // by path; what lies below a place that was made or removed is here or nowhere
}

// check says whether all operations can be performed. Errors are *OpError.
func check(doc *automerge.Doc, ops []Op) error {
	o := outline{doc: doc, changed: make(map[string]shape)}
	for i, op := range ops {
		what, err := o.step(op)
		if err != nil {
			return err
		}
		if what != "" {
			return &OpError{Index: i, What: what}
		}
	}
	return nil
}

func (o *outline) step(op Op) (what string, err error) {
	switch op := op.(type) {
	case Splice:
		if !utf8.ValidString(op.Insert) {
			return "the text is no UTF-8", nil
		}
		text, err := o.look(op.Path)
		if err != nil {
			return "", err
		}
		if text.kind != automerge.KindText {
			return "there is no text", nil
		}
		if op.At < 0 || op.Delete < 0 || op.At > text.size || op.Delete > text.size-op.At {
			return fmt.Sprintf("position %d, %d deleted, in a text of %d", op.At, op.Delete, text.size), nil
		}
		text.size += utf8.RuneCountInString(op.Insert) - op.Delete
		o.changed[join(op.Path)] = text
		return "", nil
	case PutText:
		if !utf8.ValidString(op.Text) {
			return "the text is no UTF-8", nil
		}
		return o.put(op.Path, shape{automerge.KindText, utf8.RuneCountInString(op.Text)})
	case PutMap:
		return o.put(op.Path, aMap)
	case Put:
		switch v := op.Value.(type) {
		case nil, bool, int64, float64:
		case string:
			if !utf8.ValidString(v) {
				return "the text is no UTF-8", nil
			}
		default:
			return fmt.Sprintf("a value of type %T", v), nil
		}
		return o.put(op.Path, aScalar)
	case Delete:
		return o.put(op.Path, nothing)
	default:
		return fmt.Sprintf("an operation of type %T", op), nil
	}
}

func (o *outline) put(path crdt.Path, s shape) (what string, err error) {
	if len(path) == 0 {
		return "the root cannot be replaced", nil
	}
	if key := path[len(path)-1]; key == "" || !utf8.ValidString(key) {
		return "the key is empty or no UTF-8", nil
	}
	parent, err := o.look(path[:len(path)-1])
	if err != nil {
		return "", err
	}
	if parent.kind != automerge.KindMap {
		return "there is no map", nil
	}
	below := join(path)
	for p := range o.changed {
		if strings.HasPrefix(p, below) {
			delete(o.changed, p)
		}
	}
	o.changed[below] = s
	return "", nil
}

func (o *outline) look(path crdt.Path) (shape, error) {
	for n := len(path); n > 0; n-- {
		s, ok := o.changed[join(path[:n])]
		switch {
		case ok && n == len(path):
			return s, nil
		case ok:
			return nothing, nil // made by this edit, and nothing put there since
		}
	}
	v, err := lookUp(o.doc, path)
	if v == nil || err != nil {
		return nothing, err
	}
	s := shape{kind: v.Kind()}
	if s.kind == automerge.KindText {
		s.size = v.Text().Len()
	}
	return s, nil
}

// join gives a string that begins with that of each path above.
func join(path crdt.Path) string {
	var b strings.Builder
	for _, key := range path {
		fmt.Fprintf(&b, "%d:%s", len(key), key)
	}
	return b.String()
}

// errGone: check found it there.
var errGone = errors.New("the place is gone")

// perform does one operation that was checked.
func perform(doc *automerge.Doc, op Op) error {
	if op, ok := op.(Splice); ok {
		v, err := lookUp(doc, op.Path)
		if v == nil || err != nil {
			return cmp.Or(err, errGone)
		}
		return v.Text().Splice(op.At, op.Delete, op.Insert)
	}
	var path crdt.Path
	var value any
	switch op := op.(type) {
	case PutText:
		path, value = op.Path, automerge.NewText(op.Text)
	case PutMap:
		path, value = op.Path, automerge.NewMap()
	case Put:
		path, value = op.Path, op.Value
	case Delete:
		path = op.Path
	}
	parent, err := lookUp(doc, path[:len(path)-1])
	if parent == nil || err != nil {
		return cmp.Or(err, errGone)
	}
	key := path[len(path)-1]
	if _, ok := op.(Delete); ok {
		if v, err := parent.Map().Get(key); err != nil || v.IsVoid() {
			return err
		}
		return parent.Map().Delete(key)
	}
	return parent.Map().Set(key, value)
}
