package repo

import (
	"math"

	"github.com/fxamacker/cbor/v2"

	"cowrite/doc/code"
)

// decoding is as lenient as stock clients need (non-minimal headers, undefined, tags, unknown keys) and
// bounded. Field names are matched exactly; of a repeated key one value counts.
var decoding = must(cbor.DecOptions{
	MaxNestedLevels:   MaxNesting,
	MaxArrayElements:  MaxItems,
	MaxMapPairs:       MaxItems,
	FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
}.DecMode())

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// raw is one CBOR item inside a frame: a part of the frame's bytes, not a copy.
type raw []byte

// UnmarshalCBOR keeps the item where it is. cbor.Unmarshal hands out parts of its input, which Decode owns.
func (r *raw) UnmarshalCBOR(item []byte) error {
	*r = item
	return nil
}

// envelope is a frame before its fields are looked at. A frame of an unknown type may hold anything.
type envelope struct {
	Type      raw `cbor:"type"`
	SenderID  raw `cbor:"senderId"`
	TargetID  raw `cbor:"targetId"`
	Metadata  raw `cbor:"peerMetadata"`
	Versions  raw `cbor:"supportedProtocolVersions"`
	Selected  raw `cbor:"selectedProtocolVersion"`
	Message   raw `cbor:"message"`
	Document  raw `cbor:"documentId"`
	Data      raw `cbor:"data"`
	Count     raw `cbor:"count"`
	SessionID raw `cbor:"sessionId"`
	Add       raw `cbor:"add"`
	Remove    raw `cbor:"remove"`
	NewHeads  raw `cbor:"newHeads"`
}

// Decode reads one frame and takes over its bytes: Data is a part of them. Errors are BAD_FRAME.
func Decode(frame []byte) (Frame, error) {
	const mapType = 5
	if len(frame) == 0 || frame[0]>>5 != mapType {
		return nil, badFrame("a frame is one CBOR map")
	}
	var e envelope
	if err := decoding.Unmarshal(frame, &e); err != nil {
		return nil, badFrame("a frame is one CBOR map").Because(err)
	}
	f := fields{}
	kind, sender := f.text("type", e.Type), PeerID(f.optionalName("senderId", e.SenderID))
	if f.err != nil {
		return nil, f.err
	}
	read := f.frame(kind, sender, e)
	if f.err != nil {
		return nil, f.err
	}
	return read, nil
}

func badFrame(format string, args ...any) *code.Error {
	return code.New(code.BadFrame, format, args...)
}

// fields reads the fields of a frame and remembers the first that is wrong.
type fields struct{ err error }

func (f *fields) frame(kind string, sender PeerID, e envelope) Frame {
	switch kind {
	case typeJoin:
		if sender == "" {
			f.fail("senderId")
		}
		return Join{sender, f.metadata(e.Metadata), f.versions(e.Versions)}
	case typePeer:
		return Peer{sender, f.target(e), f.metadata(e.Metadata), f.optionalText("selectedProtocolVersion", e.Selected)}
	case typeError:
		return Error{sender, f.target(e), f.optionalText("message", e.Message)}
	case typeSync:
		return Sync{sender, f.target(e), f.document(e), f.data(e)}
	case typeRequest:
		return Request{sender, f.target(e), f.document(e), f.data(e)}
	case typeUnavailable:
		return Unavailable{sender, f.target(e), f.document(e)}
	case typeEphemeral:
		return Ephemeral{sender, f.target(e), f.document(e), SessionID(f.optionalName("sessionId", e.SessionID)),
			f.number("count", e.Count), f.data(e)}
	case typeSubscription:
		return Subscription{sender, f.storages("add", e.Add), f.storages("remove", e.Remove)}
	case typeHeads:
		return Heads{sender, f.document(e), f.heads(e.NewHeads)}
	case typeLeave:
		return Leave{sender}
	}
	return Unknown{sender, kind}
}

func (f *fields) fail(field string) {
	if f.err == nil {
		f.err = badFrame("%s of the frame is missing or wrong", field)
	}
}

// absent: a missing key, undefined and null are the same.
func absent(item raw) bool {
	const null, undefined = 0xf6, 0xf7
	return len(item) == 0 || (len(item) == 1 && (item[0] == null || item[0] == undefined))
}

// into decodes a present item; v keeps its value when the item is absent.
func (f *fields) into(field string, item raw, v any) {
	if absent(item) {
		return
	}
	if err := decoding.Unmarshal(item, v); err != nil {
		f.fail(field)
	}
}

func (f *fields) text(field string, item raw) string {
	if absent(item) {
		f.fail(field)
	}
	return f.optionalText(field, item)
}

func (f *fields) optionalText(field string, item raw) string {
	var s string
	f.into(field, item, &s)
	return s
}

func (f *fields) optionalName(field string, item raw) string {
	s := f.optionalText(field, item)
	if len(s) > MaxNameBytes {
		f.fail(field)
		return ""
	}
	return s
}

func (f *fields) target(e envelope) PeerID {
	return PeerID(f.optionalName("targetId", e.TargetID))
}

func (f *fields) document(e envelope) DocumentName {
	name := f.optionalName("documentId", e.Document)
	if name == "" {
		f.fail("documentId")
	}
	return DocumentName(name)
}

// data returns the byte string without copying it, where it is written as stock clients write it.
func (f *fields) data(e envelope) []byte {
	b, plain := byteString(e.Data)
	if !plain {
		f.into("data", e.Data, &b)
	}
	if len(b) == 0 {
		f.fail("data")
	}
	return b
}

// byteString cuts the content out of a well-formed byte string of definite length.
func byteString(item raw) (content []byte, ok bool) {
	const bytesType, oneByte, eightBytes = 2, 24, 27
	if len(item) == 0 || item[0]>>5 != bytesType {
		return nil, false
	}
	head := 1
	if info := item[0] & 0x1f; info > eightBytes {
		return nil, false // of indefinite length
	} else if info >= oneByte {
		head += 1 << (info - oneByte)
	}
	return item[head:len(item):len(item)], true
}

// number reads an integer from 0 on, which JavaScript writes as a float when it needs more than 32 bits.
func (f *fields) number(field string, item raw) uint64 {
	const largest = 1 << 53 // integers beyond are not exact in JavaScript
	if absent(item) {
		f.fail(field)
		return 0
	}
	var n float64
	f.into(field, item, &n)
	if !(n >= 0 && n <= largest) || n != math.Trunc(n) {
		f.fail(field)
		return 0
	}
	return uint64(n)
}

func (f *fields) metadata(item raw) Metadata {
	var m struct {
		StorageID   raw `cbor:"storageId"`
		IsEphemeral raw `cbor:"isEphemeral"`
	}
	f.into("peerMetadata", item, &m)
	out := Metadata{StorageID: StorageID(f.optionalName("storageId", m.StorageID))}
	f.into("isEphemeral", m.IsEphemeral, &out.IsEphemeral)
	return out
}

func (f *fields) versions(item raw) []string {
	var vs []string
	f.into("supportedProtocolVersions", item, &vs)
	return vs
}

func (f *fields) storages(field string, item raw) []StorageID {
	var ids []StorageID
	f.into(field, item, &ids)
	return ids
}

func (f *fields) heads(item raw) map[StorageID]StorageHeads {
	var m map[StorageID]struct {
		Heads     []string `cbor:"heads"`
		Timestamp raw      `cbor:"timestamp"`
	}
	f.into("newHeads", item, &m)
	if m == nil {
		f.fail("newHeads")
		return nil
	}
	out := make(map[StorageID]StorageHeads, len(m))
	for id, h := range m {
		out[id] = StorageHeads{h.Heads, f.number("timestamp", h.Timestamp)}
	}
	return out
}
