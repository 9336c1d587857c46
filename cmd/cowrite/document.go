package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"cowrite/cmd/cowrite/client"
)

type docCommand struct {
	Create  docCreate  `cmd:"" help:"Make an empty document, or one of Markdown on standard input, and print what it is called."`
	Import  docImport  `cmd:"" help:"Make a document of a Markdown file, or of a saved Automerge document (FILE.automerge)."`
	Export  docExport  `cmd:"" help:"Write a document's Markdown to standard output, byte for byte what was brought in; or the saved Automerge document to FILE.automerge."`
	List    docList    `cmd:"" help:"List the documents that the key may read, newest first: name, URL, changed at, title."`
	Show    docShow    `cmd:"" help:"Show a document's version and outline: sections in order, with their headings and sizes."`
	Diff    docDiff    `cmd:"" help:"Show what differs between two versions of a document, line by line."`
	Rename  docRename  `cmd:"" help:"Give a document another slug or title. Its former slug goes on to lead to it."`
	Share   docShare   `cmd:"" help:"Make a link with which anybody may read the document, and print it. keys revoke --remote ends it."`
	Delete  docDelete  `cmd:"" help:"Delete a document. Restore brings it back."`
	Deleted docDeleted `cmd:"" help:"List the deleted documents that the key may restore, the latest first: name, deleted at, by whom, title."`
	Restore docRestore `cmd:"" help:"Bring a deleted document back, with its text, log and name."`
	Purge   docPurge   `cmd:"" help:"Take a deleted document away for good: text, log and names. For administrators."`
}

// docArg is a document.
type docArg struct {
	Document string `arg:"" help:"Slug or document id." complete:"document"`
}

func (d docArg) path(more ...string) []string {
	return append([]string{"documents", d.Document}, more...)
}

// naming is what a document about to be made is called.
type naming struct {
	Slug  string `help:"Name in addresses: a-z, 0-9 and -. Without it the server makes one." placeholder:"NAME"`
	Title string `help:"Title; without it the first heading." placeholder:"TEXT"`
	Level int    `help:"Split the Markdown at headings down to this level, 1 to 6; without it 2." placeholder:"N"`
}

// made prints a document that was made.
func made(out *printer, d client.Document) { out.row(d.Ref(), d.URL) }

type docCreate struct {
	asking
	naming
	Stdin bool `help:"Read Markdown from standard input."`
}

func (docCreate) Help() string {
	return `Examples:

    cowrite doc create --title 'Release plan'
    echo '# Notes' | cowrite doc create --slug notes --stdin`
}

func (c docCreate) Run(ctx context.Context, p *Program) error {
	if c.Stdin {
		return docImport{asking: c.asking, naming: c.naming, File: "-"}.Run(ctx, p)
	}
	return ask(ctx, p, c.asking, client.Create(client.NewDocument{Slug: c.Slug, Title: c.Title}), made)
}

type docImport struct {
	asking
	naming
	File string `arg:"" help:"Markdown file, or FILE.automerge; - is Markdown from standard input." complete:"file"`
}

func (docImport) Help() string {
	return `Examples:

    cowrite doc import plan.md --slug plan
    cowrite doc export plan plan.automerge && cowrite doc import plan.automerge --slug copy`
}

func (c docImport) Run(ctx context.Context, p *Program) error {
	content, err := p.read(c.File)
	if err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	call, err := c.call(content)
	if err != nil {
		return err
	}
	return ask(ctx, p, c.asking, call, made)
}

// savedSuffix is how the name of a file with a saved Automerge document ends.
const savedSuffix = ".automerge"

func (c docImport) call(content []byte) (client.Call, error) {
	if strings.HasSuffix(c.File, savedSuffix) {
		if c.Title != "" || c.Level != 0 {
			return client.Call{}, errors.New("a saved document has its own title and sections")
		}
		return client.Import(c.Slug, content), nil
	}
	if !utf8.Valid(content) {
		return client.Call{}, fmt.Errorf("%s is not UTF-8 text, so it could not be given back byte for byte", c.File)
	}
	return client.Create(client.NewDocument{Slug: c.Slug, Title: c.Title, Markdown: string(content), Level: c.Level}), nil
}

type docExport struct {
	remote
	docArg
	File    string `arg:"" optional:"" help:"Write to this file; FILE.automerge is the saved Automerge document." complete:"file"`
	Version string `help:"As it was at this version." placeholder:"VERSION"`
}

func (docExport) Help() string {
	return `Examples:

    cowrite doc export plan > plan.md
    cowrite doc export plan plan.automerge`
}

func (c docExport) Run(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	media := "text/markdown"
	if strings.HasSuffix(c.File, savedSuffix) {
		media = client.SavedType
	}
	if c.File == "" {
		return server.Download(ctx, c.Document, c.Version, media, p.Stdout)
	}
	var content bytes.Buffer // whole, or there is no file
	if err := server.Download(ctx, c.Document, c.Version, media, &content); err != nil {
		return err
	}
	if err := os.WriteFile(c.File, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	return nil
}

type docList struct {
	asking
}

func (c docList) Run(ctx context.Context, p *Program) error {
	return listAll(ctx, p, c.asking, "documents", func(out *printer, d client.Listed) {
		out.row(d.Ref(), d.URL, out.time(d.ChangedAt), d.Title)
	})
}

// listAll prints a list of documents, which the server gives in pages, a row for each.
func listAll[D any](ctx context.Context, p *Program, a asking, list string, row func(*printer, D)) error {
	server, err := a.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	all := struct {
		Documents []json.RawMessage `json:"documents"`
	}{[]json.RawMessage{}}
	for query := (url.Values{"limit": {"200"}}); ; {
		raw, err := server.Do(ctx, client.Call{Method: http.MethodGet, Path: []string{list}, Query: query})
		if err != nil {
			return err
		}
		page, err := decode[struct {
			Documents []json.RawMessage `json:"documents"`
			Next      string            `json:"next"`
		}](raw)
		if err != nil {
			return err
		}
		all.Documents = append(all.Documents, page.Documents...)
		if page.Next == "" {
			break
		}
		query.Set("after", page.Next)
	}
	if a.JSON {
		return p.printJSON(all)
	}
	documents := make([]D, len(all.Documents))
	for i, raw := range all.Documents {
		if documents[i], err = decode[D](raw); err != nil {
			return err
		}
	}
	return p.print(func(out *printer) {
		for _, d := range documents {
			row(out, d)
		}
	})
}

type docShow struct {
	asking
	docArg
	Version string `help:"As it was at this version." placeholder:"VERSION"`
}

func (docShow) Help() string {
	return `The outline has a line for each section: id, size in bytes, heading; removed ones last.

Example, the version to base a write on:

    cowrite doc show plan --json | jq -r .version`
}

func (c docShow) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Read(c.Document, c.Version), func(out *printer, d client.Document) {
		out.row("title", d.Title)
		out.row("slug", d.Slug)
		out.row("url", d.URL)
		out.row("version", d.Version)
		out.row("created", out.time(d.CreatedAt)+" by "+d.CreatedBy)
		out.row("changed", out.time(d.ChangedAt))
		out.row("events", d.LastSeq)
		out.row()
		for _, s := range d.Sections {
			out.row(s.ID, len(s.Text), strings.Repeat("  ", max(0, s.Level-1))+s.Heading)
		}
		for _, s := range d.Removed {
			out.row(s.ID, len(s.Text), strings.Repeat("  ", max(0, s.Level-1))+s.Heading, "(removed)")
		}
	})
}

type docRename struct {
	asking
	docArg
	Slug  string `help:"New name in addresses." placeholder:"NAME"`
	Title string `help:"New title." placeholder:"TEXT"`
}

func (docRename) Help() string {
	return `Example:

    cowrite doc rename plan --slug plan-2027 --title 'Plan for 2027'`
}

func (c docRename) Run(ctx context.Context, p *Program) error {
	if c.Slug == "" && c.Title == "" {
		return &exitError{exitUsage, errors.New("say --slug, --title or both")}
	}
	change := map[string]string{}
	if c.Slug != "" {
		change["slug"] = c.Slug
	}
	if c.Title != "" {
		change["title"] = c.Title
	}
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodPatch, Path: c.path(), Body: change}, func(out *printer, d client.Listed) {
		out.row(d.Ref(), d.URL, d.Title)
	})
}

type docShare struct {
	asking
	docArg
	For time.Duration `default:"24h" help:"How long the link lives, from 1m to 720h."`
}

func (docShare) Help() string {
	return `It prints the link, when it ends, and the id to end it sooner with, by the same key:

    cowrite doc share plan --for 72h
    cowrite keys revoke --remote ID`
}

func (c docShare) Run(ctx context.Context, p *Program) error {
	type share struct {
		ID        string `json:"id"`
		URL       string `json:"url"`
		ExpiresAt string `json:"expiresAt"`
	}
	call := client.Call{Method: http.MethodPost, Path: c.path("shares"), Body: map[string]float64{"expiresIn": c.For.Seconds()}}
	return ask(ctx, p, c.asking, call, func(out *printer, s share) {
		out.row(s.URL, "until "+out.time(s.ExpiresAt), s.ID)
	})
}

type docDelete struct {
	asking
	docArg
	Yes bool `help:"Really: it is gone for everybody at once, and its leases end."`
}

func (c docDelete) Run(ctx context.Context, p *Program) error {
	if !c.Yes {
		return &exitError{exitUsage, fmt.Errorf("deleting %s shuts out whoever has it open: say --yes", c.Document)}
	}
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodDelete, Path: c.path()}, func(*printer, struct{}) {})
}

type docDeleted struct {
	asking
}

func (c docDeleted) Run(ctx context.Context, p *Program) error {
	type deleted struct {
		client.Listed
		DeletedAt string `json:"deletedAt"`
		DeletedBy string `json:"deletedBy"`
	}
	return listAll(ctx, p, c.asking, "deletions", func(out *printer, d deleted) {
		out.row(d.Ref(), out.time(d.DeletedAt), d.DeletedBy, d.Title)
	})
}

type docRestore struct {
	asking
	docArg
}

func (docRestore) Help() string {
	return `Example:

    cowrite doc deleted
    cowrite doc restore plan`
}

func (c docRestore) Run(ctx context.Context, p *Program) error {
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodPost, Path: c.path("restore")}, func(out *printer, d client.Listed) {
		out.row(d.Ref(), d.URL)
	})
}

type docPurge struct {
	asking
	docArg
	Yes bool `help:"Really: nothing brings it back."`
}

func (docPurge) Help() string {
	return `Its names are free again. Its id is not: replicas that still have the document are told that it was deleted.

Example:

    cowrite doc deleted
    cowrite doc purge plan --yes`
}

func (c docPurge) Run(ctx context.Context, p *Program) error {
	if !c.Yes {
		return &exitError{exitUsage, fmt.Errorf("nothing brings %s back once it is purged: say --yes", c.Document)}
	}
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodDelete, Path: []string{"deletions", c.Document}}, func(*printer, struct{}) {})
}
