package web

import (
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type health struct {
	Status string `json:"status"`
}

func (s *Server) healthRoutes() {
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /readyz", s.readyz)
	s.mux.Handle("GET /metrics", s.forAdmins(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	// The runtime's profiles, as go tool pprof reads them: heap?gc=1, goroutine, profile?seconds=10, ...
	s.mux.Handle("GET "+profilesPath, s.forAdmins(http.HandlerFunc(pprof.Index)))
	s.mux.Handle("GET "+profilesPath+"profile", s.forAdmins(http.HandlerFunc(pprof.Profile)))
	s.mux.Handle("GET "+profilesPath+"trace", s.forAdmins(http.HandlerFunc(pprof.Trace)))
}

const profilesPath = "/debug/pprof/"

// healthz says that the process answers.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	s.writeJSON(w, r, http.StatusOK, health{"ok"})
}

// readyz says whether requests should be sent here.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	err := s.opts.Stop.Err()
	if err == nil && s.opts.Ready != nil {
		err = s.opts.Ready(r.Context())
	}
	if err != nil {
		s.log.WarnContext(r.Context(), "not ready", "request", callOf(r.Context()).id, "err", err)
		s.writeJSON(w, r, http.StatusServiceUnavailable, health{"not ready"})
		return
	}
	s.writeJSON(w, r, http.StatusOK, health{"ok"})
}
