// Package server runs the real server, a process of its own, for tests, and the scripts of clients in Node against it.
package server

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

// AdminKey is the administrator's key of the servers.
const AdminKey = "cw_administrators-key-of-the-tests"

// patience is how long a server may take to start or to stop.
const patience = 30 * time.Second

// scriptTime is how long one script may take; the longest, a recorded session, takes two minutes on two busy cores.
const scriptTime = 8 * time.Minute

// Build builds the binary.
func Build(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "cowrite")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "cowrite/cmd/cowrite")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return binary
}

// Start runs a server for the length of the test and returns its URL; it tells its address in its first line.
func Start(t *testing.T, binary string) (url string) {
	t.Helper()
	server := exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir())
	server.Env = append(os.Environ(), "COWRITE_ADMIN_KEY="+AdminKey)
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
			return "http://" + found[1]
		}
		t.Fatalf("the server told no address in its first line: %q", line)
	case <-time.After(patience):
		t.Fatal("the server did not start")
	}
	return ""
}

// Scripts are the files of tests for Node that a pattern names; none is an error.
func Scripts(t *testing.T, pattern string) []string {
	t.Helper()
	scripts, err := filepath.Glob(pattern)
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no tests are called %s (%v)", pattern, err)
	}
	return scripts
}

// Name is what a script is called as a test.
func Name(script string) string { return strings.TrimSuffix(filepath.Base(script), ".test.mjs") }

// Node runs a script of tests, which learns of the server from COWRITE_URL and COWRITE_ADMIN_KEY, and of binary from
// COWRITE_BIN.
func Node(t *testing.T, script, url, binary string, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	node := exec.CommandContext(ctx, "node", append(append([]string{"--test", "--test-reporter=spec"}, flags...), script)...)
	node.Env = append(os.Environ(), "COWRITE_URL="+url, "COWRITE_ADMIN_KEY="+AdminKey, "COWRITE_BIN="+binary)
	node.WaitDelay = patience
	out, err := node.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("node --test %s: %v", script, err)
	}
}
