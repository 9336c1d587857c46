package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/doc"
	"cowrite/doc/code"
)

// MCPPath is where the Model Context Protocol is spoken: streamable HTTP, a call a request, no sessions.
const MCPPath = "/mcp"

const mcpInstructions = `Cowrite keeps documents that several agents and people write at once. Every write is accepted and merged.
Begin with outline, then read. Edit on the version that you read, as "base": what others wrote since stays, and the answer says what was merged.
Leases are advisory: one tells others that you are editing a section, and never blocks a write. It ends by itself after its time to live; your own writes into the section extend it; acquiring again renews it. Release it when you are done.
A refusal is {"error": CODE, "message", ...facts}: the facts say what to do next. Give each edit, create and post an idempotencyKey, and send it again under the same one when an answer was lost.`

// toOlderClients follows the instructions for clients of revisions before 2026-07-28.
const toOlderClients = `This server keeps no sessions, so it sends no notices to clients of this protocol revision: call events with waitSeconds instead.`

// mcpRoutes serves the tools and resources. They call what the REST routes call, in this process.
func (s *Server) mcpRoutes() {
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "cowrite", Title: "Cowrite", Version: "1"}, &mcp.ServerOptions{
		Instructions:       mcpInstructions,
		Capabilities:       &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil }, // mcpListen looks whether it may be
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			switch req.GetParams().(type) {
			case *mcp.ListResourcesParams, *mcp.ReadResourceParams:
				c.CacheScope = "private" // what a key may see
			}
		},
	})
	s.notices = newNotices(s.opts.Stop, s.library, s.mcp)
	s.mcpTools()
	s.mcpResources()
	s.mcp.AddReceivingMiddleware(s.mcpGuard)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          documentBody,
		// A page that was led here by a changed name has no key. Behind a proxy on the same machine every name is foreign.
		DisableLocalhostProtection: true,
	})
	s.mux.HandleFunc(MCPPath, func(w http.ResponseWriter, r *http.Request) {
		key, err := s.authenticate(r)
		if err == nil && r.ContentLength > documentBody {
			err = code.New(code.TooLarge, "the body is too large").With("limit", documentBody)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		callOf(r.Context()).key = key
		handler.ServeHTTP(w, r)
	})
}

// mcpGuard surrounds every call. A handler runs on a goroutine of its session, where nothing else would catch a panic; and its
// context ends with the HTTP request whatever the protocol revision, because an answer that nobody can read is
// waited for by nobody.
func (s *Server) mcpGuard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(callOf(ctx).request.Context(), cancel)()
		defer func() {
			if p := recover(); p != nil {
				result, err = nil, s.rpcRefusal(ctx, fmt.Errorf("%s panicked: %v\n%s", method, p, debug.Stack()))
			}
		}()
		switch params := req.GetParams().(type) {
		case *mcp.ListResourcesParams:
			return s.listMCPResources(ctx, params)
		case *mcp.SubscribeParams, *mcp.UnsubscribeParams:
			return nil, s.rpcRefusal(ctx, code.New(code.MethodNotAllowed, "%s", toOlderClients))
		case *mcp.SubscriptionsListenParams:
			return s.mcpListen(ctx, params, func(ctx context.Context) (mcp.Result, error) { return next(ctx, method, req) })
		}
		result, err = next(ctx, method, req)
		if answer, ok := result.(*mcp.InitializeResult); ok {
			answer.Instructions += "\n" + toOlderClients
			answer.Capabilities.Resources.Subscribe = false
		}
		return result, err
	}
}

// rpcRefusal is an error where there is no tool's result to hold it: its code's number, its sentence, and itself as data.
func (s *Server) rpcRefusal(ctx context.Context, err error) error {
	r := s.refusal(ctx, err)
	data, err := r.MarshalJSON()
	if err != nil {
		return fmt.Errorf("marshal refusal: %w", err)
	}
	return &jsonrpc.Error{Code: int64(r.what.Entry().MCP), Message: r.what.Message, Data: data}
}

// refusedCall is a refusal as a tool's result, with its structure.
func (s *Server) refusedCall(ctx context.Context, err error, coordination bool) *mcp.CallToolResult {
	r := s.refusal(ctx, err)
	r.coordination = coordination
	data, err := r.MarshalJSON()
	if err != nil {
		s.log.ErrorContext(ctx, "answer not written", "request", callOf(ctx).id, "err", err)
		data = []byte(`{"error":"INTERNAL","message":"something went wrong on the server"}`)
	}
	result := structured(s.withLost(ctx, data, coordination))
	result.IsError = true
	return result
}

// structured is a result that is there twice: as it is, and as text for clients that know no structure.
func structured(object []byte) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		StructuredContent: json.RawMessage(object),
		Content:           []mcp.Content{&mcp.TextContent{Text: string(object)}},
	}
}

// withLost puts before the fields of a result which leases its reader lost since it was last told.
func (s *Server) withLost(ctx context.Context, object []byte, coordination bool) []byte {
	lost := s.takeLost(ctx, coordination)
	if len(lost) == 0 {
		return object
	}
	field, err := marshal(map[string][]LostLease{leaseLostField: lost})
	if err != nil {
		s.log.ErrorContext(ctx, "lost leases not told", "request", callOf(ctx).id, "err", err)
		return object
	}
	if string(object) == "{}" {
		return field
	}
	return append(append(field[:len(field)-1], ','), object[1:]...)
}

// mcpDocument finds a document by any of its names: there is no address here that a former slug could be sent on to.
func (s *Server) mcpDocument(ctx context.Context, ref string) (doc.Meta, error) {
	if ref == "" {
		return doc.Meta{}, code.New(code.InvalidSlug, `"document" is a slug or a document id`)
	}
	return s.library.Find(ctx, keyOf(ctx), ref)
}

// mcpPath addresses a document as the REST routes do, by its id, which moves nowhere.
func (s *Server) mcpPath(ctx context.Context, ref string) (DocumentPath, error) {
	meta, err := s.mcpDocument(ctx, ref)
	return DocumentPath{meta.ID.String()}, err
}
