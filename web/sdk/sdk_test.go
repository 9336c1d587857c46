// Package sdk_test runs the tests of the TypeScript client against the whole server. The tests themselves are the
// *.test.mjs files in test.
package sdk_test

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

// adminKey is the administrator's key of the server under test.
const adminKey = "cw_administrators-key-of-the-sdk-tests"

// patience is how long the server may take to start or to stop.
const patience = 30 * time.Second

// scriptTime is how long one script may take.
const scriptTime = 3 * time.Minute

func TestSDK(t *testing.T) {
	for _, needed := range []string{"node_modules/ws", "dist/index.js"} {
		if _, err := os.Stat(needed); err != nil {
			t.Fatalf("the client is not built (%v): `make test` installs its packages and builds it", err)
		}
	}
	binary := filepath.Join(t.TempDir(), "cowrite")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "cowrite/cmd/cowrite")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	address := serve(t, binary)
	scripts, err := filepath.Glob("test/*.test.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no tests beside this one (%v)", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".test.mjs"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
			defer cancel()
			// No forced exit: a client that was closed leaves nothing that keeps its process alive.
			node := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", script)
			node.Env = append(os.Environ(), "COWRITE_URL=http://"+address, "COWRITE_ADMIN_KEY="+adminKey)
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
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
			if t.Failed() {
				t.Logf("the server logged:\n%s", logged.String())
			}
		case <-time.After(patience):
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
