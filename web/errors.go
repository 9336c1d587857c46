package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"cowrite/doc/code"
)

// refusal is the only form in which an error leaves this package: a code word with its HTTP status, a
// sentence and facts as {"error", "message", ...facts}, and the headers that go with it.
type refusal struct {
	what         *code.Error
	header       http.Header
	coordination bool // worded as the coordination door does: {"ok": false, "error" in lower case, ...}
}

// newRefusal is the refusal of any error. What is no *code.Error is INTERNAL.
func newRefusal(err error) *refusal {
	r := &refusal{what: code.From(err), header: http.Header{}}
	if h, ok := errors.AsType[*headed](err); ok {
		r.header = h.header
	}
	switch r.GetStatus() {
	case http.StatusUnauthorized:
		r.header.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if r.header.Get("Retry-After") == "" {
			r.header.Set("Retry-After", "1")
		}
	}
	return r
}

func (r *refusal) Error() string { return r.what.Error() }

// GetStatus and GetHeaders are how huma asks for the status line and headers of an error.
func (r *refusal) GetStatus() int          { return r.what.Entry().HTTP }
func (r *refusal) GetHeaders() http.Header { return r.header }

// MarshalJSON puts the code and the sentence before the facts.
func (r *refusal) MarshalJSON() ([]byte, error) {
	body, err := marshal(struct {
		Error   code.Code `json:"error"`
		Message string    `json:"message"`
	}{r.what.Code, r.what.Message})
	if r.coordination {
		body, err = coordinationHead(r.what)
	}
	if err != nil || len(r.what.Facts) == 0 {
		return body, err
	}
	facts, err := marshal(r.what.Facts)
	if err != nil {
		return nil, fmt.Errorf("marshal facts of %s: %w", r.what.Code, err)
	}
	return append(append(body[:len(body)-1], ','), facts[1:]...), nil
}

// marshal is json.Marshal without the escapes for HTML, which no answer is.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// headed is an error with headers for its answer.
type headed struct {
	error
	header http.Header
}

func (h *headed) Unwrap() error { return h.error }

func withHeader(err error, name, value string) error {
	return &headed{err, http.Header{name: {value}}}
}

// retryAfter adds the Retry-After header, in whole seconds, at least one.
func retryAfter(err error, d time.Duration) error {
	seconds := max(1, int64(math.Ceil(d.Seconds())))
	return withHeader(err, "Retry-After", strconv.FormatInt(seconds, 10))
}

// refusal turns an error into its answer. This is the edge: what went wrong inside is logged here, once,
// and not sent.
func (s *Server) refusal(ctx context.Context, err error) *refusal {
	if errors.Is(err, context.Canceled) && s.opts.Stop.Err() != nil {
		err = code.New(code.ShuttingDown, "the server is shutting down").Because(err)
	}
	r := newRefusal(err)
	r.coordination = callOf(ctx).coordinates()
	switch {
	case ctx.Err() != nil: // the caller is gone, and so is the reader of the answer
		s.log.DebugContext(ctx, "request given up", "request", callOf(ctx).id, "err", err)
	case r.what.Code == code.Internal:
		s.log.ErrorContext(ctx, "request failed", "request", callOf(ctx).id, "err", err)
	case r.what.Cause != nil:
		s.log.DebugContext(ctx, "request refused", "request", callOf(ctx).id, "err", err)
	}
	return r
}

// refuse writes an error outside of huma's handlers.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	ref := s.refusal(r.Context(), err)
	for name, values := range ref.header {
		w.Header()[name] = values
	}
	s.writeJSON(w, r, ref.GetStatus(), ref)
}

// writeJSON writes an answer outside of huma's handlers.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	data, err := marshal(body)
	if err != nil {
		s.log.ErrorContext(r.Context(), "answer not written", "request", callOf(r.Context()).id, "err", err)
		status, data = http.StatusInternalServerError, []byte(`{"error":"INTERNAL","message":"something went wrong on the server"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(data, '\n')); err != nil {
		s.log.LogAttrs(r.Context(), slog.LevelDebug, "answer not read", slog.String("request", callOf(r.Context()).id), slog.Any("err", err))
	}
}

func methodNotAllowed(method string, allow []string) error {
	err := code.New(code.MethodNotAllowed, "%s is not possible here", method).With("allow", allow)
	return withHeader(err, "Allow", strings.Join(allow, ", "))
}

// huma writes the errors that it finds by itself (bodies that are not JSON, unknown fields, wrong types)
// through these two package variables: they are the only way to give those the common form.
func init() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		r := newRefusal(foundByHuma(ctx, status, message, errs))
		r.coordination = ctx != nil && callOf(ctx.Context()).coordinates()
		return r
	}
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return newRefusal(foundByHuma(nil, status, message, errs))
	}
}

// codesOfPlaces gives what is wrong a more telling code than BAD_REQUEST by where it was found; of one operation, where
// its id stands before the place.
var codesOfPlaces = map[string]code.Code{
	"body.leaseDurationSeconds": code.InvalidDuration,
	"body.placeSeconds":         code.InvalidDuration,
	"body.ttlMs":                code.InvalidDuration,
	"body.waitMs":               code.InvalidDuration,
	"body.actorDid":             code.InvalidAgent,
	"body.expiresIn":            code.InvalidDuration,
	"query.wait":                code.InvalidDuration,
	"query.after":               code.InvalidCursor,
	"query.since":               code.InvalidCursor,
	"header.Last-Event-ID":      code.InvalidCursor,
	"body.slug":                 code.InvalidSlug,
	"body.id":                   code.InvalidSectionID,
	"body.after":                code.InvalidSectionID,
	"body.agent":                code.InvalidAgent,
	"body.to":                   code.InvalidAgent,
	"body.role":                 code.InvalidRole,
	"body.base":                 code.InvalidVersion,
	"body.markdown":             code.InvalidMarkdown,

	"revert-section body.to": code.InvalidVersion,

	// of tools
	"arguments.seconds":     code.InvalidDuration,
	"arguments.waitSeconds": code.InvalidDuration,
	"arguments.ttlMs":       code.InvalidDuration,
	"arguments.waitMs":      code.InvalidDuration,
	"arguments.actorDid":    code.InvalidAgent,
	"arguments.base":        code.InvalidVersion,
	"arguments.since":       code.InvalidCursor,
}

// foundByHuma says in our codes what huma found wrong with a request. Values are never repeated: they
// may be secrets.
func foundByHuma(ctx huma.Context, status int, message string, errs []error) *code.Error {
	var details []*huma.ErrorDetail
	for _, err := range errs {
		if d, ok := err.(huma.ErrorDetailer); ok {
			details = append(details, d.ErrorDetail())
		}
	}
	switch status {
	case http.StatusRequestEntityTooLarge:
		err := code.New(code.TooLarge, "the body is too large")
		if ctx != nil {
			err = err.With("limit", ctx.Operation().MaxBodyBytes)
		}
		return err
	case http.StatusUnsupportedMediaType:
		return code.New(code.UnsupportedMedia, "the body has to be application/json")
	case http.StatusRequestTimeout:
		return code.New(code.BadRequest, "the body did not arrive in time")
	case http.StatusBadRequest:
		if len(details) == 0 {
			return code.New(code.InvalidJSON, "the request needs a JSON body")
		}
		return code.New(code.InvalidJSON, "the body is not JSON: %s", details[0].Message)
	case http.StatusUnprocessableEntity:
		operation := ""
		if ctx != nil {
			operation = ctx.Operation().OperationID
		}
		return invalid(operation, details)
	case http.StatusInternalServerError:
		if message == "cannot read request body" { // its sender went away in the middle
			return code.New(code.BadRequest, "the body did not arrive whole")
		}
	}
	return code.New(code.Internal, "something went wrong on the server").Because(errors.Join(append(errs, errors.New(message))...))
}

// invalid describes what does not fit the schema; the first detail decides the code.
func invalid(operation string, details []*huma.ErrorDetail) *code.Error {
	type problem struct {
		Place   string `json:"place"`
		Message string `json:"message"`
	}
	var problems []problem
	for _, d := range details {
		place := d.Location
		for known := range codesOfPlaces {
			parent, name, _ := strings.Cut(known, ".")
			if place == parent && d.Message == fmt.Sprintf(validation.MsgExpectedRequiredProperty, name) {
				place = known
			}
		}
		problems = append(problems, problem{place, d.Message})
	}
	if len(problems) == 0 {
		return code.New(code.BadRequest, "the request is not valid")
	}
	c, ok := codesOfPlaces[operation+" "+problems[0].Place]
	if !ok {
		c, ok = codesOfPlaces[problems[0].Place]
	}
	if !ok {
		c = code.BadRequest
	}
	return code.New(c, "%s: %s", problems[0].Place, problems[0].Message).With("problems", problems)
}
