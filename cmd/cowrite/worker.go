package main

import (
	"context"

	"cowrite/crdt/engine"
)

// workerCommand is what the server starts in a process of its own: the Automerge core, whose abort must not be
// the server's. It ends when its standard input does, that is with the server.
type workerCommand struct{}

func (workerCommand) Run(ctx context.Context, p *Program) error {
	// A signal that was meant for the server is not obeyed: the server needs its workers until it has stopped.
	return engine.ServeWorker(context.WithoutCancel(ctx), p.Stdin, p.Stdout)
}
