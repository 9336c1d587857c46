package web

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/doc/code"
)

// tool is what a client is told of a tool, but for what its arguments are.
type tool struct {
	name  string
	about string
	hints mcp.ToolAnnotations
	gives string // the fields of its result that an agent acts on; there are others
}

// What a tool may do to documents, for hosts that ask before it does.
var (
	no, yes  = false, true
	reads    = mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	adds     = mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
	settles  = mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}
	replaces = mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no}
)

// coordinationTools is how the names of the coordination door's tools begin. They take, answer and refuse as its routes do.
const coordinationTools = "coordination."

// addTool serves a tool. Its arguments are checked as the body of a REST route is.
func addTool[I, O any](s *Server, t tool, call func(context.Context, I) (O, error)) {
	registry := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer)
	schema := huma.SchemaFromType(registry, reflect.TypeFor[I]())
	coordination := strings.HasPrefix(t.name, coordinationTools)
	s.mcp.AddTool(&mcp.Tool{
		Name: t.name, Description: t.about, Annotations: &t.hints,
		InputSchema: inputSchema(registry, schema), OutputSchema: outputSchema(reflect.TypeFor[O](), strings.Fields(t.gives)),
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in I
		if err := readArguments(registry, schema, req.Params.Arguments, &in); err != nil {
			return s.refusedCall(ctx, err, coordination), nil
		}
		out, err := call(ctx, in)
		if err != nil {
			return s.refusedCall(ctx, err, coordination), nil
		}
		object, err := marshal(out)
		if err != nil {
			return nil, s.rpcRefusal(ctx, err)
		}
		return structured(s.withLost(ctx, object, coordination)), nil
	})
}

func readArguments(registry huma.Registry, schema *huma.Schema, arguments json.RawMessage, in any) error {
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	var generic any
	if err := decodeJSON(arguments, &generic); err != nil {
		return code.New(code.InvalidJSON, "the arguments are not JSON: %v", err)
	}
	var result huma.ValidateResult
	huma.Validate(registry, schema, huma.NewPathBuffer([]byte("arguments"), len("arguments")), huma.ModeWriteToServer, generic, &result)
	if len(result.Errors) > 0 {
		var details []*huma.ErrorDetail
		for _, err := range result.Errors {
			if d, ok := err.(huma.ErrorDetailer); ok {
				details = append(details, d.ErrorDetail())
			}
		}
		return invalid("", details)
	}
	if err := decodeJSON(arguments, in); err != nil {
		return code.New(code.BadRequest, "the arguments do not fit: %v", err)
	}
	return nil
}

// inputSchema is a schema as it is published: without references and limits, and with words at its top level alone, because
// a client's model pays for each of them. What does not fit the whole schema is refused with what is wrong.
func inputSchema(r huma.Registry, s *huma.Schema) map[string]any {
	out := brief(r, s)
	for name, property := range s.Properties {
		if property.Description != "" {
			out["properties"].(map[string]any)[name].(map[string]any)["description"] = property.Description
		}
	}
	return out
}

func brief(r huma.Registry, s *huma.Schema) map[string]any {
	for s.Ref != "" {
		s = r.SchemaFromRef(s.Ref)
	}
	out := map[string]any{"type": s.Type}
	if len(s.Properties) > 0 {
		properties := map[string]any{}
		for name, p := range s.Properties {
			properties[name] = brief(r, p)
		}
		out["properties"] = properties
	}
	if len(s.Required) > 0 {
		out["required"] = s.Required
	}
	if s.Items != nil {
		out["items"] = brief(r, s.Items)
	}
	if len(s.Enum) > 0 {
		out["enum"] = s.Enum
	}
	return out
}

// outputSchema gives the types of a result's fields. It requires none and closes nothing: a refusal is a result too, and
// some clients check that against it.
func outputSchema(t reflect.Type, fields []string) map[string]any {
	whole := huma.SchemaFromType(huma.NewMapRegistry("#/", func(t reflect.Type, hint string) string { return t.String() + hint }), t)
	properties := map[string]any{}
	for _, name := range fields {
		properties[name] = map[string]any{"type": cmp.Or(whole.Properties[name].Type, "object")} // without a type it is a reference
	}
	return map[string]any{"type": "object", "properties": properties}
}

func (s *Server) mcpTools() {
	addTool(s, tool{"outline", "A document's sections without text, and who holds their advisory leases. Without document: which there are. Next: read.",
		reads, "version lastSeq sections documents next"}, s.toolOutline)
	addTool(s, tool{"read", "Text, and the version to give as base when you edit.",
		reads, "version lastSeq sections"}, s.toolRead)
	addTool(s, tool{"edit", "Change a section by one of text (all of it), ops (ranges in code points of base) or replace (passages; safest). " +
		"Merged with what others wrote since base, whoever holds the advisory lease: see mergedFrom, advisory. TEXT_NOT_FOUND and TEXT_AMBIGUOUS write nothing: see near, version.",
		replaces, "version text mergedFrom advisory repeated"}, s.toolEdit)
	addTool(s, tool{"create", "Add a section to a document; or, without document, a document from Markdown.",
		adds, "document version sections advisory"}, s.toolCreate)
	addTool(s, tool{"lease_acquire", "Tell others that you edit a section. Advisory: blocks no write. Ends after its time to live; writing there or acquiring again extends it. " +
		"SECTION_LEASED says who has it until when: wait, work elsewhere, or edit anyway. Next: edit, lease_release.",
		settles, "leaseId holder expiresInMs fence"}, s.toolAcquire)
	addTool(s, tool{"lease_release", "End your advisory lease, or leave its queue; the next one gets it.",
		settles, "released"}, s.toolRelease)
	addTool(s, tool{"lease_status", "Advisory leases, their time to live, and queues.",
		reads, "leases queues"}, s.toolLeases)
	addTool(s, tool{"events", "Edits, leases and messages since; then go on from next_since.",
		reads, "events has_more next_since"}, s.toolEvents)
	addTool(s, tool{"post", "Message others in the document's log.",
		adds, "seq"}, s.toolPost)
	addTool(s, tool{coordinationTools + "lease.acquire", "Advisory lease on any name, as lock:deploy or section:slug/id, for ttlMs; again renews it. lease_held queues you; waitMs waits. Next: work, release.",
		settles, "ok lease"}, s.toolCoordinationAcquire)
	addTool(s, tool{coordinationTools + "lease.release", "End your advisory lease on a name, or leave its queue.",
		settles, "ok released trust"}, s.toolCoordinationRelease)
	addTool(s, tool{coordinationTools + "wait", "Who holds and waits for what (advisory), and refused deadlocks.",
		reads, "ok queues deadlocks"}, s.toolCoordinationWait)
}
