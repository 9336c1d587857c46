package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"cowrite/doc"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// leaseLostHeader tells a former holder, on its next call of any kind, which leases it lost: their ids,
// separated by commas. Answers in JSON say more in leaseLostField.
const (
	leaseLostHeader = "Cowrite-Lease-Lost"
	leaseLostField  = "leaseLost"
)

// LostLease is a lease that ended without its holder's doing.
type LostLease struct {
	LeaseID   lease.ID      `json:"leaseId"`
	Resource  string        `json:"resource" doc:"section:<slug>/<section id>, or any other resource's name."`
	SectionID doc.SectionID `json:"sectionId,omitempty"`
	Fence     lease.Fence   `json:"fence"`
	Action    lease.Kind    `json:"action" enum:"expire,force,end" doc:"It ran out; an administrator ended it; or what it was for is gone."`
	By        string        `json:"by,omitempty" doc:"Who ended it, where somebody did."`
	Reason    string        `json:"reason,omitempty"`
	At        string        `json:"at" format:"date-time"`
}

// lostTeller is an answer that first tells its reader which leases it lost since it was last told.
type lostTeller struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	begun   bool
	field   []byte // to be put into the body
}

// tellLost wraps an answer.
func (s *Server) tellLost(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	return &lostTeller{ResponseWriter: w, server: s, request: r}
}

func (w *lostTeller) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.begun = true
		w.tell()
	}
	w.ResponseWriter.WriteHeader(status)
}

// tell takes the news, but for MCP, whose results tell it.
func (w *lostTeller) tell() {
	s, ctx := w.server, w.request.Context()
	if w.request.URL.Path == MCPPath {
		return
	}
	lost := s.takeLost(ctx, onCoordination(w.request.URL.Path))
	if len(lost) == 0 {
		return
	}
	var ids []string
	for _, l := range lost {
		ids = append(ids, string(l.LeaseID))
	}
	w.Header().Set(leaseLostHeader, strings.Join(ids, ", "))
	if w.Header().Get("Content-Type") != jsonType {
		return
	}
	field, err := json.Marshal(map[string][]LostLease{leaseLostField: lost})
	if err != nil {
		s.log.ErrorContext(ctx, "lost leases not told", "request", callOf(ctx).id, "err", err)
		return
	}
	w.field = field[1 : len(field)-1]
}

// takeLost takes the news of lost leases for an answer to the caller. It stays where it is for a caller who is not known, or
// gone. The coordination door names agents by DID.
func (s *Server) takeLost(ctx context.Context, coordination bool) []LostLease {
	key := callOf(ctx).key
	if key.Agent == "" || ctx.Err() != nil {
		return nil
	}
	events := s.leases.TakeLost(key.Agent)
	if len(events) == 0 {
		return nil
	}
	sight := s.library.Sight(key)
	var lost []LostLease
	for _, e := range events {
		name, _, err := sight.Name(ctx, e.Resource)
		if err != nil { // it is told by its inner name rather than not at all
			s.log.WarnContext(ctx, "lost lease not named", "request", callOf(ctx).id, "err", err)
			name = string(e.Resource)
		}
		_, sid, _ := doc.ParseSectionResource(e.Resource)
		l := LostLease{LeaseID: e.Lease.ID, Resource: name, SectionID: sid, Fence: e.Lease.Fence, Action: e.Kind, Reason: e.Reason, At: doc.FormatTime(e.At)}
		if e.Actor != doc.System {
			l.By = string(e.Actor)
			if coordination {
				l.By = string(wire.DIDOf(e.Actor))
			}
		}
		lost = append(lost, l)
	}
	return lost
}

// Write puts the news before the other fields of a JSON object.
func (w *lostTeller) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	field := w.field
	w.field = nil
	if field == nil || len(p) == 0 || p[0] != '{' {
		return w.ResponseWriter.Write(p)
	}
	body := append([]byte{'{'}, field...)
	if !bytes.HasPrefix(bytes.TrimLeft(p[1:], " \t\r\n"), []byte{'}'}) {
		body = append(body, ',')
	}
	if _, err := w.ResponseWriter.Write(append(body, p[1:]...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap lets http.ResponseController reach the connection.
func (w *lostTeller) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// describeLost says of an operation that its answers may tell of lost leases.
func (s *Server) describeLost(answer *huma.Response) {
	registry := s.api.OpenAPI().Components.Schemas
	if answer.Headers == nil {
		answer.Headers = map[string]*huma.Param{}
	}
	answer.Headers[leaseLostHeader] = &huma.Param{
		Description: "Ids of leases that the caller lost since its last call: expired, ended by force, or for something that is gone. Answers in JSON have more in leaseLost.",
		Schema:      &huma.Schema{Type: huma.TypeString},
	}
	content := answer.Content[jsonType]
	if content == nil || content.Schema == nil || content.Schema.Ref == "" {
		return
	}
	body := registry.SchemaFromRef(content.Schema.Ref)
	if body.Properties[leaseLostField] != nil {
		return
	}
	body.Properties[leaseLostField] = &huma.Schema{
		Type: huma.TypeArray, Items: registry.Schema(reflect.TypeFor[LostLease](), true, ""),
		Description: "At the top of an answer: leases that the caller lost since its last call. Told once.",
	}
	body.PrecomputeMessages()
}
