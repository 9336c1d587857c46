package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc/code"
	"cowrite/lease/wire"
)

// Exit codes of lease run that are not the command's own, as timeout(1) has them.
const (
	exitLeaseLost = 124
	exitNoLease   = 125
	exitCannotRun = 126
	exitNoCommand = 127
	exitSignalled = 128 // and the signal's number
)

// releaseTimeout is how long a lease may take to be given back once its command has ended.
const releaseTimeout = 10 * time.Second

// leaseRun holds a lease while a command runs. The command is started once the lease is granted and learns it from
// COWRITE_LEASE_RESOURCE, COWRITE_LEASE_ID and COWRITE_LEASE_FENCE. The lease is renewed whenever a third of its
// time has passed. Signals are passed on. When the lease is lost (ended by somebody, or run out because the server
// was out of reach) the command gets SIGTERM, and SIGKILL after the grace, with all its children unless it is at
// a terminal, where it shares the process group of this program so that it can read from the terminal.
type leaseRun struct {
	remote
	leaseAsk
	Grace    time.Duration `default:"10s" help:"How long the command has after SIGTERM, once the lease is lost, before SIGKILL."`
	Resource string        `arg:"" help:"Any name, such as lock:deploy/production or section:plan/goals."`
	Command  []string      `arg:"" help:"The command with its arguments, behind --."`
}

func (leaseRun) Help() string {
	return `The command learns of the lease from COWRITE_LEASE_RESOURCE, COWRITE_LEASE_ID and COWRITE_LEASE_FENCE. The lease is renewed while it runs, and given back behind it; when it is lost, the command is ended.

Exit codes: the command's own, or 128 and the signal that killed it; and

    124  the lease was lost, and the command ended
    125  there was no lease, and the command was not started
    126  the command cannot be run
    127  there is no such command

Example:

    cowrite lease run lock:deploy/production --wait 60s -- ./deploy.sh`
}

func (c leaseRun) Run(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return &exitError{exitNoLease, err}
	}
	defer server.Close()
	asked := time.Now()
	grant, err := c.acquire(ctx, server, c.Resource, false)
	if err != nil {
		return &exitError{exitNoLease, err}
	}
	held := grant.Lease
	if !grant.Granted {
		return &exitError{exitNoLease, fmt.Errorf("%s holds the lease of %s already, so it would not keep two commands apart: use a key for each", wire.AgentOf(string(held.Holder)), c.Resource)}
	}
	k := keeper{server: server, held: held, ttl: c.For, end: asked.Add(c.For), next: asked.Add(c.For / 3)}
	if c.Wait > 0 { // it was granted at some instant of the wait: how long it has is settled by renewing it
		k.next = time.Now()
		k.end = k.next.Add(wire.Milliseconds(held.ExpiresInMs))
	}
	// From here on the command decides when it is over: a signal is its affair, too.
	ctx = context.WithoutCancel(ctx)
	err = c.whileHeld(ctx, p, k)
	var exit *exitError
	if errors.As(err, &exit) && exit.code == exitLeaseLost {
		return err
	}
	releasing, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	released := server.ReleaseResource(releasing, held.Holder, held.Resource, held.LeaseID)
	switch {
	case released == nil:
	case isFinal(released):
		return &exitError{exitLeaseLost, fmt.Errorf("the lease of %s was lost before the command ended: %w", c.Resource, released)}
	default:
		fmt.Fprintf(p.Stderr, "cowrite: the lease of %s could not be given back and runs out by itself: %s\n", c.Resource, oneLine(released))
	}
	return err
}

// whileHeld runs the command as long as the lease is held. The error says how it ended, nil: with 0.
func (c leaseRun) whileHeld(ctx context.Context, p *Program, k keeper) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	run, err := startCommand(p, c.Command, k.held)
	if err != nil {
		return err
	}

	keeping, stop := context.WithCancel(ctx)
	lost := make(chan error, 1)
	go func() { lost <- k.keep(keeping) }()
	defer func() {
		stop()
		if lost != nil {
			<-lost
		}
	}()

	var why error
	var kill <-chan time.Time
	for {
		select {
		case s := <-signals:
			run.pass(s.(syscall.Signal))
		case why = <-lost:
			lost = nil
			fmt.Fprintf(p.Stderr, "cowrite: the lease of %s is lost, the command is ended: %s\n", c.Resource, oneLine(why))
			run.end(syscall.SIGTERM)
			timer := time.NewTimer(c.Grace)
			defer timer.Stop()
			kill = timer.C
		case <-kill:
			fmt.Fprintf(p.Stderr, "cowrite: the command still ran %v after SIGTERM, and is killed\n", c.Grace)
			run.end(syscall.SIGKILL)
		case ended := <-run.done:
			if why == nil {
				return ended
			}
			run.end(syscall.SIGKILL) // children that it left behind
			return &exitError{exitLeaseLost, fmt.Errorf("the lease of %s was lost: %w", c.Resource, why)}
		}
	}
}

// command is one that runs.
type command struct {
	cmd   *exec.Cmd
	group bool       // it leads a process group of its own
	done  chan error // says how it ended, once
}

func startCommand(p *Program, args []string, held wire.ResourceLease) (*command, error) {
	run := &command{cmd: exec.Command(args[0], args[1:]...), group: !atTerminal(p), done: make(chan error, 1)}
	run.cmd.Stdin, run.cmd.Stdout, run.cmd.Stderr = p.Stdin, p.Stdout, p.Stderr
	run.cmd.Env = append(os.Environ(),
		"COWRITE_LEASE_RESOURCE="+held.Resource, "COWRITE_LEASE_ID="+string(held.LeaseID), fmt.Sprintf("COWRITE_LEASE_FENCE=%d", held.Fence))
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: run.group}
	if err := run.cmd.Start(); err != nil {
		exit := exitCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			exit = exitNoCommand
		}
		return nil, &exitError{exit, fmt.Errorf("start the command: %w", err)}
	}
	go func() { run.done <- exitOf(run.cmd.Wait()) }()
	return run, nil
}

// atTerminal says whether standard input is a terminal: a character device, and not the one that is empty.
func atTerminal(p *Program) bool {
	stdin, ok := p.Stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := stdin.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// exitOf is a command's end as an error, nil where it was 0.
func exitOf(err error) error {
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exitError{code: exitSignalled + int(status.Signal())}
	}
	return &exitError{code: ended.ExitCode()}
}

// pass hands a signal on. At a terminal its keys have reached the command already.
func (r *command) pass(s syscall.Signal) {
	if !r.group && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return
	}
	r.end(s)
}

// end sends a signal to the command, and to its children where they are a group of their own. It fails only where
// nobody is left.
func (r *command) end(s syscall.Signal) {
	pid := r.cmd.Process.Pid
	if r.group {
		pid = -pid
	}
	_ = syscall.Kill(pid, s)
}

// keeper renews a lease.
type keeper struct {
	server renewer
	held   wire.ResourceLease
	ttl    time.Duration
	end    time.Time // of the lease, on this machine's monotonic clock
	next   time.Time // when to renew
}

// renewer is what of a server it takes to keep a lease.
type renewer interface {
	RenewResource(ctx context.Context, actor wire.DID, resource string, ttl time.Duration) (client.Grant, error)
}

// keep renews until ctx ends, and returns nil then; an error says why the lease is lost. A server that does not
// answer within a third of the time left is asked again, until the lease has run out.
func (k keeper) keep(ctx context.Context) error {
	for {
		timer := time.NewTimer(time.Until(k.next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		asked := time.Now()
		call, cancel := context.WithTimeout(ctx, k.end.Sub(asked)/3)
		renewed, err := k.server.RenewResource(call, k.held.Holder, k.held.Resource, k.ttl)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && renewed.Lease.LeaseID != k.held.LeaseID:
			return fmt.Errorf("the lease is another grant now: %s", renewed.Lease.LeaseID)
		case err == nil:
			k.end, k.next = asked.Add(k.ttl), asked.Add(k.ttl/3)
		case isFinal(err):
			return err
		case !time.Now().Before(k.end):
			return fmt.Errorf("it ran out while it could not be renewed: %w", err)
		default:
			k.next = time.Now().Add(min(k.ttl/12, time.Until(k.end)))
		}
	}
}

// isFinal says whether asking again is of no use.
func isFinal(err error) bool {
	refused, ok := errors.AsType[*code.Error](err)
	if !ok {
		return false
	}
	status := refused.Entry().HTTP
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests
}
