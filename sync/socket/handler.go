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
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/hub"
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
		if !isUpgrade(r) {
			refuseHTTP(w, refused)
			return
		}
		line := &hijacker{ResponseWriter: w}
		ws, err := websocket.Accept(line, r, &websocket.AcceptOptions{
			// The origin is checked by auth, and only for cookies: a key in a header or the query was put there by
			// someone who has it, so that pages of other origins may use theirs.
			InsecureSkipVerify: true,
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil {
			return // Accept has answered
		}
		s := newSocket(h, key, server, ws, line.link, r.RemoteAddr)
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

func isUpgrade(r *http.Request) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

func hasToken(h http.Header, name, token string) bool {
	for _, value := range h.Values(name) {
		for t := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// refuseHTTP answers a request that asks for no socket: with what its key was refused for, else with 426.
func refuseHTTP(w http.ResponseWriter, refused error) {
	status, e := http.StatusUpgradeRequired, code.New(code.BadRequest, "this address speaks WebSocket: ask for an upgrade")
	if refused != nil {
		e = code.From(refused)
		status = e.Entry().HTTP
	}
	w.Header().Set("Content-Type", "application/json")
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusUpgradeRequired:
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
	}
	w.WriteHeader(status)
	body := map[string]any{"error": e.Code, "message": e.Message}
	maps.Copy(body, e.Facts)
	_ = json.NewEncoder(w).Encode(body) // the client has gone if this fails
}

// hijacker takes hold of the network connection that becomes the WebSocket's.
type hijacker struct {
	http.ResponseWriter
	link *link
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// What waits in the kernel delays our pings: this much passes a slow line within a ping's time.
		_ = tcp.SetWriteBuffer(kernelBytes)
	}
	h.link = &link{Conn: conn}
	return h.link, buf, nil
}

const kernelBytes = 512 << 10

// link is the network connection of a socket. It knows whether the line is alive: bytes that arrive prove it
// also in the middle of a large message, behind which the peer's pong has to wait.
type link struct {
	net.Conn
	moved atomic.Uint64 // rises when bytes arrive, or a part of a large message was sent
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.moved.Add(1)
	}
	return n, err
}

// fragmentBytes is how much of a message is sent at once. Between two fragments a ping may go out.
const fragmentBytes = 64 << 10

// send writes one frame; only one may be written at a time.
func send(ws *websocket.Conn, l *link, frame []byte, perFragment time.Duration) error {
	defer l.SetWriteDeadline(time.Time{}) //nolint:errcheck // pings have a limit of their own
	deadline := func() error { return l.SetWriteDeadline(time.Now().Add(perFragment)) }
	ctx := context.Background()
	if len(frame) <= fragmentBytes {
		if err := deadline(); err != nil {
			return fmt.Errorf("send frame: %w", err)
		}
		if err := ws.Write(ctx, websocket.MessageBinary, frame); err != nil {
			return fmt.Errorf("send frame: %w", err)
		}
		return nil
	}
	w, err := ws.Writer(ctx, websocket.MessageBinary)
	if err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	for len(frame) > 0 {
		if err := deadline(); err != nil {
			return fmt.Errorf("send fragment: %w", err)
		}
		n, err := w.Write(frame[:min(len(frame), fragmentBytes)])
		if err != nil {
			return fmt.Errorf("send fragment: %w", err)
		}
		l.moved.Add(1)
		frame = frame[n:]
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// farewell says why a socket is closed: in an error frame, because stock clients show no close code, and in the
// close frame.
func farewell(ws *websocket.Conn, l *link, from, to repo.PeerID, why *code.Error, limit time.Duration) {
	text := fmt.Sprintf("%s: %s", why.Code, why.Message)
	if frame, err := repo.Encode(repo.Error{SenderID: from, TargetID: to, Message: text}); err == nil {
		_ = send(ws, l, frame, limit) // the peer may have gone
	}
	_ = ws.Close(websocket.StatusCode(closeCode(why)), reason(text))
}

func closeCode(why *code.Error) int {
	if c := why.Entry().Close; c != 0 {
		return c
	}
	return code.Table[code.Internal].Close
}

// reason cuts a text to what a close frame can hold: 123 bytes.
func reason(text string) string {
	const most = 123
	if len(text) <= most {
		return text
	}
	cut := most
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
