package doc

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Seq numbers the events of one document from 1, without gaps. On the wire it is a decimal string.
type Seq int64

func (s Seq) String() string { return strconv.FormatInt(int64(s), 10) }

// ParseSeq reads a decimal number from 0 on.
func ParseSeq(s string) (Seq, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("parse seq: %q", s)
	}
	return Seq(n), nil
}

// EventID names an event.
type EventID uuid.UUID

func (id EventID) String() string { return uuid.UUID(id).String() }

// EventType is what happened, dotted.
type EventType string

// The types of events.
const (
	DocumentCreated        EventType = "document.created"
	DocumentRenamed        EventType = "document.renamed"
	DocumentRetitled       EventType = "document.retitled"
	DocumentEdited         EventType = "document.edited" // outside the schema
	DocumentDeleted        EventType = "document.deleted"
	DocumentRestored       EventType = "document.restored"
	DocumentBlocked        EventType = "document.blocked"
	DocumentUnblocked      EventType = "document.unblocked"
	DocumentShared         EventType = "document.shared"   // a link was made
	DocumentUnshared       EventType = "document.unshared" // a link was ended before its time
	SectionCreated         EventType = "section.created"
	SectionEdited          EventType = "section.edited"
	SectionMoved           EventType = "section.moved"
	SectionRemoved         EventType = "section.removed"
	SectionRestored        EventType = "section.restored"
	SectionLeased          EventType = "section.leased"
	SectionLeaseRenewed    EventType = "section.lease_renewed"
	SectionLeaseReleased   EventType = "section.lease_released"
	SectionLeaseExpired    EventType = "section.lease_expired"
	SectionLeaseEnded      EventType = "section.lease_ended"
	SectionLeaseBroken     EventType = "section.lease_broken"
	SectionLeaseHanded     EventType = "section.lease_transferred"
	SectionLeaseOverridden EventType = "section.lease_overridden"
	SectionLeaseQueued     EventType = "section.lease_queued"
	SectionLeaseUnqueued   EventType = "section.lease_unqueued"
	SectionLeaseReserved   EventType = "section.lease_reserved"
	SectionLeaseLapsed     EventType = "section.lease_lapsed"
	SectionLeaseDeadlock   EventType = "section.lease_deadlock"
	SectionOverlap         EventType = "section.overlap"
	SectionConflict        EventType = "section.conflict"
	SectionFenceStale      EventType = "section.fence_stale"
	MessagePosted          EventType = "message.posted"
)

// NewEvent is an event about to be appended.
type NewEvent struct {
	ID      EventID
	Type    EventType
	Actor   Agent
	Payload json.RawMessage // a JSON object as json.Marshal writes it: compact, with <, > and & escaped
	At      time.Time
}

// Event is one entry of a document's log.
type Event struct {
	NewEvent
	Seq  Seq
	Hash EventHash
}

// EventHash chains an event to the one before it.
type EventHash [sha256.Size]byte

func (h EventHash) String() string { return hex.EncodeToString(h[:]) }

// MakeEvent marshals the payload.
func MakeEvent(id EventID, t EventType, actor Agent, at time.Time, payload any) (NewEvent, error) {
	// json.Marshal compacts and escapes <, > and &, also in a json.RawMessage, so that no JSON encoder on the way
	// to a reader changes the bytes that the hash covers.
	data, err := json.Marshal(payload)
	if err != nil {
		return NewEvent{}, fmt.Errorf("marshal payload of %s: %w", t, err)
	}
	return NewEvent{id, t, actor, data, at.UTC().Truncate(time.Millisecond)}, nil
}

// Chain seals an event: its hash is the SHA-256 over the previous event's hash (zeros for the first) and
// the event's seq, id, type, actor, time in ms and payload, each led by its length in 8 bytes, big endian.
func Chain(previous EventHash, seq Seq, e NewEvent) Event {
	h := sha256.New()
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	field(previous[:])
	field([]byte(seq.String()))
	field([]byte(e.ID.String()))
	field([]byte(e.Type))
	field([]byte(e.Actor))
	field([]byte(FormatTime(e.At)))
	field(e.Payload)
	out := Event{NewEvent: e, Seq: seq}
	h.Sum(out.Hash[:0])
	return out
}

// FormatTime is how instants look on the wire: ISO 8601, UTC, milliseconds.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// eventJSON is an event on the wire.
type eventJSON struct {
	ID        string          `json:"id"`
	Seq       string          `json:"seq"`
	Type      EventType       `json:"event_type"`
	Actor     Agent           `json:"actor_id"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt string          `json:"created_at"`
	Hash      string          `json:"hash"`
}

// MarshalJSON writes the event as every door shows it.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(eventJSON{e.ID.String(), e.Seq.String(), e.Type, e.Actor, e.Payload, FormatTime(e.At), e.Hash.String()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Event) UnmarshalJSON(data []byte) error {
	var j eventJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	id, err := uuid.Parse(j.ID)
	if err != nil {
		return fmt.Errorf("read event id: %w", err)
	}
	seq, err := ParseSeq(j.Seq)
	if err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, j.CreatedAt)
	if err != nil {
		return fmt.Errorf("read event time: %w", err)
	}
	hash, err := hex.DecodeString(j.Hash)
	if err != nil || len(hash) != sha256.Size {
		return fmt.Errorf("read event hash: %q", j.Hash)
	}
	*e = Event{NewEvent{EventID(id), j.Type, j.Actor, j.Payload, at.UTC()}, seq, EventHash(hash)}
	return nil
}
