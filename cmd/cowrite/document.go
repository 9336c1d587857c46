package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"cowrite/cmd/cowrite/client"
)

type docCommand struct {
	Import docImport `cmd:"" help:"Make a document of a Markdown file, or of a saved Automerge document (FILE.automerge)."`
	Export docExport `cmd:"" help:"Write a document's Markdown to standard output, byte for byte what was brought in; or the saved Automerge document to FILE.automerge."`
	List   docList   `cmd:"" help:"List the documents that the key may read, newest first."`
}

type docImport struct {
	remote
	File  string `arg:"" help:"Markdown file, or FILE.automerge; - is Markdown from standard input."`
	Slug  string `help:"Name in addresses: a-z, 0-9 and -. Without it the server makes one."`
	Title string `help:"Title; without it the first heading."`
}

func (c docImport) Run(ctx context.Context, p *Program) error {
	content, err := p.read(c.File)
	if err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	d, err := c.create(ctx, server, content)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "%s\t%s\n", d.Ref(), d.URL)
	return err
}

// savedSuffix is how the name of a file with a saved Automerge document ends.
const savedSuffix = ".automerge"

func (c docImport) create(ctx context.Context, server *client.Client, content []byte) (client.Document, error) {
	if strings.HasSuffix(c.File, savedSuffix) {
		if c.Title != "" {
			return client.Document{}, errors.New("a saved document has its own title")
		}
		return server.ImportDocument(ctx, c.Slug, content)
	}
	if !utf8.Valid(content) {
		return client.Document{}, fmt.Errorf("%s is not UTF-8 text, so it could not be given back byte for byte", c.File)
	}
	return server.CreateDocument(ctx, client.NewDocument{Slug: c.Slug, Title: c.Title, Markdown: string(content)})
}

type docExport struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
	File     string `arg:"" optional:"" help:"Write to this file; FILE.automerge is the saved Automerge document."`
}

func (c docExport) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	if c.File == "" {
		return server.Markdown(ctx, c.Document, p.Stdout)
	}
	var content bytes.Buffer // whole, or there is no file
	write := server.Markdown
	if strings.HasSuffix(c.File, savedSuffix) {
		write = server.Saved
	}
	if err := write(ctx, c.Document, &content); err != nil {
		return err
	}
	if err := os.WriteFile(c.File, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	return nil
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
