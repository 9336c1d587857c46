package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"cowrite/doc"
)

// standing is a call that lasts: it waits for something, or streams.
type standing struct {
	name string // its operationId, or its tool's or method's name
	told string // what its answer has in it when its key is revoked; "": it just ends
	call func(w *world, as string) (answer string)
}

func rest(rq request) func(*world, string) string {
	return func(w *world, as string) string {
		rq.as = as
		return w.do(rq).String()
	}
}

func tooled(name string, arguments args) func(*world, string) string {
	return func(w *world, as string) string {
		a := w.agent(as, revision2026)
		defer a.session.Close()
		result, _, err := a.call(context.Background(), name, arguments)
		return fmt.Sprint(result, err)
	}
}

var allStanding = []standing{
	{"acquire-lease", "KEY_REVOKED", rest(request{method: "POST", path: lease1 + "?wait=60s", body: `{"leaseDurationSeconds":60}`})},
	{"acquire-lease", "KEY_REVOKED", rest(keyed(request{method: "POST", path: lease1 + "?wait=60s", body: `{"leaseDurationSeconds":60}`}, "own"))},
	{"lease-resource", "key_revoked", rest(request{method: "POST", path: coordination + "/lease", body: asks(beta, "lock:a", `"waitMs":60000`)})},
	// It waits for the call under the same Idempotency-Key.
	{"acquire-lease", "KEY_REVOKED", rest(keyed(request{method: "POST", path: lease1, body: `{"leaseDurationSeconds":60,"queue":true}`}, "taken"))},
	{"stream-events", "", rest(request{method: "GET", path: "/documents/paper/events/stream"})},
	{"lease_acquire", "KEY_REVOKED", tooled("lease_acquire", args{"document": "paper", "section": "intro", "waitSeconds": 60})},
	{"coordination.lease.acquire", "key_revoked", tooled("coordination.lease.acquire", args{"resource": "lock:a", "waitMs": 60000})},
	{"events", "KEY_REVOKED", tooled("events", args{"document": "quiet", "since": "1", "waitSeconds": 60})},
	{"subscriptions/listen", "", rest(request{method: "POST", path: "/" + MCPPath, header: http.Header{
		"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {revision2026}, "Mcp-Method": {"subscriptions/listen"},
	}, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["cowrite://documents/paper"]},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, revision2026)})},
}

// A key that another process revoked is shut out within a second, whatever it has open: nothing that happens then is told to it, and
// nothing that it waited for is given to it.
func TestWhatStandsEndsWithItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const lease2 = "/documents/paper/sections/plan/lease"
		w.document("paper")
		w.ok(alpha, "POST", "/documents", `{"slug":"quiet"}`)
		w.ok(alpha, "POST", lease1, `{"leaseDurationSeconds":300}`)
		w.ok(alpha, "POST", lease2, `{"leaseDurationSeconds":300}`)
		w.ok(alpha, "POST", coordination+"/lease", asks(alpha, "lock:a", `"ttlMs":300000`))
		for i, s := range allStanding {
			as := fmt.Sprint("late", i)
			w.addKey(as, doc.Key{Agent: beta, Role: doc.Editor, Pattern: "*"})
			ctx, giveUp := context.WithCancel(t.Context())
			var first, all sync.WaitGroup
			first.Go(func() { // beta's other key goes on
				rq := w.newRequest(ctx, keyed(request{as: beta, method: "POST", path: lease2 + "?wait=60s", body: `{"leaseDurationSeconds":60}`}, "taken"))
				if resp, err := w.client.Do(rq); err == nil {
					resp.Body.Close()
				}
			})
			synctest.Wait()
			all.Go(func() {
				if answer := s.call(w, as); !strings.Contains(answer, s.told) {
					t.Errorf("%s ends with %s, want %s", s.name, answer, s.told)
				}
			})
			synctest.Wait()
			begun := time.Now()
			w.must(w.keyring.Revoke(t.Context(), w.ids[as]))
			all.Wait()
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%s stands %v after its key ended", s.name, took)
			}
			giveUp()
			first.Wait()
			synctest.Wait()
			if streams, polls := w.server.streams.count(), w.server.polls.count(); streams+polls > 0 {
				t.Errorf("%s: %d streams and %d polls are left", s.name, streams, polls)
			}
			if is := w.ok(root, "GET", coordination+"/agents/beta", ""); len(is.body["holds"].([]any))+len(is.body["waitsFor"].([]any)) > 0 {
				t.Errorf("%s: beta is left with %v", s.name, is)
			}
		}
	})
}

// Nothing is left out above: whatever takes a time to wait, or answers with a stream.
func TestWhatStandsIsListed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		listed := func(name string) {
			if !slices.ContainsFunc(allStanding, func(s standing) bool { return s.name == name }) {
				t.Errorf("%s can stand, and is not listed", name)
			}
		}
		waits := func(name string) bool { return strings.HasPrefix(name, "wait") }
		found := 0
		api := w.server.api.OpenAPI()
		for _, item := range api.Paths {
			for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
				if op == nil {
					continue
				}
				stands := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return waits(p.Name) })
				if op.RequestBody != nil {
					for _, media := range op.RequestBody.Content {
						schema := media.Schema
						if schema != nil && schema.Ref != "" {
							schema = api.Components.Schemas.SchemaFromRef(schema.Ref)
						}
						for name := range schema.Properties {
							stands = stands || waits(name)
						}
					}
				}
				for _, answer := range op.Responses {
					stands = stands || answer.Content["text/event-stream"] != nil
				}
				if stands {
					found++
					listed(op.OperationID)
				}
			}
		}
		a := w.agent(vera, revision2026)
		defer a.session.Close()
		tools, err := a.session.ListTools(t.Context(), nil)
		w.must(err)
		for _, tool := range tools.Tools {
			var schema struct{ Properties map[string]any }
			b, err := json.Marshal(tool.InputSchema)
			w.must(err)
			w.must(json.Unmarshal(b, &schema))
			for name := range schema.Properties {
				if waits(name) {
					found++
					listed(tool.Name)
				}
			}
		}
		if found != 6 {
			t.Errorf("%d calls can stand, want 6", found)
		}
	})
}
