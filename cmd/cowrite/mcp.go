package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/web"
)

// maxMessageBytes bounds one message on either side: a document is in it twice, as structure and as text.
const maxMessageBytes = 64 << 20

type mcpCommand struct {
	remote
}

func (c mcpCommand) Help() string {
	return "For a host that starts its MCP servers as programs: it speaks on standard input and output, and every call goes to the running server's " +
		web.MCPPath + ". Clients of every protocol revision get notices of resources that they subscribe to."
}

func (c mcpCommand) Run(ctx context.Context, p *Program) error {
	key, err := c.key(p)
	if err != nil {
		return err
	}
	endpoint, err := url.Parse(c.URL)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	b := &bridge{endpoint: endpoint.JoinPath(web.MCPPath).String(), gate: make(chan struct{}, 1)}
	b.http = &http.Client{Transport: bearer{http.DefaultTransport, string(key)}}
	defer b.close()
	hello, err := b.hello(ctx)
	if err != nil {
		return err
	}
	b.server = mcp.NewServer(hello.ServerInfo, &mcp.ServerOptions{
		Instructions:       hello.Instructions,
		Capabilities:       &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{Subscribe: true}},
		SubscribeHandler:   b.subscribe,
		UnsubscribeHandler: b.unsubscribe,
	})
	b.server.AddReceivingMiddleware(b.forward)
	b.listener = newListener(ctx, b.endpoint, b.http, func(uri string) {
		// Its only error is that of the context.
		_ = b.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
	})
	defer b.listener.close()
	in, ok := p.Stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(p.Stdin)
	}
	err = b.server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: unclosed{p.Stdout}, MaxLineLength: maxMessageBytes})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bearer sends the key with every request.
type bearer struct {
	http.RoundTripper
	key string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.RoundTripper.RoundTrip(r)
}

// unclosed is a writer that stays open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// bridge is an MCP server that hands every call on to another one, and its notices back.
type bridge struct {
	endpoint string
	http     *http.Client
	server   *mcp.Server
	listener *listener
	gate     chan struct{} // holds one: who connects

	mu      sync.Mutex
	session *mcp.ClientSession
}

// connected gives the session with the server, a new one if there is none or it broke.
func (b *bridge) connected(ctx context.Context) (*mcp.ClientSession, error) {
	select {
	case b.gate <- struct{}{}:
		defer func() { <-b.gate }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if session := b.present(); session != nil {
		return session, nil
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "cowrite mcp", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: b.endpoint, HTTPClient: b.http, MaxEventSize: maxMessageBytes}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", b.endpoint, err)
	}
	b.mu.Lock()
	b.session = session
	b.mu.Unlock()
	return session, nil
}

func (b *bridge) present() *mcp.ClientSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// drop has the next call connect anew, if the session is still the same.
func (b *bridge) drop(session *mcp.ClientSession) {
	b.mu.Lock()
	same := b.session == session
	if same {
		b.session = nil
	}
	b.mu.Unlock()
	if same {
		_ = session.Close() // it is broken
	}
}

func (b *bridge) close() {
	if session := b.present(); session != nil {
		b.drop(session)
	}
	b.http.CloseIdleConnections()
}

// hello is what the server says of itself.
func (b *bridge) hello(ctx context.Context) (*mcp.InitializeResult, error) {
	session, err := b.connected(ctx)
	if err != nil {
		return nil, err
	}
	hello := *session.InitializeResult()
	if hello.ServerInfo == nil {
		hello.ServerInfo = &mcp.Implementation{Name: "cowrite", Version: "1"}
	}
	return &hello, nil
}

// forward hands on what is asked of the server, without its metadata, which is about this session. So is all else, which is
// answered here.
func (b *bridge) forward(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch p := req.GetParams().(type) {
		case *mcp.ListToolsParams:
			page := new(mcp.ListToolsParams)
			if p != nil {
				page.Cursor = p.Cursor
			}
			return handOn(ctx, b, method, (*mcp.ClientSession).ListTools, page)
		case *mcp.CallToolParamsRaw:
			call := &mcp.CallToolParams{Name: p.Name}
			if len(p.Arguments) > 0 {
				call.Arguments = json.RawMessage(p.Arguments)
			}
			return handOn(ctx, b, method, (*mcp.ClientSession).CallTool, call)
		case *mcp.ListResourcesParams:
			page := new(mcp.ListResourcesParams)
			if p != nil {
				page.Cursor = p.Cursor
			}
			return handOn(ctx, b, method, (*mcp.ClientSession).ListResources, page)
		case *mcp.ListResourceTemplatesParams:
			page := new(mcp.ListResourceTemplatesParams)
			if p != nil {
				page.Cursor = p.Cursor
			}
			return handOn(ctx, b, method, (*mcp.ClientSession).ListResourceTemplates, page)
		case *mcp.ReadResourceParams:
			return handOn(ctx, b, method, (*mcp.ClientSession).ReadResource, &mcp.ReadResourceParams{URI: p.URI})
		}
		return next(ctx, method, req)
	}
}

// handOn makes a call to the server. An error that it answered is given back as it is; any other breaks the session.
func handOn[P any, R mcp.Result](ctx context.Context, b *bridge, method string, call func(*mcp.ClientSession, context.Context, P) (R, error), params P) (mcp.Result, error) {
	session, err := b.connected(ctx)
	if err != nil {
		return nil, err
	}
	result, err := call(session, ctx, params)
	_, unreached := errors.AsType[*url.Error](err)
	if answered, ok := errors.AsType[*jsonrpc.Error](err); ok && !unreached {
		return nil, answered
	}
	if err != nil {
		if ctx.Err() == nil {
			b.drop(session)
		}
		return nil, fmt.Errorf("hand on %s: %w", method, err)
	}
	return result, nil
}

func (b *bridge) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	err := b.listener.subscribe(ctx, req.Params.URI)
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return refused // as it is
	}
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", req.Params.URI, err)
	}
	return nil
}

func (b *bridge) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	b.listener.unsubscribe(req.Params.URI)
	return nil
}
