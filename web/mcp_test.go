package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The protocol revisions that the SDK's client speaks in these tests.
const (
	revision2026 = "2026-07-28"
	revision2025 = "2025-11-25"
)

// keyedTransport sends a caller's key with each request.
type keyedTransport struct {
	http.RoundTripper
	key string
}

func (k keyedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.RoundTripper.RoundTrip(r)
}

// agent is the SDK's own client with somebody's key.
type agent struct {
	t       *testing.T
	session *mcp.ClientSession
	updated chan string // URIs of the notices that came
}

func (w *world) agent(as, revision string) *agent {
	w.t.Helper()
	a := &agent{t: w.t, updated: make(chan string, 64)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) { a.updated <- req.Params.URI },
	})
	session, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint:   w.url + MCPPath,
		HTTPClient: &http.Client{Transport: keyedTransport{w.client.Transport, string(w.secrets[as])}},
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	w.must(err)
	a.session = session
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		w.t.Fatalf("revision %s instead of %s", got, revision)
	}
	return a
}

// call calls a tool and gives its structured result.
func (a *agent) call(ctx context.Context, name string, arguments any) (result map[string]any, refused bool, err error) {
	a.t.Helper()
	r, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return nil, false, err
	}
	structured, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return nil, false, err
	}
	text, _ := r.Content[0].(*mcp.TextContent)
	var same any
	if err := json.Unmarshal([]byte(text.Text), &same); err != nil {
		return nil, false, fmt.Errorf("the text of %s: %w", name, err)
	}
	if again, _ := json.Marshal(same); string(again) != string(structured) {
		a.t.Errorf("%s: the text says %s, the structure %s", name, text.Text, structured)
	}
	return result, r.IsError, json.Unmarshal(structured, &result)
}

// ok calls a tool that has to succeed.
func (a *agent) ok(name string, arguments any) map[string]any {
	a.t.Helper()
	result, refused, err := a.call(context.Background(), name, arguments)
	if err != nil || refused {
		a.t.Fatalf("%s %v: %v, %v", name, arguments, result, err)
	}
	return result
}

// refused calls a tool that has to be refused with a code.
func (a *agent) refused(name string, arguments any, code string) map[string]any {
	a.t.Helper()
	result, refused, err := a.call(context.Background(), name, arguments)
	if err != nil || !refused || result["error"] != code || result["message"] == "" {
		a.t.Errorf("%s %.200s: %v, %v, want %s", name, fmt.Sprint(arguments), result, err, code)
	}
	return result
}

type args = map[string]any

func onBothRevisions(t *testing.T, test func(t *testing.T, w *world, revision string)) {
	for _, revision := range []string{revision2026, revision2025} {
		t.Run(revision, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) { test(t, w, revision) })
		})
	}
}

// An agent does its whole job by tools: look, lease, edit, say so, see what others did.
func TestEveryTool(t *testing.T) {
	onBothRevisions(t, func(t *testing.T, w *world, revision string) {
		alpha, beta := w.agent(alpha, revision), w.agent(beta, revision)
		defer alpha.session.Close()
		defer beta.session.Close()

		document := args{"slug": "paper", "title": "Paper", "text": "# Intro\nhello\n", "idempotencyKey": "d"}
		made := alpha.ok("create", document)
		if again := alpha.ok("create", document); again["document"] != "paper" || again["version"] != made["version"] {
			t.Errorf("made twice: %v", again)
		}
		if made["document"] != "paper" || len(made["sections"].([]any)) != 1 {
			t.Errorf("made %v", made)
		}
		section := args{"document": "paper", "section": "plan", "text": "## Plan\nsteps\n", "idempotencyKey": "k"}
		alpha.ok("create", section)
		if again := alpha.ok("create", section); again["repeated"] != true {
			t.Errorf("made twice: %v", again)
		}
		if list := beta.ok("outline", nil); len(list["documents"].([]any)) != 1 {
			t.Errorf("documents: %v", list)
		}
		held := alpha.ok("lease_acquire", args{"document": "paper", "section": "plan", "reason": "steps", "seconds": 90})
		if held["holder"] != "alpha" || held["expiresInMs"] != 90000.0 || !strings.Contains(held["advisory"].(string), "advisory") {
			t.Errorf("leased: %v", held)
		}
		if no := beta.refused("lease_acquire", args{"document": "paper", "section": "plan"}, "SECTION_LEASED"); no["holder"] != "alpha" || no["reason"] != "steps" || no["expiresInMs"] != 90000.0 {
			t.Errorf("the refusal: %v", no)
		}
		outline := beta.ok("outline", args{"document": "paper"})
		last := outline["sections"].([]any)[1].(map[string]any)
		if last["id"] != "plan" || last["text"] != nil || last["characters"] != 14.0 || last["lease"].(map[string]any)["holder"] != "alpha" {
			t.Errorf("outline: %v", outline)
		}
		read := beta.ok("read", args{"document": "paper", "section": "plan"})
		if read["sections"].([]any)[0].(map[string]any)["text"] != "## Plan\nsteps\n" {
			t.Errorf("read: %v", read)
		}
		base := read["version"]
		alpha.ok("edit", args{"document": "paper", "section": "plan", "base": base, "replace": []any{args{"find": "steps", "with": "first steps"}}})
		edited := beta.ok("edit", args{"document": "paper", "section": "plan", "base": base, "ops": []any{args{"at": 14, "insert": "and more\n"}}})
		if edited["text"] != "## Plan\nfirst steps\nand more\n" || fmt.Sprint(edited["mergedFrom"].(map[string]any)["agents"]) != "[alpha]" || edited["advisory"].(map[string]any)["holder"] != "alpha" {
			t.Errorf("edited: %v", edited)
		}
		if then := beta.ok("read", args{"document": "paper", "version": base}); then["sections"].([]any)[1].(map[string]any)["text"] != "## Plan\nsteps\n" {
			t.Errorf("as it was: %v", then)
		}
		status := beta.ok("lease_status", args{"document": "paper", "section": "plan"})
		if len(status["leases"].([]any)) != 1 {
			t.Errorf("leases: %v", status)
		}
		if other := beta.ok("lease_status", args{"document": "paper", "section": "none"}); len(other["leases"].([]any)) != 0 {
			t.Errorf("leases of another section: %v", other)
		}
		if r := alpha.ok("lease_release", args{"document": "paper", "section": "plan", "leaseId": held["leaseId"]}); r["released"] != true {
			t.Errorf("released: %v", r)
		}
		message := args{"document": "paper", "message": args{"to": "beta", "text": "your turn"}, "idempotencyKey": "m"}
		posted := alpha.ok("post", message)
		if again := alpha.ok("post", message); again["seq"] != posted["seq"] {
			t.Errorf("posted twice: %v", again)
		}
		events := beta.ok("events", args{"document": "paper", "limit": 1000})
		log := events["events"].([]any)
		if newest := log[len(log)-1].(map[string]any); newest["seq"] != posted["seq"] || newest["event_type"] != "message.posted" || events["next_since"] != posted["seq"] {
			t.Errorf("the log ends with %v", newest)
		}
		var by string
		for _, e := range log {
			if e := e.(map[string]any); e["event_type"] == "section.edited" {
				by += fmt.Sprint(e["actor_id"], " by ", e["payload"].(map[string]any)["via"], ";")
			}
		}
		if by != "alpha by mcp;beta by mcp;" {
			t.Errorf("edits in the log: %s", by)
		}

		lock := alpha.ok("coordination.lease.acquire", args{"resource": "lock:deploy", "actorDid": "did:cowrite:alpha", "ttlMs": 60000})
		if lease := lock["lease"].(map[string]any); lock["ok"] != true || lease["holder"] != "did:cowrite:alpha" || lease["ttlMs"] != 60000.0 {
			t.Errorf("lock: %v", lock)
		}
		no := beta.refused("coordination.lease.acquire", args{"resource": "lock:deploy"}, "lease_held")
		if no["ok"] != false || no["holder"] != "did:cowrite:alpha" || no["position"] != 1.0 {
			t.Errorf("the refusal: %v", no)
		}
		queues := alpha.ok("coordination.wait", args{"resource": "lock:deploy"})["queues"].([]any)
		if waiters := queues[0].(map[string]any)["waiters"].([]any); waiters[0].(map[string]any)["actorDid"] != "did:cowrite:beta" {
			t.Errorf("queues: %v", queues)
		}
		if r := alpha.ok("coordination.lease.release", args{"resource": "lock:deploy"}); r["released"] != true {
			t.Errorf("released: %v", r)
		}
		beta.refused("coordination.lease.acquire", args{"resource": "lock:deploy", "actorDid": "alpha"}, "actor_mismatch")
	})
}

// What a client's model pays for before it has done anything.
func TestToolListIsSmall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.agent(vera, revision2026)
		defer a.session.Close()
		list, err := a.session.ListTools(t.Context(), nil)
		w.must(err)
		sent := w.do(request{as: vera, method: "POST", path: "/" + MCPPath, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+
			`{"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, revision2026), header: http.Header{
			"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {revision2026}, "Mcp-Method": {"tools/list"},
		}})
		_, data, _ := strings.Cut(string(sent.raw), "data: ")
		if len(data) >= 8000 || !json.Valid([]byte(data)) || len(list.Tools) < 8 || len(list.Tools) > 12 {
			t.Errorf("%d tools in %d bytes: %s", len(list.Tools), len(data), data)
		}
		for _, tool := range list.Tools {
			h := tool.Annotations
			if !strings.Contains(strings.ToLower(tool.Description), "advisory") && strings.Contains(tool.Name, "lease") {
				t.Errorf("%s does not say that it is advisory: %s", tool.Name, tool.Description)
			}
			if tool.OutputSchema == nil || h.ReadOnlyHint == (h.DestructiveHint != nil) {
				t.Errorf("%s: %+v", tool.Name, h)
			}
		}
	})
}

// A waiter that is given up by its client has no place any more, and nothing is granted to it.
func TestAbandonedWaits(t *testing.T) {
	onBothRevisions(t, func(t *testing.T, w *world, revision string) {
		w.document("paper")
		alpha, beta := w.agent(alpha, revision), w.agent(beta, revision)
		defer alpha.session.Close()
		defer beta.session.Close()
		section, lock := args{"document": "paper", "section": "intro"}, args{"resource": "lock:a"}
		alpha.ok("lease_acquire", section)
		alpha.ok("coordination.lease.acquire", lock)
		for name, waiting := range map[string]args{
			"lease_acquire":              {"document": "paper", "section": "intro", "waitSeconds": 60},
			"coordination.lease.acquire": {"resource": "lock:a", "waitMs": 60000},
		} {
			ctx, giveUp := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if result, _, err := beta.call(ctx, name, waiting); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v, %v", name, result, err)
				}
			})
			synctest.Wait()
			if waits := w.ok(root, "GET", coordination+"/agents/beta", "").body["waitsFor"].([]any); len(waits) != 1 {
				t.Errorf("%s: beta waits for %v", name, waits)
			}
			giveUp()
			wg.Wait()
			synctest.Wait()
			if waits := w.ok(root, "GET", coordination+"/agents/beta", "").body["waitsFor"].([]any); len(waits) != 0 {
				t.Errorf("%s: given up, and beta waits for %v", name, waits)
			}
		}
		alpha.ok("lease_release", section)
		alpha.ok("coordination.lease.release", lock)
		if holds := w.ok(root, "GET", coordination+"/agents/beta", "").body["holds"].([]any); len(holds) != 0 {
			t.Errorf("beta has %v", holds)
		}
		beta.ok("lease_acquire", section) // its session lives
	})
}

// A place that was taken without waiting is given up without a lease, once.
func TestPlacesAreGivenUp(t *testing.T) {
	onBothRevisions(t, func(t *testing.T, w *world, revision string) {
		w.document("paper")
		alpha, beta := w.agent(alpha, revision), w.agent(beta, revision)
		defer alpha.session.Close()
		defer beta.session.Close()
		section, lock := args{"document": "paper", "section": "intro"}, args{"resource": "lock:a"}
		alpha.ok("lease_acquire", section)
		alpha.ok("coordination.lease.acquire", lock)
		for _, c := range []struct {
			door          string
			asked         args
			code, release string
		}{
			{"lease_acquire", args{"document": "paper", "section": "intro", "queue": true}, "SECTION_LEASED", "lease_release"},
			{"coordination.lease.acquire", lock, "lease_held", "coordination.lease.release"},
		} {
			beta.refused(c.door, c.asked, c.code)
			leave := args{"leave": true}
			maps.Copy(leave, c.asked)
			delete(leave, "queue")
			if left := beta.ok(c.release, leave); left["left"] != true || left["released"] != false {
				t.Errorf("%s: %v", c.release, left)
			}
			if left := beta.ok(c.release, leave); left["left"] != false {
				t.Errorf("%s, with no place: %v", c.release, left)
			}
		}
		if waits := w.ok(root, "GET", coordination+"/agents/beta", "").body["waitsFor"].([]any); len(waits) != 0 {
			t.Errorf("beta waits for %v", waits)
		}
	})
}

// Whoever waits is answered as soon as there is something to say.
func TestWaitsThatEnd(t *testing.T) {
	onBothRevisions(t, func(t *testing.T, w *world, revision string) {
		w.document("paper")
		alpha, beta := w.agent(alpha, revision), w.agent(beta, revision)
		defer alpha.session.Close()
		defer beta.session.Close()
		begun := time.Now()
		alpha.ok("lease_acquire", args{"document": "paper", "section": "intro", "seconds": 20})
		if held := beta.ok("lease_acquire", args{"document": "paper", "section": "intro", "waitSeconds": 60}); held["holder"] != "beta" || time.Since(begun) != 20*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), held)
		}
		lost := alpha.ok("outline", args{"document": "paper"})
		if news, _ := lost["leaseLost"].([]any); len(news) != 1 || news[0].(map[string]any)["action"] != "expire" {
			t.Errorf("the former holder is told %v", lost)
		}
		if again := alpha.ok("outline", args{"document": "paper"}); again["leaseLost"] != nil {
			t.Errorf("told twice: %v", again)
		}
		if no := alpha.refused("events", args{"document": "paper", "since": "99", "waitSeconds": 60}, "INVALID_CURSOR"); no["lastSeq"] != lost["lastSeq"] {
			t.Errorf("behind the end of the log: %v", no)
		}
		since := lost["lastSeq"]
		begun = time.Now()
		if page := alpha.ok("events", args{"document": "paper", "since": since, "waitSeconds": 5}); len(page["events"].([]any)) != 0 || page["next_since"] != since || time.Since(begun) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), page)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			page := alpha.ok("events", args{"document": "paper", "since": since, "waitSeconds": 60})
			if events := page["events"].([]any); len(events) != 1 || events[0].(map[string]any)["event_type"] != "message.posted" {
				t.Errorf("waited for %v", page)
			}
		})
		synctest.Wait()
		beta.ok("post", args{"document": "paper", "message": args{}})
		wg.Wait()
	})
}

func TestWrongArguments(t *testing.T) {
	onBothRevisions(t, func(t *testing.T, w *world, revision string) {
		version := w.document("paper").str("version")
		w.document("other")
		elsewhere := w.ok(root, "PUT", "/documents/other/sections/intro", `{"text":"# Else\n","base":"current"}`).str("version")
		a, viewer, outsider := w.agent(alpha, revision), w.agent(vera, revision), w.agent(tom, revision)
		defer a.session.Close()
		defer viewer.session.Close()
		defer outsider.session.Close()
		edit := func(more args) args {
			all := args{"document": "paper", "section": "intro"}
			for name, value := range more {
				all[name] = value
			}
			return all
		}
		raw := func(s string) json.RawMessage { return json.RawMessage(s) }
		for _, c := range []struct {
			tool      string
			arguments any
			code      string
		}{
			{"read", args{}, "BAD_REQUEST"},
			{"read", args{"document": ""}, "INVALID_SLUG"},
			{"read", args{"document": 7}, "BAD_REQUEST"},
			{"read", args{"document": "none"}, "DOCUMENT_NOT_FOUND"},
			{"read", args{"document": "../paper"}, "DOCUMENT_NOT_FOUND"},
			{"read", args{"document": "paper", "section": "none"}, "SECTION_NOT_FOUND"},
			{"read", args{"document": "paper", "section": "../intro"}, "INVALID_SECTION_ID"},
			{"read", args{"document": "paper", "version": "nonsense"}, "INVALID_VERSION"},
			{"read", args{"document": "paper", "versions": "x"}, "BAD_REQUEST"},
			{"read", []any{"paper"}, "BAD_REQUEST"},
			{"read", raw(`"paper"`), "BAD_REQUEST"},
			{"outline", args{"next": "-1"}, "INVALID_CURSOR"},
			{"outline", args{"next": "99999999999999999999"}, "INVALID_CURSOR"},
			{"edit", edit(args{}), "BAD_REQUEST"},
			{"edit", edit(args{"text": "x"}), "BASE_REQUIRED"},
			{"edit", edit(args{"text": "x", "base": elsewhere}), "INVALID_VERSION"},
			{"edit", edit(args{"text": "x", "base": ""}), "INVALID_VERSION"},
			{"edit", edit(args{"text": "x", "ops": []any{}, "base": version}), "BAD_REQUEST"},
			{"edit", edit(args{"ops": []any{args{"at": 1 << 30}}}), "INVALID_RANGE"},
			{"edit", edit(args{"ops": []any{args{"at": json.Number("1e300")}}}), "BAD_REQUEST"},
			{"edit", edit(args{"ops": []any{args{"insert": "x"}}}), "BAD_REQUEST"},
			{"edit", edit(args{"replace": []any{args{"find": "nowhere", "with": "x"}}}), "TEXT_NOT_FOUND"},
			{"edit", edit(args{"replace": []any{args{"find": "l", "with": "x"}}}), "TEXT_AMBIGUOUS"},
			{"edit", edit(args{"text": strings.Repeat("x", 10<<20), "base": "current"}), "TOO_LARGE"},
			{"edit", edit(args{"ops": []any{}, "idempotencyKey": "a b"}), "BAD_REQUEST"},
			{"create", args{"document": "paper", "section": "intro", "text": "x"}, "SECTION_EXISTS"},
			{"create", args{"document": "paper", "slug": "x", "text": "x"}, "BAD_REQUEST"},
			{"create", args{"slug": "paper", "text": "x"}, "SLUG_TAKEN"},
			{"create", args{"slug": "NO", "text": "x"}, "INVALID_SLUG"},
			{"create", args{"section": "x", "text": "x"}, "BAD_REQUEST"},
			{"create", args{"text": strings.Repeat("x", 5<<20)}, "TOO_LARGE"},
			{"lease_acquire", edit(args{"seconds": 301}), "INVALID_DURATION"},
			{"lease_acquire", edit(args{"waitSeconds": 61}), "INVALID_DURATION"},
			{"lease_release", edit(args{}), "NO_ACTIVE_LEASE"},
			{"events", args{"document": "paper", "since": "-1"}, "INVALID_CURSOR"},
			{"events", args{"document": "paper", "limit": 1001}, "BAD_REQUEST"},
			{"post", args{"document": "paper", "message": "text"}, "BAD_REQUEST"},
			{"post", args{"document": "paper", "message": args{"x": strings.Repeat("x", 65<<10)}}, "TOO_LARGE"},
			{"coordination.lease.acquire", args{"resource": ""}, "bad_request"},
			{"coordination.lease.acquire", args{"resource": "lock:a", "ttlMs": 1}, "invalid_duration"},
			{"coordination.lease.acquire", args{"resource": "lock:a", "operation": "admire"}, "bad_request"},
			{"coordination.lease.acquire", args{"resource": "section:none/x"}, "document_not_found"},
			{"coordination.lease.release", args{"resource": "lock:a"}, "no_active_lease"},
			{"coordination.wait", args{"resource": strings.Repeat("x", 513)}, "bad_request"},
		} {
			a.refused(c.tool, c.arguments, c.code)
		}
		viewer.refused("edit", edit(args{"ops": []any{args{"at": 0, "insert": "x"}}}), "FORBIDDEN")
		viewer.refused("lease_acquire", edit(args{}), "FORBIDDEN")
		viewer.refused("post", args{"document": "paper", "message": args{}}, "FORBIDDEN")
		outsider.refused("read", args{"document": "paper"}, "FORBIDDEN")
		if list := outsider.ok("outline", nil); list["documents"] != nil {
			t.Errorf("an outsider sees %v", list)
		}
		if _, _, err := a.call(t.Context(), "none", nil); !isRPC(err, jsonrpc.CodeInvalidParams) {
			t.Errorf("a tool that is none: %v", err)
		}
		if now := a.ok("read", args{"document": "paper"}); now["version"] != version {
			t.Errorf("something was written: %v", now)
		}
	})
}

func isRPC(err error, code int64) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code == code
}

// Who has no live key gets no further than the door, and a changed name leads on.
func TestWhoMaySpeakMCP(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		for _, c := range []struct {
			as, method, body string
			header           http.Header
			status           int
		}{
			{nobody, "POST", ping, nil, 401},
			{"wrong", "POST", ping, nil, 401},
			{nobody, "OPTIONS", "", http.Header{"Origin": {"https://elsewhere.test"}}, 204},
			{alpha, "GET", "", nil, 405},
			{alpha, "DELETE", "", nil, 405},
			{alpha, "POST", ping, http.Header{"Accept": {"text/html"}}, 400},
			{alpha, "POST", ping, http.Header{"Content-Type": {"text/plain"}}, 415},
			{alpha, "POST", ping, http.Header{"Mcp-Protocol-Version": {"1999-01-01"}}, 400},
			{alpha, "POST", "nonsense", nil, 400},
			{alpha, "POST", "[]", nil, 400},
			{alpha, "POST", `{"jsonrpc":"2.0","id":1,"method":"nonsense"}`, nil, 400},
			{alpha, "POST", `{"x":"` + strings.Repeat("x", documentBody) + `"}`, nil, 413},
			{alpha, "POST", ping, nil, 200},
		} {
			header := http.Header{"Accept": {"application/json, text/event-stream"}}
			for name, values := range c.header {
				header[name] = values
			}
			w.secrets["wrong"] = "cw_wrong"
			if a := w.do(request{as: c.as, method: c.method, path: "/" + MCPPath, body: c.body, header: header}); a.status != c.status {
				t.Errorf("%s %.60s by %q %v: %v", c.method, c.body, c.as, c.header, a)
			}
		}
		a := w.agent(alpha, revision2026)
		defer a.session.Close()
		w.ok(alpha, "PATCH", "/documents/paper", `{"slug":"essay"}`)
		if moved := a.ok("outline", args{"document": "paper"}); moved["document"] != "essay" {
			t.Errorf("by its former name: %v", moved)
		}
		a.ok("edit", args{"document": "paper", "section": "intro", "ops": []any{args{"at": 0, "insert": "x"}}})
	})
}
