package repo

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"cowrite/crdt"
	"cowrite/doc/code"
)

const someDocument = "389cWRA341DK3y5vMYBSkAS1zUSM"

// pack writes any value as CBOR, as a hostile or an unusual client might.
func pack(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type object = map[string]any

func TestDecodeRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxNameBytes+1)
	nested := any("core")
	for range MaxNesting + 1 {
		nested = []any{nested}
	}
	many := make([]string, MaxItems+1)
	sync := func(change object) []byte {
		frame := object{"type": "sync", "senderId": "a", "documentId": someDocument, "data": []byte{0x42}}
		for k, v := range change {
			frame[k] = v
		}
		return pack(t, frame)
	}
	for name, frame := range map[string][]byte{
		"nothing":                         {},
		"null":                            {0xf6},
		"undefined":                       {0xf7},
		"a bare integer":                  {0x01},
		"a bare text":                     pack(t, "join"),
		"a list":                          pack(t, []string{"join"}),
		"a tagged map":                    append([]byte{0xc1}, pack(t, object{"type": "join", "senderId": "a"})...),
		"a map that ends early":           {0xb9, 0x00, 0x04, 0x64},
		"a map longer than memory":        {0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"bytes longer than the frame":     {0xa1, 0x64, 'd', 'a', 't', 'a', 0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"two maps":                        append(pack(t, object{"type": "leave"}), pack(t, object{"type": "leave"})...),
		"no type":                         pack(t, object{"senderId": "a"}),
		"a number as type":                pack(t, object{"type": 7}),
		"a join of nobody":                pack(t, object{"type": "join"}),
		"a join of a number":              pack(t, object{"type": "join", "senderId": 12}),
		"a join of undefined":             {0xa2, 0x64, 't', 'y', 'p', 'e', 0x64, 'j', 'o', 'i', 'n', 0x68, 's', 'e', 'n', 'd', 'e', 'r', 'I', 'd', 0xf7},
		"a join of too long a name":       pack(t, object{"type": "join", "senderId": long}),
		"a join with a number as version": pack(t, object{"type": "join", "senderId": "a", "supportedProtocolVersions": 1}),
		"a join with numbers as versions": pack(t, object{"type": "join", "senderId": "a", "supportedProtocolVersions": []int{1}}),
		"a join with too many versions":   pack(t, object{"type": "join", "senderId": "a", "supportedProtocolVersions": many}),
		"a join with text as metadata":    pack(t, object{"type": "join", "senderId": "a", "peerMetadata": "none"}),
		"text that is no UTF-8":           append([]byte{0xa1, 0x64, 't', 'y', 'p', 'e', 0x62}, 0xc3, 0x28),
		"nested too deeply":               pack(t, object{"type": "leave", "more": nested}),
		"sync without data":               pack(t, object{"type": "sync", "senderId": "a", "documentId": someDocument}),
		"sync with empty data":            sync(object{"data": []byte{}}),
		"sync with text as data":          sync(object{"data": "B"}),
		"sync without document":           sync(object{"documentId": nil}),
		"sync with an empty document":     sync(object{"documentId": ""}),
		"sync with a list as document":    sync(object{"documentId": []string{someDocument}}),
		"sync with a document of 1 KB":    sync(object{"documentId": strings.Repeat("x", 1024)}),
		"request with empty data":         sync(object{"type": "request", "data": []byte{}}),
		"ephemeral without count":         sync(object{"type": "ephemeral"}),
		"ephemeral with a negative count": sync(object{"type": "ephemeral", "count": -1}),
		"ephemeral with half a count":     sync(object{"type": "ephemeral", "count": 1.5}),
		"ephemeral with a huge count":     sync(object{"type": "ephemeral", "count": uint64(math.MaxUint64)}),
		"ephemeral with NaN as count":     sync(object{"type": "ephemeral", "count": math.NaN()}),
		"ephemeral with text as count":    sync(object{"type": "ephemeral", "count": "1"}),
		"ephemeral with empty data":       sync(object{"type": "ephemeral", "count": 1, "data": []byte{}}),
		"heads without heads":             pack(t, object{"type": "remote-heads-changed", "documentId": someDocument}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(frame)
			if !code.Is(err, code.BadFrame) {
				t.Errorf("Decode gave %#v and %v, want %s", got, err, code.BadFrame)
			}
		})
	}
}

func TestDecodeIsLenient(t *testing.T) {
	undefined := cbor.RawMessage{0xf7}
	id, err := crdt.ParseDocumentID(someDocument)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		frame []byte
		want  Frame
	}{
		"no versions mean version 1": {pack(t, object{"type": "join", "senderId": "a"}), Join{SenderID: "a"}},
		"undefined is absent": {pack(t, object{"type": "join", "senderId": "a", "supportedProtocolVersions": undefined,
			"peerMetadata": object{"storageId": undefined, "isEphemeral": undefined}}), Join{SenderID: "a"}},
		"null is absent":                 {pack(t, object{"type": "join", "senderId": "a", "peerMetadata": nil}), Join{SenderID: "a"}},
		"unknown keys are ignored":       {pack(t, object{"type": "join", "senderId": "a", "metadata": 7, "Type": "leave"}), Join{SenderID: "a"}},
		"an unknown type may hold aught": {pack(t, object{"type": "lease", "senderId": "a", "data": object{"x": 1}, "count": "many"}), Unknown{"a", "lease"}},
		"leave is accepted":              {pack(t, object{"type": "leave", "senderId": "a"}), Leave{"a"}},
		"a peer without metadata":        {pack(t, object{"type": "peer", "senderId": "s", "targetId": "a"}), Peer{SenderID: "s", TargetID: "a"}},
		"a count as a float": {pack(t, object{"type": "ephemeral", "senderId": "a", "documentId": someDocument, "sessionId": "s", "count": float64(1 << 40), "data": []byte{1}}),
			Ephemeral{SenderID: "a", Document: NameOf(id), Session: "s", Count: 1 << 40, Data: []byte{1}}},
		"data as a typed array (tag 64)": {pack(t, object{"type": "sync", "senderId": "a", "documentId": someDocument, "data": cbor.Tag{Number: 64, Content: []byte{0x42, 0}}}),
			Sync{SenderID: "a", Document: someDocument, Data: []byte{0x42, 0}}},
		"data in pieces": {pack(t, object{"type": "sync", "senderId": "a", "documentId": someDocument, "data": cbor.RawMessage{0x5f, 0x41, 0x42, 0x41, 0, 0xff}}),
			Sync{SenderID: "a", Document: someDocument, Data: []byte{0x42, 0}}},
		"a document of no known spelling": {pack(t, object{"type": "sync", "documentId": "../../etc", "data": []byte{0x42}}),
			Sync{Document: "../../etc", Data: []byte{0x42}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(c.frame)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("Decode gave %#v, want %#v", got, c.want)
			}
		})
	}
}

// The data of a large frame is not copied.
func TestDecodeTakesOverTheBytes(t *testing.T) {
	frame := pack(t, object{"type": "sync", "senderId": "a", "documentId": someDocument, "data": bytes.Repeat([]byte{0x42}, 1<<20)})
	got, err := Decode(frame)
	if err != nil {
		t.Fatal(err)
	}
	data := got.(Sync).Data
	at := bytes.Index(frame, data[:64])
	if len(data) != 1<<20 || &data[0] != &frame[at] {
		t.Error("Decode copied the data")
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = Decode(frame) }); n > 30 {
		t.Errorf("Decode allocates %v times", n)
	}
}

// No spelling but base58check names a document on the wire.
func TestDocumentNameID(t *testing.T) {
	id, err := DocumentName(someDocument).ID()
	if err != nil || NameOf(id) != someDocument {
		t.Fatalf("ID gave %v, %v", id, err)
	}
	for _, name := range []DocumentName{"", "x", "*", "a:b", "../x", "%2f", "ü", DocumentName(id.URL()), DocumentName(id.UUID()),
		someDocument + "1", "1" + someDocument, "489cWRA341DK3y5vMYBSkAS1zUSM"} {
		if got, err := name.ID(); err == nil {
			t.Errorf("%q names %v", name, got)
		}
	}
}

func TestEncodeRefusesEmptyData(t *testing.T) {
	for _, frame := range []Frame{Sync{Document: someDocument}, Request{Document: someDocument}, Ephemeral{Document: someDocument}} {
		if b, err := Encode(frame); err == nil {
			t.Errorf("Encode(%#v) gave % x", frame, b)
		}
	}
}

func TestHasContent(t *testing.T) {
	for _, c := range []struct {
		data []byte
		want bool
	}{{nil, false}, {[]byte{0x42}, false}, {[]byte{0x42, 0}, false}, {[]byte{0x42, 1}, true}, {[]byte{0x43, 2}, true}, {[]byte{0x41, 1}, false}} {
		if got := HasContent(c.data); got != c.want {
			t.Errorf("HasContent(% x) = %v", c.data, got)
		}
	}
}

// What is encoded is decoded as it was.
func TestEncodeDecode(t *testing.T) {
	name := rapid.StringN(1, 40, MaxNameBytes)
	data := rapid.SliceOfN(rapid.Byte(), 1, 200)
	rapid.Check(t, func(t *rapid.T) {
		from, to := PeerID(name.Draw(t, "from")), PeerID(rapid.StringN(0, 40, MaxNameBytes).Draw(t, "to"))
		document := DocumentName(name.Draw(t, "document"))
		meta := Metadata{StorageID(rapid.StringN(0, 40, MaxNameBytes).Draw(t, "storage")), rapid.Bool().Draw(t, "ephemeral")}
		versions := rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "versions")
		count := rapid.Uint64Range(0, 1<<53).Draw(t, "count")
		text := rapid.String().Draw(t, "text")
		for _, frame := range []Frame{
			Join{from, meta, versions},
			Join{from, meta, nil},
			Peer{from, to, meta, text},
			Error{from, to, text},
			Sync{from, to, document, data.Draw(t, "data")},
			Request{from, to, document, data.Draw(t, "data")},
			Unavailable{from, to, document},
			Ephemeral{from, to, document, SessionID(text), count, data.Draw(t, "data")},
		} {
			if _, long := frame.(Ephemeral); long && len(text) > MaxNameBytes {
				continue
			}
			b, err := Encode(frame)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(b)
			if err != nil {
				t.Fatalf("decode % x: %v", b, err)
			}
			if !reflect.DeepEqual(got, frame) {
				t.Fatalf("%#v came back as %#v", frame, got)
			}
		}
	})
}

// No input makes the codec panic, and whatever it reads it writes so that it reads the same again.
func FuzzDecode(f *testing.F) {
	for _, tr := range transcripts(f) {
		for _, c := range tr.frames {
			f.Add(c.bytes(f))
		}
	}
	f.Add([]byte{0xf6})
	f.Add([]byte{0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, input []byte) {
		frame, err := Decode(bytes.Clone(input))
		if err != nil {
			if !code.Is(err, code.BadFrame) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if again, ok := rewritten(t, frame); ok && describe(again) != describe(frame) {
			t.Fatalf("%s came back as %s", describe(frame), describe(again))
		}
	})
}

func BenchmarkDecodeSync(b *testing.B) {
	frame := pack(b, object{"type": "sync", "senderId": "peer-k3j4h5k3", "targetId": "cowrite", "documentId": someDocument, "data": make([]byte, 200)})
	for b.Loop() {
		if _, err := Decode(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeSync(b *testing.B) {
	frame := Sync{"cowrite", "peer-k3j4h5k3", someDocument, make([]byte, 200)}
	for b.Loop() {
		if _, err := Encode(frame); err != nil {
			b.Fatal(err)
		}
	}
}
