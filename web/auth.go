package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"cowrite/doc"
	"cowrite/doc/code"
)

// sessionCookie holds the key of somebody who signed in on the page.
const sessionCookie = "cowrite_session"

// Authenticate finds whose live key a request carries: in the Authorization header, or as ?token= on the
// routes that a browser can open without headers of its own (WebSocket and event stream), or in the page's
// cookie, in this order. Errors are UNAUTHORIZED, KEY_REVOKED and BAD_ORIGIN.
func Authenticate(keys *doc.Keyring) func(*http.Request) (doc.Key, error) {
	return func(r *http.Request) (doc.Key, error) {
		secret, err := secretOf(r)
		if err != nil {
			return doc.Key{}, err
		}
		return keys.Authenticate(r.Context(), secret)
	}
}

func secretOf(r *http.Request) (doc.Secret, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, secret, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") || secret == "" {
			return "", code.New(code.Unauthorized, "the Authorization header has to be: Bearer <key>")
		}
		return doc.Secret(strings.TrimSpace(secret)), nil
	}
	if takesToken(r.URL.Path) {
		if token := r.URL.Query().Get(tokenParameter); token != "" {
			return doc.Secret(token), nil
		}
	}
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		if !cookieCounts(r) {
			return "", code.New(code.BadOrigin, "the page's cookie does not count for requests from elsewhere; use a key")
		}
		secret, err := url.QueryUnescape(cookie.Value)
		if err != nil {
			return "", code.New(code.Unauthorized, "the page's cookie holds no key").Because(err)
		}
		return doc.Secret(secret), nil
	}
	return "", code.New(code.Unauthorized, "this needs a key: Authorization: Bearer <key>")
}

const tokenParameter = "token"

func takesToken(path string) bool {
	return path == Prefix+"/sync" || path == Prefix+"/agent" || strings.HasSuffix(path, "/events/stream")
}

// cookieCounts keeps other sites from acting with a visitor's cookie. A browser says where a request comes
// from in Origin, which it may leave out of same-origin reads alone.
func cookieCounts(r *http.Request) bool {
	if r.Header.Get("Origin") != "" {
		return fromOwnOrigin(r)
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// fromOwnOrigin compares hosts and not schemes: behind a proxy that speaks TLS this server sees plain HTTP.
func fromOwnOrigin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// requireKey authenticates the caller of every operation but those registered as open.
func (s *Server) requireKey(ctx huma.Context, next func(huma.Context)) {
	if !isOpen(ctx.Operation()) {
		r, w := humago.Unwrap(ctx)
		key, err := s.authenticate(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		callOf(ctx.Context()).key = key
	}
	next(ctx)
}

// requireAdmin lets in administrators of all documents alone: a key for some must not make one for all, nor look at the
// whole server.
func requireAdmin(k doc.Key) error {
	if !k.AdministersAll() {
		return code.New(code.Forbidden, "this needs an admin's key for all documents")
	}
	return nil
}

// forAdmins does the same as requireKey and requireAdmin for handlers that are not operations.
func (s *Server) forAdmins(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := s.authenticate(r)
		if err == nil {
			err = requireAdmin(key)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}
