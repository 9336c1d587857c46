package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cowrite/doc"
)

type eventsCommand struct {
	Tail   eventsTail   `cmd:"" help:"Print the events of a document and go on as new ones come; a cut is resumed without gap or repeat."`
	Verify eventsVerify `cmd:"" help:"Read the whole log and check that no event is missing, moved or changed."`
}

type eventsTail struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
	Since    int64  `default:"0" help:"Begin behind the event with this number."`
	JSON     bool   `name:"json" help:"Print each event as a line of JSON."`
}

func (c eventsTail) Run(ctx context.Context, p *Program) error {
	if c.Since < 0 {
		return errors.New("--since counts from 0")
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	err = server.Follow(ctx, c.Document, doc.Seq(c.Since), func(e doc.Event) error {
		if c.JSON {
			encoder := json.NewEncoder(p.Stdout)
			encoder.SetEscapeHTML(false)
			return encoder.Encode(e)
		}
		_, err := fmt.Fprintf(p.Stdout, "%s\t%s\t%s\t%s\t%s\n", e.Seq, doc.FormatTime(e.At), e.Actor, e.Type, e.Payload)
		return err
	})
	if ctx.Err() != nil {
		return nil // stopped by the user
	}
	return err
}

type eventsVerify struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
}

func (c eventsVerify) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
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
