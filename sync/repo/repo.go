// Package repo is the wire format of GET /api/v1/sync: the automerge-repo protocol, version "1", as its
// 2.5 clients really speak it. One binary WebSocket message is one CBOR map, a frame. The package decodes
// and encodes frames and knows no socket; sync/PROTOCOL.md is the grammar, and testdata holds frames
// captured from the stock client and its reference server.
//
// It promises that no input makes [Decode] panic or allocate more than a small multiple of the input's
// size. It does not look into the data of a frame: that is package crdt's part, or nobody's.
package repo

import (
	"slices"
	"strings"

	"cowrite/crdt"
)

// Version is the one protocol version that is spoken.
const Version = "1"

// Bounds of a frame's strings and lists; a frame beyond one is refused.
const (
	MaxNameBytes = 256   // of the name of a peer, session, storage or document
	MaxNesting   = 16    // maps, arrays and tags inside each other
	MaxItems     = 4_096 // elements of one array, pairs of one map
)

// PeerID names a peer: any string of 1 to MaxNameBytes bytes. It is self-asserted; the server binds it to
// the credential of the socket that joined with it.
type PeerID string

// StorageID names a peer's storage over restarts of the peer.
type StorageID string

// SessionID tells the runs of one peer apart in its ephemeral messages.
type SessionID string

// DocumentName is a document id as the wire spells it: base58check of a UUID, or anything else that a client
// takes for one.
type DocumentName string

// NameOf spells a document's id.
func NameOf(id crdt.DocumentID) DocumentName { return DocumentName(id.String()) }

// ID is the document that the name spells. Errors are crdt.ErrDocumentID: there can be no such document
// here. The other spellings of an id, which people use in addresses, never stand on the wire.
func (n DocumentName) ID() (crdt.DocumentID, error) {
	if strings.ContainsAny(string(n), "-:") {
		return crdt.DocumentID{}, crdt.ErrDocumentID
	}
	return crdt.ParseDocumentID(string(n))
}

// Frame is one message: a pointerless value of one of the types below.
type Frame interface {
	// Sender is the peer id that the frame gives as its origin, "" where there is none.
	Sender() PeerID
}

// Metadata is what a peer says of itself. Absent fields are zero.
type Metadata struct {
	StorageID   StorageID
	IsEphemeral bool
}

// Join is a client's first frame.
type Join struct {
	SenderID PeerID
	Metadata Metadata
	Versions []string // nil when the field was absent, which means "1"
}

// Speaks says whether the client speaks a version of the protocol.
func (j Join) Speaks(version string) bool {
	if j.Versions == nil {
		return version == Version
	}
	return slices.Contains(j.Versions, version)
}

// Peer is the server's answer to a Join.
type Peer struct {
	SenderID, TargetID PeerID
	Metadata           Metadata
	Version            string
}

// Error says why the server is about to close the socket, or what it refused. Stock clients log it.
type Error struct {
	SenderID, TargetID PeerID
	Message            string
}

// Sync carries a sync message of one document.
type Sync struct {
	SenderID, TargetID PeerID
	Document           DocumentName
	Data               []byte // never empty
}

// Request is a Sync of a peer that has nothing of the document and wants to be told if the other has
// nothing either.
type Request struct {
	SenderID, TargetID PeerID
	Document           DocumentName
	Data               []byte // never empty
}

// Unavailable says that the sender does not have the document, or does not show it to the target.
type Unavailable struct {
	SenderID, TargetID PeerID
	Document           DocumentName
}

// Ephemeral carries an application's message about a document, such as a cursor. SenderID is its
// originator, also when it was relayed.
type Ephemeral struct {
	SenderID, TargetID PeerID
	Document           DocumentName
	Session            SessionID
	Count              uint64 // rises with each message of a session
	Data               []byte // never empty: a CBOR item of the application's
}

// Subscription asks for, or gives up, news of the heads that other storages have. The server takes no part
// in that gossip and ignores it.
type Subscription struct {
	SenderID    PeerID
	Add, Remove []StorageID
}

// Heads is news of the heads that storages have of a document; ignored like Subscription.
type Heads struct {
	SenderID PeerID
	Document DocumentName
	Storages map[StorageID]StorageHeads
}

// StorageHeads is what one storage has of a document.
type StorageHeads struct {
	Heads     []string // base58check of a change's hash
	Timestamp uint64   // ms since 1970
}

// Leave is documented but sent by no known client.
type Leave struct{ SenderID PeerID }

// Unknown is a frame of a type that is not in the grammar; it is to be ignored.
type Unknown struct {
	SenderID PeerID
	Type     string
}

func (f Join) Sender() PeerID         { return f.SenderID }
func (f Peer) Sender() PeerID         { return f.SenderID }
func (f Error) Sender() PeerID        { return f.SenderID }
func (f Sync) Sender() PeerID         { return f.SenderID }
func (f Request) Sender() PeerID      { return f.SenderID }
func (f Unavailable) Sender() PeerID  { return f.SenderID }
func (f Ephemeral) Sender() PeerID    { return f.SenderID }
func (f Subscription) Sender() PeerID { return f.SenderID }
func (f Heads) Sender() PeerID        { return f.SenderID }
func (f Leave) Sender() PeerID        { return f.SenderID }
func (f Unknown) Sender() PeerID      { return f.SenderID }

// The types of frames as they are spelled on the wire.
const (
	typeJoin         = "join"
	typePeer         = "peer"
	typeError        = "error"
	typeSync         = "sync"
	typeRequest      = "request"
	typeUnavailable  = "doc-unavailable"
	typeEphemeral    = "ephemeral"
	typeSubscription = "remote-subscription-change"
	typeHeads        = "remote-heads-changed"
	typeLeave        = "leave"
)

// HasContent says whether a sync message names heads, that is whether its sender has anything of the
// document. It looks at the first bytes alone: the type (0x42, 0x43) and the number of heads.
func HasContent(data []byte) bool {
	return len(data) >= 2 && (data[0] == 0x42 || data[0] == 0x43) && data[1] != 0
}
