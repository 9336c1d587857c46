// Command cowrite is the server and everything that is done to one from a terminal: serve runs it, keys
// works on its data folder, and doc, section, lease and events call it over HTTP.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is the program in this process: the first SIGINT or SIGTERM asks it to stop, the second ends it.
func run() int {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore)
	p := Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv}
	return p.Run(ctx, os.Args[1:])
}
