package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
	"cowrite/doc/code"
)

// The scripts in testdata are what a user sees of the command line. Besides the usual commands there are
//
//	serve DATA ...  start a server on a free port and set COWRITE_URL and SERVER_PID; its output goes to server.out and server.err
//	shutdown        end it with SIGTERM, which must give exit code 0
//	crash           end it with SIGKILL
//	setenv NAME F   set a variable to the content of file F (or stdout), without its line end
//	column NAME N F set a variable to the N-th word of the first line of file F (or stdout)
//	fact NAME K F N set a variable to the N-th (or only) string called K in the JSON of file F (or stdout)
//	shut-out KEY    wait until the server refuses the key: at most one second
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":    serveScript,
			"shutdown": func(ts *testscript.TestScript, _ bool, _ []string) { endScript(ts, syscall.SIGTERM, 0) },
			"crash":    func(ts *testscript.TestScript, _ bool, _ []string) { endScript(ts, syscall.SIGKILL, -1) },
			"setenv": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
			},
			"column":   columnScript,
			"fact":     factScript,
			"shut-out": shutOutScript,
		},
		Setup: func(env *testscript.Env) error {
			env.Values[runningKey{}] = new(*process)
			return nil
		},
	})
}

// runningKey is where a script keeps its server.
type runningKey struct{}

func running(ts *testscript.TestScript) **process { return ts.Value(runningKey{}).(**process) }

func serveScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve DATA [FLAG...]")
	}
	p, err := launch(ts.MkAbs(args[0]), []string{"COWRITE_ADMIN_KEY=" + ts.Getenv("COWRITE_ADMIN_KEY")}, args[1:]...)
	ts.Check(err)
	*running(ts) = p
	ts.Defer(func() { _, _ = p.end(syscall.SIGKILL) })
	ts.Setenv("COWRITE_URL", p.address)
	ts.Setenv("SERVER_PID", strconv.Itoa(p.cmd.Process.Pid))
	ts.Setenv("ADDR", strings.TrimPrefix(p.address, "http://"))
	saveOutput(ts, p)
}

func endScript(ts *testscript.TestScript, signal syscall.Signal, want int) {
	p := *running(ts)
	exit, err := p.end(signal)
	ts.Check(err)
	saveOutput(ts, p)
	if exit != want {
		ts.Fatalf("the server's exit code is %d, want %d:\n%s", exit, want, p.stderr)
	}
}

func saveOutput(ts *testscript.TestScript, p *process) {
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "server.out"), []byte(p.stdout.String()), 0o600))
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), "server.err"), []byte(p.stderr.String()), 0o600))
}

func columnScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 || len(args[1]) != 1 {
		ts.Fatalf("usage: column NAME N FILE")
	}
	line, _, _ := strings.Cut(ts.ReadFile(args[2]), "\n")
	words, n := strings.Fields(line), int(args[1][0]-'1')
	if n < 0 || n >= len(words) {
		ts.Fatalf("the first line has no word %s: %q", args[1], line)
	}
	ts.Setenv(args[0], words[n])
}

func factScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: fact NAME KEY FILE [N]")
	}
	n := 1
	if len(args) == 4 {
		var err error
		n, err = strconv.Atoi(args[3])
		ts.Check(err)
	}
	found := regexp.MustCompile(`"`+args[1]+`":"([^"]*)"`).FindAllStringSubmatch(ts.ReadFile(args[2]), -1)
	if n < 1 || n > len(found) {
		ts.Fatalf("there are %d strings called %s, and none is number %d", len(found), args[1], n)
	}
	ts.Setenv(args[0], found[n-1][1])
}

func shutOutScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: shut-out KEY")
	}
	c, err := client.New(ts.Getenv("COWRITE_URL"), doc.Secret(args[0]))
	ts.Check(err)
	defer c.Close()
	const most = time.Second
	asked := time.Now()
	for {
		_, _, err := c.Documents(context.Background(), "")
		if code.Is(err, code.Unauthorized) || code.Is(err, code.KeyRevoked) {
			return
		}
		ts.Check(err)
		if time.Since(asked) > most {
			ts.Fatalf("the key still works %s after it was revoked", most)
		}
		time.Sleep(10 * time.Millisecond) // another process decides: there is nothing to wait on
	}
}
