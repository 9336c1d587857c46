package web

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/sync/hub"
)

func TestBlockingADocument(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		w.ok(alpha, "PATCH", "/documents/paper", `{"slug":"essay"}`)
		w.ok(alpha, "POST", "/documents", `{"slug":"team-plan"}`)
		reason := map[string]string{"reason": "too large", "blockedBy": "root", "blockedAt": "*"}
		w.play(t, []scenario{
			{name: "as an editor", as: alpha, method: "PUT", path: "/documents/essay/block", body: `{}`, status: 403, code: "FORBIDDEN"},
			{name: "as an admin of others", as: warden, method: "PUT", path: "/documents/essay/block", body: `{}`, status: 403, code: "FORBIDDEN"},
			{name: "as an admin of it", as: warden, method: "PUT", path: "/documents/team-plan/block", body: `{}`, status: 200, facts: map[string]string{"slug": "team-plan"}},
			{name: "by a former slug", as: root, method: "PUT", path: "/documents/paper/block", body: `{}`, status: 308, code: "DOCUMENT_MOVED"},
			{name: "nothing", as: root, method: "PUT", path: "/documents/none/block", body: `{}`, status: 404, code: "DOCUMENT_NOT_FOUND"},
			{name: "for a long reason", as: root, method: "PUT", path: "/documents/essay/block", body: `{"reason":"` + strings.Repeat("ü", 300) + `"}`, status: 413, code: "TOO_LARGE", facts: map[string]string{"limit": "512"}},
			{name: "block", as: root, method: "PUT", path: "/documents/essay/block", body: `{"reason":"too large"}`, status: 200, facts: map[string]string{"slug": "essay"}},
			{name: "read", as: alpha, method: "GET", path: "/documents/essay", status: 423, code: "DOCUMENT_BLOCKED", facts: reason},
			{name: "read as an admin", as: root, method: "GET", path: "/documents/essay", status: 423, code: "DOCUMENT_BLOCKED", facts: reason},
			{name: "write", as: alpha, method: "PUT", path: "/documents/essay/sections/intro", body: `{"text":"x","base":"current"}`, status: 423, code: "DOCUMENT_BLOCKED"},
			{name: "lease", as: alpha, method: "POST", path: "/documents/essay/sections/intro/lease", body: `{"leaseDurationSeconds":60}`, status: 423, code: "DOCUMENT_BLOCKED"},
			{name: "coordinate", as: alpha, method: "POST", path: "/acp/coordination/lease", body: `{"resource":"section:essay/intro","actorDid":"did:cowrite:alpha"}`, status: 423, code: "document_blocked"},
			{name: "read the log", as: alpha, method: "GET", path: "/documents/essay/events", status: 423, code: "DOCUMENT_BLOCKED"},
			{name: "delete", as: alpha, method: "DELETE", path: "/documents/essay", status: 423, code: "DOCUMENT_BLOCKED"},
			{name: "lift as an editor", as: alpha, method: "DELETE", path: "/documents/essay/block", status: 403, code: "FORBIDDEN"},
		})
		listed := w.ok(root, "GET", "/documents", "").body["documents"].([]any)
		for _, d := range listed {
			if d := d.(map[string]any); d["blocked"] != true {
				t.Errorf("%v is listed as in service", d["slug"])
			}
		}
		blocks := w.ok(root, "GET", "/blocks", "").body["documents"].([]any)
		if len(blocks) != 2 {
			t.Fatalf("blocked are %v", blocks)
		}
		latest := blocks[0].(map[string]any)
		if b := latest["block"].(map[string]any); latest["slug"] != "essay" || b["by"] != "root" || b["reason"] != "too large" {
			t.Errorf("the latest block is %v", latest)
		}
		lifted := w.ok(root, "DELETE", "/documents/essay/block", "")
		if _, is := lifted.body["block"]; is {
			t.Errorf("lifted: %v", lifted)
		}
		w.ok(alpha, "GET", "/documents/essay", "")
	})
}

func TestWhatAnOperatorSees(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		small, large := w.document("small").str("documentId"), w.document("large").str("documentId")
		w.ok(alpha, "PUT", "/documents/large/sections/intro", `{"base":"current","text":"`+strings.Repeat("long ", 1000)+`"}`)
		id := func(s string) crdt.DocumentID {
			id, err := crdt.ParseDocumentID(s)
			w.must(err)
			return id
		}
		var many []crdt.DocumentID
		for range maxSocketDocuments + 1 {
			many = append(many, id(small))
		}
		since := time.Now()
		w.server.opts.Sockets = func() []hub.Info {
			return []hub.Info{
				{Door: hub.AgentDoor, Key: w.ids[beta], Agent: beta, Remote: "10.0.0.2:1", Since: since, Documents: many},
				{Door: hub.SyncDoor, Key: w.ids[alpha], Agent: alpha, Peer: "p", Remote: "10.0.0.1:1", Since: since.Add(-time.Minute), Documents: []crdt.DocumentID{id(large)}, Queued: 7},
			}
		}
		for _, path := range []string{"/usage", "/blocks", "/sockets"} {
			for _, who := range []string{alpha, vera, warden} {
				if a := w.do(request{as: who, method: "GET", path: path}); a.status != 403 {
					t.Errorf("%s reads %s: %v", who, path, a)
				}
			}
		}
		all := w.ok(root, "GET", "/usage?limit=1", "").body["documents"].([]any)
		if len(all) != 1 {
			t.Fatalf("a page of one has %d", len(all))
		}
		first := all[0].(map[string]any)
		for name, want := range map[string]string{
			"slug": "large", "documentId": large, "title": "Paper", "changes": "4", "lastSeq": "4", "open": "true", "loaded": "true", "sockets": "1", "block": "<nil>", "fault": "<nil>",
		} {
			if got := fmt.Sprint(first[name]); got != want {
				t.Errorf("its %s is %s, want %s", name, got, want)
			}
		}
		if bytes := first["bytes"].(float64); bytes < 200 || bytes > 10_000 { // changes of long texts are deflated
			t.Errorf("it takes %v bytes", bytes)
		}
		sockets := w.ok(root, "GET", "/sockets", "").body["sockets"].([]any)
		got := fmt.Sprint(sockets[0])
		want := fmt.Sprint(map[string]any{
			"door": "sync", "key": string(w.ids[alpha]), "agent": alpha, "peer": "p", "remote": "10.0.0.1:1", "since": doc.FormatTime(since.Add(-time.Minute)),
			"documents": []any{large}, "documentCount": 1, "queuedBytes": 7,
		})
		if got != want {
			t.Errorf("the older socket is\n%s, want\n%s", got, want)
		}
		if s := sockets[1].(map[string]any); s["door"] != "agent" || len(s["documents"].([]any)) != maxSocketDocuments || s["documentCount"] != float64(maxSocketDocuments+1) {
			t.Errorf("the younger socket is %v", s)
		}
	})
}

// A document that has grown to its limit is read as before, and every write says which limit it is.
func TestAFullDocument(t *testing.T) {
	w := onTCP(t)
	eng := engine.New(engine.Options{})
	library, err := doc.Open(doc.Options{Store: w.store, Engine: eng, Leases: w.keeper, Limits: doc.Limits{DocumentBytes: 700}})
	w.must(err)
	t.Cleanup(func() { w.must(library.Close(context.Background())) })
	server := New(Options{Library: library, Keyring: w.keyring, Idempotency: doc.NewIdempotency(w.store, nil)})
	call := func(method, path, body string) (int, string) {
		rec := httptest.NewRecorder()
		server.ServeHTTP(rec, w.newRequest(t.Context(), request{as: alpha, method: method, path: path, body: body}))
		return rec.Code, rec.Body.String()
	}
	noise := make([]byte, 1800) // which compaction does not make small
	chance := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(chance.Uint32())
	}
	text := hex.EncodeToString(noise)
	for _, made := range []struct{ path, body string }{{"/documents", `{"slug":"full"}`}, {"/documents/full/sections", `{"id":"a","text":"` + text + `"}`}} {
		if status, body := call("POST", made.path, made.body); status != 201 {
			t.Fatalf("POST %s is %d %s", made.path, status, body)
		}
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/documents/full/sections", `{"text":"x"}`},
		{"PUT", "/documents/full/sections/a", `{"base":"current","text":"x"}`},
		{"PATCH", "/documents/full/sections/a", `{"base":"current","ops":[{"at":0,"insert":"x"}]}`},
		{"PATCH", "/documents/full", `{"title":"x"}`},
		{"DELETE", "/documents/full/sections/a", ""},
	} {
		if status, body := call(c.method, c.path, c.body); status != 413 || !strings.Contains(body, `"DOCUMENT_FULL"`) || !strings.Contains(body, `"limit":700`) {
			t.Errorf("%s %s is %d %s", c.method, c.path, status, body)
		}
	}
	if status, body := call("GET", "/documents/full/sections/a", ""); status != 200 || !strings.Contains(body, text) {
		t.Errorf("it reads as %d %s", status, body)
	}
}
