package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"cowrite/sync/agent"
	"cowrite/sync/client"
)

// An agent connects, makes a document, follows it and edits it.
func Example() {
	s := start() // a server; yours is at an address
	defer s.close()
	ctx := context.Background()

	c, err := client.Connect(ctx, client.Options{URL: s.url, Key: s.key("alice"), HTTP: fresh()})
	must(err)
	defer c.Close()
	name, err := c.CreateDocument(ctx, client.NewDocument{Slug: "notes", Markdown: "# Notes\n\nIt rains.\n"})
	must(err)
	d, err := c.Open(ctx, name, client.Open{})
	must(err)

	section := d.Sections()[0]
	_, err = d.Edit(ctx, section.ID, client.Replace(agent.Replacement{Find: "rains", With: "snows"}))
	must(err)
	text, err := d.WaitText(ctx, section.ID, func(text string) bool { return strings.Contains(text, "snows") })
	must(err)
	fmt.Print(text)
	// Output:
	// # Notes
	//
	// It snows.
}

// An agent says where it edits, and keeps that up while it works.
func ExampleLeaseManager() {
	s := start()
	defer s.close()
	ctx := context.Background()
	s.document("my-doc", "# Introduction\n")

	work := func(key string) error {
		mgr := client.NewLeaseManager(client.Options{URL: s.url, Key: key, HTTP: fresh()})
		defer mgr.Close()
		_, err := mgr.Acquire(ctx, "my-doc", "intro", 60*time.Second, "Rewriting introduction")
		if conflict, ok := errors.AsType[*client.LeaseConflictError](err); ok {
			fmt.Printf("Section held by %s for %v more\n", conflict.Holder, conflict.ExpiresIn.Round(time.Minute))
			return nil // back off, wait, or write anyway: it will be merged
		} else if err != nil {
			return err
		}

		// Keep renewing automatically 10s before expiry
		if err := mgr.StartAutoRenew(10 * time.Second); err != nil {
			return err
		}

		// ... do editing work ...

		return mgr.Release(ctx)
	}
	must(work(s.key("alpha")))

	beta := client.NewLeaseManager(client.Options{URL: s.url, Key: s.key("beta"), HTTP: fresh()})
	defer beta.Close()
	_, err := beta.Acquire(ctx, "my-doc", "intro", 60*time.Second, "my turn")
	must(err)
	must(work(s.key("alpha")))
	// Output:
	// Section held by beta for 1m0s more
}

// Two agents write one report by turns: who has the lease writes, the other waits in the queue.
func Example_turns() {
	s := start()
	defer s.close()
	ctx := context.Background()
	ada, ben := s.connect("ada"), s.connect("ben")
	defer ada.Close()
	defer ben.Close()
	name, err := ada.CreateDocument(ctx, client.NewDocument{Slug: "report", Markdown: "# Report\n"})
	must(err)

	// write adds paragraphs to the report, each in a turn of its own.
	write := func(c *client.Client, paragraphs ...string) error {
		d, err := c.Open(ctx, name, client.Open{})
		if err != nil {
			return err
		}
		section := d.Sections()[0].ID
		for _, p := range paragraphs {
			turn, err := d.Lease(ctx, section, client.Ask{Reason: "a paragraph", Wait: true})
			if err != nil {
				return err
			}
			text, at, _ := d.Section(section)
			if _, err := d.Edit(ctx, section, client.Text(text.Text+p+"\n").On(at).Under(turn.Fence)); err != nil {
				return err
			}
			if err := turn.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	done := make(chan error)
	go func() { done <- write(ada, "Ada on method.", "Ada on results.") }()
	go func() { done <- write(ben, "Ben on costs.", "Ben on risks.") }()
	must(<-done)
	must(<-done)

	report, err := ada.Markdown(ctx, name)
	must(err)
	for _, p := range []string{"Ada on method.", "Ada on results.", "Ben on costs.", "Ben on risks."} {
		fmt.Println(p, strings.Count(report, p))
	}
	// Output:
	// Ada on method. 1
	// Ada on results. 1
	// Ben on costs. 1
	// Ben on risks. 1
}

// A reviewer reads the log, and answers each edit in it.
func Example_reviewer() {
	s := start()
	defer s.close()
	ctx := context.Background()
	writer, reviewer := s.connect("writer"), s.connect("reviewer")
	defer writer.Close()
	defer reviewer.Close()
	name, err := writer.CreateDocument(ctx, client.NewDocument{Slug: "plan", Markdown: "# Plan\n"})
	must(err)

	draft, err := writer.Open(ctx, name, client.Open{Events: true})
	must(err)
	desk, err := reviewer.Open(ctx, name, client.Open{Events: true})
	must(err)

	_, err = draft.Change(ctx, draft.Sections()[0].ID, func(text string) string { return text + "\nWe ship on Friday.\n" })
	must(err)

	// The reviewer: waits for an edit that is not its own, reads the text, and says what it thinks.
	for {
		e, err := desk.Next(ctx)
		must(err)
		if e.Type != "section.edited" || string(e.Actor) == reviewer.Agent() {
			continue
		}
		text, err := desk.WaitText(ctx, desk.Sections()[0].ID, func(text string) bool { return strings.Contains(text, "ship") })
		must(err)
		if strings.Contains(text, "Friday") {
			_, err = desk.Post(ctx, map[string]string{"to": string(e.Actor), "review": "not on a Friday"})
			must(err)
		}
		break
	}

	// The writer: reads what was said to it.
	for {
		e, err := draft.Next(ctx)
		must(err)
		var said struct{ To, Review string }
		if e.Type == "message.posted" && json.Unmarshal(e.Payload, &said) == nil && said.To == writer.Agent() {
			fmt.Printf("%s: %s\n", e.Actor, said.Review)
			return
		}
	}
	// Output:
	// reviewer: not on a Friday
}

// An agent writes where another holds the lease, on a version that is out of date. Nothing stops it, nothing is lost;
// it is told, and the log says where somebody should look.
func Example_overlap() {
	s := start()
	defer s.close()
	ctx := context.Background()
	holder, other := s.connect("holder"), s.connect("other")
	defer holder.Close()
	defer other.Close()
	name, err := holder.CreateDocument(ctx, client.NewDocument{Slug: "motto", Markdown: "The cat sat down.\n"})
	must(err)
	mine, err := holder.Open(ctx, name, client.Open{})
	must(err)
	his, err := other.Open(ctx, name, client.Open{Events: true})
	must(err)
	section := mine.Sections()[0].ID
	base := his.Version()

	_, err = mine.Lease(ctx, section, client.Ask{Duration: 30 * time.Second, Reason: "rewording"})
	must(err)
	_, err = mine.Edit(ctx, section, client.Text("The dog sat down.\n").On(base))
	must(err)

	ack, err := his.Edit(ctx, section, client.Text("The bird sat down.\n").On(base))
	must(err)
	fmt.Println("advisory:", ack.Advisory.Message)
	fmt.Println("merged from:", ack.MergedFrom.Agents)
	for {
		e, err := his.Next(ctx)
		must(err)
		if e.Type != "section.overlap" {
			continue
		}
		var overlap struct {
			Authors []string
			Places  []struct{ Text, Mine, Their string }
		}
		must(json.Unmarshal(e.Payload, &overlap))
		place := overlap.Places[0]
		fmt.Printf("overlap: %v made %q and %q of %q\n", overlap.Authors, place.Mine, place.Their, place.Text)
		break
	}
	text, err := his.WaitText(ctx, section, func(text string) bool { return strings.Contains(text, "dog") && strings.Contains(text, "bird") })
	must(err)
	fmt.Println("both are there:", strings.Contains(text, "dog") && strings.Contains(text, "bird"))
	// Output:
	// advisory: holder is editing this section right now; your write was merged
	// merged from: [holder]
	// overlap: [other holder] made "bird" and "dog" of "cat"
	// both are there: true
}
