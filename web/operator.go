package web

import (
	"context"
	"net/http"
	"slices"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/hub"
)

// documentUsage is what a document costs the server, as an operator sees it.
type documentUsage struct {
	Slug       *doc.Slug      `json:"slug"`
	DocumentID string         `json:"documentId"`
	Title      string         `json:"title"`
	ChangedAt  string         `json:"changedAt" format:"date-time"`
	Bytes      int64          `json:"bytes" doc:"Bytes that its changes take in the store: those that stand as rows, and what others were compacted to."`
	Changes    int64          `json:"changes" doc:"Changes that it has."`
	LastSeq    string         `json:"lastSeq" doc:"Position of the last event in the log."`
	Open       bool           `json:"open" doc:"The server has it open."`
	Loaded     bool           `json:"loaded" doc:"It is loaded in the engine."`
	Sockets    int            `json:"sockets" doc:"WebSockets on which it is open, or waited for."`
	Block      *documentBlock `json:"block,omitempty" doc:"Not there: it is in service."`
	Fault      *documentFault `json:"fault,omitempty" doc:"Not there: it can be worked on. Forgotten when the server starts again."`
}

// documentBlock is that an operator took a document out of service.
type documentBlock struct {
	At     string    `json:"at" format:"date-time"`
	By     doc.Agent `json:"by"`
	Reason string    `json:"reason"`
}

// documentFault is that a document could not be worked on.
type documentFault struct {
	Code  code.Code `json:"code" doc:"What the latest request that met it was refused with; the log of the server has the cause."`
	At    string    `json:"at" format:"date-time" doc:"Of the latest."`
	Count int       `json:"count"`
}

func blockOf(b doc.Block) *documentBlock {
	if b.At.IsZero() {
		return nil
	}
	return &documentBlock{doc.FormatTime(b.At), b.By, b.Reason}
}

// socketEntry is an open WebSocket.
type socketEntry struct {
	Door        hub.Door  `json:"door" enum:"sync,agent"`
	Key         doc.KeyID `json:"key"`
	Agent       doc.Agent `json:"agent"`
	Peer        string    `json:"peer,omitempty" doc:"The peer id of an Automerge replica that has joined."`
	Remote      string    `json:"remote" doc:"Network address."`
	Since       string    `json:"since" format:"date-time"`
	Documents   []string  `json:"documents" nullable:"false" doc:"Ids of documents that are open on it, or waited for; 100 of them at most."`
	Count       int       `json:"documentCount"`
	QueuedBytes int       `json:"queuedBytes" doc:"Bytes that wait to be sent."`
}

// maxSocketDocuments is how many documents of one socket are named.
const maxSocketDocuments = 100

func (s *Server) operatorRoutes() {
	const tag = "operator"
	register(s, route{
		id: "list-usage", method: http.MethodGet, path: "/usage", tag: tag, status: http.StatusOK,
		summary: "Documents by size",
		about:   "The living documents whose changes take most bytes in the store, the largest first. Administrators of all documents only.",
		refuses: []code.Code{code.Forbidden},
	}, s.listUsage)
	register(s, route{
		id: "list-blocks", method: http.MethodGet, path: "/blocks", tag: tag, status: http.StatusOK,
		summary: "Documents out of service",
		about: "The blocked ones, the latest first; then those that have a fault: the engine does not load them, or they failed since it last did. " +
			"Administrators of all documents only.",
		refuses: []code.Code{code.Forbidden},
	}, s.listBlocks)
	register(s, route{
		id: "list-sockets", method: http.MethodGet, path: "/sockets", tag: tag, status: http.StatusOK,
		summary: "Open WebSockets",
		about:   "Those of all doors, the oldest first. Administrators of all documents only.",
		refuses: []code.Code{code.Forbidden},
	}, s.listSockets)
	register(s, route{
		id: "block-document", method: http.MethodPut, path: "/documents/{slug}/block", tag: tag, status: http.StatusOK,
		summary: "Block a document",
		about: "Takes it out of service: replicas and agents that have it open are told, and every request is answered DOCUMENT_BLOCKED until the block is lifted. " +
			"Nothing is lost; what replicas write meanwhile they send when it is back. Administrators only.",
		body:    smallBody,
		refuses: ofDocuments,
	}, s.blockDocument)
	register(s, route{
		id: "unblock-document", method: http.MethodDelete, path: "/documents/{slug}/block", tag: tag, status: http.StatusOK,
		summary: "Lift a document's block",
		about:   "One that is not blocked stays as it is. Administrators only.",
		refuses: ofDocuments,
	}, s.unblockDocument)
}

type listUsageInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
}

type usageOutput struct {
	Body struct {
		Documents []documentUsage `json:"documents" nullable:"false"`
	} `nameHint:"UsageList"`
}

func (s *Server) listUsage(ctx context.Context, in *listUsageInput) (*usageOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	all, err := s.library.Largest(ctx, in.Limit)
	if err != nil {
		return nil, err
	}
	return s.usage(all), nil
}

func (s *Server) listBlocks(ctx context.Context, _ *struct{}) (*usageOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	all, err := s.library.OutOfService(ctx)
	if err != nil {
		return nil, err
	}
	return s.usage(all), nil
}

func (s *Server) usage(all []doc.Usage) *usageOutput {
	sockets := map[crdt.DocumentID]int{}
	for _, info := range s.opts.Sockets() {
		for _, id := range info.Documents {
			sockets[id]++
		}
	}
	out := new(usageOutput)
	out.Body.Documents = make([]documentUsage, len(all))
	for i, u := range all {
		entry := documentUsage{
			Slug: slugOf(u.Meta), DocumentID: u.ID.String(), Title: u.Title, ChangedAt: doc.FormatTime(u.ChangedAt),
			Bytes: u.Bytes, Changes: u.Changes, LastSeq: u.LastSeq.String(), Open: u.Open, Loaded: u.Loaded,
			Sockets: sockets[u.ID], Block: blockOf(u.Block),
		}
		if u.Fault.Count > 0 {
			entry.Fault = &documentFault{u.Fault.Code, doc.FormatTime(u.Fault.At), u.Fault.Count}
		}
		out.Body.Documents[i] = entry
	}
	return out
}

type listSocketsOutput struct {
	Body struct {
		Sockets []socketEntry `json:"sockets" nullable:"false"`
	} `nameHint:"SocketList"`
}

func (s *Server) listSockets(ctx context.Context, _ *struct{}) (*listSocketsOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	infos := s.opts.Sockets()
	slices.SortFunc(infos, func(a, b hub.Info) int { return a.Since.Compare(b.Since) })
	out := new(listSocketsOutput)
	out.Body.Sockets = make([]socketEntry, len(infos))
	for i, info := range infos {
		entry := socketEntry{
			Door: info.Door, Key: info.Key, Agent: info.Agent, Peer: string(info.Peer), Remote: info.Remote,
			Since: doc.FormatTime(info.Since), Documents: []string{}, Count: len(info.Documents), QueuedBytes: info.Queued,
		}
		for _, id := range info.Documents[:min(len(info.Documents), maxSocketDocuments)] {
			entry.Documents = append(entry.Documents, id.String())
		}
		out.Body.Sockets[i] = entry
	}
	return out, nil
}

type blockInput struct {
	DocumentPath
	Body struct {
		Reason string `json:"reason,omitempty" maxLength:"512" doc:"For those who find it blocked, and for the log."`
	} `nameHint:"NewBlock"`
}

type blockOutput struct {
	Body struct {
		Slug       *doc.Slug      `json:"slug"`
		DocumentID string         `json:"documentId"`
		Block      *documentBlock `json:"block,omitempty" doc:"Not there: it is in service."`
	} `nameHint:"BlockedDocument"`
}

func (s *Server) blockDocument(ctx context.Context, in *blockInput) (*blockOutput, error) {
	if err := s.findBlocked(ctx, in.Slug); err != nil {
		return nil, err
	}
	return blockAnswer(s.library.Block(ctx, keyOf(ctx), in.Slug, in.Body.Reason))
}

func (s *Server) unblockDocument(ctx context.Context, in *DocumentPath) (*blockOutput, error) {
	if err := s.findBlocked(ctx, in.Slug); err != nil {
		return nil, err
	}
	return blockAnswer(s.library.Unblock(ctx, keyOf(ctx), in.Slug))
}

// findBlocked is find for a document that may be blocked.
func (s *Server) findBlocked(ctx context.Context, ref string) error {
	if _, err := s.find(ctx, ref); err != nil && !code.Is(err, code.DocumentBlocked) {
		return err
	}
	return nil
}

func blockAnswer(m doc.Meta, err error) (*blockOutput, error) {
	if err != nil {
		return nil, err
	}
	out := new(blockOutput)
	out.Body.Slug, out.Body.DocumentID, out.Body.Block = slugOf(m), m.ID.String(), blockOf(m.Block)
	return out, nil
}
