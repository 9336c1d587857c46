package web

import (
	"context"
	"errors"
	"strings"

	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

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
