package web

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"cowrite/crdt"
)

func TestSavedDocuments(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.document("paper")
		saved := func(as, ref string) answer {
			return w.do(request{as: as, method: "GET", path: "/documents/" + ref, header: http.Header{"Accept": {savedType}}})
		}
		got := saved(vera, "paper")
		if got.status != http.StatusOK || got.header.Get("Content-Type") != savedType {
			t.Fatal(got.status, got.header)
		}
		if heads, err := crdt.SavedHeads(got.raw); err != nil || got.header.Get("ETag") != `"`+string(crdt.VersionOf(heads))+`"` {
			t.Errorf("the tag is %s, %v", got.header.Get("ETag"), err)
		}
		again := w.do(request{as: vera, method: "GET", path: "/documents/paper", header: http.Header{"Accept": {savedType}, "If-None-Match": {got.header.Get("ETag")}}})
		if again.status != http.StatusNotModified || len(again.raw) != 0 {
			t.Errorf("what is known is sent again: %d", again.status)
		}

		bring := func(as, query string, body []byte) answer {
			return w.do(request{as: as, method: "POST", path: "/documents" + query, body: string(body), header: http.Header{"Content-Type": {savedType}}})
		}
		copied := bring(alpha, "?slug=copy", got.raw)
		if copied.status != http.StatusCreated || copied.str("slug") != "copy" || !strings.HasSuffix(copied.header.Get("Location"), "/documents/copy") {
			t.Fatal(copied)
		}
		if !bytes.Equal(saved(vera, "copy").raw, got.raw) {
			t.Error("the copy is saved as something else")
		}
		retry := keyed(request{as: alpha, method: "POST", path: "/documents", body: string(got.raw)}, "bring")
		retry.header.Set("Content-Type", savedType)
		first := w.do(retry)
		if again := w.do(retry); first.status != http.StatusCreated || again.status != http.StatusCreated || again.str("documentId") != first.str("documentId") {
			t.Errorf("a retry brings %v, the first call %v", again, first)
		}
		for name, other := range map[string]request{
			"of another name": {path: "/documents?slug=other", body: retry.body}, "of another body": {path: retry.path, body: string(append(bytes.Clone(got.raw), 0))},
		} {
			other.as, other.method, other.header = alpha, "POST", retry.header
			if a := w.do(other); a.str("error") != "IDEMPOTENCY_MISMATCH" {
				t.Errorf("a document %s under the same key: %v", name, a)
			}
		}
		for _, tt := range []struct {
			as, query string
			body      []byte
			status    int
			code      string
		}{
			{"", "", got.raw, 401, "UNAUTHORIZED"},
			{vera, "", got.raw, 403, "FORBIDDEN"},
			{alpha, "?slug=copy", got.raw, 409, "SLUG_TAKEN"},
			{alpha, "?slug=Not+one", got.raw, 400, "INVALID_SLUG"},
			{alpha, "", []byte("# Markdown"), 422, "BAD_CHANGE"},
			{alpha, "", nil, 422, "BAD_CHANGE"},
			{alpha, "", append(bytes.Clone(got.raw), 0), 422, "BAD_CHANGE"},
			{alpha, "", make([]byte, w.library.Limits().SavedBytes+1), 413, "TOO_LARGE"},
		} {
			if a := bring(tt.as, tt.query, tt.body); a.status != tt.status || a.str("error") != tt.code {
				t.Errorf("%s %q with %d bytes: %s, want %d %s", tt.as, tt.query, len(tt.body), a, tt.status, tt.code)
			}
		}
	})
}
