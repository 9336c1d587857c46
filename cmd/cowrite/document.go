package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"unicode/utf8"

	"cowrite/cmd/cowrite/client"
)

type docCommand struct {
	Import docImport `cmd:"" help:"Make a document of a Markdown file."`
	Export docExport `cmd:"" help:"Write a document's Markdown to standard output, byte for byte what was brought in."`
	List   docList   `cmd:"" help:"List the documents that the key may read, newest first."`
}

type docImport struct {
	remote
	File  string `arg:"" help:"Markdown file; - is standard input."`
	Slug  string `help:"Name in addresses: a-z, 0-9 and -. Without it the server makes one."`
	Title string `help:"Title; without it the first heading."`
}

func (c docImport) Run(ctx context.Context, p *Program) error {
	markdown, err := p.read(c.File)
	if err != nil {
		return fmt.Errorf("read the Markdown: %w", err)
	}
	if !utf8.Valid(markdown) {
		return fmt.Errorf("%s is not UTF-8 text, so it could not be given back byte for byte", c.File)
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	d, err := server.CreateDocument(ctx, client.NewDocument{Slug: c.Slug, Title: c.Title, Markdown: string(markdown)})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "%s\t%s\n", d.Ref(), d.URL)
	return err
}

type docExport struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
}

func (c docExport) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	return server.Markdown(ctx, c.Document, p.Stdout)
}

type docList struct {
	remote
}

func (c docList) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	table := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	for after := ""; ; {
		docs, next, err := server.Documents(ctx, after)
		if err != nil {
			return err
		}
		for _, d := range docs {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", d.Ref(), d.URL, d.ChangedAt, d.Title)
		}
		if next == "" {
			return table.Flush()
		}
		after = next
	}
}

type sectionCommand struct {
	Get sectionGet `cmd:"" help:"Write a section's text to standard output."`
	Put sectionPut `cmd:"" help:"Write a section's text, from a file or standard input, and print its new version."`
}

type sectionGet struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
	Section  string `arg:"" help:"Section id."`
	JSON     bool   `name:"json" help:"Print everything that is known of it, with the version to base a write on."`
}

func (c sectionGet) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	s, err := server.Section(ctx, c.Document, c.Section)
	if err != nil {
		return err
	}
	if c.JSON {
		encoder := json.NewEncoder(p.Stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(s)
	}
	_, err = fmt.Fprint(p.Stdout, s.Text)
	return err
}

type sectionPut struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
	Section  string `arg:"" help:"Section id; one that is not there yet is created."`
	File     string `arg:"" optional:"" default:"-" help:"File with the text; - is standard input."`
	Base     string `help:"Version that the text was written on, as section get --json tells; \"current\" replaces whatever is there."`
}

func (c sectionPut) Run(ctx context.Context, p *Program) error {
	text, err := p.read(c.File)
	if err != nil {
		return fmt.Errorf("read the text: %w", err)
	}
	if !utf8.Valid(text) {
		return errors.New("the text is not UTF-8")
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	s, err := server.PutSection(ctx, c.Document, c.Section, string(text), c.Base)
	if err != nil {
		return err
	}
	if s.Merged {
		fmt.Fprintln(p.Stderr, "cowrite: merged with what others wrote meanwhile")
	}
	if s.Advisory != nil {
		fmt.Fprintf(p.Stderr, "cowrite: written, though %s holds the lease until %s\n", s.Advisory.Holder, s.Advisory.ExpiresAt)
	}
	_, err = fmt.Fprintln(p.Stdout, s.Version)
	return err
}
