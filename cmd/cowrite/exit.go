package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// Exit codes. Those of lease run are beside it.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitConflict    = 3
	exitNotFound    = 4
	exitNotAllowed  = 5
	exitUnavailable = 6
	exitInterrupted = exitSignalled + int(syscall.SIGINT) // 130, as shells say it
)

// exits is what the exit codes mean.
var exits = []struct {
	code    int
	meaning string
}{
	{0, "it was done"},
	{exitFailed, "it failed; one line on standard error says why"},
	{exitUsage, "the command line was not understood"},
	{exitConflict, "something is in the way: a lease, a name that is taken, a text that is not as said"},
	{exitNotFound, "there is no such document, section, key or lease"},
	{exitNotAllowed, "the key is missing, ended, or not enough for this"},
	{exitUnavailable, "the server was not reached or cannot now; trying again may help"},
	{exitInterrupted, "it was interrupted"},
}

// surroundings is what the program takes from its environment.
const surroundings = `Commands that call a server take its address from --url or $COWRITE_URL, and the
key from --key-file, $COWRITE_KEY or $COWRITE_KEY_FILE. With --json they print the
REST API's answer as it is, and refusals as JSON on standard error; without it,
times are in your zone ($TZ).`

// exitHelp tells the exit codes.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes (lease run has its own):\n")
	for _, e := range exits {
		fmt.Fprintf(&b, "  %-3d  %s\n", e.code, e.meaning)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// exitCode is the exit code of a command that ended with an error.
func exitCode(err error) int {
	if own, ok := errors.AsType[*exitError](err); ok {
		return own.code
	}
	refused, ok := errors.AsType[*code.Error](err)
	if !ok {
		if errors.Is(err, errNoKey) {
			return exitNotAllowed
		}
		if _, unreached := errors.AsType[*url.Error](err); unreached {
			return exitUnavailable
		}
		return exitFailed
	}
	switch status := refused.Entry().HTTP; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return exitNotAllowed
	case status == http.StatusNotFound || status == http.StatusGone:
		return exitNotFound
	case status == http.StatusConflict || status == http.StatusPreconditionRequired || status == http.StatusLocked:
		return exitConflict
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return exitUnavailable
	}
	return exitFailed
}

// ended tells what failed, if anything did, and gives the exit code. Of a command that its user interrupted there is
// nothing to tell.
func (p *Program) ended(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	exit := exitCode(err)
	if own, ok := errors.AsType[*exitError](err); ok && own.error == nil {
		return exit
	}
	if refused, ok := errors.AsType[*code.Error](err); ok && p.json {
		facts := maps.Clone(refused.Facts)
		if facts == nil {
			facts = map[string]any{}
		}
		facts["error"], facts["message"] = refused.Code, refused.Message
		if b, err := json.Marshal(facts); err == nil { // it was JSON
			fmt.Fprintf(p.Stderr, "%s\n", b)
			return exit
		}
	}
	fmt.Fprintf(p.Stderr, "cowrite: %s\n", oneLine(err))
	return exit
}

// tellLost tells the user of a lease that is over without their doing. The server says it once, to whichever command
// comes next.
func (p *Program) tellLost(lost agent.LostLease) {
	if p.json {
		if b, err := json.Marshal(map[string][]agent.LostLease{"leaseLost": {lost}}); err == nil { // it was JSON
			fmt.Fprintf(p.Stderr, "%s\n", b)
		}
		return
	}
	why := ""
	switch lost.Action {
	case lease.Expired:
		why = ": it ran out"
	case lease.Broken:
		why = ": it was ended by force"
	case lease.Ended:
		why = ": what it was for is gone"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cowrite: the lease %s is lost%s", lost.LeaseID, why)
	for _, fact := range [][2]string{{"resource", lost.Resource}, {"by", lost.By}, {"reason", lost.Reason}, {"at", lost.At}} {
		if fact[1] != "" {
			fmt.Fprintf(&b, " %s=%s", fact[0], fact[1])
		}
	}
	fmt.Fprintln(p.Stderr, strings.ReplaceAll(b.String(), "\n", "; "))
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
				if value != "" && len(value) <= maxFactBytes && !strings.Contains(value, "\n") { // not the text of a section
					fmt.Fprintf(&b, " %s=%s", name, value)
				}
			case float64:
				fmt.Fprintf(&b, " %s=%s", name, number(value))
			case bool:
				fmt.Fprintf(&b, " %s=%t", name, value)
			}
		}
		text = b.String()
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// number is a number of the API as a person writes it.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
