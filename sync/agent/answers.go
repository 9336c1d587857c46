package agent

import (
	"encoding/json"
	"fmt"
	"slices"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Welcome is the first frame of the server.
type Welcome struct {
	Header
	Protocol      string      `json:"protocol"`
	Agent         lease.Agent `json:"agent"` // whose key it is
	Role          string      `json:"role"`
	Session       string      `json:"session"` // names this socket in presences
	MaxFrameBytes int         `json:"maxFrameBytes"`
}

// Opened answers [Open]. Unless Resumed, a whole view has all sections, a section's view that one; what happens from
// Version on follows in [Changed] frames. Resumed says that the client's version is known: what leads from it to
// Version follows in a Changed frame, if anything does.
type Opened struct {
	Header
	Document   Document     `json:"document"` // as the client called it, here and in all that follows
	DocumentID string       `json:"documentId"`
	Slug       string       `json:"slug,omitempty"`
	Title      string       `json:"title"`
	View       View         `json:"view"`
	Version    crdt.Version `json:"version,omitempty"`
	Resumed    bool         `json:"resumed,omitempty"`
	Sections   []Section    `json:"sections,omitempty"` // in order
	Removed    []Section    `json:"removed,omitempty"`
	LastSeq    Seq          `json:"lastSeq"`
	Me         Me           `json:"me"`
}

// Closed answers [Close], or says that the server follows the document no longer, and why. A code that is worth
// coming back for (BUSY) means: open it again.
type Closed struct {
	Header
	Document Document  `json:"document"`
	Code     code.Code `json:"error,omitempty"`
	Message  string    `json:"message,omitempty"`
}

// Changed leads from one version of a document's text to the next; the next one begins where it ends.
type Changed struct {
	Header
	Document Document        `json:"document"`
	From     crdt.Version    `json:"from"`
	To       crdt.Version    `json:"to"`
	Authors  []lease.Agent   `json:"authors,omitempty"` // who wrote; not told of what a Resumed client missed
	Title    *string         `json:"title,omitempty"`   // nil: as it was
	Sections []SectionChange `json:"sections,omitempty"`
}

// SectionChange is what became of one section. Ops count in its text at From, sorted and apart.
type SectionChange struct {
	Section
	Made bool     `json:"made,omitempty"` // it was not there; Text is all of it
	Gone bool     `json:"gone,omitempty"` // it is no section any more
	Ops  []TextOp `json:"ops,omitempty"`
}

// MarshalJSON leaves the text of a section that was there to its operations.
func (s SectionChange) MarshalJSON() ([]byte, error) {
	type head struct {
		ID       SectionID `json:"id"`
		Heading  string    `json:"heading"`
		Level    int       `json:"level"`
		Position string    `json:"position"`
		Removed  bool      `json:"removed,omitempty"`
		Made     bool      `json:"made,omitempty"`
		Text     *string   `json:"text,omitempty"`
		Ops      []TextOp  `json:"ops,omitempty"`
	}
	if s.Gone {
		return json.Marshal(struct {
			ID   SectionID `json:"id"`
			Gone bool      `json:"gone"`
		}{s.ID, true})
	}
	h := head{ID: s.ID, Heading: s.Heading, Level: s.Level, Position: s.Position, Removed: s.Removed, Made: s.Made, Ops: s.Ops}
	if s.Made {
		h.Text = &s.Text
	}
	return json.Marshal(h)
}

// Ack says that a request was done; what it wrote is on disk. Which fields there are depends on the request.
type Ack struct {
	Header
	Document   Document     `json:"document,omitempty"`
	DocumentID string       `json:"documentId,omitempty"` // of a document made
	Slug       string       `json:"slug,omitempty"`       // of a document made
	Version    crdt.Version `json:"version,omitempty"`    // of the document, with the write in it
	Section    *Written     `json:"section,omitempty"`    // of writes to a section
	Merged     bool         `json:"merged,omitempty"`     // others had written since the base; their text is in
	MergedFrom *MergedFrom  `json:"mergedFrom,omitempty"`
	Advisory   *Advisory    `json:"advisory,omitempty"`
	Repeated   bool         `json:"repeated,omitempty"` // a retry: it had been done before
	Lease      *Lease       `json:"lease,omitempty"`    // acquired, renewed or handed
	Released   bool         `json:"released,omitempty"`
	Left       *bool        `json:"left,omitempty"`  // whether there was a place to give up
	Event      *EventRecord `json:"event,omitempty"` // posted
}

// Written is the section after a write. Text is there where the writer cannot know it: after a merge.
type Written struct {
	ID       SectionID `json:"id"`
	Heading  string    `json:"heading"`
	Level    int       `json:"level"`
	Text     *string   `json:"text,omitempty"`
	Position string    `json:"position"`
	Removed  bool      `json:"removed,omitempty"`
}

// Queued says that a lease is somebody else's and that the request waits: its [Ack] or [Error] comes later.
type Queued struct {
	Header
	Document    Document    `json:"document"`
	SectionID   SectionID   `json:"sectionId"`
	Position    int         `json:"position"` // from 1
	Holder      lease.Agent `json:"holder,omitempty"`
	ExpiresAt   string      `json:"expiresAt,omitempty"`
	ExpiresInMs int64       `json:"expiresInMs,omitempty"`
	Reason      string      `json:"reason,omitempty"`
}

// Event is an entry of the log. An open document's come in order, without gap or repeat.
type Event struct {
	Header
	Document Document    `json:"document"`
	Event    EventRecord `json:"event"`
}

// Present is what another socket says of itself. It lasts for ExpiresInMs unless it is renewed, or is Gone before.
type Present struct {
	Header
	Document    Document        `json:"document"`
	Agent       lease.Agent     `json:"agent"`
	Session     string          `json:"session"`
	Section     SectionID       `json:"section,omitempty"`
	State       json.RawMessage `json:"state,omitempty"`
	ExpiresInMs int64           `json:"expiresInMs,omitempty"`
	Gone        bool            `json:"gone,omitempty"`
}

// LeaseLost tells every socket of an agent that it lost leases. What is told when a socket opens may have been told
// before: leaseId says so.
type LeaseLost struct {
	Header
	LeaseLost []LostLease `json:"leaseLost"`
}

// Error is a refusal of the request with its id; without one it is about the frame that could not be read, or is the
// last frame before the socket is closed. Facts stand beside the code on the wire.
type Error struct {
	Header
	Document Document
	Code     code.Code
	Message  string
	Facts    map[string]any
}

// Refusal is the error as a value.
func (e *Error) Refusal() *code.Error {
	return &code.Error{Code: e.Code, Message: e.Message, Facts: e.Facts}
}

// MarshalJSON puts the facts beside the code, behind what every error has.
func (e *Error) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Header
		Document Document  `json:"document,omitempty"`
		Code     code.Code `json:"error"`
		Message  string    `json:"message"`
	}{Header{TypeError, e.ID}, e.Document, e.Code, e.Message})
	if err != nil || len(e.Facts) == 0 {
		return head, err
	}
	facts, err := json.Marshal(e.Facts)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head[:len(head)-1], []byte{','}, facts[1:]), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Error) UnmarshalJSON(b []byte) error {
	var head struct {
		Header
		Document Document  `json:"document"`
		Code     code.Code `json:"error"`
		Message  string    `json:"message"`
	}
	facts := map[string]any{}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &facts); err != nil {
		return err
	}
	for _, name := range []string{"type", "id", "document", "error", "message"} {
		delete(facts, name)
	}
	*e = Error{head.Header, head.Document, head.Code, head.Message, facts}
	return nil
}

func (*Welcome) kind() Type   { return TypeWelcome }
func (*Opened) kind() Type    { return TypeOpened }
func (*Closed) kind() Type    { return TypeClosed }
func (*Changed) kind() Type   { return TypeChanged }
func (*Ack) kind() Type       { return TypeAck }
func (*Queued) kind() Type    { return TypeQueued }
func (*Event) kind() Type     { return TypeEvent }
func (*Present) kind() Type   { return TypePresence }
func (*LeaseLost) kind() Type { return TypeLeaseLost }
func (*Error) kind() Type     { return TypeError }

// DecodeAnswer reads a frame of the server leniently: unknown fields are for later versions. A frame of an unknown
// type is nil.
func DecodeAnswer(b []byte) (Frame, error) {
	var head Header
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	var f Frame
	switch head.Type {
	case TypeWelcome:
		f = new(Welcome)
	case TypeOpened:
		f = new(Opened)
	case TypeClosed:
		f = new(Closed)
	case TypeChanged:
		f = new(Changed)
	case TypeAck:
		f = new(Ack)
	case TypeQueued:
		f = new(Queued)
	case TypeEvent:
		f = new(Event)
	case TypePresence:
		f = new(Present)
	case TypeLeaseLost:
		f = new(LeaseLost)
	case TypeError:
		f = new(Error)
	default:
		return nil, nil
	}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("read %s: %w", head.Type, err)
	}
	return f, nil
}
