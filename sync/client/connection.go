package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"cowrite/doc/code"
	"cowrite/sync/agent"
)

const (
	dialTime  = 15 * time.Second // for the upgrade and the welcome
	writeTime = 30 * time.Second // for one frame
	pingEvery = 10 * time.Second // a line that lets a ping go unanswered for as long is given up
	maxAnswer = 128 << 20        // bytes of one frame of the server: a whole document

	// steadyTime is how long a line has to live for the next pause to be the first again: a server that welcomes and then
	// closes is no better than one that is away.
	steadyTime = 5 * time.Second
)

// connection is one socket, from its welcome to its end.
type connection struct {
	ws   *websocket.Conn
	hold sync.Mutex // of who writes
}

// dial opens a socket and waits for the welcome.
func (c *Client) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, c.socket.String(), &websocket.DialOptions{
		HTTPClient: c.opts.HTTP, Subprotocols: []string{agent.Subprotocol}, HTTPHeader: http.Header{"Authorization": {"Bearer " + c.opts.Key}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.socket.Host, err)
	}
	ws.SetReadLimit(maxAnswer)
	line := &connection{ws: ws}
	first, err := line.read(ctx)
	welcome, ok := first.(*agent.Welcome)
	switch refused, isRefused := first.(*agent.Error); {
	case err != nil:
	case isRefused:
		err = refused.Refusal()
	case !ok:
		err = fmt.Errorf("the server began with a %T", first)
	}
	if err != nil {
		_ = ws.CloseNow()
		return nil, fmt.Errorf("connect to %s: %w", c.socket.Host, err)
	}
	c.mu.Lock()
	c.welcome = *welcome
	c.mu.Unlock()
	return line, nil
}

func (l *connection) read(ctx context.Context) (agent.Frame, error) {
	_, b, err := l.ws.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	return agent.DecodeAnswer(b)
}

// send writes a frame. One that does not get through ends the line, and is sent again on the next.
func (l *connection) send(b []byte) {
	l.hold.Lock()
	defer l.hold.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	if err := l.ws.Write(ctx, websocket.MessageText, b); err != nil {
		_ = l.ws.CloseNow()
	}
}

// ping ends a line that is dead.
func (l *connection) ping(ctx context.Context) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		within, cancel := context.WithTimeout(ctx, pingEvery)
		err := l.ws.Ping(within)
		cancel()
		if err != nil {
			_ = l.ws.CloseNow()
			return
		}
	}
}

// live keeps the client connected until it is closed, or the server says not to come back.
func (c *Client) live(line *connection) {
	var err error
	for attempt := 0; ; attempt++ {
		if line != nil {
			began := time.Now()
			if err = c.use(line); time.Since(began) >= steadyTime {
				attempt = 0
			}
		}
		if c.ctx.Err() != nil || isFinal(err) {
			break
		}
		c.opts.Log.Info("connection to the server lost", "err", err)
		if c.pause(c.ctx, attempt) != nil {
			break
		}
		line, err = c.dial(c.ctx)
	}
	if c.ctx.Err() != nil {
		err = ErrClosed
	}
	c.end(err)
}

// isFinal says whether the server closed with a code that says not to come back, or refused the key.
func isFinal(err error) bool {
	var refusal *code.Error
	if errors.As(err, &refusal) {
		return refusal.Entry().Close/100 == 44 && refusal.Code != code.TooManySockets && refusal.Code != code.BadFrame
	}
	return false
}

// use speaks on a line until it ends, and says why.
func (c *Client) use(line *connection) error {
	ctx, cancel := context.WithCancel(c.ctx)
	var pinging sync.WaitGroup
	pinging.Go(func() { line.ping(ctx) })
	defer pinging.Wait()
	defer cancel()
	defer line.ws.CloseNow() //nolint:errcheck // it has ended

	stop := context.AfterFunc(c.ctx, func() { _ = line.ws.Close(websocket.StatusNormalClosure, "") })
	defer stop()
	c.resume(line)
	defer c.suspend()
	for {
		f, err := line.read(context.Background())
		if err != nil {
			return err
		}
		if e, ok := f.(*agent.Error); ok && e.ID == "" && e.Document == "" {
			return e.Refusal() // the last frame before the socket is closed
		}
		if f != nil {
			c.take(f)
		}
	}
}

// resume opens the documents again where they were, and asks again what was not answered.
func (c *Client) resume(line *connection) {
	c.mu.Lock()
	var frames [][]byte
	for _, d := range c.documents {
		frames = append(frames, d.openFrame())
	}
	for _, p := range c.pending {
		frames = append(frames, p.frame)
	}
	c.line = line
	c.mu.Unlock()
	for _, b := range frames {
		line.send(b)
	}
}

// suspend says that there is no line.
func (c *Client) suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = nil
}

// end fails everything: the client does not come back.
func (c *Client) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fatal = why
	for _, p := range c.pending {
		p.settle(outcome{err: why})
	}
	for _, d := range c.documents {
		d.fail(why)
	}
	c.stop()
}

// settle gives a request its answer, once.
func (p *pending) settle(o outcome) {
	select {
	case p.answer <- o:
	default:
	}
}

// take deals with a frame of the server.
func (c *Client) take(f agent.Frame) {
	switch f := f.(type) {
	case *agent.Opened:
		if d := c.document(f.Document); d != nil {
			d.opened(f)
		}
	case *agent.Changed:
		if d := c.document(f.Document); d != nil {
			d.changed(f)
		}
	case *agent.Event:
		if d := c.document(f.Document); d != nil {
			d.event(f.Event)
		}
	case *agent.Closed:
		if d := c.document(f.Document); d != nil && f.ID == "" {
			d.closed(&code.Error{Code: f.Code, Message: f.Message})
		}
	case *agent.Present:
		c.opts.Presence(*f)
	case *agent.LeaseLost:
		for _, lost := range f.LeaseLost {
			c.lose(lost)
		}
	case *agent.Error:
		if d := c.document(f.Document); d != nil && d.isOpening(f.ID) {
			d.closed(f.Refusal())
			return
		}
		c.settle(f.ID, outcome{err: f.Refusal()})
	case *agent.Ack:
		c.settle(f.ID, outcome{frame: f})
	}
}

func (c *Client) settle(id agent.RequestID, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[id]; p != nil {
		p.settle(o)
	}
}

func (c *Client) document(name agent.Document) *Document {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.documents[name]
}

// sendNow sends what is not answered, if there is a line.
func (c *Client) sendNow(b []byte) {
	c.mu.Lock()
	line := c.line
	c.mu.Unlock()
	if line != nil {
		line.send(b)
	}
}
