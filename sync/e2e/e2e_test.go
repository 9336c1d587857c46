// Package e2e runs stock clients from npm, unmodified, against the whole server: automerge-repo for
// documents, llmtxt for leases and event streams. The tests themselves are the *.test.mjs files beside
// this one.
package e2e

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// adminKey is the administrator's key of the servers under test.
const adminKey = "cw_administrators-key-of-the-e2e-tests"

// patience is how long a server may take to start or to stop.
const patience = 30 * time.Second

// scriptTime is how long one script may take; the longest, a recorded session, takes two minutes on two busy cores.
const scriptTime = 8 * time.Minute

func TestStockClients(t *testing.T) {
	if _, err := os.Stat("node_modules/@automerge/automerge-repo"); err != nil {
		t.Fatalf("the stock clients are not installed (%v): `make test` installs them", err)
	}
	binary := filepath.Join(t.TempDir(), "cowrite")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "cowrite/cmd/cowrite")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	address := serve(t, binary)
	scripts, err := filepath.Glob("*.test.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no tests beside this one (%v)", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(script, ".test.mjs"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
			defer cancel()
			// A stock client that was closed goes on trying to connect after its shutdown: hence the forced exit.
			node := exec.CommandContext(ctx, "node", "--test", "--test-force-exit", "--test-reporter=spec", script)
			node.Env = append(os.Environ(), "COWRITE_URL=http://"+address, "COWRITE_ADMIN_KEY="+adminKey, "COWRITE_BIN="+binary)
			node.WaitDelay = patience
			out, err := node.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Errorf("node --test %s: %v", script, err)
			}
		})
	}
}

// serve runs a server for the length of the test and returns its address, which it tells in its first line.
func serve(t *testing.T, binary string) string {
	t.Helper()
	server := exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir())
	server.Env = append(os.Environ(), "COWRITE_ADMIN_KEY="+adminKey)
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	lines := bufio.NewReader(io.TeeReader(stderr, &logged))
	first := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		line, _ := lines.ReadString('\n') // cut short when the server ends, which is seen below
		first <- line
		_, _ = io.Copy(io.Discard, lines)
		ended <- server.Wait()
	}()
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM) // it may have ended
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
			if t.Failed() {
				t.Logf("the server logged:\n%s", logged.String())
			}
		case <-ctx.Done():
			_ = server.Process.Kill()
			t.Error("the server did not stop")
		}
	})
	select {
	case line := <-first:
		if found := regexp.MustCompile(`\baddr=(\S+)`).FindStringSubmatch(line); found != nil {
			return found[1]
		}
		t.Fatalf("the server told no address in its first line: %q", line)
	case <-time.After(patience):
		t.Fatal("the server did not start")
	}
	return ""
}
