package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
	"cowrite/doc/code"
)

// Exit codes.
const (
	exitFailed = 1 // one line on stderr says what failed
	exitUsage  = 2 // the command line was not understood
)

// Program is the command line with everything that it takes from its surroundings, so that a test can start
// it like a process.
type Program struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(name string) string
	Worker func() *exec.Cmd // starts `cowrite worker`; nil: this binary
}

// commands is the grammar of the command line.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the server."`
	Keys    keysCommand    `cmd:"" help:"Create, list and revoke API keys, on the data folder itself; the server may be running."`
	Doc     docCommand     `cmd:"" help:"Bring documents in and out."`
	Section sectionCommand `cmd:"" help:"Read and write one section."`
	Lease   leaseCommand   `cmd:"" help:"Take, renew, give back and list leases, and hold one while a command runs. A lease is advisory: it never stops a write."`
	Events  eventsCommand  `cmd:"" help:"Follow and verify a document's event log."`
	MCP     mcpCommand     `cmd:"" help:"Speak the Model Context Protocol on standard input and output, for a running server."`
	Bench   benchCommand   `cmd:"" help:"Measure this machine."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Worker  workerCommand  `cmd:"" hidden:""`
}

// Run parses args, runs the command and returns the exit code. It returns soon after ctx ends.
func (p *Program) Run(ctx context.Context, args []string) int {
	var grammar commands
	left := false // --help was served
	parser, err := kong.New(&grammar,
		kong.Name("cowrite"),
		kong.Description("A server for documents that several agents and people write at once."),
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(int) { left = true }),
		kong.Resolvers(kong.ResolverFunc(p.fromEnv)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	if err != nil {
		panic(fmt.Sprintf("the grammar of the command line is wrong: %v", err))
	}
	parsed, err := parser.Parse(args)
	switch {
	case left:
		return 0
	case err != nil:
		fmt.Fprintf(p.Stderr, "cowrite: %v (cowrite --help shows the commands)\n", err)
		return exitUsage
	}
	return p.ended(parsed.Run())
}

// ended tells what failed, if anything did, and gives the exit code.
func (p *Program) ended(err error) int {
	if err == nil {
		return 0
	}
	exit := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		if exit = e.code; e.error == nil {
			return exit
		}
	}
	fmt.Fprintf(p.Stderr, "cowrite: %s\n", oneLine(err))
	return exit
}

// exitError is the end of a command with an exit code of its own; without an error there is nothing to tell.
type exitError struct {
	code int
	error
}

func (e *exitError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.error.Error()
}

func (e *exitError) Unwrap() error { return e.error }

// fromEnv gives a flag that was not set the value of the environment variable in its tag "from".
func (p *Program) fromEnv(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if name := flag.Tag.Get("from"); name != "" {
		if value := p.Env(name); value != "" {
			return value, nil
		}
	}
	return nil, nil
}

// maxFactBytes is the longest fact of a refusal that is shown.
const maxFactBytes = 200

// oneLine says what went wrong in one line; a refusal with its code and facts, which tell what to do next.
func oneLine(err error) string {
	text := err.Error()
	var refused *code.Error
	if errors.As(err, &refused) {
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s", refused.Code, refused.Message)
		for _, name := range slices.Sorted(maps.Keys(refused.Facts)) {
			switch value := refused.Facts[name].(type) {
			case string:
				if len(value) <= maxFactBytes && !strings.Contains(value, "\n") { // not the text of a section
					fmt.Fprintf(&b, " %s=%s", name, value)
				}
			case float64, bool:
				fmt.Fprintf(&b, " %s=%v", name, value)
			}
		}
		text = b.String()
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// remote is the flags of a command that calls a server.
type remote struct {
	URL string `name:"url" help:"Address of the server ($$COWRITE_URL)." from:"COWRITE_URL" default:"http://127.0.0.1:8080"`
	Key string `help:"API key ($$COWRITE_KEY); as a flag it is seen in the list of processes." from:"COWRITE_KEY"`
}

var errNoKey = errors.New("an API key is needed: set COWRITE_KEY or --key")

func (r remote) client() (*client.Client, error) {
	if r.Key == "" {
		return nil, errNoKey
	}
	return client.New(r.URL, doc.Secret(r.Key))
}

// read gives the content of the named file, or of standard input for "-".
func (p *Program) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.Stdin)
	}
	return os.ReadFile(name)
}

type versionCommand struct{}

func (versionCommand) Run(p *Program) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	_, err := fmt.Fprintln(p.Stdout, "cowrite", version)
	return err
}
