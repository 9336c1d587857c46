package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease"
)

// sectionEdit edits a section in one of the three forms of the API, or in an editor.
type sectionEdit struct {
	asking
	sectionArg
	fenced
	File       *string `xor:"form" help:"The whole new text; - is standard input. It is compared with its base word by word." placeholder:"FILE" complete:"file"`
	Find       *string `xor:"form" help:"A passage to replace, as it stands in the text." placeholder:"TEXT"`
	With       string  `help:"What comes in the passage's place; without it nothing." placeholder:"TEXT"`
	Occurrence int     `help:"Which of several such passages, from 1; without it there has to be one." placeholder:"N"`
	Ops        *string `xor:"form" help:"Operations, as the REST API takes them: [{\"at\",\"delete\",\"insert\"}, ...] in code points of the base." placeholder:"JSON"`
	Base       string  `help:"Version that the edit was made on, as section get --json tells. A whole text needs it; \"current\" is the present one." placeholder:"VERSION"`
}

func (sectionEdit) Help() string {
	return `Without --file, --find and --ops the text is opened in $VISUAL, else $EDITOR, else vi, and written when the editor ends: merged with what others wrote meanwhile, which is told. A text that was not changed, or an editor that fails, writes nothing. When the text cannot be saved it is kept in a file, which is named.

Examples:

    cowrite section edit plan goals
    cowrite section edit plan goals --find 'next week' --with 'on Friday'
    cowrite section edit plan goals --file goals.md --base "$version"
    cowrite section edit plan goals --ops '[{"at":0,"insert":"# "}]' --base "$version"
    cowrite lease run section:plan/goals -- cowrite section edit plan goals`
}

// sectionChange is the body of an edit.
type sectionChange struct {
	Base    string          `json:"base,omitempty"`
	Text    *string         `json:"text,omitempty"`
	Replace []replacement   `json:"replace,omitempty"`
	Ops     json.RawMessage `json:"ops,omitempty"`
	Fence   lease.Fence     `json:"fence,omitempty"`
}

type replacement struct {
	Find       string `json:"find"`
	With       string `json:"with"`
	Occurrence int    `json:"occurrence,omitempty"`
}

func (c sectionEdit) Run(ctx context.Context, p *Program) error {
	for _, form := range []*string{c.File, c.Find, c.Ops} {
		if form != nil && *form == "" {
			return &exitError{exitUsage, errors.New("--file, --find and --ops are not empty: without any of them an editor is opened")}
		}
	}
	if c.Find == nil && (c.With != "" || c.Occurrence != 0) {
		return &exitError{exitUsage, errors.New("--with and --occurrence go with --find")}
	}
	change := sectionChange{Base: c.Base, Fence: c.Fence}
	switch {
	case c.Find != nil:
		change.Replace = []replacement{{*c.Find, c.With, c.Occurrence}}
	case c.Ops != nil:
		if !json.Valid([]byte(*c.Ops)) {
			return &exitError{exitUsage, errors.New("--ops is not JSON")}
		}
		change.Ops = json.RawMessage(*c.Ops)
	case c.File != nil:
		text, err := p.text(*c.File)
		if err != nil {
			return err
		}
		change.Text = &text
	case c.Base != "":
		return &exitError{exitUsage, errors.New("an editor begins with the present text: --base goes with --file, --find and --ops")}
	default:
		return c.inEditor(ctx, p)
	}
	return c.save(ctx, p, change)
}

func (c sectionEdit) save(ctx context.Context, p *Program, change sectionChange) error {
	return p.write(ctx, c.asking, client.Call{Method: http.MethodPatch, Path: c.path(), Body: change}, versionOf)
}

// inEditor has a person edit the text as it is now, and saves it as an edit of that.
func (c sectionEdit) inEditor(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return err
	}
	s, err := server.Section(ctx, c.Document, c.Section)
	server.Close()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "cowrite-")
	if err != nil {
		return fmt.Errorf("make a folder for the text: %w", err)
	}
	file := filepath.Join(folder, c.Section+".md")
	if err := os.WriteFile(file, []byte(s.Text), 0o600); err != nil {
		return fmt.Errorf("write the text for the editor: %w", err)
	}
	edited := p.runEditor(file)
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
		return fmt.Errorf("read the text from the editor: %w", errors.Join(err, edited))
	case string(text) == s.Text:
		if err := errors.Join(edited, os.RemoveAll(folder)); err != nil {
			return err
		}
		fmt.Fprintln(p.Stderr, "cowrite: nothing was changed, and nothing written")
		return nil
	case edited != nil:
		err = edited
	case !utf8.Valid(text):
		err = errors.New("the text is not UTF-8")
	default: // an interrupt was the editor's affair
		after := string(text)
		err = c.save(context.WithoutCancel(ctx), p, sectionChange{Base: s.Version, Text: &after, Fence: c.Fence})
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "cowrite: nothing was written, and your text is kept; to try again:\n  cowrite section edit %s %s --file %s --base %s\n",
			c.Document, c.Section, file, s.Version)
		return err
	}
	return os.RemoveAll(folder)
}

// runEditor opens a file in the person's editor, which the shell reads: it may have arguments.
func (p *Program) runEditor(file string) error {
	editor := cmp.Or(p.Env("VISUAL"), p.Env("EDITOR"), "vi")
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // the terminal sends it to both
	defer signal.Stop(interrupts)
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Stdin, p.Stderr, p.Stderr
	if atTerminal(p) {
		cmd.Stdout = p.Stdout
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("edit in %s: %w", editor, err)
	}
	return nil
}

// shownLines is how many lines are shown of what was merged.
const shownLines = 10

// tellMerged says whose writing a text was merged with, and shows the lines where that happened, each with the author of
// the first passage there.
func (p *Program) tellMerged(s client.Section) {
	others := cmp.Or(strings.Join(s.MergedFrom.Agents, ", "), "the same agent")
	fmt.Fprintf(p.Stderr, "cowrite: merged with what %s wrote meanwhile\n", others)
	text, lines := []rune(s.Text), strings.Split(s.Text, "\n")
	shown, next := 0, 0 // lines, and the first that was not shown yet
	for _, r := range s.MergedFrom.Ranges {
		end := min(r.At+r.Length, len(text))
		from := strings.Count(string(text[:min(r.At, end)]), "\n")
		to := strings.Count(strings.TrimSuffix(string(text[:end]), "\n"), "\n")
		for n := max(from, next); n <= to; n++ {
			if shown++; shown > shownLines {
				fmt.Fprintln(p.Stderr, "  ...")
				return
			}
			fmt.Fprintf(p.Stderr, "  line %d, %s: %s\n", n+1, cmp.Or(r.Agent, "somebody"), shorten(lines[n]))
			next = n + 1
		}
	}
}

// shownRunes is how much of a passage is shown.
const shownRunes = 80

// shorten gives a passage in one line.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > shownRunes {
		return string(runes[:shownRunes-1]) + "…"
	}
	return text
}

// advise says who else holds the lease, or that one's own is stale.
func advise(a client.Advisory, zone *time.Location) string {
	if a.Kind != "leased" {
		return a.Message
	}
	return fmt.Sprintf("%s holds the lease until %s", a.Holder, localTime(a.ExpiresAt, zone))
}
