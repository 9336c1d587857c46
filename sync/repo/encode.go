package repo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fxamacker/cbor/v2"
)

var encoding = must(cbor.EncOptions{}.EncMode())

// Encode writes a frame. Empty data is an error: the stock client throws on it.
func Encode(frame Frame) ([]byte, error) {
	if f, ok := frame.(Sync); ok && len(f.Data) > 0 {
		return encodeSync(f), nil
	}
	out, err := written(frame)
	if err != nil {
		return nil, err
	}
	b, err := encoding.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	return b, nil
}

// encodeSync writes the frame that is sent most, as the encoder would, in one piece of memory.
func encodeSync(f Sync) []byte {
	const (
		text, bytes, pairs = 3 << 5, 2 << 5, 5 << 5 // CBOR's major types
		headers            = 64                     // what heads and names of fields take, at most
	)
	out := make([]byte, 0, headers+len(f.SenderID)+len(f.TargetID)+len(f.Document)+len(f.Data))
	head := func(major byte, n int) {
		switch {
		case n < 24:
			out = append(out, major|byte(n))
		case n <= math.MaxUint8:
			out = append(out, major|24, byte(n))
		case n <= math.MaxUint16:
			out = binary.BigEndian.AppendUint16(append(out, major|25), uint16(n))
		default:
			out = binary.BigEndian.AppendUint32(append(out, major|26), uint32(n))
		}
	}
	field := func(name, value string) {
		for _, s := range []string{name, value} {
			head(text, len(s))
			out = append(out, s...)
		}
	}
	fields := 3
	for _, id := range []PeerID{f.SenderID, f.TargetID} {
		if id != "" {
			fields++
		}
	}
	head(pairs, fields)
	field("type", typeSync)
	if f.SenderID != "" {
		field("senderId", string(f.SenderID))
	}
	if f.TargetID != "" {
		field("targetId", string(f.TargetID))
	}
	field("documentId", string(f.Document))
	head(text, len("data"))
	out = append(out, "data"...)
	head(bytes, len(f.Data))
	return append(out, f.Data...)
}

// header begins every frame. Absent fields are left out.
type header struct {
	Type     string `cbor:"type"`
	SenderID PeerID `cbor:"senderId,omitempty"`
	TargetID PeerID `cbor:"targetId,omitempty"`
}

type metadataOut struct {
	StorageID   StorageID `cbor:"storageId,omitempty"`
	IsEphemeral bool      `cbor:"isEphemeral"`
}

// written is a frame as the map that it is on the wire.
func written(frame Frame) (any, error) {
	switch f := frame.(type) {
	case Join:
		return struct {
			header
			Metadata metadataOut `cbor:"peerMetadata"`
			Versions []string    `cbor:"supportedProtocolVersions,omitempty"`
		}{header{typeJoin, f.SenderID, ""}, metadataOut(f.Metadata), f.Versions}, nil
	case Peer:
		return struct {
			header
			Metadata metadataOut `cbor:"peerMetadata"`
			Version  string      `cbor:"selectedProtocolVersion"`
		}{header{typePeer, f.SenderID, f.TargetID}, metadataOut(f.Metadata), f.Version}, nil
	case Error:
		return struct {
			header
			Message string `cbor:"message"`
		}{header{typeError, f.SenderID, f.TargetID}, f.Message}, nil
	case Sync: // with data: see encodeSync
		return nil, errEmptyData
	case Request:
		return dataFrame(header{typeRequest, f.SenderID, f.TargetID}, f.Document, f.Data)
	case Unavailable:
		return struct {
			header
			Document DocumentName `cbor:"documentId"`
		}{header{typeUnavailable, f.SenderID, f.TargetID}, f.Document}, nil
	case Ephemeral:
		if len(f.Data) == 0 {
			return nil, errEmptyData
		}
		return struct {
			header
			Document DocumentName `cbor:"documentId"`
			Session  SessionID    `cbor:"sessionId"`
			Count    any          `cbor:"count"`
			Data     []byte       `cbor:"data"`
		}{header{typeEphemeral, f.SenderID, f.TargetID}, f.Document, f.Session, number(f.Count), f.Data}, nil
	}
	return nil, fmt.Errorf("encode frame: a %T is only ever read", frame)
}

// number is written as JavaScript does: as a float when it needs more than 32 bits, because 64-bit integers
// arrive there as BigInt.
func number(n uint64) any {
	if n > math.MaxUint32 {
		return float64(n)
	}
	return n
}

var errEmptyData = errors.New("encode frame: empty data")

func dataFrame(h header, document DocumentName, data []byte) (any, error) {
	if len(data) == 0 {
		return nil, errEmptyData
	}
	return struct {
		header
		Document DocumentName `cbor:"documentId"`
		Data     []byte       `cbor:"data"`
	}{h, document, data}, nil
}
