package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/doc/code"
)

// read gives a resource's text, and the version that it came with.
func (a *agent) read(uri string) (text, version string, err error) {
	r, err := a.session.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "", "", err
	}
	version, _ = r.Contents[0].Meta[versionMeta].(string)
	return r.Contents[0].Text, version, nil
}

func TestResources(t *testing.T) {
	onBothRevisions(t, func(t *testing.T, w *world, revision string) {
		w.document("paper")
		w.document("team-paper")
		a, outsider := w.agent(alpha, revision), w.agent(tom, revision)
		defer a.session.Close()
		defer outsider.session.Close()
		uris := func(a *agent) string {
			var all []string
			for r, err := range a.session.Resources(t.Context(), nil) {
				w.must(err)
				all = append(all, r.URI)
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		if all := uris(a); all != "cowrite://documents/paper cowrite://documents/team-paper" {
			t.Errorf("alpha sees %s", all)
		}
		if all := uris(outsider); all != "cowrite://documents/team-paper" {
			t.Errorf("tom sees %s", all)
		}
		templates, err := a.session.ListResourceTemplates(t.Context(), nil)
		w.must(err)
		if len(templates.ResourceTemplates) != 3 {
			t.Errorf("templates: %v", templates)
		}

		text, version, err := a.read("cowrite://documents/paper")
		w.must(err)
		if text != "# Intro\nhello\n## Plan\nsteps\n" || version != w.ok(vera, "GET", "/documents/paper", "").str("version") {
			t.Errorf("the document: %q at %s", text, version)
		}
		a.ok("edit", args{"document": "paper", "section": "plan", "base": version, "text": "## Plan\nmore steps\n"})
		if text, _, err := a.read("cowrite://documents/paper/sections/plan"); err != nil || text != "## Plan\nmore steps\n" {
			t.Errorf("the section: %q, %v", text, err)
		}
		a.ok("lease_acquire", args{"document": "paper", "section": "plan"})
		if text, _, err := a.read("cowrite://documents/paper/leases"); err != nil || !strings.Contains(text, `"holder":"alpha"`) {
			t.Errorf("the leases: %q, %v", text, err)
		}

		for uri, want := range map[string]int64{
			"cowrite://documents/none":                   int64(code.Table[code.DocumentNotFound].MCP),
			"cowrite://documents/paper/sections/none":    int64(code.Table[code.SectionNotFound].MCP),
			"cowrite://documents/paper/sections/-":       jsonrpc.CodeInvalidParams,
			"cowrite://documents/paper/history":          jsonrpc.CodeInvalidParams,
			"cowrite://documents/":                       jsonrpc.CodeInvalidParams,
			"file:///etc/passwd":                         jsonrpc.CodeInvalidParams,
			"cowrite://documents/paper/leases/plan":      jsonrpc.CodeInvalidParams,
			"cowrite://documents/..%2fpaper":             int64(code.Table[code.DocumentNotFound].MCP),
			"cowrite://documents/paper/sections/../plan": jsonrpc.CodeInvalidParams,
		} {
			if text, _, err := a.read(uri); !isRPC(err, want) {
				t.Errorf("%s: %q, %v", uri, text, err)
			}
		}
		if _, _, err := outsider.read("cowrite://documents/paper"); !isRPC(err, int64(code.Table[code.Forbidden].MCP)) {
			t.Errorf("an outsider reads: %v", err)
		}
		if _, err := a.session.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: "x"}); !isRPC(err, int64(code.Table[code.InvalidCursor].MCP)) {
			t.Errorf("a cursor that is none: %v", err)
		}
	})
}

// notices are those that have come since they were last asked for.
func (a *agent) notices() string {
	synctest.Wait()
	var all []string
	for {
		select {
		case uri := <-a.updated:
			all = append(all, strings.TrimPrefix(uri, resourcePrefix))
		default:
			slices.Sort(all)
			return strings.Join(all, " ")
		}
	}
}

// A client of the newest revision is told when what it listens to has changed, and of nothing else.
func TestNotices(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.document("other")
		a, b := w.agent(alpha, revision2026), w.agent(vera, revision2026)
		defer b.session.Close()
		subscribe := func(a *agent, of string) {
			t.Helper()
			w.must(a.session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: resourcePrefix + of}))
			synctest.Wait()
		}
		for _, of := range []string{"paper", "paper/sections/intro", "paper/leases"} {
			subscribe(a, of)
		}
		subscribe(b, "paper/leases")
		for _, c := range []struct {
			what, method, path, body string
			a, b                     string
		}{
			{"an edit of the section", "PATCH", intro, `{"ops":[{"at":0,"insert":"x"}]}`, "paper paper/sections/intro", ""},
			{"an edit of another", "PATCH", "/documents/paper/sections/plan", `{"ops":[{"at":0,"insert":"x"}]}`, "paper", ""},
			{"a lease", "POST", lease1, `{"leaseDurationSeconds":60}`, "paper/leases", "paper/leases"},
			{"a message", "POST", "/documents/paper/events", `{}`, "", ""},
			{"another document", "PATCH", "/documents/other/sections/intro", `{"ops":[{"at":0,"insert":"x"}]}`, "", ""},
			{"another title", "PATCH", "/documents/paper", `{"title":"x"}`, "paper", ""},
		} {
			w.ok(beta, c.method, c.path, c.body)
			if got := a.notices(); got != c.a {
				t.Errorf("%s: alpha is told of %q", c.what, got)
			}
			if got := b.notices(); got != c.b {
				t.Errorf("%s: vera is told of %q", c.what, got)
			}
		}
		w.must(a.session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: resourcePrefix + "paper/sections/intro"}))
		synctest.Wait()
		w.ok(beta, "PATCH", intro, `{"ops":[{"at":0,"insert":"x"}]}`)
		if got := a.notices(); got != "paper" {
			t.Errorf("after it hung up on the section, alpha is told of %q", got)
		}
		w.must(a.session.Close())
		w.ok(beta, "DELETE", lease1, "")
		if got := b.notices(); got != "paper/leases" {
			t.Errorf("after alpha left, vera is told of %q", got)
		}
		if n := len(w.server.notices.watched); n != 1 || w.server.streams.count() != 1 {
			t.Errorf("%d resources are watched, and %d streams open", n, w.server.streams.count())
		}

		w.must(w.keyring.Revoke(t.Context(), w.ids[vera]))
		w.server.KeyEnded(w.ids[vera])
		synctest.Wait()
		if n := len(w.server.notices.watched); n != 0 || w.server.streams.count() != 0 {
			t.Errorf("after the key was revoked %d resources are watched, and %d streams open", n, w.server.streams.count())
		}
	})
}

// What cannot be listened to is refused, and older clients are told what to do instead.
func TestWhoMayListen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		old := w.agent(alpha, revision2025)
		defer old.session.Close()
		subscribe := request{as: alpha, method: "POST", path: "/" + MCPPath, header: http.Header{"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {revision2025}},
			body: `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"cowrite://documents/paper"}}`}
		if a := w.do(subscribe); !strings.Contains(string(a.raw), `"error":"METHOD_NOT_ALLOWED"`) || !strings.Contains(string(a.raw), "call events") {
			t.Errorf("an older client subscribes: %v", a)
		}
		hello := old.session.InitializeResult()
		if hello.Capabilities.Resources.Subscribe || !strings.Contains(hello.Instructions, "sends no notices") {
			t.Errorf("an older client is told %v", hello)
		}
		listen := func(as string, uris ...string) answer {
			t.Helper()
			list := "\"" + strings.Join(uris, `","`) + "\""
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[%s]},`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, list, revision2026)
			return w.do(request{as: as, method: "POST", path: "/" + MCPPath, body: body, header: http.Header{
				"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {revision2026}, "Mcp-Method": {"subscriptions/listen"},
			}})
		}
		many := make([]string, maxListened+1)
		for i := range many {
			many[i] = fmt.Sprintf("%spaper/sections/s%d", resourcePrefix, i)
		}
		for _, c := range []struct {
			as   string
			uris []string
			code string
		}{
			{tom, []string{resourcePrefix + "paper"}, "FORBIDDEN"},
			{alpha, []string{resourcePrefix + "none"}, "DOCUMENT_NOT_FOUND"},
			{alpha, []string{"file:///etc/passwd"}, "Resource not found"},
			{alpha, many, "TOO_LARGE"},
		} {
			if a := listen(c.as, c.uris...); !strings.Contains(string(a.raw), c.code) || !strings.Contains(string(a.raw), `"error"`) {
				t.Errorf("%s to %.1s: %v, want %s", c.as, c.uris, a, c.code)
			}
		}
		if w.server.streams.count() != 0 || len(w.server.notices.watched) != 0 {
			t.Error("something is still watched")
		}
	})
}
