package web

import (
	"context"
	"net/http"
	"net/url"

	"cowrite/doc"
	"cowrite/doc/code"
)

// session is whom the page acts for.
type session struct {
	Agent     doc.Agent `json:"agent"`
	Role      doc.Role  `json:"role" enum:"viewer,editor,admin"`
	Documents string    `json:"documents" doc:"Which documents: * is all, else a pattern of slugs with *."`
	Share     string    `json:"share,omitempty" doc:"Of a share link: the slug or documentId of its one document."`
}

func (s *Server) session(ctx context.Context, k doc.Key) session {
	return session{Agent: k.Agent, Role: k.Role, Documents: k.Pattern, Share: s.shared(ctx, k)}
}

func (s *Server) sessionRoutes() {
	const tag = "session"
	register(s, route{
		id: "sign-in", method: http.MethodPost, path: "/session", tag: tag, status: http.StatusOK, open: true,
		summary: "Turn a key into the page's cookie",
		about:   "From the server's own pages, or from programs.",
		body:    smallBody,
		refuses: []code.Code{code.Unauthorized, code.KeyRevoked, code.BadOrigin},
	}, s.signIn)
	register(s, route{
		id: "get-session", method: http.MethodGet, path: "/session", tag: tag, status: http.StatusOK,
		summary: "Whose key this is",
	}, s.getSession)
	register(s, route{
		id: "sign-out", method: http.MethodDelete, path: "/session", tag: tag, status: http.StatusOK, open: true,
		summary: "Take the page's cookie back",
		about:   "The key itself goes on to be valid.",
		refuses: []code.Code{code.BadOrigin},
	}, s.signOut)
}

type signInInput struct {
	Body struct {
		Key string `json:"key"`
	} `nameHint:"SignIn"`
}

type sessionOutput struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      session
}

func (s *Server) signIn(ctx context.Context, in *signInInput) (*sessionOutput, error) {
	if err := fromOwnPage(ctx); err != nil {
		return nil, err
	}
	key, err := s.keyring.Authenticate(ctx, doc.Secret(in.Body.Key))
	if err != nil {
		return nil, err
	}
	if callOf(ctx).request.Header.Get("Origin") != "" { // a page's, and then this server's own
		if err := s.keyring.SignedIn(ctx, key); err != nil {
			return nil, err
		}
	}
	callOf(ctx).key = key
	return &sessionOutput{sessionCookieOf(ctx, in.Body.Key), s.session(ctx, key)}, nil
}

type getSessionOutput struct{ Body session }

func (s *Server) getSession(ctx context.Context, _ *struct{}) (*getSessionOutput, error) {
	return &getSessionOutput{s.session(ctx, keyOf(ctx))}, nil
}

type signOutOutput struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      struct {
		Ended bool `json:"ended"`
	} `nameHint:"SessionEnd"`
}

func (s *Server) signOut(ctx context.Context, _ *struct{}) (*signOutOutput, error) {
	if err := fromOwnPage(ctx); err != nil {
		return nil, err
	}
	out := &signOutOutput{SetCookie: sessionCookieOf(ctx, "")}
	out.SetCookie.MaxAge = -1
	out.Body.Ended = true
	return out, nil
}

// fromOwnPage keeps other sites from signing a visitor in or out.
func fromOwnPage(ctx context.Context) error {
	r := callOf(ctx).request
	if r.Header.Get("Origin") != "" && !fromOwnOrigin(r) {
		return code.New(code.BadOrigin, "this is for the server's own page")
	}
	return nil
}

// sessionCookieOf makes the cookie. It holds the key itself, out of reach of scripts and of other sites, escaped: an operator's
// own key may have characters that a cookie has not.
func sessionCookieOf(ctx context.Context, value string) http.Cookie {
	return http.Cookie{
		Name: sessionCookie, Value: url.QueryEscape(value), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: scheme(callOf(ctx).request) == "https",
	}
}

// scheme is the one that the client sees. A proxy that speaks TLS for this server says so in
// X-Forwarded-Proto; a client that lies there fools itself alone.
func scheme(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}
