package web

import (
	"net/http"
	"strings"
	"testing"

	"cowrite/doc"
)

// An operator's own key may have any printable character, and signs in all the same.
func TestAnyKeySignsIn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var printable strings.Builder
		for c := '!'; c <= '~'; c++ {
			printable.WriteRune(c)
		}
		secret := "a key " + printable.String()
		_, err := w.keyring.Import(t.Context(), doc.Key{Agent: "boss", Role: doc.Admin, Pattern: "*"}, doc.Secret(secret))
		w.must(err)
		for name, secret := range map[string]string{"boss": secret, alpha: string(w.secrets[alpha])} {
			body, err := marshal(map[string]string{"key": secret})
			w.must(err)
			in := w.ok(nobody, "POST", "/session", string(body))
			cookies := (&http.Response{Header: in.header}).Cookies()
			if len(cookies) != 1 {
				t.Fatalf("%s: the cookies are %v", name, in.header.Values("Set-Cookie"))
			}
			of := &http.Request{Header: http.Header{}}
			of.AddCookie(cookies[0])
			if is := w.do(request{method: "GET", path: "/session", header: of.Header}); is.str("agent") != name {
				t.Errorf("%s is signed in as %v", name, is)
			}
		}
	})
}
