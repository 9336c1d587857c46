package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Request is a frame of a client. Each that has an id is answered once with it: by what its type says, or an [Error].
type Request interface {
	Frame
	// About is the document that the request is about; "" makes one.
	About() Document
	check() error
}

// View is how much of a document is opened.
type View string

const (
	Whole      View = "whole"
	OneSection View = "section"
	LogOnly    View = "log"
)

// Open follows a document until Close; it is answered by [Opened]. Opening one again begins anew.
type Open struct {
	Header
	Document Document     `json:"document"`
	View     View         `json:"view,omitempty"`    // Whole, if not given
	Section  SectionID    `json:"section,omitempty"` // of OneSection
	Version  crdt.Version `json:"version,omitempty"` // which the client has: only the difference is sent, if it is one of the document's
	Since    *Seq         `json:"since,omitempty"`   // events behind it are sent; nil: none, of LogOnly those from now on
}

// Close ends what Open began; it is answered by [Closed].
type Close struct {
	Header
	Document Document `json:"document"`
}

// Edit changes a section's text in exactly one of three ways, as if typed on Base.
type Edit struct {
	Header
	Document Document      `json:"document"`
	Section  SectionID     `json:"section"`
	Text     *string       `json:"text,omitempty"` // the whole new text
	Ops      []TextOp      `json:"ops,omitzero"`
	Replace  []Replacement `json:"replace,omitzero"`
	Base     crdt.Version  `json:"base,omitempty"` // or Current; a Text needs one
	Fence    lease.Fence   `json:"fence,omitempty"`
}

// Create makes a section of a document, or without Document a document.
type Create struct {
	Header
	Document Document    `json:"document,omitempty"`
	Section  SectionID   `json:"section,omitempty"` // made from the heading, or from the request's id, if not given
	After    SectionID   `json:"after,omitempty"`   // the section before; at the end if not given
	Text     *string     `json:"text,omitempty"`    // of a section
	Fence    lease.Fence `json:"fence,omitempty"`

	Slug     string `json:"slug,omitempty"` // these are of a document
	Title    string `json:"title,omitempty"`
	Markdown string `json:"markdown,omitempty"`
	Level    int    `json:"level,omitempty"` // split at headings down to it, 1 to 6
}

// Move puts a section behind another; After "" puts it first.
type Move struct {
	Header
	Document Document    `json:"document"`
	Section  SectionID   `json:"section"`
	After    *SectionID  `json:"after"`
	Fence    lease.Fence `json:"fence,omitempty"`
}

// Remove takes a section out; its text stays and can be restored.
type Remove struct {
	Header
	Document Document    `json:"document"`
	Section  SectionID   `json:"section"`
	Fence    lease.Fence `json:"fence,omitempty"`
}

// Restore brings a removed section back.
type Restore struct {
	Header
	Document Document    `json:"document"`
	Section  SectionID   `json:"section"`
	Fence    lease.Fence `json:"fence,omitempty"`
}

// LeaseAction is what is asked about a lease.
type LeaseAction string

const (
	Acquire  LeaseAction = "acquire"
	Renew    LeaseAction = "renew"
	Release  LeaseAction = "release"
	Transfer LeaseAction = "transfer"
	Leave    LeaseAction = "leave" // the queue
)

// LeaseRequest asks about a section's lease, which is advisory.
type LeaseRequest struct {
	Header
	Document             Document    `json:"document"`
	Section              SectionID   `json:"section"`
	Action               LeaseAction `json:"action"`
	LeaseDurationSeconds float64     `json:"leaseDurationSeconds,omitempty"` // of Acquire and Renew, 1 to 300
	Reason               string      `json:"reason,omitempty"`               // of Acquire
	Queue                bool        `json:"queue,omitempty"`                // of Acquire: wait for it, as long as the socket lives
	WaitSeconds          float64     `json:"waitSeconds,omitempty"`          // of Acquire: wait for at most so long
	PlaceSeconds         float64     `json:"placeSeconds,omitempty"`         // of Acquire: how long the place outlives the wait, 1 to 300
	To                   string      `json:"to,omitempty"`                   // of Transfer
	LeaseID              lease.ID    `json:"leaseId,omitempty"`              // of Release: refuse if the present lease is another one
}

// Presence tells who else has the document open what this socket is doing. It ends with the socket, with its time,
// or when it is sent without a State. It is answered by nothing but an [Error].
type Presence struct {
	Header
	Document   Document        `json:"document"`
	Section    SectionID       `json:"section,omitempty"`
	State      json.RawMessage `json:"state,omitempty"`      // any JSON of at most MaxPresence bytes
	TTLSeconds float64         `json:"ttlSeconds,omitempty"` // 1 to MaxPresenceTTL
}

// Post appends a message to the log.
type Post struct {
	Header
	Document Document        `json:"document"`
	Payload  json.RawMessage `json:"payload"` // a JSON object of at most 64 KiB
}

func (*Open) kind() Type         { return TypeOpen }
func (*Close) kind() Type        { return TypeClose }
func (*Edit) kind() Type         { return TypeEdit }
func (*Create) kind() Type       { return TypeCreate }
func (*Move) kind() Type         { return TypeMove }
func (*Remove) kind() Type       { return TypeRemove }
func (*Restore) kind() Type      { return TypeRestore }
func (*LeaseRequest) kind() Type { return TypeLease }
func (*Presence) kind() Type     { return TypePresence }
func (*Post) kind() Type         { return TypePost }

func (r *Open) About() Document         { return r.Document }
func (r *Close) About() Document        { return r.Document }
func (r *Edit) About() Document         { return r.Document }
func (r *Create) About() Document       { return r.Document }
func (r *Move) About() Document         { return r.Document }
func (r *Remove) About() Document       { return r.Document }
func (r *Restore) About() Document      { return r.Document }
func (r *LeaseRequest) About() Document { return r.Document }
func (r *Presence) About() Document     { return r.Document }
func (r *Post) About() Document         { return r.Document }

func newRequest(t Type) Request {
	switch t {
	case TypeOpen:
		return new(Open)
	case TypeClose:
		return new(Close)
	case TypeEdit:
		return new(Edit)
	case TypeCreate:
		return new(Create)
	case TypeMove:
		return new(Move)
	case TypeRemove:
		return new(Remove)
	case TypeRestore:
		return new(Restore)
	case TypeLease:
		return new(LeaseRequest)
	case TypePresence:
		return new(Presence)
	case TypePost:
		return new(Post)
	}
	return nil
}

// DecodeRequest reads a frame of a client strictly: a field that the type does not have is refused, because it is
// most likely misspelt. Errors are *code.Error, INVALID_JSON and BAD_REQUEST; id is the frame's as far as it could be
// read, so that the client can be told what was refused.
func DecodeRequest(b []byte) (r Request, id RequestID, err error) {
	var head struct {
		Type *Type      `json:"type"`
		ID   *RequestID `json:"id"`
	}
	if !utf8.Valid(b) {
		return nil, "", code.New(code.InvalidJSON, "a frame is JSON in UTF-8")
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, "", misread(err)
	}
	if head.ID != nil {
		if id = *head.ID; !validID(id) {
			return nil, "", code.New(code.BadRequest, `"id" is 1 to %d visible ASCII characters`, MaxRequestID)
		}
	}
	if head.Type == nil {
		return nil, id, missing("type")
	}
	if r = newRequest(*head.Type); r == nil {
		return nil, id, code.New(code.BadRequest, "there is no frame of type %.64q", *head.Type)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(r); err != nil {
		return nil, id, misread(err)
	}
	return r, id, r.check()
}

func validID(id RequestID) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= MaxRequestID
}

// misread says what is wrong with JSON, without the names of Go.
func misread(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return code.New(code.InvalidJSON, "a frame is a JSON object, not a %s", wrong.Value)
		}
		return code.New(code.BadRequest, "%q cannot be a %s", wrong.Field, wrong.Value).With("field", wrong.Field)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(*json.SyntaxError)) {
		return code.New(code.InvalidJSON, "a frame is a JSON object: %v", err)
	}
	return code.New(code.BadRequest, "%.200s", bytes.TrimPrefix([]byte(err.Error()), []byte("json: ")))
}

func missing(field string) error {
	return code.New(code.BadRequest, "%q is missing", field).With("field", field)
}

// outside is a number that is not within its limits.
func outside(field string, least, most float64) error {
	return code.New(code.BadRequest, "%q is from %g to %g", field, least, most).With("field", field)
}

func (d Document) check() error {
	if d == "" {
		return missing("document")
	}
	return nil
}

// ofSection checks what names a section.
func ofSection(d Document, s SectionID) error {
	if err := d.check(); err != nil {
		return err
	}
	if s == "" {
		return missing("section")
	}
	return nil
}

func (r *Open) check() error {
	switch r.View {
	case "":
		r.View = Whole
	case Whole, LogOnly, OneSection:
	default:
		return code.New(code.BadRequest, `"view" is %q, %q or %q`, Whole, OneSection, LogOnly).With("field", "view")
	}
	if r.View == OneSection {
		return ofSection(r.Document, r.Section)
	}
	if r.Section != "" {
		return code.New(code.BadRequest, `"section" is for the view %q`, OneSection).With("field", "section")
	}
	return r.Document.check()
}

func (r *Close) check() error { return r.Document.check() }

func (r *Edit) check() error {
	ways := 0
	for _, given := range []bool{r.Text != nil, r.Ops != nil, r.Replace != nil} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return code.New(code.BadRequest, `an edit has exactly one of "text", "ops" and "replace"`)
	}
	if n := max(len(r.Ops), len(r.Replace)); n > MaxOps {
		return code.New(code.TooLarge, "an edit has at most %d operations", MaxOps).With("limit", MaxOps)
	}
	return ofSection(r.Document, r.Section)
}

func (r *Create) check() error {
	ofDocument := r.Slug != "" || r.Title != "" || r.Markdown != "" || r.Level != 0
	ofASection := r.Section != "" || r.After != "" || r.Text != nil || r.Fence != 0
	switch {
	case r.Document != "" && ofDocument:
		return code.New(code.BadRequest, `"slug", "title", "markdown" and "level" are of a new document, which has no "document"`)
	case r.Document == "" && ofASection:
		return missing("document")
	case r.Document != "" && r.Text == nil:
		return missing("text")
	}
	return nil
}

func (r *Move) check() error {
	if r.After == nil {
		return missing("after")
	}
	return ofSection(r.Document, r.Section)
}

func (r *Remove) check() error  { return ofSection(r.Document, r.Section) }
func (r *Restore) check() error { return ofSection(r.Document, r.Section) }

func (r *LeaseRequest) check() error {
	if err := ofSection(r.Document, r.Section); err != nil {
		return err
	}
	switch r.Action {
	case Acquire, Renew:
		if s := r.LeaseDurationSeconds; s < lease.MinDuration.Seconds() || s > lease.MaxDuration.Seconds() {
			return code.New(code.InvalidDuration, `"leaseDurationSeconds" is from %g to %g`, lease.MinDuration.Seconds(), lease.MaxDuration.Seconds()).
				With("field", "leaseDurationSeconds")
		}
	case Transfer:
		if r.To == "" {
			return missing("to")
		}
	case Release, Leave:
	case "":
		return missing("action")
	default:
		return code.New(code.BadRequest, `"action" is acquire, renew, release, transfer or leave`).With("field", "action")
	}
	if s := r.PlaceSeconds; s != 0 && (s < lease.MinPlace.Seconds() || s > lease.MaxPlace.Seconds()) {
		return outside("placeSeconds", lease.MinPlace.Seconds(), lease.MaxPlace.Seconds())
	}
	if s := r.WaitSeconds; s < 0 || s > MaxWaitSeconds {
		return outside("waitSeconds", 0, MaxWaitSeconds)
	}
	return nil
}

func (r *Presence) check() error {
	if len(r.State) > MaxPresence {
		return code.New(code.TooLarge, "a presence's state has at most %d bytes", MaxPresence).With("limit", MaxPresence)
	}
	if s := r.TTLSeconds; s != 0 && (s < 1 || s > MaxPresenceTTL) {
		return outside("ttlSeconds", 1, MaxPresenceTTL)
	}
	return r.Document.check()
}

func (r *Post) check() error {
	if len(r.Payload) == 0 {
		return missing("payload")
	}
	return r.Document.check()
}
