// Package code is the one table of everything that can be refused: a code word, and what it is on each
// door (HTTP status, WebSocket close code, MCP error). It imports nothing of ours, so that every room and
// every client of the server may speak the same words.
//
// A refusal is an [Error]: the code, a sentence for a person, and the facts that the caller needs to act.
// What went wrong inside travels in Cause, which is logged at the edge and never sent.
package code

import (
	"errors"
	"fmt"
	"net/http"
)

// Code is a word from the table, as it stands in the "error" field of a refusal.
type Code string

// The codes. The coordination door spells them in lower case, as its source does.
const (
	BadRequest       Code = "BAD_REQUEST"
	InvalidJSON      Code = "INVALID_JSON"
	InvalidSlug      Code = "INVALID_SLUG"
	InvalidSectionID Code = "INVALID_SECTION_ID"
	InvalidAgent     Code = "INVALID_AGENT"
	InvalidRole      Code = "INVALID_ROLE"
	InvalidDuration  Code = "INVALID_DURATION"
	InvalidVersion   Code = "INVALID_VERSION"
	InvalidCursor    Code = "INVALID_CURSOR"
	InvalidMarkdown  Code = "INVALID_MARKDOWN"
	InvalidRange     Code = "INVALID_RANGE"

	Unauthorized  Code = "UNAUTHORIZED"
	Forbidden     Code = "FORBIDDEN"
	ActorMismatch Code = "ACTOR_MISMATCH"
	NotHolder     Code = "NOT_HOLDER"
	BadOrigin     Code = "BAD_ORIGIN"

	NotFound         Code = "NOT_FOUND"
	DocumentNotFound Code = "DOCUMENT_NOT_FOUND"
	SectionNotFound  Code = "SECTION_NOT_FOUND"
	KeyNotFound      Code = "KEY_NOT_FOUND"
	NoActiveLease    Code = "NO_ACTIVE_LEASE"
	DocumentMoved    Code = "DOCUMENT_MOVED"
	DocumentDeleted  Code = "DOCUMENT_DELETED"
	DocumentBlocked  Code = "DOCUMENT_BLOCKED"
	MethodNotAllowed Code = "METHOD_NOT_ALLOWED"

	SlugTaken     Code = "SLUG_TAKEN"
	NotDeleted    Code = "NOT_DELETED"
	SectionExists Code = "SECTION_EXISTS"
	SectionLeased Code = "SECTION_LEASED"
	LeaseHeld     Code = "LEASE_HELD"
	StaleLease    Code = "STALE_LEASE"
	LeaseEnded    Code = "LEASE_ENDED"
	QueueFull     Code = "QUEUE_FULL"
	Deadlock      Code = "DEADLOCK"
	TooManyLeases Code = "TOO_MANY_LEASES"
	TooManyShares Code = "TOO_MANY_SHARES"
	BaseRequired  Code = "BASE_REQUIRED"
	BadChange     Code = "BAD_CHANGE"
	TextNotFound  Code = "TEXT_NOT_FOUND"
	TextAmbiguous Code = "TEXT_AMBIGUOUS"

	IdempotencyMismatch Code = "IDEMPOTENCY_MISMATCH"

	TooLarge          Code = "TOO_LARGE"
	DocumentFull      Code = "DOCUMENT_FULL"
	MessagesFull      Code = "MESSAGES_FULL"
	UnsupportedMedia  Code = "UNSUPPORTED_MEDIA_TYPE"
	NotAcceptable     Code = "NOT_ACCEPTABLE"
	TooManySockets    Code = "TOO_MANY_SOCKETS"
	TooManyDocuments  Code = "TOO_MANY_DOCUMENTS"
	BadFrame          Code = "BAD_FRAME"
	JoinTimeout       Code = "JOIN_TIMEOUT"
	KeyRevoked        Code = "KEY_REVOKED"
	UnsupportedProtos Code = "UNSUPPORTED_PROTOCOL_VERSION"

	SlowReader   Code = "SLOW_READER"
	Busy         Code = "BUSY"
	ShuttingDown Code = "SHUTTING_DOWN"
	Internal     Code = "INTERNAL"
)

// Entry is what a code is on each door. Close is 0 where no socket is ever closed with the code.
// Close codes 44xx say "do not retry"; 45xx and 1013 say "come back".
type Entry struct {
	HTTP  int
	Close int
	MCP   int
}

const (
	mcpInvalid  = -32602 // JSON-RPC: invalid params
	mcpInternal = -32603 // JSON-RPC: internal error
	mcpRefused  = -32000 // JSON-RPC: the first of the range left to servers
)

// Table is the one mapping. A code that is not in it is a bug; a test walks the constants.
var Table = map[Code]Entry{
	BadRequest:       {http.StatusBadRequest, 4400, mcpInvalid},
	InvalidJSON:      {http.StatusBadRequest, 4400, mcpInvalid},
	InvalidSlug:      {http.StatusBadRequest, 4400, mcpInvalid},
	InvalidSectionID: {http.StatusBadRequest, 4400, mcpInvalid},
	InvalidAgent:     {http.StatusBadRequest, 4400, mcpInvalid},
	InvalidRole:      {http.StatusBadRequest, 4400, mcpInvalid},
	InvalidDuration:  {http.StatusBadRequest, 0, mcpInvalid},
	InvalidVersion:   {http.StatusBadRequest, 0, mcpInvalid},
	InvalidCursor:    {http.StatusBadRequest, 0, mcpInvalid},
	InvalidMarkdown:  {http.StatusBadRequest, 0, mcpInvalid},
	InvalidRange:     {http.StatusBadRequest, 0, mcpInvalid},

	Unauthorized:  {http.StatusUnauthorized, 4401, mcpRefused},
	Forbidden:     {http.StatusForbidden, 4403, mcpRefused},
	ActorMismatch: {http.StatusForbidden, 4403, mcpRefused},
	NotHolder:     {http.StatusForbidden, 0, mcpRefused},
	BadOrigin:     {http.StatusForbidden, 4403, mcpRefused},

	NotFound:         {http.StatusNotFound, 0, mcpRefused},
	DocumentNotFound: {http.StatusNotFound, 0, mcpRefused},
	SectionNotFound:  {http.StatusNotFound, 0, mcpRefused},
	KeyNotFound:      {http.StatusNotFound, 0, mcpRefused},
	NoActiveLease:    {http.StatusNotFound, 0, mcpRefused},
	DocumentMoved:    {http.StatusPermanentRedirect, 0, mcpRefused},
	DocumentDeleted:  {http.StatusGone, 4410, mcpRefused},
	DocumentBlocked:  {http.StatusLocked, 0, mcpRefused},
	MethodNotAllowed: {http.StatusMethodNotAllowed, 0, mcpInvalid},

	SlugTaken:     {http.StatusConflict, 0, mcpRefused},
	NotDeleted:    {http.StatusConflict, 0, mcpRefused},
	SectionExists: {http.StatusConflict, 0, mcpRefused},
	SectionLeased: {http.StatusConflict, 0, mcpRefused},
	LeaseHeld:     {http.StatusConflict, 0, mcpRefused},
	StaleLease:    {http.StatusConflict, 0, mcpRefused},
	LeaseEnded:    {http.StatusConflict, 0, mcpRefused},
	QueueFull:     {http.StatusConflict, 0, mcpRefused},
	Deadlock:      {http.StatusConflict, 0, mcpRefused},
	TooManyLeases: {http.StatusTooManyRequests, 0, mcpRefused},
	TooManyShares: {http.StatusConflict, 0, mcpRefused},
	BaseRequired:  {http.StatusPreconditionRequired, 0, mcpRefused},
	BadChange:     {http.StatusUnprocessableEntity, 4422, mcpInvalid},
	TextNotFound:  {http.StatusConflict, 0, mcpRefused},
	TextAmbiguous: {http.StatusConflict, 0, mcpRefused},

	IdempotencyMismatch: {http.StatusUnprocessableEntity, 0, mcpInvalid},

	TooLarge:          {http.StatusRequestEntityTooLarge, 4413, mcpInvalid},
	DocumentFull:      {http.StatusRequestEntityTooLarge, 0, mcpRefused},
	MessagesFull:      {http.StatusRequestEntityTooLarge, 0, mcpRefused},
	UnsupportedMedia:  {http.StatusUnsupportedMediaType, 4415, mcpInvalid},
	NotAcceptable:     {http.StatusNotAcceptable, 0, mcpInvalid},
	TooManySockets:    {http.StatusTooManyRequests, 4429, mcpRefused},
	TooManyDocuments:  {http.StatusTooManyRequests, 4429, mcpRefused},
	BadFrame:          {http.StatusBadRequest, 4400, mcpInvalid},
	JoinTimeout:       {http.StatusRequestTimeout, 4408, mcpRefused},
	KeyRevoked:        {http.StatusUnauthorized, 4401, mcpRefused},
	UnsupportedProtos: {http.StatusBadRequest, 4426, mcpInvalid},

	SlowReader:   {http.StatusServiceUnavailable, 1013, mcpRefused},
	Busy:         {http.StatusServiceUnavailable, 1013, mcpRefused},
	ShuttingDown: {http.StatusServiceUnavailable, 4503, mcpRefused},
	Internal:     {http.StatusInternalServerError, 4500, mcpInternal},
}

// Error is a refusal. Facts are sent beside the code (holder, expiresAt, limit, position, ...).
type Error struct {
	Code    Code
	Message string
	Facts   map[string]any
	Cause   error // private: logged once at the edge, never sent
}

// New makes a refusal with a message in fmt.Sprintf's manner.
func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// With returns the error with one more fact.
func (e *Error) With(name string, value any) *Error {
	facts := make(map[string]any, len(e.Facts)+1)
	for k, v := range e.Facts {
		facts[k] = v
	}
	facts[name] = value
	return &Error{e.Code, e.Message, facts, e.Cause}
}

// Because returns the error with its private cause.
func (e *Error) Because(cause error) *Error {
	return &Error{e.Code, e.Message, e.Facts, cause}
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// Entry returns what the error's code is on each door.
func (e *Error) Entry() Entry { return Table[e.Code] }

// From finds the refusal in err's chain; any other error is [Internal] with err as its cause.
// From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return New(Internal, "something went wrong on the server").Because(err)
}

// Is says whether err is a refusal with code c.
func Is(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}
