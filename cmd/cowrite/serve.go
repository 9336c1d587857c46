package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"cowrite/doc"
	"cowrite/sync/hub"
)

type serveCommand struct {
	folder
	limitFlags
	Addr        string   `help:"Address to listen on; port 0 takes any free one." default:"127.0.0.1:8080"`
	PublicURL   string   `name:"public-url" help:"Origin in the links that the server makes, such as https://docs.example.org; without it the one of the request."`
	NeverShared []string `name:"never-shared" help:"Resources, by the beginnings of their names, of which two reads exclude each other ($$COWRITE_NEVER_SHARED)." from:"COWRITE_NEVER_SHARED" default:"lock:"`
	Workers     uint8    `help:"Processes that hold the documents' content, beside a spare one and one that saves; 0 is one for each processor." default:"0"`
	LogFormat   string   `help:"text or json." enum:"text,json" default:"text"`
	LogLevel    string   `help:"debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
}

// limitFlags are the limits that an operator sets; ARCHITECTURE.md has the table of all.
type limitFlags struct {
	DocumentBytes      uint32 `help:"Bytes that a document may take in the store before it takes in no more changes; 0 is 64 MiB." default:"0"`
	PostedBytes        uint32 `help:"Bytes of all messages that may be posted to a document; 0 is 64 MiB." default:"0"`
	ChangeBytes        uint32 `help:"Bytes of one change, after inflation; 0 is 16 MiB." default:"0"`
	FrameBytes         uint32 `help:"Bytes of one frame on a WebSocket; 0 is 64 MiB." default:"0"`
	UnsentBytes        uint32 `help:"Bytes that may wait to be taken by one peer; 0 is 64 MiB." default:"0"`
	DocumentsPerSocket uint32 `help:"Documents open on one WebSocket; 0 is 10,000." default:"0"`
	SocketsPerKey      uint32 `help:"WebSockets of one key; 0 is 256." default:"0"`
}

func (f limitFlags) documents() doc.Limits {
	return doc.Limits{DocumentBytes: int(f.DocumentBytes), PostedBytes: int(f.PostedBytes), ChangeBytes: int(f.ChangeBytes)}
}

func (f limitFlags) sockets() hub.Limits {
	return hub.Limits{
		FrameBytes: int(f.FrameBytes), OutboundBytes: int(f.UnsentBytes), Documents: int(f.DocumentsPerSocket), SocketsPerKey: int(f.SocketsPerKey),
	}
}

func (c serveCommand) Run(ctx context.Context, p *Program) error {
	log, err := logger(p.Stderr, c.LogFormat, c.LogLevel)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Addr, reason(err))
	}
	defer listener.Close() // closed already once it was served
	chosen := p.Env("COWRITE_ADMIN_KEY")
	if chosen != "" {
		if err := checkSecret(chosen); err != nil {
			return err
		}
	}
	s, err := open(ctx, settings{data: c.Data, publicURL: c.PublicURL, neverShared: c.NeverShared, workers: int(c.Workers), worker: p.Worker, limits: c.limitFlags}, log)
	if err != nil {
		return err
	}
	drawn, err := firstKey(ctx, s.keys, chosen)
	if err != nil {
		return errors.Join(err, s.close(ctx))
	}
	if drawn != "" {
		fmt.Fprintf(p.Stdout, firstKeyNotice, drawn, reachable(listener.Addr()))
	}
	log.Info("serving", "addr", listener.Addr().String(), "data", c.Data)
	return s.serve(ctx, listener)
}

const firstKeyNotice = `This server has no keys yet. Here is an administrator's key, shown this once:

  %s

Open http://%s/ and sign in with it.
`

// reachable is where a browser on this machine finds a server that listens on addr.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// reason is what the system says of a failed network call, without the call's name and address.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func logger(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("read the log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}
