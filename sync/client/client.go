// Package client is the Go SDK of a Cowrite server: an agent connects, follows documents whose text stays exact,
// edits them, leases sections and reads the event log, all over one agent socket (sync/PROTOCOL.md).
//
// A [Client] comes back by itself when its line breaks, after growing pauses with jitter. What was under way is asked
// again under the same id, so that it counts once however often the line breaks; a mirror goes on from its version and
// a log behind its last event.
//
// Leases are advisory: they tell others to keep off, and no write is ever refused because of one.
//
// Refusals by the server are *code.Error, with the facts that say what to do.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"

	"cowrite/doc/code"
	"cowrite/sync/agent"
)

// ErrClosed is the error of what was asked of a client that is closed.
var ErrClosed = errors.New("client is closed")

// Options of a client. URL and Key are required.
type Options struct {
	URL  string       // of the server, such as http://127.0.0.1:8080
	Key  string       // an API key
	HTTP *http.Client // nil: http.DefaultClient

	// LeaseLost is told of each lease of this agent that ended without its doing: also of those that another
	// process of the agent held. It must not block. nil: nobody.
	LeaseLost func(agent.LostLease)
	// Presence is told what others say of themselves in the documents that are open. It must not block. nil: nobody.
	Presence func(agent.Present)

	Random func() float64                       // from 0 to 1, for the jitter of pauses; nil: math/rand
	After  func(time.Duration) <-chan time.Time // nil: time.After
	Log    *slog.Logger                         // nil: discards
}

// Client is a connection to a server that mends itself. It may be used concurrently.
type Client struct {
	opts   Options
	socket *url.URL

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	all  sync.WaitGroup // the goroutines of the client and its leases

	mu        sync.Mutex  // never held over I/O
	line      *connection // nil: there is none
	fatal     error       // why there will be none any more
	pending   map[agent.RequestID]*pending
	documents map[agent.Document]*Document
	leases    map[*Lease]struct{}
	welcome   agent.Welcome
}

// pending is a request whose answer has not come.
type pending struct {
	frame  []byte
	answer chan outcome // holds one
}

type outcome struct {
	frame agent.Frame
	err   error
}

// Connect opens the socket and returns when the server has welcomed the agent. Refusals (UNAUTHORIZED,
// TOO_MANY_SOCKETS, ...) are *code.Error. Close ends the client.
func Connect(ctx context.Context, opts Options) (*Client, error) {
	base, err := url.Parse(opts.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("the server's address must look like http://host:port, not %q", opts.URL)
	}
	if opts.HTTP == nil {
		opts.HTTP = http.DefaultClient
	}
	if opts.LeaseLost == nil {
		opts.LeaseLost = func(agent.LostLease) {}
	}
	if opts.Presence == nil {
		opts.Presence = func(agent.Present) {}
	}
	if opts.Random == nil {
		opts.Random = rand.Float64
	}
	if opts.After == nil {
		opts.After = time.After
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		opts: opts, socket: base.JoinPath("api", "v1", "agent"), pending: map[agent.RequestID]*pending{},
		documents: map[agent.Document]*Document{}, leases: map[*Lease]struct{}{},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	line, err := c.dial(ctx)
	if err != nil {
		c.stop()
		return nil, err
	}
	c.all.Go(func() { c.live(line) })
	return c, nil
}

// Close ends the client. What was under way fails with ErrClosed; leases end by themselves, unless they were released
// before.
func (c *Client) Close() {
	c.stop()
	c.all.Wait()
}

// Agent is whose key the client has.
func (c *Client) Agent() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.welcome.Agent)
}

// Err says why the client does not come back any more, nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// newID names a request for ever, as an idempotency key has to be.
func newID() agent.RequestID { return agent.RequestID(uuid.NewString()) }

// do sends a request, again whenever the line broke or the server was busy, and waits for its answer.
func (c *Client) do(ctx context.Context, id agent.RequestID, f agent.Frame) (agent.Frame, error) {
	b, err := agent.Encode(f)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		answer, err := c.ask(ctx, id, b)
		if err == nil || !comesBack(err) {
			return answer, err
		}
		if err := c.pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

func (c *Client) ask(ctx context.Context, id agent.RequestID, b []byte) (agent.Frame, error) {
	p := &pending{frame: b, answer: make(chan outcome, 1)}
	c.mu.Lock()
	if c.fatal != nil {
		defer c.mu.Unlock()
		return nil, c.fatal
	}
	c.pending[id] = p
	line := c.line
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if line != nil {
		line.send(b)
	}
	select {
	case o := <-p.answer:
		return o.frame, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// comesBack says whether a refusal asks for another try.
func comesBack(err error) bool {
	var refusal *code.Error
	if !errors.As(err, &refusal) {
		return false
	}
	closing := refusal.Entry().Close
	return closing == code.Table[code.Busy].Close || closing/100 == 45 && refusal.Code != code.Internal
}

// Pauses between tries: they double, with jitter, so that many clients do not return at once.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
)

// pause waits before another try: from half to the whole of a time that doubles with each.
func (c *Client) pause(ctx context.Context, attempt int) error {
	whole := min(firstPause<<min(attempt, 10), longPause)
	select {
	case <-c.opts.After(whole/2 + time.Duration(c.opts.Random()*float64(whole/2))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// ack does a request that is answered by an ack.
func (c *Client) ack(ctx context.Context, id agent.RequestID, f agent.Frame) (*agent.Ack, error) {
	answer, err := c.do(ctx, id, f)
	if err != nil {
		return nil, err
	}
	ack, ok := answer.(*agent.Ack)
	if !ok {
		return nil, fmt.Errorf("the server answered with a %T", answer)
	}
	return ack, nil
}

// NewDocument is a document about to be made.
type NewDocument struct {
	Slug     string // "": made from the title or the first heading
	Title    string // "": the first heading, else the slug
	Markdown string // split into sections at its headings
}

// CreateDocument makes a document and returns what it is called. SLUG_TAKEN, TOO_LARGE, FORBIDDEN.
func (c *Client) CreateDocument(ctx context.Context, n NewDocument) (agent.Document, error) {
	id := newID()
	ack, err := c.ack(ctx, id, &agent.Create{Header: agent.Header{ID: id}, Slug: n.Slug, Title: n.Title, Markdown: n.Markdown})
	if err != nil {
		return "", fmt.Errorf("create document: %w", err)
	}
	return ack.Document, nil
}

func marshal(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("marshal %T: %w", v, err)
	}
	return b, nil
}
