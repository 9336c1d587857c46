package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
)

type eventsCommand struct {
	List   eventsList   `cmd:"" help:"Print a part of a document's log: number, time, agent, what happened, and what is known of it."`
	Tail   eventsTail   `cmd:"" help:"Print the events of a document and go on as new ones come; a cut is resumed without gap or repeat."`
	Post   eventsPost   `cmd:"" help:"Post a message to a document's log, for whoever follows it."`
	Verify eventsVerify `cmd:"" help:"Read the whole log and check that no event is missing, moved or changed."`
}

// eventFilter picks events of a log.
type eventFilter struct {
	Type    []string `help:"Only of these types, such as section.edited; with * at the end of a name, all that begin so." placeholder:"TYPE"`
	Actor   string   `name:"by" help:"Only what this agent did." placeholder:"AGENT"`
	Section string   `help:"Only about this section." placeholder:"SECTION" complete:"section"`
}

func (f eventFilter) takes(e doc.Event) bool {
	var about struct {
		Section string `json:"sectionId"`
	}
	if f.Section != "" && (json.Unmarshal(e.Payload, &about) != nil || about.Section != f.Section) {
		return false
	}
	if f.Actor != "" && f.Actor != string(e.Actor) {
		return false
	}
	return len(f.Type) == 0 || slices.ContainsFunc(f.Type, func(pattern string) bool {
		matched, err := path.Match(pattern, string(e.Type))
		return err == nil && matched
	})
}

type eventsList struct {
	asking
	docArg
	eventFilter
	Since int64 `default:"0" help:"Begin behind the event with this number."`
	Limit int   `default:"100" help:"How many to look at, from 1 to 1000."`
}

func (eventsList) Help() string {
	return `The filters pick from the part that --since and --limit name. With --json, next_since is the --since of the next part.

Examples:

    cowrite events list plan --type 'section.lease_*'
    cowrite events list plan --section goals --by beta`
}

func (c eventsList) Run(ctx context.Context, p *Program) error {
	query := url.Values{"since": {strconv.FormatInt(c.Since, 10)}, "limit": {strconv.Itoa(c.Limit)}}
	raw, err := c.fetch(ctx, p, client.Call{Method: http.MethodGet, Path: c.path("events"), Query: query})
	if err != nil {
		return err
	}
	page, err := decode[client.EventPage](raw)
	if err != nil {
		return err
	}
	page.Events = slices.DeleteFunc(page.Events, func(e doc.Event) bool { return !c.takes(e) })
	if c.JSON {
		return p.printJSON(page)
	}
	return p.print(func(out *printer) {
		for _, e := range page.Events {
			out.event(e)
		}
	})
}

type eventsTail struct {
	asking
	docArg
	eventFilter
	Since int64 `default:"0" help:"Begin behind the event with this number."`
}

func (eventsTail) Help() string {
	return `With --json each event is a line of JSON.

Examples:

    cowrite events tail plan --since 40
    cowrite events tail plan --type message.posted --json | jq -r .payload.text`
}

func (c eventsTail) Run(ctx context.Context, p *Program) error {
	if c.Since < 0 {
		return errors.New("--since counts from 0")
	}
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	err = server.Follow(ctx, c.Document, doc.Seq(c.Since), func(e doc.Event) error {
		switch {
		case !c.takes(e):
			return nil
		case c.JSON:
			return p.printJSON(e)
		}
		return p.print(func(out *printer) { out.event(e) })
	})
	if ctx.Err() != nil {
		return nil // stopped by the user
	}
	return err
}

type eventsPost struct {
	asking
	docArg
	Text    string `arg:"" optional:"" help:"What to say."`
	To      string `help:"To whom." placeholder:"AGENT"`
	Payload string `help:"The whole message as a JSON object, in place of a text; - is standard input." placeholder:"JSON"`
}

func (eventsPost) Help() string {
	return `Examples:

    cowrite events post plan 'your turn' --to beta
    echo '{"review":"looks good","of":"17"}' | cowrite events post plan --payload -`
}

func (c eventsPost) Run(ctx context.Context, p *Program) error {
	payload := []byte(c.Payload)
	switch {
	case (c.Text == "") == (c.Payload == "") || c.Payload != "" && c.To != "":
		return &exitError{exitUsage, errors.New("say a text, or --payload alone")}
	case c.Payload == "-":
		var err error
		if payload, err = p.read(c.Payload); err != nil {
			return fmt.Errorf("read the message: %w", err)
		}
	case c.Payload == "":
		said := struct {
			To   string `json:"to,omitempty"`
			Text string `json:"text"`
		}{c.To, c.Text}
		var err error
		if payload, err = json.Marshal(said); err != nil {
			return fmt.Errorf("encode the message: %w", err)
		}
	}
	if !json.Valid(payload) {
		return errors.New("the message is not JSON")
	}
	call := client.Call{Method: http.MethodPost, Path: c.path("events"), Body: json.RawMessage(payload)}
	return ask(ctx, p, c.asking, call, func(out *printer, e doc.Event) { out.row(e.Seq) })
}

type eventsVerify struct {
	asking
	docArg
}

func (c eventsVerify) Run(ctx context.Context, p *Program) error {
	server, err := c.client(p)
	if err != nil {
		return err
	}
	defer server.Close()
	var log chain
	for more := true; more; {
		var events []doc.Event
		events, more, err = server.Events(ctx, c.Document, log.last)
		if err != nil {
			return err
		}
		if more && len(events) == 0 {
			return fmt.Errorf("the log ends behind event %s, though the server says that there is more", log.last)
		}
		for _, e := range events {
			if err := log.check(e); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return p.printJSON(map[string]string{"events": log.last.String(), "hash": log.hash.String()})
	}
	_, err = fmt.Fprintf(p.Stdout, "%s events, last hash %s\n", log.last, log.hash)
	return err
}

// chain is a log verified so far. The zero value is the empty log.
type chain struct {
	last doc.Seq
	hash doc.EventHash
}

// check takes in the next event, or says what is wrong with it.
func (c *chain) check(e doc.Event) error {
	if e.Seq != c.last+1 {
		return fmt.Errorf("event %s is missing: the log goes on with %s", c.last+1, e.Seq)
	}
	sealed := doc.Chain(c.hash, e.Seq, e.NewEvent)
	if sealed.Hash != e.Hash {
		return fmt.Errorf("event %s (%s) was changed: its hash is %s, its content gives %s", e.Seq, e.ID, e.Hash, sealed.Hash)
	}
	c.last, c.hash = e.Seq, e.Hash
	return nil
}
