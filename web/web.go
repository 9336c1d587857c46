// Package web is the plain HTTP door to a server: REST under /api/v1 with its OpenAPI description, the
// Model Context Protocol at /mcp, event logs as streams, health and metrics, and the files of the browser app.
//
// It decides nothing about documents or leases. A handler checks the form of a request, asks the
// [doc.Library] or the [lease.Keeper], and says the answer in JSON; every refusal leaves through one type
// (errors.go). Handlers are one file a resource. What a route is and what it may answer is said once, where
// it is registered, and the OpenAPI description is made from that.
package web

import (
	"context"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/hub"
)

// Prefix is where the REST routes begin.
const Prefix = "/api/v1"

// Options of a server. Library, Keyring and Idempotency are required.
type Options struct {
	Library     *doc.Library
	Keyring     *doc.Keyring
	Idempotency *doc.Idempotency // of the library's keeper

	// Sync takes the WebSocket at /api/v1/sync. It authenticates by itself, with [Authenticate], because a
	// browser learns the reason of a refusal only from a close code.
	Sync http.Handler
	// Agent takes the one at /api/v1/agent, likewise.
	Agent http.Handler

	PageFS    fs.FS           // the built page; nil or without index.html: a page that says how to build it
	PublicURL string          // origin in share links, "https://host"; "": as the request came
	Stop      context.Context // done when the server is about to end: streams and long polls end, other requests go on; nil: never
	Ready     func(context.Context) error
	Sockets   func() []hub.Info // those open now; nil: none
	Gauges    []Gauge
	Streams   int              // open event streams of one key, at most; 0 is 64
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger     // nil: discards
}

// Server answers HTTP requests.
type Server struct {
	opts         Options
	library      *doc.Library
	keyring      *doc.Keyring
	leases       *lease.Keeper
	authenticate func(*http.Request) (doc.Key, error)
	log          *slog.Logger
	now          func() time.Time
	newTicker    func(time.Duration) (tick <-chan time.Time, stop func())
	streams      *streams // of events
	polls        *streams // that wait for a lease or events, as many as there are requests
	metrics      *metrics
	mux          *http.ServeMux
	api          huma.API
	mcp          *mcp.Server
	notices      *notices
}

// New makes a server.
func New(opts Options) *Server {
	if opts.Stop == nil {
		opts.Stop = context.Background()
	}
	if opts.Streams == 0 {
		opts.Streams = 64
	}
	if opts.Sockets == nil {
		opts.Sockets = func() []hub.Info { return nil }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		opts:         opts,
		library:      opts.Library,
		keyring:      opts.Keyring,
		authenticate: Authenticate(opts.Keyring),
		log:          opts.Log,
		now:          opts.Now,
		newTicker: func(d time.Duration) (<-chan time.Time, func()) {
			t := time.NewTicker(d)
			return t.C, t.Stop
		},
		streams: newStreams(opts.Streams),
		polls:   newStreams(math.MaxInt),
		mux:     http.NewServeMux(),
	}
	s.metrics = newMetrics(append([]Gauge{{
		Name: "cowrite_event_streams", Help: "Event streams open now.",
		Value: func() float64 { return float64(s.streams.count()) },
	}}, opts.Gauges...))
	if opts.Library != nil {
		s.leases = opts.Library.Leases()
	}
	s.routes()
	return s
}

// KeyEnded ends what is open in the name of a key that is no longer live.
func (s *Server) KeyEnded(id doc.KeyID) {
	s.streams.end(id)
	s.polls.end(id)
}

func (s *Server) routes() {
	s.api = describedAPI(humago.NewAdapter(s.mux, Prefix))
	s.api.UseMiddleware(s.requireKey)
	s.documentRoutes()
	s.deletionRoutes()
	s.sectionRoutes()
	s.editRoutes()
	s.historyRoutes()
	s.blameRoutes()
	s.leaseRoutes()
	s.coordinationRoutes()
	s.eventRoutes()
	s.shareRoutes()
	s.keyRoutes()
	s.peopleRoutes()
	s.operatorRoutes()
	s.sessionRoutes()
	s.healthRoutes()
	s.mcpRoutes()
	if s.opts.Sync != nil {
		s.mux.Handle("GET "+Prefix+"/sync", s.opts.Sync)
	}
	if s.opts.Agent != nil {
		s.mux.Handle("GET "+Prefix+"/agent", s.opts.Agent)
	}
	s.mux.HandleFunc("GET /openapi.json", s.openAPI)
	s.mux.HandleFunc(anyAPI, s.noRoute)
	s.mux.Handle("/", s.page())
}

// anyAPI catches what no route takes. Other unknown paths show the page, but a program that asks for a route
// that is not there wants an error and not HTML.
const anyAPI = "/api/"

// noRoute says whether the path is unknown or only the method is wrong. Unknown paths are no business of
// a caller without a key.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := s.mux.Handler(probe); pattern != anyAPI {
			allow = append(allow, method)
		}
	}
	if len(allow) > 0 {
		s.refuse(w, r, methodNotAllowed(r.Method, allow))
		return
	}
	if _, err := s.authenticate(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.refuse(w, r, code.New(code.NotFound, "there is no route here"))
}
