// Package line is what every WebSocket of the server has in common, whatever is said on it: the upgrade, frames
// that let pings through, the watch over whether the peer is alive, the bounded queue of what waits to be sent,
// and a goodbye with a code from the table.
package line

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"cowrite/doc/code"
)

// Line is one WebSocket. One goroutine may read and one write at a time; the rest is for any.
type Line struct {
	ws   *websocket.Conn
	link *link
	page bool
}

// IsUpgrade says whether a request asks for a WebSocket.
func IsUpgrade(r *http.Request) bool {
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

// Accept upgrades a request. When it fails the request has been answered.
func Accept(w http.ResponseWriter, r *http.Request, subprotocols ...string) (*Line, error) {
	taken := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(taken, r, &websocket.AcceptOptions{
		// The origin is checked by who authenticates, and only for cookies: a key in a header or the query was put
		// there by someone who has it, so that pages of other origins may use theirs.
		InsecureSkipVerify: true,
		CompressionMode:    websocket.CompressionDisabled,
		Subprotocols:       subprotocols,
	})
	if err != nil {
		return nil, fmt.Errorf("accept socket: %w", err)
	}
	// The limit is the reader's: the library's would close with a code that is not in the table.
	ws.SetReadLimit(-1)
	// A key in a header or the query was put there by a program; a page has it in its cookie.
	page := r.Header.Get("Authorization") == "" && !r.URL.Query().Has("token")
	return &Line{ws, taken.link, page}, nil
}

// OfPage says whether somebody's browser opened the socket, for a page that is signed in, and no program.
func (l *Line) OfPage() bool { return l.page }

// RefuseHTTP answers a request that asks for no socket: with what its key was refused for, else with 426.
func RefuseHTTP(w http.ResponseWriter, refused error) {
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

// Read reads one message of a kind: a refusal (BAD_FRAME for the other kind, TOO_LARGE), or an error that says that
// the connection has ended.
func (l *Line) Read(kind websocket.MessageType, limit int) ([]byte, error) {
	got, r, err := l.ws.Reader(context.Background())
	if err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	if got != kind {
		return nil, code.New(code.BadFrame, "a frame is a %s message", strings.ToLower(strings.TrimPrefix(kind.String(), "Message")))
	}
	buffer := buffers.Get().(*bytes.Buffer)
	_, err = buffer.ReadFrom(io.LimitReader(r, int64(limit)+1))
	b := buffer.Bytes()
	if buffer.Cap() <= fragmentBytes { // a larger one is the frame's own
		b = bytes.Clone(b)
		buffer.Reset()
		buffers.Put(buffer)
	}
	if err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	if len(b) > limit {
		return nil, code.New(code.TooLarge, "a frame may have %d bytes", limit).With("limit", limit)
	}
	return b, nil
}

// buffers are what frames are read into whose length nobody says in advance.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// fragmentBytes is how much of a message is sent at once. Between two fragments a ping may go out.
const fragmentBytes = 64 << 10

// Send writes one frame. Each 64 KiB of it may take perFragment.
func (l *Line) Send(kind websocket.MessageType, frame []byte, perFragment time.Duration) error {
	defer l.link.SetWriteDeadline(time.Time{}) //nolint:errcheck // pings have a limit of their own
	deadline := func() error { return l.link.SetWriteDeadline(time.Now().Add(perFragment)) }
	ctx := context.Background()
	if len(frame) <= fragmentBytes {
		if err := deadline(); err != nil {
			return fmt.Errorf("send frame: %w", err)
		}
		if err := l.ws.Write(ctx, kind, frame); err != nil {
			return fmt.Errorf("send frame: %w", err)
		}
		return nil
	}
	w, err := l.ws.Writer(ctx, kind)
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
		l.link.moved.Add(1)
		frame = frame[n:]
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}

// Watch pings until ended is closed, and cuts a line that lets a ping go unanswered for as long as lies between two,
// unless a byte has arrived or been sent meanwhile. excused begins to watch for another good reason not to have seen
// a pong, and is asked at the end; nil: there is none.
func (l *Line) Watch(ended <-chan struct{}, every time.Duration, excused func() func() bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		moved, isExcused := l.link.moved.Load(), func() bool { return false }
		if excused != nil {
			isExcused = excused()
		}
		ctx, cancel := context.WithTimeout(context.Background(), every) // the end of another would cut the line, and the goodbye short
		err := l.ws.Ping(ctx)
		cancel()
		if err != nil && l.link.moved.Load() == moved && !isExcused() {
			l.Cut() // and so ends the reader
			return
		}
	}
}

// Cut ends a connection whose peer does not take part in closing it.
func (l *Line) Cut() { _ = l.link.Close() }

// CloseNow ends the connection, if it has not ended.
func (l *Line) CloseNow() { _ = l.ws.CloseNow() }

// Close says why in the close frame, and waits for the peer's.
func (l *Line) Close(why *code.Error) {
	_ = l.ws.Close(websocket.StatusCode(CloseCode(why)), reason(fmt.Sprintf("%s: %s", why.Code, why.Message))) // the peer may have gone
}

// CloseCode is what a refusal closes a socket with.
func CloseCode(why *code.Error) int {
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

// Subprotocol is what the upgrade agreed on; "" where the peer asked for none that is spoken here.
func (l *Line) Subprotocol() string { return l.ws.Subprotocol() }
