package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"cowrite/doc"
	"cowrite/doc/code"
)

// route is one operation: all that is said of it outside of its handler.
type route struct {
	id      string // operationId
	method  string
	path    string // behind Prefix
	tag     string
	summary string
	about   string
	status  int                     // of success
	body    int64                   // the largest request body, in bytes
	refuses []code.Code             // beside the common ones
	open    bool                    // needs no key
	tagged  bool                    // has an ETag and honours If-None-Match
	answers map[string]reflect.Type // media types of success, where not JSON alone
}

// Largest request bodies, in bytes. JSON may spell a character in six bytes; texts are measured by doc.
const (
	smallBody    = 16 << 10
	messageBody  = 512 << 10
	sectionBody  = 6<<20 + smallBody
	documentBody = 24<<20 + smallBody
)

// ofDocuments are the refusals of every route below /documents/{slug}.
var ofDocuments = []code.Code{code.DocumentMoved, code.DocumentNotFound, code.DocumentDeleted, code.DocumentBlocked, code.Forbidden, code.InvalidSlug}

// ofWrites are those of every write to a document.
var ofWrites = append([]code.Code{code.TooLarge, code.DocumentFull, code.Busy, code.ShuttingDown}, ofDocuments...)

// describedAPI makes the API and what its description says of it as a whole.
func describedAPI(adapter huma.Adapter) huma.API {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[refusal](), reflect.TypeFor[refused]())
	registry.RegisterTypeAlias(reflect.TypeFor[doc.Event](), reflect.TypeFor[event]())
	jsonFormat := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decodeJSON}
	return anyAccept{huma.NewAPI(huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:   "Cowrite",
				Version: "1",
				Description: "Documents that several agents and people write at once. Every write is accepted and merged. " +
					"Beside the merge stand advisory leases: one says that an agent is editing a section right now; it never blocks a write. " +
					"Whatever happens to a document is in that document's event log.\n\n" +
					"A refusal is `{\"error\": \"CODE\", \"message\": \"...\", ...facts}`. Times are ISO 8601 in UTC with milliseconds; " +
					"log positions (seq) are decimal strings. A document is addressed by its slug or by its documentId in any spelling; " +
					"a former slug answers 308.",
			},
			Servers: []*huma.Server{{URL: Prefix}},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"key":     {Type: "http", Scheme: "bearer", Description: "An API key or the token of a share link."},
					"session": {Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "The page's cookie; counts on the server's own origin only."},
				},
			},
			Security: []map[string][]string{{"key": {}}, {"session": {}}},
		},
		Formats:       map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat: "application/json",
	}, adapter)}
}

// anyAccept answers in JSON whatever a request says it accepts. Routes that have other media types to
// offer negotiate by themselves.
type anyAccept struct{ huma.API }

func (anyAccept) Negotiate(string) (string, error) { return "application/json", nil }

// register adds an operation with its description. Errors of the handler become refusals.
func register[I, O any](s *Server, rt route, handler func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID:     rt.id,
		Method:          rt.method,
		Path:            rt.path,
		Tags:            []string{rt.tag},
		Summary:         rt.summary,
		Description:     rt.about,
		DefaultStatus:   rt.status,
		MaxBodyBytes:    rt.body,
		BodyReadTimeout: -1, // timedBody limits it
		Responses:       s.refusals(rt),
	}
	if rt.open {
		op.Security = []map[string][]string{}
	}
	if len(rt.answers) > 0 {
		content := map[string]*huma.MediaType{}
		for media, t := range rt.answers {
			content[media] = &huma.MediaType{Schema: s.api.OpenAPI().Components.Schemas.Schema(t, true, "")}
		}
		op.Responses[strconv.Itoa(rt.status)] = &huma.Response{Description: http.StatusText(rt.status), Content: content}
	}
	if rt.tagged {
		op.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: http.StatusText(http.StatusNotModified)}
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, s.refusal(ctx, err)
		}
		return out, nil
	})
	if !rt.open {
		s.describeLost(op.Responses[strconv.Itoa(rt.status)])
	}
}

func isOpen(op *huma.Operation) bool { return op.Security != nil && len(op.Security) == 0 }

// refused is the schema of a refusal.
type refused struct {
	_       struct{} `additionalProperties:"true"`
	Error   string   `json:"error" doc:"What was refused, as a word." example:"SECTION_LEASED"`
	Message string   `json:"message" doc:"The same as a sentence."`
	OK      *bool    `json:"ok,omitempty" doc:"false, at the coordination routes alone, which spell the code in lower case."`
}

// refusals describes the refusals of a route, by their status.
func (s *Server) refusals(rt route) map[string]*huma.Response {
	codes := append([]code.Code{code.BadRequest, code.Internal}, rt.refuses...)
	if !rt.open {
		codes = append(codes, code.Unauthorized, code.KeyRevoked, code.BadOrigin)
	}
	if rt.body > 0 {
		codes = append(codes, code.InvalidJSON, code.TooLarge, code.UnsupportedMedia)
	}
	slices.Sort(codes)
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[refused](), true, "")
	responses := map[string]*huma.Response{}
	for _, c := range slices.Compact(codes) {
		status := strconv.Itoa(code.Table[c].HTTP)
		r := responses[status]
		if r == nil {
			r = &huma.Response{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
			responses[status] = r
		}
		r.Description = strings.TrimPrefix(r.Description+", "+spelled(c, rt.path), ", ")
	}
	return responses
}

// decodeJSON is json.Unmarshal that refuses text which is not UTF-8, instead of storing something else, and
// that reads a number beyond float64 as an infinity, so that it is found too large where it stands.
func decodeJSON(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	generic, ok := v.(*any)
	if !ok {
		return json.Unmarshal(data, v)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(generic); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind it")
	}
	*generic = floats(*generic)
	return nil
}

func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := v.Float64() // its only error is the range, with an infinity as the value
		return f
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}

// OpenAPI is the description of the REST routes, as it is checked in.
func (s *Server) OpenAPI() ([]byte, error) {
	compact, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("marshal OpenAPI description: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("indent OpenAPI description: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) {
	data, err := s.OpenAPI()
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/openapi+json;version=3.1")
	allowOrigins(w.Header())
	if _, err := w.Write(data); err != nil {
		s.log.DebugContext(r.Context(), "answer not read", "request", callOf(r.Context()).id, "err", err)
	}
}
