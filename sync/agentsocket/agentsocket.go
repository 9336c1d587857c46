// Package agentsocket serves cowrite.agent.v1 over WebSocket at GET /api/v1/agent: JSON for agents without a CRDT.
// Frames are package agent's, sockets are registered at package hub, documents are package doc's; sync/PROTOCOL.md
// is the contract.
//
// Of a socket, one goroutine reads, one writes, one pings and one tells of lost leases. What was read is dealt with
// by a bounded number of workers: requests about one document one after the other in the order of their arrival,
// those about others side by side. A request that waits for a lease has a goroutine of its own, and each open log has
// one. All end with the socket. Whoever publishes to a socket only leaves a frame in its outbox; one whose outbox is
// full is closed with 1013, and resumes from its version when it returns.
package agentsocket

import (
	"net/http"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
	"cowrite/sync/line"
)

// Options of a handler. All are required.
type Options struct {
	Hub          *hub.Hub
	Library      *doc.Library
	Idempotency  *doc.Idempotency // of the library's keeper
	Losses       *Losses          // which observes the library's keeper
	Authenticate func(*http.Request) (doc.Key, error)
}

// server is what all sockets share.
type server struct {
	Options
	rooms *rooms
}

// Handler serves sockets until the hub is closed.
func Handler(opts Options) http.Handler {
	srv := &server{Options: opts, rooms: newRooms()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, refused := opts.Authenticate(r)
		if !line.IsUpgrade(r) {
			line.RefuseHTTP(w, refused)
			return
		}
		l, err := line.Accept(w, r, agent.Subprotocol)
		if err != nil {
			return // Accept has answered
		}
		if refused == nil && len(r.Header.Values("Sec-Websocket-Protocol")) > 0 && l.Subprotocol() == "" {
			refused = code.New(code.UnsupportedProtos, "this address speaks %s", agent.Subprotocol)
		}
		s := newSocket(srv, key, l, r.RemoteAddr)
		if refused == nil {
			refused = opts.Hub.Add(s)
		}
		// A refused socket is opened and closed again: what a browser learns of a refusal is the close code.
		if refused != nil {
			s.refuse(code.From(refused))
			return
		}
		s.run()
	})
}
