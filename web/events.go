package web

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"cowrite/doc"
	"cowrite/doc/code"
)

// event is the schema of a log entry; doc.Event writes itself.
type event struct {
	ID        string  `json:"id" format:"uuid"`
	Seq       string  `json:"seq" doc:"Position in the document's log, from 1, without gaps; a decimal string."`
	Type      string  `json:"event_type" doc:"What happened, dotted: section.edited, section.leased, message.posted, ..."`
	Actor     string  `json:"actor_id" doc:"Who did it; system where nobody did."`
	Payload   payload `json:"payload" doc:"A JSON object."`
	CreatedAt string  `json:"created_at" format:"date-time"`
	Hash      string  `json:"hash" doc:"SHA-256 over the previous event's hash and this event, in hexadecimal."`
}

// payload is any JSON object, as it was spelt.
type payload struct{ json.RawMessage }

// Schema describes it to huma, which takes a json.RawMessage for anything at all.
func (payload) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

func (s *Server) eventRoutes() {
	const tag = "events"
	register(s, route{
		id: "list-events", method: http.MethodGet, path: "/documents/{slug}/events", tag: tag, status: http.StatusOK,
		summary: "Read the event log in pages",
		about: "The events behind `since`, in order. A position that the log has not come to is refused with INVALID_CURSOR and `lastSeq`: " +
			"the server was restored from a backup, and whoever followed its log begins anew. Lease events carry their classic name in payload.event.",
		refuses: append([]code.Code{code.InvalidCursor}, ofDocuments...),
	}, s.listEvents)
	register(s, route{
		id: "post-event", method: http.MethodPost, path: "/documents/{slug}/events", tag: tag, status: http.StatusCreated,
		summary: "Post a message",
		about:   "Any JSON object of up to 64 KiB, appended to the log as message.posted: how agents talk to each other about a document. Messages do not count toward what a document may take; all of them may have 64 MiB.",
		body:    messageBody,
		refuses: append([]code.Code{code.IdempotencyMismatch, code.MessagesFull}, ofWrites...),
	}, s.postEvent)
	register(s, route{
		id: "stream-events", method: http.MethodGet, path: "/documents/{slug}/events/stream", tag: tag, status: http.StatusOK,
		summary: "Follow the event log",
		about: "Server-sent events: the log from `Last-Event-ID` or `since` on (both exclusive, the header wins), from its first event when neither is given, " +
			"then live without gap or repeat. A position that the log has not come to is INVALID_CURSOR. `id` is the seq, `event` the type, `data` the event on one line. A comment every 15 s keeps the line open. " +
			"No event is ever named error. The key may be given as `?token=`.",
		refuses: append([]code.Code{code.InvalidCursor, code.TooManySockets, code.ShuttingDown}, ofDocuments...),
		answers: map[string]reflect.Type{"text/event-stream": reflect.TypeFor[string]()},
	}, s.streamEvents)
}

type listEventsInput struct {
	DocumentPath
	Since string `query:"since" doc:"A seq: only what comes behind it." example:"0"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type listEventsOutput struct {
	Body struct {
		Events    []doc.Event `json:"events" nullable:"false"`
		HasMore   bool        `json:"has_more"`
		NextSince string      `json:"next_since" doc:"The since of the following page, or of the next look."`
	} `nameHint:"EventPage"`
}

func (s *Server) listEvents(ctx context.Context, in *listEventsInput) (*listEventsOutput, error) {
	since, err := parseSince(in.Since)
	if err != nil {
		return nil, err
	}
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	events, more, err := s.library.Events(ctx, keyOf(ctx), meta.ID, since, in.Limit)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 {
		since = events[len(events)-1].Seq
	}
	out := new(listEventsOutput)
	out.Body.Events, out.Body.HasMore, out.Body.NextSince = append([]doc.Event{}, events...), more, since.String()
	return out, nil
}

// parseSince reads a position in the log; "" is before the first event.
func parseSince(s string) (doc.Seq, error) {
	if s == "" {
		return 0, nil
	}
	seq, err := doc.ParseSeq(s)
	if err != nil {
		return 0, code.New(code.InvalidCursor, "a position in the log is a decimal number from 0 on").Because(err)
	}
	return seq, nil
}

type postEventInput struct {
	DocumentPath
	Once
	Body payload
}

type postEventOutput struct{ Body doc.Event }

func (s *Server) postEvent(ctx context.Context, in *postEventInput) (*postEventOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	options, err := writeOptions(ctx, in.Once, 0, "post-event", meta.ID, in.Body.RawMessage)
	if err != nil {
		return nil, err
	}
	posted, err := s.library.Post(ctx, keyOf(ctx), meta.ID, in.Body.RawMessage, options...)
	if err != nil {
		return nil, err
	}
	return &postEventOutput{posted}, nil
}
