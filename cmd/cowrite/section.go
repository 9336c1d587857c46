package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"cowrite/cmd/cowrite/client"
	"cowrite/lease"
)

type sectionCommand struct {
	Get     sectionGet     `cmd:"" help:"Write a section's text to standard output."`
	Edit    sectionEdit    `cmd:"" help:"Edit a section in $VISUAL or $EDITOR; or by a whole text, a passage to replace, or operations. What others wrote meanwhile is merged."`
	Put     sectionPut     `cmd:"" help:"Write a section's text, from a file or standard input, or make the section, and print its new version."`
	Add     sectionAdd     `cmd:"" help:"Add a section, with the text of a file or of standard input, and print its id."`
	Move    sectionMove    `cmd:"" help:"Put a section behind another, or first."`
	Remove  sectionRemove  `cmd:"" help:"Take a section out. Its text stays, and restore brings it back."`
	Restore sectionRestore `cmd:"" help:"Bring a removed section back."`
	Revert  sectionRevert  `cmd:"" help:"Give a section the text of an earlier version, as a new edit: nothing is erased."`
	History sectionHistory `cmd:"" help:"Who changed a section, when, and to which version."`
	Blame   sectionBlame   `cmd:"" help:"Show a section's text beside who wrote which part of it."`
}

// sectionArg is a section of a document.
type sectionArg struct {
	docArg
	Section string `arg:"" help:"Section id." complete:"section"`
}

func (s sectionArg) path(more ...string) []string {
	return s.docArg.path(append([]string{"sections", s.Section}, more...)...)
}

// fenced is a write by somebody who believes to hold the lease.
type fenced struct {
	Fence lease.Fence `help:"Fence of the lease under which this is written; a stale one is reported, and the write counts all the same." placeholder:"N"`
}

// query is where a write without a body says so.
func (f fenced) query() url.Values {
	if f.Fence == 0 {
		return nil
	}
	return url.Values{"fence": {strconv.FormatUint(uint64(f.Fence), 10)}}
}

// text reads a section's text from a file.
func (p *Program) text(file string) (string, error) {
	text, err := p.read(file)
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	if !utf8.Valid(text) {
		return "", errors.New("the text is not UTF-8")
	}
	return string(text), nil
}

type sectionGet struct {
	asking
	sectionArg
}

func (sectionGet) Help() string {
	return `With --json it tells the version to base a write on, too:

    cowrite section get plan goals --json | jq -r .version`
}

func (c sectionGet) Run(ctx context.Context, p *Program) error {
	raw, err := c.fetch(ctx, p, client.Call{Method: http.MethodGet, Path: c.path()})
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(raw)
	}
	s, err := decode[client.Section](raw)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(p.Stdout, s.Text)
	return err
}

// write makes a call that writes a section, prints what answer is picked of it, and tells on standard error what was
// merged and who holds the lease.
func (p *Program) write(ctx context.Context, a asking, call client.Call, pick func(client.Section) string) error {
	return ask(ctx, p, a, call, func(out *printer, s client.Section) {
		if s.Repeated {
			fmt.Fprintln(p.Stderr, "cowrite: it had been written before, and was not written again")
		}
		if s.MergedFrom != nil {
			p.tellMerged(s)
		}
		if s.Advisory != nil {
			fmt.Fprintf(p.Stderr, "cowrite: written, though %s\n", advise(*s.Advisory, out.zone))
		}
		if picked := pick(s); picked != "" {
			out.row(picked)
		}
	})
}

func versionOf(s client.Section) string { return s.Version }

type sectionPut struct {
	asking
	sectionArg
	fenced
	File string `arg:"" optional:"" default:"-" help:"File with the text; - is standard input." complete:"file"`
	Base string `help:"Version that the text was written on, as section get --json tells; \"current\" replaces whatever is there." placeholder:"VERSION"`
}

func (sectionPut) Help() string {
	return `Examples:

    cowrite section put plan goals goals.md --base "$version"
    date | cowrite section put plan checked --base current`
}

func (c sectionPut) Run(ctx context.Context, p *Program) error {
	text, err := p.text(c.File)
	if err != nil {
		return err
	}
	body := struct {
		Text  string      `json:"text"`
		Base  string      `json:"base,omitempty"`
		Fence lease.Fence `json:"fence,omitempty"`
	}{text, c.Base, c.Fence}
	return p.write(ctx, c.asking, client.Call{Method: http.MethodPut, Path: c.path(), Body: body}, versionOf)
}

type sectionAdd struct {
	asking
	docArg
	fenced
	File  string `arg:"" optional:"" default:"-" help:"File with the text; - is standard input." complete:"file"`
	ID    string `name:"id" help:"Section id; without it one is made from the heading." placeholder:"SECTION"`
	After string `help:"Put it behind this section; without it at the end." placeholder:"SECTION" complete:"section"`
}

func (sectionAdd) Help() string {
	return `Example:

    printf '## Risks\n\nNone known.\n' | cowrite section add plan --id risks --after goals`
}

func (c sectionAdd) Run(ctx context.Context, p *Program) error {
	text, err := p.text(c.File)
	if err != nil {
		return err
	}
	body := struct {
		ID    string      `json:"id,omitempty"`
		After string      `json:"after,omitempty"`
		Text  string      `json:"text"`
		Fence lease.Fence `json:"fence,omitempty"`
	}{c.ID, c.After, text, c.Fence}
	return p.write(ctx, c.asking, client.Call{Method: http.MethodPost, Path: c.docArg.path("sections"), Body: body}, func(s client.Section) string { return s.ID })
}

type sectionMove struct {
	asking
	sectionArg
	fenced
	After string `required:"" xor:"where" help:"Put it behind this section." placeholder:"SECTION" complete:"section"`
	First bool   `required:"" xor:"where" help:"Put it first."`
}

func (c sectionMove) Run(ctx context.Context, p *Program) error {
	body := struct {
		After string      `json:"after"`
		Fence lease.Fence `json:"fence,omitempty"`
	}{c.After, c.Fence}
	return p.write(ctx, c.asking, client.Call{Method: http.MethodPost, Path: c.path("move"), Body: body}, versionOf)
}

type sectionRemove struct {
	asking
	sectionArg
	fenced
}

func (c sectionRemove) Run(ctx context.Context, p *Program) error {
	return p.write(ctx, c.asking, client.Call{Method: http.MethodDelete, Path: c.path(), Query: c.query()}, versionOf)
}

type sectionRestore struct {
	asking
	sectionArg
	fenced
}

func (c sectionRestore) Run(ctx context.Context, p *Program) error {
	return p.write(ctx, c.asking, client.Call{Method: http.MethodPost, Path: c.path("restore"), Query: c.query()}, versionOf)
}

type sectionRevert struct {
	asking
	sectionArg
	fenced
	To string `arg:"" name:"version" help:"Version whose text the section gets, as section history shows it."`
}

func (sectionRevert) Help() string {
	return `Example, back to before the last edit:

    cowrite section history plan goals
    cowrite section revert plan goals VERSION`
}

func (c sectionRevert) Run(ctx context.Context, p *Program) error {
	body := struct {
		To    string      `json:"to"`
		Fence lease.Fence `json:"fence,omitempty"`
	}{c.To, c.Fence}
	return p.write(ctx, c.asking, client.Call{Method: http.MethodPost, Path: c.path("revert"), Body: body}, versionOf)
}
