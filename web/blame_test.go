package web

import (
	"fmt"
	"testing"
)

func TestBlameOfASection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.document("paper").str("version")
		w.ok(beta, "PATCH", intro, `{"replace":[{"find":"hello","with":"hello 🙂 you"}]}`)
		said := func(query string) string {
			t.Helper()
			a := w.ok(vera, "GET", intro+"/blame"+query, "")
			out := ""
			for _, r := range a.body["ranges"].([]any) {
				r := r.(map[string]any)
				if len(r["change"].(string)) != 64 {
					t.Errorf("%v names no change", r)
				}
				out += fmt.Sprint(r["at"], "+", r["length"], " ", r["agent"], "\n")
			}
			return out
		}
		if got := said(""); got != "0+13 alpha\n13+6 beta\n19+1 alpha\n" {
			t.Errorf("now:\n%s", got)
		}
		if got := said("?version=" + first); got != "0+14 alpha\n" {
			t.Errorf("at first:\n%s", got)
		}
	})
}
