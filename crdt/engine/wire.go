package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fxamacker/cbor/v2"

	"cowrite/crdt"
)

// What goes over the pipes between the server and its workers: frames of a length in four bytes, the most
// significant first, and one CBOR item, in turns a request and a reply.

// maxFrame bounds a frame in bytes. It is far above what a document may have and catches a pipe out of step.
const maxFrame = 1 << 30

// method is what a request asks for.
type method uint8

const (
	methodHello  method = iota + 1 // the first one: take on the memory limit
	methodLoad                     // Parts -> Doc is loaded
	methodApply                    // Doc, Parts (one change each)
	methodEdit                     // Doc, Heads, At, Ops, Path -> Parts: the change, or none; Value, if there is a path
	methodRead                     // Doc, Heads, Path -> Value
	methodSave                     // Doc -> Parts: the saved document
	methodUnpack                   // Parts: a saved document -> Parts: its changes
	methodClose                    // Doc
)

type request struct {
	Method method   `cbor:"1,keyasint"`
	Doc    uint64   `cbor:"2,keyasint,omitempty"` // numbered by the server
	Parts  [][]byte `cbor:"3,keyasint,omitempty"`
	Heads  []byte   `cbor:"4,keyasint"`           // one behind the other; null is the present version
	At     int64    `cbor:"5,keyasint,omitempty"` // seconds since 1970
	Ops    []wireOp `cbor:"6,keyasint,omitempty"`
	Path   []string `cbor:"7,keyasint,omitempty"`
	Memory int64    `cbor:"8,keyasint,omitempty"` // bytes; 0 is no limit
}

type reply struct {
	Fault    fault      `cbor:"1,keyasint,omitempty"`
	What     string     `cbor:"2,keyasint,omitempty"`
	Hash     []byte     `cbor:"3,keyasint,omitempty"`
	Index    int        `cbor:"4,keyasint,omitempty"`
	Parts    [][]byte   `cbor:"5,keyasint,omitempty"`
	Value    *wireValue `cbor:"6,keyasint,omitempty"`
	Resident int64      `cbor:"7,keyasint,omitempty"` // memory of the worker in bytes, 0 where that is unknown
}

// fault is the kind of error that a worker answers.
type fault uint8

const (
	faultNone    fault = iota
	faultChange        // *BadChangeError
	faultOp            // *OpError
	faultVersion       // ErrUnknownVersion
	faultOther         // the document's state is unknown
)

type wireOp struct {
	Kind   opKind    `cbor:"1,keyasint"`
	Path   []string  `cbor:"2,keyasint"`
	At     int       `cbor:"3,keyasint,omitempty"`
	Delete int       `cbor:"4,keyasint,omitempty"`
	Text   string    `cbor:"5,keyasint,omitempty"`
	Value  wireValue `cbor:"6,keyasint"`
}

type opKind uint8

const (
	opNone opKind = iota // of no known type: the worker's check names it
	opSplice
	opPutText
	opPutMap
	opPut
	opDelete
)

// wireValue is a Value with its kind, which CBOR alone would lose.
type wireValue struct {
	Kind  valueKind            `cbor:"1,keyasint"`
	Bytes []byte               `cbor:"2,keyasint,omitempty"` // strings too
	Int   int64                `cbor:"3,keyasint,omitempty"`
	Float float64              `cbor:"4,keyasint,omitempty"`
	List  []wireValue          `cbor:"5,keyasint,omitempty"`
	Map   map[string]wireValue `cbor:"6,keyasint,omitempty"`
}

type valueKind uint8

const (
	kindNil valueKind = iota
	kindString
	kindText
	kindBool
	kindInt
	kindUint
	kindFloat
	kindBytes
	kindTime // milliseconds
	kindCounter
	kindList
	kindMap
	kindUnfit // no Value at all
)

var (
	encodeMode = must(cbor.EncOptions{}.EncMode())
	decodeMode = must(cbor.DecOptions{
		MaxNestedLevels: 4 * maxDepth, MaxArrayElements: 1<<31 - 1, MaxMapPairs: 1<<31 - 1,
		UTF8: cbor.UTF8DecodeInvalid, // an edit may bring such a string, which is refused with its reason
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func writeFrame(w io.Writer, v any) error {
	body, err := encodeMode.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	if len(body) > maxFrame {
		return fmt.Errorf("write frame: %w", errFrame)
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

var errFrame = errors.New("frame too long")

func readFrame(r io.Reader, v any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return fmt.Errorf("read frame: %w", errFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("read frame: %w", err)
	}
	if err := decodeMode.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	return nil
}

func toWireHeads(heads []crdt.Hash) []byte {
	if heads == nil {
		return nil
	}
	out := make([]byte, 0, len(heads)*len(crdt.Hash{}))
	for _, h := range heads {
		out = append(out, h[:]...)
	}
	return out
}

func fromWireHeads(b []byte) []crdt.Hash {
	if b == nil {
		return nil
	}
	const size = len(crdt.Hash{})
	heads := make([]crdt.Hash, len(b)/size)
	for i := range heads {
		heads[i] = crdt.Hash(b[i*size:])
	}
	return heads
}

func toWireOps(ops []Op) []wireOp {
	out := make([]wireOp, len(ops))
	for i, op := range ops {
		switch op := op.(type) {
		case Splice:
			out[i] = wireOp{Kind: opSplice, Path: op.Path, At: op.At, Delete: op.Delete, Text: op.Insert}
		case PutText:
			out[i] = wireOp{Kind: opPutText, Path: op.Path, Text: op.Text}
		case PutMap:
			out[i] = wireOp{Kind: opPutMap, Path: op.Path}
		case Put:
			out[i] = wireOp{Kind: opPut, Path: op.Path, Value: toWireValue(op.Value)}
		case Delete:
			out[i] = wireOp{Kind: opDelete, Path: op.Path}
		}
	}
	return out
}

func fromWireOps(ops []wireOp) []Op {
	out := make([]Op, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case opSplice:
			out[i] = Splice{op.Path, op.At, op.Delete, op.Text}
		case opPutText:
			out[i] = PutText{op.Path, op.Text}
		case opPutMap:
			out[i] = PutMap{op.Path}
		case opPut:
			out[i] = Put{op.Path, fromWireValue(op.Value)}
		case opDelete:
			out[i] = Delete{op.Path}
		}
	}
	return out
}

func toWireValue(v Value) wireValue {
	switch v := v.(type) {
	case nil:
		return wireValue{}
	case string:
		return wireValue{Kind: kindString, Bytes: []byte(v)}
	case Text:
		return wireValue{Kind: kindText, Bytes: []byte(v)}
	case bool:
		if v {
			return wireValue{Kind: kindBool, Int: 1}
		}
		return wireValue{Kind: kindBool}
	case int64:
		return wireValue{Kind: kindInt, Int: v}
	case uint64:
		return wireValue{Kind: kindUint, Int: int64(v)}
	case float64:
		return wireValue{Kind: kindFloat, Float: v}
	case []byte:
		return wireValue{Kind: kindBytes, Bytes: v}
	case time.Time:
		return wireValue{Kind: kindTime, Int: v.UnixMilli()}
	case Counter:
		return wireValue{Kind: kindCounter, Int: int64(v)}
	case []Value:
		out := wireValue{Kind: kindList, List: make([]wireValue, len(v))}
		for i, v := range v {
			out.List[i] = toWireValue(v)
		}
		return out
	case map[string]Value:
		out := wireValue{Kind: kindMap, Map: make(map[string]wireValue, len(v))}
		for key, v := range v {
			out.Map[key] = toWireValue(v)
		}
		return out
	default:
		return wireValue{Kind: kindUnfit}
	}
}

func fromWireValue(w wireValue) Value {
	switch w.Kind {
	case kindString:
		return string(w.Bytes)
	case kindText:
		return Text(w.Bytes)
	case kindBool:
		return w.Int == 1
	case kindInt:
		return w.Int
	case kindUint:
		return uint64(w.Int)
	case kindFloat:
		return w.Float
	case kindBytes:
		return append([]byte{}, w.Bytes...)
	case kindTime:
		return time.UnixMilli(w.Int).UTC()
	case kindCounter:
		return Counter(w.Int)
	case kindList:
		out := make([]Value, len(w.List))
		for i, v := range w.List {
			out[i] = fromWireValue(v)
		}
		return out
	case kindMap:
		out := make(map[string]Value, len(w.Map))
		for key, v := range w.Map {
			out[key] = fromWireValue(v)
		}
		return out
	case kindUnfit:
		return unfit{}
	default:
		return nil
	}
}

// unfit stands in a worker for a value of an edit that is none.
type unfit struct{}
