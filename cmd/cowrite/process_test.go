package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
)

// adminKey is the administrator's key of the servers that start starts.
const adminKey = "cw_administrators-key-of-the-tests"

// process is a running server.
type process struct {
	cmd     *exec.Cmd
	address string // http://host:port
	stdout  *logged
	stderr  *logged
	exited  chan struct{} // closed when the process has ended
}

// logged is what a process wrote.
type logged struct {
	mu  sync.Mutex
	all []byte
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p...)
	return len(p), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.all)
}

var addressInLog = regexp.MustCompile(`\baddr(?:=|":")([^\s"]+)`)

// launch runs a server on a free port and returns when it has told its address. The caller ends it.
func launch(data string, env []string, flags ...string) (*process, error) {
	p := &process{stdout: &logged{}, stderr: &logged{}, exited: make(chan struct{})}
	p.cmd = exec.Command("cowrite", append([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, flags...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout = p.stdout
	read, write := io.Pipe()
	p.cmd.Stderr = io.MultiWriter(p.stderr, write)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(read)
		line, _ := lines.ReadString('\n') // cut short when the process ends, which the caller sees
		first <- line
		_, _ = io.Copy(io.Discard, lines)
	}()
	go func() {
		_ = p.cmd.Wait() // ProcessState says how it ended
		write.Close()
		close(p.exited)
	}()
	select {
	case line := <-first:
		if found := addressInLog.FindStringSubmatch(line); found != nil {
			p.address = "http://" + found[1]
			return p, nil
		}
	case <-time.After(patience):
	}
	_, err := p.end(syscall.SIGKILL)
	return nil, errors.Join(fmt.Errorf("the server told no address in its first line:\n%s", p.stderr), err)
}

// end sends a signal and returns the exit code once the process has ended: -1 when a signal killed it.
func (p *process) end(signal syscall.Signal) (int, error) {
	select {
	case <-p.exited:
	default:
		_ = p.cmd.Process.Signal(signal) // fails when it ends at this very moment
	}
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		return 0, fmt.Errorf("the server did not stop on %s:\n%s", signal, p.stderr)
	}
}

// start launches a server for the length of a test.
func start(t *testing.T, data string, flags ...string) *process {
	t.Helper()
	p, err := launch(data, []string{"COWRITE_ADMIN_KEY=" + adminKey}, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.end(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server logged:\n%s", p.stderr)
		}
	})
	return p
}

// client calls the server as its administrator.
func (p *process) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(p.address, doc.Secret(adminKey))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
