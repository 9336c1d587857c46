package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a running worker. It has one owner at a time, but for kill, which anybody may call.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	stderr   *head
	timeout  time.Duration
	expired  atomic.Bool // a call took longer than timeout
	resident int64       // as of the last reply, in bytes
}

// start runs a worker and has it take on its memory limit.
func start(cmd *exec.Cmd, timeout time.Duration, memory int64) (*process, error) {
	p := &process{cmd: cmd, stderr: &head{}, timeout: timeout}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	cmd.Stderr = p.stderr
	// A group of its own: what a terminal sends to the server is not for its workers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if _, err := p.call(request{Method: methodHello, Memory: memory}); err != nil {
		p.end()
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return p, nil
}

// death is the error of a call during which the worker ended. The process has been waited for.
type death struct {
	cause  cause
	state  string // how the system describes its end
	stderr string // the first that it said
}

type cause int

const (
	crashed cause = iota // of itself: the core aborted, or memory ran out
	killed               // by somebody else, which says nothing about the call
	expired              // by us, because the call took too long
)

func (d *death) Error() string { return fmt.Sprintf("worker ended (%s): %s", d.state, d.stderr) }

// call has the worker answer one request. An error is what the worker answers, or a *death.
func (p *process) call(q request) (reply, error) {
	timer := time.AfterFunc(p.timeout, func() {
		p.expired.Store(true)
		p.kill()
	})
	defer timer.Stop()
	var a reply
	err := writeFrame(p.in, q)
	if err == nil {
		err = readFrame(p.out, &a)
	}
	if err != nil {
		return reply{}, p.end()
	}
	p.resident = a.Resident
	return a, a.err()
}

// niceness is how far behind all others a worker stands in line for the processor that does what nobody waits for.
const niceness = 10

// yield has the worker's group (start gave it one of its own), and so all its threads, stand back. A system that does not do that has it compete.
func (p *process) yield() { _ = syscall.Setpriority(syscall.PRIO_PGRP, p.cmd.Process.Pid, niceness) }

func (p *process) kill() { _ = p.cmd.Process.Kill() }

// grace is how long a worker whose pipe broke may take to end by itself, which tells how it ended.
const grace = time.Second

// end waits for the process, killing it if need be, and says how it ended.
func (p *process) end() *death {
	_ = p.in.Close() // an idle worker ends at this
	timer := time.AfterFunc(grace, p.kill)
	defer timer.Stop()
	d := &death{}
	err := p.cmd.Wait()
	d.stderr = p.stderr.String()
	if d.state = "exit status 0"; err != nil {
		d.state = err.Error()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			d.cause = killed
		}
	}
	if p.expired.Load() {
		d.cause, d.state = expired, fmt.Sprintf("no answer within %v", p.timeout)
	}
	return d
}

// head keeps the first of what is written to it: the core's complaint, which Go's dump of goroutines follows.
type head struct{ b []byte }

const headLength = 1024

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), headLength-len(h.b))]...)
	return len(b), nil
}

// String may be called once the process has been waited for.
func (h *head) String() string { return string(h.b) }
