package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
)

// defaultURL is where a server listens that was not told where.
const defaultURL = "http://127.0.0.1:8080"

// remote is the flags of a command that calls a server.
type remote struct {
	URL     string `name:"url" help:"Address of the server ($$COWRITE_URL)." from:"COWRITE_URL" default:"${url}" group:"reach"`
	Key     string `help:"API key ($$COWRITE_KEY); as a flag it is seen in the list of processes." placeholder:"KEY" group:"reach"`
	KeyFile string `help:"File with the API key ($$COWRITE_KEY_FILE)." complete:"file" placeholder:"FILE" group:"reach"`
}

var errNoKey = errors.New("an API key is needed: set COWRITE_KEY, or --key-file")

// client is one of the server with the key: of the two flags, else of the two variables.
func (r remote) client(p *Program) (*client.Client, error) {
	key, err := r.key(p)
	if err != nil {
		return nil, err
	}
	server, err := client.New(r.URL, key)
	if err != nil {
		return nil, err
	}
	server.LeaseLost = p.tellLost
	return server, nil
}

func (r remote) key(p *Program) (doc.Secret, error) {
	key, file := r.Key, r.KeyFile
	if key == "" && file == "" {
		key, file = p.Env("COWRITE_KEY"), p.Env("COWRITE_KEY_FILE")
	}
	if key == "" && file != "" {
		content, err := p.read(file)
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		key = strings.TrimSpace(string(content))
	}
	if key == "" {
		return "", errNoKey
	}
	return doc.Secret(key), nil
}

// asking is the flags of a command that prints what a server answers.
type asking struct {
	remote
	JSON bool `name:"json" help:"Print the REST API's answer."`
}

// fetch makes one call and gives the JSON of the answer.
func (a asking) fetch(ctx context.Context, p *Program, call client.Call) (json.RawMessage, error) {
	server, err := a.client(p)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	return server.Do(ctx, call)
}

// ask makes one call and prints the answer: as JSON, or as the command says it to a person.
func ask[T any](ctx context.Context, p *Program, a asking, call client.Call, human func(out *printer, answer T)) error {
	raw, err := a.fetch(ctx, p, call)
	if err != nil {
		return err
	}
	if a.JSON {
		return p.printJSON(raw)
	}
	answer, err := decode[T](raw)
	if err != nil {
		return err
	}
	return p.print(func(out *printer) { human(out, answer) })
}

// decode reads what a server answered.
func decode[T any](raw json.RawMessage) (T, error) {
	var answer T
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}

// printJSON prints a value as one line of JSON.
func (p *Program) printJSON(v any) error {
	encoder := json.NewEncoder(p.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// print prints rows of aligned columns. Nothing is printed before all of it is there.
func (p *Program) print(rows func(out *printer)) error {
	var all bytes.Buffer
	out := &printer{table: tabwriter.NewWriter(&all, 0, 8, 2, ' ', 0), zone: p.zone()}
	rows(out)
	if err := out.table.Flush(); err != nil { // of a buffer: never
		return err
	}
	for line := range bytes.Lines(all.Bytes()) {
		if _, err := fmt.Fprintf(p.Stdout, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// zone is the reader's.
func (p *Program) zone() *time.Location {
	if p.Zone != nil {
		return p.Zone
	}
	return time.Local
}

// printer lays out what a person reads.
type printer struct {
	table *tabwriter.Writer
	zone  *time.Location
}

// row is a line of columns.
func (o *printer) row(cells ...any) {
	columns := make([]string, len(cells))
	for i, cell := range cells {
		columns[i] = strings.ReplaceAll(fmt.Sprint(cell), "\t", " ")
	}
	fmt.Fprintln(o.table, strings.Join(columns, "\t"))
}

// time is an instant of the API in the reader's zone; what is none is given back.
func (o *printer) time(instant string) string { return localTime(instant, o.zone) }

func localTime(instant string, zone *time.Location) string {
	t, err := time.Parse(time.RFC3339, instant)
	if err != nil {
		return instant
	}
	return t.In(zone).Format(time.DateTime)
}
