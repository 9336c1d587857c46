package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Program is the command line with everything that it takes from its surroundings, so that a test can start
// it like a process.
type Program struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(name string) string
	Zone   *time.Location   // of the reader; nil: the machine's
	Worker func() *exec.Cmd // starts `cowrite worker`; nil: this binary

	json bool // the command was asked to answer in JSON
}

// commands is the grammar of the command line: what --help tells and what the shells complete is read off it.
type commands struct {
	Doc        docCommand        `cmd:"" group:"work" help:"Documents: make, bring in and out, list, read, compare, rename, share, delete, restore."`
	Section    sectionCommand    `cmd:"" group:"work" help:"Sections: read, edit, add, move, remove, restore; who wrote what, and when; back to what was."`
	Lease      leaseCommand      `cmd:"" group:"work" help:"Leases of sections and of any other name: take, renew, hand over, give back, queue; hold one while a command runs."`
	Events     eventsCommand     `cmd:"" group:"work" help:"A document's event log: read, follow, verify; post messages."`
	Agent      agentCommand      `cmd:"" group:"who" help:"Agents: their trust, what they hold and what they wait for."`
	Whoami     whoamiCommand     `cmd:"" group:"who" help:"Whom the key acts for, and what it may do."`
	Keys       keysCommand       `cmd:"" group:"who" help:"API keys: create, list, set, revoke; in the server's data folder, or over REST with --remote."`
	Admin      adminCommand      `cmd:"" group:"server" help:"For administrators: documents by size, open sockets, documents out of service."`
	Serve      serveCommand      `cmd:"" group:"server" help:"Run the server."`
	MCP        mcpCommand        `cmd:"" group:"server" help:"Speak the Model Context Protocol on standard input and output, for a running server."`
	Bench      benchCommand      `cmd:"" group:"server" help:"Measure this machine."`
	Completion completionCommand `cmd:"" group:"server" help:"Print what makes a shell complete commands, flags, and the names of documents and sections."`
	Version    versionCommand    `cmd:"" group:"server" help:"Print the version."`
	Worker     workerCommand     `cmd:"" hidden:""`
	Complete   completeCommand   `cmd:"" hidden:""`
}

// parser reads command lines into the grammar. exit is called when --help was served.
func (p *Program) parser(ctx context.Context, exit func(int)) *kong.Kong {
	parser, err := kong.New(&commands{},
		kong.Name("cowrite"),
		kong.Description("A server for documents that several agents and people write at once, and its command line."),
		kong.ExplicitGroups([]kong.Group{
			{Key: "work", Title: "Work on documents:"}, {Key: "who", Title: "Agents and keys:"}, {Key: "server", Title: "The server and this program:"},
			{Key: "reach", Title: "Reach the server:"},
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: helpWidth}),
		kong.Help(help),
		kong.Vars{"url": defaultURL},
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(exit),
		kong.Resolvers(kong.ResolverFunc(p.fromEnv)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	if err != nil {
		panic(fmt.Sprintf("the grammar of the command line is wrong: %v", err))
	}
	return parser
}

// helpWidth is the most columns that --help fills.
const helpWidth = 110

// help prints --help; behind that of the whole program what holds for every command.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	for n := ctx.Selected(); n != nil; n = n.Parent {
		n.Group = nil // the heading of a command among others, which kong would repeat above the commands in it
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil || ctx.Selected() != nil {
		return err
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\n%s\n\n%s\n", surroundings, exitHelp())
	return err
}

// Run parses args, runs the command and returns the exit code. It returns soon after ctx ends.
func (p *Program) Run(ctx context.Context, args []string) int {
	left := false // --help was served
	parsed, err := p.parser(ctx, func(int) { left = true }).Parse(args)
	switch {
	case left:
		return 0
	case err != nil:
		fmt.Fprintf(p.Stderr, "cowrite: %s (cowrite --help shows the commands)\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return exitUsage
	}
	p.json = asksJSON(parsed)
	return p.ended(ctx, parsed.Run())
}

// asksJSON says whether the command was asked to answer in JSON.
func asksJSON(parsed *kong.Context) bool {
	for _, flag := range parsed.Flags() {
		if flag.Name == "json" {
			return flag.Target.Bool()
		}
	}
	return false
}

// fromEnv gives a flag that was not set the value of the environment variable in its tag "from".
func (p *Program) fromEnv(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if name := flag.Tag.Get("from"); name != "" {
		if value := p.Env(name); value != "" {
			return value, nil
		}
	}
	return nil, nil
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
