package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
)

// shareLife is how long a share link lives if nothing else is asked for.
const shareLife = 24 * time.Hour

func (s *Server) shareRoutes() {
	register(s, route{
		id: "create-share", method: http.MethodPost, path: "/documents/{slug}/shares", tag: "keys", status: http.StatusCreated,
		summary: "Make a share link",
		about: "A link with which anybody may read this one document until it expires. It is a viewer's key, listed among the keys until a week after its end. Made by those who may write " +
			"to the document, whose log says so; whoever made it may end it sooner: `DELETE /keys/{id}`. At most 100 of a document's links are live.",
		body:    smallBody,
		refuses: append([]code.Code{code.InvalidDuration, code.TooManyShares}, ofDocuments...),
	}, s.createShare)
}

type createShareInput struct {
	DocumentPath
	Body *struct {
		ExpiresIn float64 `json:"expiresIn,omitempty" minimum:"60" maximum:"2592000" doc:"Seconds, at most 30 days; one day if not given."`
	} `nameHint:"NewShare"`
}

type createShareOutput struct {
	Body struct {
		ID        doc.KeyID  `json:"id"`
		URL       string     `json:"url" doc:"Opens the document in a browser."`
		Key       doc.Secret `json:"key" doc:"The link's token. It is not told again."`
		ExpiresAt string     `json:"expiresAt" format:"date-time"`
	} `nameHint:"Share"`
}

func (s *Server) createShare(ctx context.Context, in *createShareInput) (*createShareOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	life := shareLife
	if in.Body != nil && in.Body.ExpiresIn > 0 {
		life = doc.Seconds(in.Body.ExpiresIn)
	}
	k, secret, err := s.library.Share(ctx, keyOf(ctx), meta.ID, life)
	if err != nil {
		return nil, err
	}
	out := new(createShareOutput)
	out.Body.ID, out.Body.Key, out.Body.ExpiresAt = k.ID, secret, doc.FormatTime(k.ExpiresAt)
	out.Body.URL = s.origin(callOf(ctx).request) + "/d/" + meta.Ref() + "?" + url.Values{tokenParameter: {string(secret)}}.Encode()
	return out, nil
}

// origin is what this server is called by those who visit it.
func (s *Server) origin(r *http.Request) string {
	if s.opts.PublicURL != "" {
		return strings.TrimSuffix(s.opts.PublicURL, "/")
	}
	return scheme(r) + "://" + r.Host
}
