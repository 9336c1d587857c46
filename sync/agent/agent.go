// Package agent is the language cowrite.agent.v1 of GET /api/v1/agent: JSON frames to values and back, and the
// [Mirror] that a client keeps of a document. It knows no socket; sync/PROTOCOL.md is the contract.
//
// Field names are those of the REST routes, so that whoever knows one door knows the other. Positions count Unicode
// code points; a [crdt.Version] is an opaque token.
package agent

import (
	"encoding/json"
	"fmt"

	"cowrite/crdt"
	"cowrite/lease"
)

// Subprotocol is the WebSocket subprotocol.
const Subprotocol = "cowrite.agent.v1"

// Limits of frames, whatever the server's configuration.
const (
	MaxRequestID   = 255       // bytes
	MaxPresence    = 4 << 10   // bytes of a presence's state
	MaxOps         = 10_000    // operations, or replacements, of one edit
	MaxPresenceTTL = 300       // seconds
	PresenceTTL    = 30        // seconds, where none is given
	MaxWaitSeconds = 24 * 3600 // of one wait in a lease's queue
)

// Type is what a frame is.
type Type string

// The frames of a client, and those of the server. A presence goes both ways.
const (
	TypeOpen     Type = "open"
	TypeClose    Type = "close"
	TypeEdit     Type = "edit"
	TypeCreate   Type = "create"
	TypeMove     Type = "move"
	TypeRemove   Type = "remove"
	TypeRestore  Type = "restore"
	TypeLease    Type = "lease"
	TypePresence Type = "presence"
	TypePost     Type = "post"

	TypeWelcome   Type = "welcome"
	TypeOpened    Type = "opened"
	TypeClosed    Type = "closed"
	TypeChanged   Type = "changed"
	TypeAck       Type = "ack"
	TypeQueued    Type = "queued"
	TypeEvent     Type = "event"
	TypeLeaseLost Type = "leaseLost"
	TypeError     Type = "error"
)

// RequestID names a request, so that its answer can be told from others; of whatever writes it is the idempotency
// key too: 1 to 255 visible ASCII characters.
type RequestID string

// Document is how a frame calls a document: by its slug or its documentId.
type Document string

// SectionID names a section in its document.
type SectionID string

// Seq is a position in a document's log: a decimal string.
type Seq string

// Header begins every frame.
type Header struct {
	Type Type      `json:"type"`
	ID   RequestID `json:"id,omitempty"` // of the request, or of the one that is answered
}

func (h *Header) header() *Header { return h }

// Frame is a frame of either side: a pointer to one of the structs of this package that have a [Header].
type Frame interface {
	header() *Header
	kind() Type
}

// IDOf is the id of the request that a frame is, or answers; "" without one.
func IDOf(f Frame) RequestID { return f.header().ID }

// Encode writes a frame. It sets the frame's type.
func Encode(f Frame) ([]byte, error) {
	f.header().Type = f.kind()
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.kind(), err)
	}
	return b, nil
}

// Section is a section as it stands.
type Section struct {
	ID       SectionID `json:"id"`
	Heading  string    `json:"heading"`
	Level    int       `json:"level"`
	Text     string    `json:"text"`
	Position string    `json:"position"`
	Removed  bool      `json:"removed,omitempty"`
}

// TextOp replaces, in a text, Delete code points from At on by Insert. Positions of several count in the text as it
// was before any of them.
type TextOp struct {
	At     int    `json:"at"`
	Delete int    `json:"delete,omitempty"`
	Insert string `json:"insert,omitempty"`
}

// Replacement replaces the passage Find by With.
type Replacement struct {
	Find       string `json:"find"`
	With       string `json:"with"`
	Occurrence int    `json:"occurrence,omitempty"` // which, from 1; 0: it must be the only one
}

// MergedFrom is what of others' writing was merged in since the base of an edit.
type MergedFrom struct {
	Agents []lease.Agent `json:"agents"` // whose, without the writer
	Ranges []MergedRange `json:"ranges"`
}

// MergedRange is one place where writing that the writer did not know was merged in: Length code points from At on came
// since the base, and Deleted ones of the writer's text are gone.
type MergedRange struct {
	At      int         `json:"at"`
	Length  int         `json:"length"`
	Deleted int         `json:"deleted"`
	Agent   lease.Agent `json:"agent,omitempty"` // whose it is, be it the writer's own of before; "": the server cannot tell
}

// Advisory tells the writer of a section what it may not know of the leases there. Nothing is refused because of it.
type Advisory struct {
	Kind         string      `json:"kind"`             // "leased", or "stale_fence"
	Holder       lease.Agent `json:"holder,omitempty"` // who else holds the lease
	LeaseID      lease.ID    `json:"leaseId,omitempty"`
	ExpiresAt    string      `json:"expiresAt,omitempty"`
	ExpiresInMs  *int64      `json:"expiresInMs,omitempty"`
	Reason       string      `json:"reason,omitempty"`
	Fence        lease.Fence `json:"fence,omitempty"`        // of a stale fence: the write's
	SupersededBy lease.Fence `json:"supersededBy,omitempty"` // and the newest one that conflicts with it
	Message      string      `json:"message"`
}

// Lease is a lease as it is granted.
type Lease struct {
	LeaseID     lease.ID    `json:"leaseId"`
	Granted     bool        `json:"granted,omitempty"` // the request made it; it was not there before, and extended or renewed
	Holder      lease.Agent `json:"holder"`
	ExpiresAt   string      `json:"expiresAt"`
	ExpiresInMs int64       `json:"expiresInMs"` // the same as a remaining time, for clients whose clock is wrong
	AcquiredAt  string      `json:"acquiredAt"`
	Fence       lease.Fence `json:"fence"`
	Reason      string      `json:"reason,omitempty"`
	Mode        lease.Mode  `json:"mode"`
	SectionID   SectionID   `json:"sectionId"`
	Advisory    string      `json:"advisory"`
}

// LostLease is a lease that ended without its holder's doing.
type LostLease struct {
	LeaseID   lease.ID    `json:"leaseId"`
	Resource  string      `json:"resource"` // section:<slug>/<section id>, or any other resource's name
	SectionID SectionID   `json:"sectionId,omitempty"`
	Fence     lease.Fence `json:"fence"`
	Action    lease.Kind  `json:"action"` // "expire", "force" or "end"
	By        string      `json:"by,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	At        string      `json:"at"`
}

// Me is the caller.
type Me struct {
	Agent    lease.Agent `json:"agent"`
	Role     string      `json:"role"` // "viewer", "editor" or "admin"
	CanWrite bool        `json:"canWrite"`
}

// EventRecord is an entry of a document's log.
type EventRecord struct {
	ID        string          `json:"id"`
	Seq       Seq             `json:"seq"`
	Type      string          `json:"event_type"`
	Actor     lease.Agent     `json:"actor_id"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt string          `json:"created_at"`
	Hash      string          `json:"hash"`
}

// Current as a base means the present version, whatever it is.
const Current crdt.Version = "current"
