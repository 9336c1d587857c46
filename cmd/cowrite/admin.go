package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"cowrite/cmd/cowrite/client"
)

type adminCommand struct {
	Usage   adminUsage   `cmd:"" help:"List documents by size: name, bytes in the store, changes, sockets, changed at, title; what is out of service says so."`
	Blocks  adminBlocks  `cmd:"" help:"List the documents that are out of service, with the reason."`
	Sockets adminSockets `cmd:"" help:"List the open WebSockets: agent, door, address, since, documents, bytes that wait to be sent."`
	Block   adminBlock   `cmd:"" help:"Take a document out of service: whoever has it open is shut out, and nobody reads or writes it."`
	Unblock adminUnblock `cmd:"" help:"Take a document into service again."`
}

// usage is what a document takes of the server.
type usage struct {
	client.Listed
	Bytes   int64   `json:"bytes"`
	Changes int64   `json:"changes"`
	Sockets int     `json:"sockets"`
	Block   *outage `json:"block"`
	Fault   *struct {
		Code string `json:"code"`
		At   string `json:"at"`
	} `json:"fault"`
}

// outage says by whom and why a document was taken out of service.
type outage struct {
	At     string `json:"at"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

type usageList struct {
	Documents []usage `json:"documents"`
}

// outOfService says why a document is; "" if it is not.
func (u usage) outOfService(out *printer) string {
	switch {
	case u.Block != nil:
		return fmt.Sprintf("blocked by %s at %s %s", u.Block.By, out.time(u.Block.At), u.Block.Reason)
	case u.Fault != nil:
		return fmt.Sprintf("%s at %s", u.Fault.Code, out.time(u.Fault.At))
	}
	return ""
}

type adminUsage struct {
	asking
	Limit int `default:"50" help:"How many at most, from 1 to 1000."`
}

func (c adminUsage) Run(ctx context.Context, p *Program) error {
	call := client.Call{Method: http.MethodGet, Path: []string{"usage"}, Query: url.Values{"limit": {strconv.Itoa(c.Limit)}}}
	return ask(ctx, p, c.asking, call, func(out *printer, all usageList) {
		for _, u := range all.Documents {
			out.row(u.Ref(), u.Bytes, u.Changes, u.Sockets, out.time(u.ChangedAt), u.Title, u.outOfService(out))
		}
	})
}

type adminBlocks struct {
	asking
}

func (c adminBlocks) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodGet, Path: []string{"blocks"}}, func(out *printer, all usageList) {
		for _, u := range all.Documents {
			out.row(u.Ref(), u.outOfService(out))
		}
	})
}

type adminSockets struct {
	asking
}

func (c adminSockets) Run(ctx context.Context, p *Program) error {
	type list struct {
		Sockets []struct {
			Agent       string `json:"agent"`
			Door        string `json:"door"`
			Remote      string `json:"remote"`
			Since       string `json:"since"`
			Count       int    `json:"documentCount"`
			QueuedBytes int    `json:"queuedBytes"`
		} `json:"sockets"`
	}
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodGet, Path: []string{"sockets"}}, func(out *printer, all list) {
		for _, s := range all.Sockets {
			out.row(s.Agent, s.Door, s.Remote, out.time(s.Since), s.Count, s.QueuedBytes)
		}
	})
}

type adminBlock struct {
	asking
	docArg
	Reason string `help:"For those who find it blocked, and for the log." placeholder:"TEXT"`
}

func (c adminBlock) Run(ctx context.Context, p *Program) error {
	call := client.Call{Method: http.MethodPut, Path: c.path("block"), Body: map[string]string{"reason": c.Reason}}
	return ask(ctx, p, c.asking, call, blocked)
}

type adminUnblock struct {
	asking
	docArg
}

func (c adminUnblock) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodDelete, Path: c.path("block")}, blocked)
}

// blocked prints what a document's service has become.
func blocked(out *printer, u usage) {
	out.row(u.Ref(), cmp.Or(u.outOfService(out), "in service"))
}
