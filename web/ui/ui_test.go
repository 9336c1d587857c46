package ui_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestUnits runs the tests of the page's own modules.
func TestUnits(t *testing.T) {
	requireFile(t, filepath.Join("node_modules", "vitest", "vitest.mjs"), "the page's npm packages are not installed")
	vitest(t, "units", "")
}

var onlyPage = flag.String("page.only", "", "of the tests in test/page run those alone whose file name has this in it")

// TestPage drives the built page in Chromium against a server of its own.
func TestPage(t *testing.T) {
	requireFile(t, filepath.Join("node_modules", "vitest", "vitest.mjs"), "the page's npm packages are not installed")
	requireFile(t, filepath.Join("dist", "index.html"), "the page is not built")
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("Chromium is not installed: run `make test`, which installs what the tests need")
	}
	shots := os.Getenv("COWRITE_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	admin := newSecret(t)
	vitest(t, "page", *onlyPage,
		"COWRITE_URL="+startServer(t, admin),
		"COWRITE_ADMIN_KEY="+admin,
		"COWRITE_SHOTS="+shots,
		"CHROMIUM="+chromium,
	)
}

func requireFile(t *testing.T, name, otherwise string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("%s (no %s): run `make test`, which does what the tests need", otherwise, name)
	}
}

// vitest runs the tests of a project whose file name has a text in it.
func vitest(t *testing.T, project, only string, env ...string) {
	t.Helper()
	args := []string{filepath.Join("node_modules", "vitest", "vitest.mjs"), "run", "--project", project}
	if only != "" {
		args = append(args, only)
	}
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Env = append(os.Environ(), append(env, "NO_COLOR=1")...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("run vitest --project %s: %v", project, err)
	}
}

var servingAt = regexp.MustCompile(`\baddr=(\S+)`)

// startServer builds the server, starts it on a free port and gives the address of the page.
func startServer(t *testing.T, admin string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "cowrite")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "cowrite/cmd/cowrite").CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "COWRITE_ADMIN_KEY="+admin)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}

	var log bytes.Buffer
	address := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(io.TeeReader(stderr, &log))
		for found := false; lines.Scan(); {
			if m := servingAt.FindStringSubmatch(lines.Text()); m != nil && !found {
				found = true
				address <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server did not stop cleanly: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", &log)
		}
	})

	select {
	case a := <-address:
		return "http://" + a
	case <-read:
		t.Fatalf("the server ended before it served:\n%s", &log)
	case <-time.After(time.Minute):
		t.Fatal("the server named no address within a minute")
	}
	return ""
}

func newSecret(t *testing.T) string {
	t.Helper()
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	return "cw_" + base64.RawURLEncoding.EncodeToString(b[:])
}
