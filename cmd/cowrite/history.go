package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sergi/go-diff/diffmatchpatch"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
)

type sectionHistory struct {
	asking
	sectionArg
	Since int64 `default:"0" help:"Begin behind the event with this number."`
	Limit int   `default:"100" help:"How many at most, from 1 to 1000."`
}

func (sectionHistory) Help() string {
	return "A line for each event: number, time, agent, what, and what is known of it."
}

func (c sectionHistory) Run(ctx context.Context, p *Program) error {
	query := url.Values{"since": {strconv.FormatInt(c.Since, 10)}, "limit": {strconv.Itoa(c.Limit)}}
	return ask(ctx, p, c.asking, client.Call{Method: http.MethodGet, Path: c.path("history"), Query: query}, func(out *printer, page client.EventPage) {
		for _, e := range page.Events {
			out.event(e)
		}
	})
}

// event is a line about an event.
func (o *printer) event(e doc.Event) {
	o.row(e.Seq, o.time(doc.FormatTime(e.At)), e.Actor, e.Type, o.details(e.Payload))
}

// details says what a payload holds in words: its section first, then the other plain values by name.
func (o *printer) details(payload json.RawMessage) string {
	var facts map[string]any
	if json.Unmarshal(payload, &facts) != nil {
		return string(payload)
	}
	var words []string
	if section, ok := facts["sectionId"].(string); ok {
		words = append(words, section)
	}
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		if name == "sectionId" || name == "event" || name == "hash" { // said already, or of no use to a person
			continue
		}
		switch value := facts[name].(type) {
		case string:
			value = o.time(value)
			if strings.ContainsAny(value, " \n") {
				value = strconv.Quote(shorten(value))
			}
			words = append(words, name+"="+value)
		case float64:
			words = append(words, name+"="+number(value))
		case bool:
			words = append(words, fmt.Sprintf("%s=%t", name, value))
		}
	}
	return strings.Join(words, " ")
}

type sectionBlame struct {
	asking
	sectionArg
	Version string `help:"As it was at this version." placeholder:"VERSION"`
}

func (c sectionBlame) Run(ctx context.Context, p *Program) error {
	call := client.Call{Method: http.MethodGet, Path: c.path("blame")}
	if c.Version != "" {
		call.Query = url.Values{"version": {c.Version}}
	}
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	raw, err := server.Do(ctx, call)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(raw)
	}
	blame, err := decode[struct {
		Version string `json:"version"`
		Ranges  []struct {
			At     int    `json:"at"`
			Length int    `json:"length"`
			Agent  string `json:"agent"`
		} `json:"ranges"`
	}](raw)
	if err != nil {
		return err
	}
	text, err := textAt(ctx, server, c.sectionArg, blame.Version)
	if err != nil {
		return err
	}
	return p.print(func(out *printer) {
		for _, r := range blame.Ranges {
			end := min(r.At+r.Length, len(text))
			for line := range strings.Lines(string(text[min(r.At, end):end])) {
				out.row(cmp.Or(r.Agent, "?"), strings.TrimSuffix(line, "\n"))
			}
		}
	})
}

// textAt is a section's text as it was at a version, in code points.
func textAt(ctx context.Context, server *client.Client, s sectionArg, version string) ([]rune, error) {
	d, err := server.Document(ctx, s.Document, version)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(d.Sections, d.Removed)
	if i := slices.IndexFunc(all, func(has client.Section) bool { return has.ID == s.Section }); i >= 0 {
		return []rune(all[i].Text), nil
	}
	return nil, fmt.Errorf("there is no section %s at version %s", s.Section, version)
}

type docDiff struct {
	asking
	docArg
	From    string `arg:"" help:"A version, as section history or doc show tells it."`
	To      string `arg:"" optional:"" help:"A later version; without it the present one."`
	Section string `help:"Of this section alone." placeholder:"SECTION" complete:"section"`
}

func (docDiff) Help() string {
	return `Lines that went begin with -, those that came with +. With --json: operations in code points, section by section.

Examples:

    cowrite doc diff plan "$version"
    cowrite doc diff plan "$then" "$now" --section goals`
}

func (c docDiff) Run(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	query := url.Values{"from": {c.From}}
	if c.To != "" {
		query.Set("to", c.To)
	}
	raw, err := server.Do(ctx, client.Call{Method: http.MethodGet, Path: c.path("diff"), Query: query})
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(raw)
	}
	diff, err := decode[struct {
		From     string           `json:"from"`
		To       string           `json:"to"`
		Sections []client.Section `json:"sections"`
	}](raw)
	if err != nil {
		return err
	}
	before, err := server.Document(ctx, c.Document, diff.From)
	if err != nil {
		return err
	}
	after, err := server.Document(ctx, c.Document, diff.To)
	if err != nil {
		return err
	}
	for _, s := range diff.Sections {
		if c.Section != "" && c.Section != s.ID {
			continue
		}
		if _, err := fmt.Fprintf(p.Stdout, "%s  %s\n%s", s.ID, s.Heading, lineDiff(shownText(before, s.ID), shownText(after, s.ID))); err != nil {
			return err
		}
	}
	return nil
}

// shownText is the text of a section that is there and not removed, else "".
func shownText(d client.Document, sid string) string {
	if i := slices.IndexFunc(d.Sections, func(s client.Section) bool { return s.ID == sid }); i >= 0 {
		return d.Sections[i].Text
	}
	return ""
}

// lineDiff shows the lines in which two texts differ.
func lineDiff(from, to string) string {
	differ := diffmatchpatch.New()
	a, b, lines := differ.DiffLinesToChars(from, to)
	var out strings.Builder
	for _, part := range differ.DiffCharsToLines(differ.DiffMain(a, b, false), lines) {
		sign := map[diffmatchpatch.Operation]string{diffmatchpatch.DiffDelete: "-", diffmatchpatch.DiffInsert: "+"}[part.Type]
		if sign == "" {
			continue
		}
		for line := range strings.Lines(part.Text) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				line = " " + line
			}
			out.WriteString(sign + line + "\n")
		}
	}
	return out.String()
}
