package web

import (
	"context"
	"net/http"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
)

// KeyEntry is a key without its secret.
type KeyEntry struct {
	ID        doc.KeyID `json:"id"`
	Agent     doc.Agent `json:"agent"`
	Kind      doc.Kind  `json:"kind" enum:"agent,person" doc:"Whether a program or a person acts with it."`
	Role      doc.Role  `json:"role" enum:"viewer,editor,admin"`
	Documents string    `json:"documents" doc:"Which documents: * is all, else a pattern of slugs with *."`
	CreatedAt string    `json:"createdAt" format:"date-time"`
	ExpiresAt string    `json:"expiresAt,omitempty" format:"date-time"`
	RevokedAt string    `json:"revokedAt,omitempty" format:"date-time"`
	Share     string    `json:"share,omitempty" doc:"Of a share link: the slug or documentId of its one document."`
	Maker     doc.Agent `json:"maker,omitempty" doc:"Of a share link: who made it."`
}

func (s *Server) keyEntry(ctx context.Context, k doc.Key) KeyEntry {
	return KeyEntry{
		ID: k.ID, Agent: k.Agent, Kind: k.Kind, Role: k.Role, Documents: k.Pattern, CreatedAt: doc.FormatTime(k.CreatedAt),
		ExpiresAt: formatOptional(k.ExpiresAt), RevokedAt: formatOptional(k.RevokedAt), Share: s.shared(ctx, k), Maker: k.Maker,
	}
}

// shared names the document of a share link, for a caller who may read it.
func (s *Server) shared(ctx context.Context, k doc.Key) string {
	if !k.IsShare() {
		return ""
	}
	if meta, err := s.library.Find(ctx, keyOf(ctx), k.Document.String()); err == nil {
		return meta.Ref()
	}
	return k.Document.String()
}

func formatOptional(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return doc.FormatTime(t)
}

// keySecret is a key at its creation, the only time that the secret is told.
type keySecret struct {
	KeyEntry
	Key doc.Secret `json:"key" doc:"The secret. It is not told again."`
}

func (s *Server) keyRoutes() {
	const tag = "keys"
	register(s, route{
		id: "list-keys", method: http.MethodGet, path: "/keys", tag: tag, status: http.StatusOK,
		summary: "List keys",
		about:   "All keys and share links, oldest first, without their secrets. Administrators of all documents only.",
		refuses: []code.Code{code.Forbidden},
	}, s.listKeys)
	register(s, route{
		id: "create-key", method: http.MethodPost, path: "/keys", tag: tag, status: http.StatusCreated,
		summary: "Create a key",
		about:   "The answer holds the secret, which is not told again. Administrators of all documents only.",
		body:    smallBody,
		refuses: []code.Code{code.Forbidden, code.InvalidAgent, code.InvalidRole, code.InvalidDuration},
	}, s.createKey)
	register(s, route{
		id: "change-key", method: http.MethodPatch, path: "/keys/{id}", tag: tag, status: http.StatusOK,
		summary: "Say whose a key is",
		about: "A program's or a person's, also of a key that has ended: it sets right what was said when it was made, or by signing in at the page with it. " +
			"Administrators of all documents only.",
		body:    smallBody,
		refuses: []code.Code{code.Forbidden, code.KeyNotFound},
	}, s.changeKey)
	register(s, route{
		id: "revoke-key", method: http.MethodDelete, path: "/keys/{id}", tag: tag, status: http.StatusOK,
		summary: "Revoke a key or share link",
		about:   "What is open in its name is closed within a second. Administrators of all documents; of a share link also who made it, and who administers its document, and the document's log says so.",
		refuses: []code.Code{code.Forbidden, code.KeyNotFound},
	}, s.revokeKey)
}

type listKeysOutput struct {
	Body struct {
		Keys []KeyEntry `json:"keys" nullable:"false"`
	} `nameHint:"KeyList"`
}

func (s *Server) listKeys(ctx context.Context, _ *struct{}) (*listKeysOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	keys, err := s.keyring.List(ctx)
	if err != nil {
		return nil, err
	}
	out := new(listKeysOutput)
	out.Body.Keys = make([]KeyEntry, 0, len(keys))
	for _, k := range keys {
		out.Body.Keys = append(out.Body.Keys, s.keyEntry(ctx, k))
	}
	return out, nil
}

type createKeyInput struct {
	Body struct {
		Agent     string  `json:"agent" doc:"Name: 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit."`
		Role      string  `json:"role" enum:"viewer,editor,admin"`
		Kind      string  `json:"kind,omitempty" enum:"agent,person" doc:"Whether a program or a person is to act with it; a program if not given. It decides nothing, and is what others are told."`
		Documents string  `json:"documents,omitempty" doc:"Pattern of slugs with *; all documents if not given."`
		ExpiresIn float64 `json:"expiresIn,omitempty" minimum:"1" maximum:"315360000" doc:"Seconds, at most ten years; never if not given."`
	} `nameHint:"NewKey"`
}

type createKeyOutput struct{ Body keySecret }

func (s *Server) createKey(ctx context.Context, in *createKeyInput) (*createKeyOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	agent, err := doc.ParseAgent(in.Body.Agent)
	if err != nil {
		return nil, err
	}
	role, err := doc.ParseRole(in.Body.Role)
	if err != nil {
		return nil, err
	}
	pattern, err := doc.ParsePattern(in.Body.Documents)
	if err != nil {
		return nil, err
	}
	k := doc.Key{Agent: agent, Kind: doc.Kind(in.Body.Kind), Role: role, Pattern: pattern}
	if in.Body.ExpiresIn > 0 {
		k.ExpiresAt = s.now().Add(doc.Seconds(in.Body.ExpiresIn))
	}
	k, secret, err := s.keyring.Create(ctx, k)
	if err != nil {
		return nil, err
	}
	return &createKeyOutput{keySecret{s.keyEntry(ctx, k), secret}}, nil
}

type changeKeyInput struct {
	ID   string `path:"id"`
	Body struct {
		Kind doc.Kind `json:"kind" enum:"agent,person"`
	} `nameHint:"KeyChange"`
}

type changeKeyOutput struct{ Body KeyEntry }

func (s *Server) changeKey(ctx context.Context, in *changeKeyInput) (*changeKeyOutput, error) {
	if err := requireAdmin(keyOf(ctx)); err != nil {
		return nil, err
	}
	k, err := s.keyring.SetKind(ctx, doc.KeyID(in.ID), in.Body.Kind)
	if err != nil {
		return nil, err
	}
	return &changeKeyOutput{s.keyEntry(ctx, k)}, nil
}

type revokeKeyInput struct {
	ID string `path:"id"`
}

type revokeKeyOutput struct {
	Body struct {
		Revoked bool      `json:"revoked"`
		ID      doc.KeyID `json:"id"`
	} `nameHint:"RevokedKey"`
}

func (s *Server) revokeKey(ctx context.Context, in *revokeKeyInput) (*revokeKeyOutput, error) {
	id := doc.KeyID(in.ID)
	if err := s.keyring.RevokeFor(ctx, keyOf(ctx), id); err != nil {
		return nil, err
	}
	s.KeyEnded(id)
	out := new(revokeKeyOutput)
	out.Body.Revoked, out.Body.ID = true, id
	return out, nil
}
