package web

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
)

// Resources are called cowrite://documents/{document}, .../sections/{section} and .../leases.
const (
	resourcePrefix = "cowrite://documents/"
	// versionMeta is where what is read of a document says its version, which an edit may be based on.
	versionMeta = "cowrite/version"
	// listedDocuments is how many documents one page of the list of resources has.
	listedDocuments = 50
	// maxListened is how many resources one call may listen to.
	maxListened = 64
)

// aspect is what of a document a resource shows.
type aspect struct {
	leases  bool
	section doc.SectionID // "": all
}

// parseResource reads a resource's name. It need not exist.
func parseResource(uri string) (ref string, a aspect, ok bool) {
	rest, ok := strings.CutPrefix(uri, resourcePrefix)
	parts := strings.Split(rest, "/")
	switch {
	case !ok || parts[0] == "":
		return "", aspect{}, false
	case len(parts) == 1:
	case len(parts) == 2 && parts[1] == "leases":
		a.leases = true
	case len(parts) == 3 && parts[1] == "sections":
		sid, err := doc.ParseSectionID(parts[2])
		if err != nil {
			return "", aspect{}, false
		}
		a.section = sid
	default:
		return "", aspect{}, false
	}
	return parts[0], a, true
}

func (s *Server) mcpResources() {
	for _, t := range []mcp.ResourceTemplate{
		{URITemplate: resourcePrefix + "{document}", Name: "document", MIMEType: markdownType, Description: "A document's Markdown, by slug or id."},
		{URITemplate: resourcePrefix + "{document}/sections/{section}", Name: "section", MIMEType: markdownType, Description: "A section's Markdown."},
		{URITemplate: resourcePrefix + "{document}/leases", Name: "leases", MIMEType: jsonType, Description: "Who is editing which section right now (advisory), and who waits."},
	} {
		s.mcp.AddResourceTemplate(&t, s.readMCPResource)
	}
}

// listMCPResources gives the documents that the key covers.
func (s *Server) listMCPResources(ctx context.Context, params *mcp.ListResourcesParams) (mcp.Result, error) {
	cursor := ""
	if params != nil {
		cursor = params.Cursor
	}
	after, err := parseNext(cursor)
	if err != nil {
		return nil, s.rpcRefusal(ctx, err)
	}
	metas, next, err := s.library.List(ctx, keyOf(ctx), after, listedDocuments)
	if err != nil {
		return nil, s.rpcRefusal(ctx, err)
	}
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}, Cacheable: mcp.Cacheable{CacheScope: "private"}}
	for _, m := range metas {
		out.Resources = append(out.Resources, &mcp.Resource{URI: resourcePrefix + m.Ref(), Name: m.Ref(), Title: m.Title, MIMEType: markdownType})
	}
	if next > 0 {
		out.NextCursor = strconv.FormatInt(next, 10)
	}
	return out, nil
}

// parseNext reads where a list of documents goes on; "" is its beginning.
func parseNext(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, code.New(code.InvalidCursor, "this is no cursor of the list of documents")
	}
	return n, nil
}

func (s *Server) readMCPResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	ref, a, ok := parseResource(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	contents, err := s.mcpContents(ctx, ref, a)
	if err != nil {
		return nil, s.rpcRefusal(ctx, err)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

func (s *Server) mcpContents(ctx context.Context, ref string, a aspect) (*mcp.ResourceContents, error) {
	meta, err := s.mcpDocument(ctx, ref)
	if err != nil {
		return nil, err
	}
	if a.leases {
		list, err := s.listLeases(ctx, &DocumentPath{meta.ID.String()})
		if err != nil {
			return nil, err
		}
		text, err := marshal(list.Body)
		if err != nil {
			return nil, fmt.Errorf("marshal leases: %w", err)
		}
		return &mcp.ResourceContents{MIMEType: jsonType, Text: string(text)}, nil
	}
	snap, err := s.library.Read(ctx, keyOf(ctx), meta.ID)
	if err != nil {
		return nil, err
	}
	contents := &mcp.ResourceContents{MIMEType: markdownType, Meta: mcp.Meta{versionMeta: string(snap.Version)}}
	if a.section == "" {
		contents.Text = snap.Markdown()
		return contents, nil
	}
	i := slices.IndexFunc(snap.Sections, func(sec doc.Section) bool { return sec.ID == a.section })
	if i < 0 {
		return nil, code.New(code.SectionNotFound, "there is no section %s", a.section)
	}
	contents.Text = snap.Sections[i].Text
	return contents, nil
}

// mcpListen sends notices of the resources that a client listens to, until it hangs up, its key ends or the server is
// about to. It counts as one of the key's event streams.
func (s *Server) mcpListen(ctx context.Context, params *mcp.SubscriptionsListenParams, listen func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	if params.Notifications == nil {
		return listen(ctx)
	}
	uris := slices.Compact(slices.Sorted(slices.Values(params.Notifications.ResourceSubscriptions)))
	if len(uris) > maxListened {
		return nil, s.rpcRefusal(ctx, code.New(code.TooLarge, "one call may listen to %d resources", maxListened).With("limit", maxListened))
	}
	c := callOf(ctx)
	ctx, cancel := s.untilStop(ctx)
	closeStream, err := s.streams.open(c.key.ID, cancel)
	if err != nil {
		cancel()
		return nil, s.rpcRefusal(ctx, err)
	}
	defer closeStream()
	// A key that ended before the stream was on the list would have left the stream open.
	if _, err := s.authenticate(c.request); err != nil {
		return nil, s.rpcRefusal(ctx, err)
	}
	for _, uri := range uris {
		ref, a, ok := parseResource(uri)
		if !ok {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		meta, err := s.mcpDocument(ctx, ref)
		if err != nil {
			return nil, s.rpcRefusal(ctx, err)
		}
		stop, err := s.notices.watch(ctx, uri, meta.ID, a)
		if err != nil {
			return nil, s.rpcRefusal(ctx, err)
		}
		defer stop()
	}
	return listen(ctx)
}

// notices watches each resource that is listened to, once for all who do: the SDK sends a notice to all of them.
type notices struct {
	ctx     context.Context // of the watchers; ends when the server is about to
	library *doc.Library
	server  *mcp.Server

	mu      sync.Mutex
	watched map[string]*notice // by URI
}

type notice struct {
	listeners int
	cancel    context.CancelFunc
}

func newNotices(ctx context.Context, l *doc.Library, server *mcp.Server) *notices {
	return &notices{ctx: ctx, library: l, server: server, watched: map[string]*notice{}}
}

// itself is the server as a reader of its documents' logs. What it reads there is told to nobody.
var itself = doc.Key{Agent: doc.System, Role: doc.Admin, Pattern: "*"}

// watch has notices sent until stop is called as often as it was.
func (n *notices) watch(ctx context.Context, uri string, id crdt.DocumentID, a aspect) (stop func(), err error) {
	meta, err := n.library.Find(ctx, itself, id.String())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.watched[uri]
	if w == nil {
		watching, cancel := context.WithCancel(n.ctx)
		w = &notice{cancel: cancel}
		n.watched[uri] = w
		go n.run(watching, uri, id, a, meta.LastSeq) // ends with the last listener
	}
	w.listeners++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if w.listeners--; w.listeners == 0 {
			w.cancel()
			delete(n.watched, uri)
		}
	}, nil
}

// run sends a notice for each batch of events behind since that changed what the resource shows.
func (n *notices) run(ctx context.Context, uri string, id crdt.DocumentID, a aspect, since doc.Seq) {
	wake, stop := n.library.Watch(id)
	defer stop()
	for {
		events, more, err := n.library.Events(ctx, itself, id, since, streamPage)
		if ctx.Err() != nil {
			return // which is no change
		}
		if len(events) > 0 {
			since = events[len(events)-1].Seq
		}
		// After an error the document is gone, or the store fails: whoever reads the resource is told which.
		if err != nil || slices.ContainsFunc(events, a.changedBy) {
			// Its only error is that of the context.
			_ = n.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
}

// changedBy says whether an event changed what a resource shows.
func (a aspect) changedBy(e doc.Event) bool {
	ofLeases := strings.HasPrefix(string(e.Type), "section.lease")
	switch {
	case e.Type == doc.DocumentDeleted, e.Type == doc.DocumentRestored, e.Type == doc.DocumentBlocked, e.Type == doc.DocumentUnblocked:
		return true
	case a.leases || ofLeases:
		return a.leases && ofLeases
	case e.Type == doc.MessagePosted, e.Type == doc.SectionOverlap, e.Type == doc.SectionFenceStale:
		return false
	case a.section == "":
		return true
	}
	var p struct {
		SectionID doc.SectionID   `json:"sectionId"`
		Sections  []doc.SectionID `json:"sections"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return true // a notice too many is better than one too few
	}
	return p.SectionID == a.section || slices.Contains(p.Sections, a.section)
}
