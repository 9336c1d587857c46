package web

import (
	"context"
	"errors"
	"strings"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// namer calls resources as a key's owner has to know them who is refused because of them, also those of documents that
// the key does not cover.
func namer(ctx context.Context, sight *doc.Sight) wire.Namer {
	return func(r lease.Resource) (string, error) {
		name, _, err := sight.Name(ctx, r)
		return name, err
	}
}

// coordinationRefusal says a keeper's refusal as this door does.
func (s *Server) coordinationRefusal(ctx context.Context, err error) error {
	r, ok := errors.AsType[*lease.Refusal](err)
	if !ok {
		return s.leaseRefusal(ctx, err)
	}
	said, err := wire.RefusalOf(r, s.leases.Now(), namer(ctx, s.library.Sight(keyOf(ctx))))
	if err != nil {
		return err
	}
	refused := &code.Error{Code: code.Code(strings.ToUpper(said.Word)), Message: said.Message, Facts: said.Facts}
	if said.RetryAfter == 0 {
		return refused
	}
	return retryAfter(refused, said.RetryAfter)
}
