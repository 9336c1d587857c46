package repo

import (
	"errors"
	"fmt"
	"math"

	"github.com/fxamacker/cbor/v2"
)

var encoding = must(cbor.EncOptions{}.EncMode())

// Encode writes a frame. Empty data is an error: the stock client throws on it.
func Encode(frame Frame) ([]byte, error) {
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
	case Sync:
		return dataFrame(header{typeSync, f.SenderID, f.TargetID}, f.Document, f.Data)
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
