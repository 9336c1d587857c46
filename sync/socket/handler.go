// Package socket serves the automerge-repo protocol over WebSocket at GET /api/v1/sync. Frames are package
// repo's, sockets are registered at package hub, documents are package doc's; sync/PROTOCOL.md is the
// contract.
//
// Of a socket, one goroutine reads, one writes, one pings, and a bounded number deals with what was read:
// frames of one document one after the other in the order of their arrival, those of different documents side
// by side. Every queue is bounded. Whoever publishes to a socket only leaves a note in its outbox; a
// socket whose outbox is full is closed with 1013 and catches up by syncing when it returns.
package socket

import (
	"fmt"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/line"
	"cowrite/sync/repo"
)

// Authenticate finds the key of a request: a refusal is a *code.Error. It decides on the request's origin too,
// where the key came as a cookie.
type Authenticate func(*http.Request) (doc.Key, error)

// Handler serves sockets until the hub is closed.
func Handler(h *hub.Hub, auth Authenticate) http.Handler {
	// The server's peer id is new with each start, so that a client which returns after a restart does not
	// go on with the sync state of a conversation that the server has forgotten.
	server := repo.PeerID("cowrite-" + uuid.NewString())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, refused := auth(r)
		if !line.IsUpgrade(r) {
			line.RefuseHTTP(w, refused)
			return
		}
		l, err := line.Accept(w, r)
		if err != nil {
			return // Accept has answered
		}
		s := newSocket(h, key, server, l, r.RemoteAddr)
		if refused == nil {
			refused = h.Add(s)
		}
		// A refused socket is opened and closed again: a stock Node client dies of a 401 in answer to its upgrade.
		if refused != nil {
			s.refuse(code.From(refused))
			return
		}
		s.run()
	})
}

// farewell says why a socket is closed: in an error frame, because stock clients show no close code, and in the
// close frame.
func farewell(l *line.Line, from, to repo.PeerID, why *code.Error, limit time.Duration) {
	text := fmt.Sprintf("%s: %s", why.Code, why.Message)
	if frame, err := repo.Encode(repo.Error{SenderID: from, TargetID: to, Message: text}); err == nil {
		_ = l.Send(websocket.MessageBinary, frame, limit) // the peer may have gone
	}
	l.Close(why)
}
