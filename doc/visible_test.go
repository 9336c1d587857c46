package doc_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/doc"
	"cowrite/lease"
)

// typesOfEvents reads the constants of doc.EventType off the source, so that none is forgotten.
func typesOfEvents(t *testing.T) []doc.EventType {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []doc.EventType
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "EventType" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, doc.EventType(value))
		}
		return true
	})
	return all
}

// A share link reads its document's whole log. Everything that can be logged happens here to a document whose agents also
// hold, and wait for, what the link's reader may not know of: its name is in none of the events.
func TestWhatALogTellsAShareLink(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		other, err := w.Create(t.Context(), alice, doc.NewDocument{Slug: "hidden-paper", Title: "Hidden", Markdown: "# Hidden\n"})
		if err != nil {
			t.Fatal(err)
		}
		s := w.create("# A\nwords\n")
		id, sid := s.Meta.ID, s.Sections[0].ID
		link := doc.Key{Agent: "guest", Role: doc.Viewer, Pattern: "*", Document: id}
		hidden := []lease.Resource{"lock:hidden", doc.SectionResource(other.Meta.ID, other.Sections[0].ID)}

		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		do := func(c lease.Command) {
			t.Helper()
			must(w.keeper.Do(t.Context(), c))
		}
		refused := func(c lease.Command, want lease.Why) {
			t.Helper()
			_, err := w.keeper.Do(t.Context(), c)
			if r, ok := err.(*lease.Refusal); !ok || r.Why != want {
				t.Fatalf("%+v: %v, want %s", c, err, want)
			}
		}
		here := doc.SectionResource(id, sid)
		ask := func(r lease.Resource, a doc.Agent) lease.Acquire {
			return lease.Acquire{Resource: r, Agent: a, Duration: time.Minute, Queue: true, Place: 5 * time.Minute}
		}

		// Alice holds the section and waits for what bob and carol hold elsewhere, and is waited for.
		do(ask(here, "alice"))
		do(ask(hidden[0], "bob"))
		do(ask(hidden[1], "carol"))
		refused(ask(hidden[0], "alice"), lease.Held)
		refused(ask(hidden[1], "bob"), lease.Held)
		refused(ask(here, "carol"), lease.Deadlock)
		refused(ask(here, "dave"), lease.Held)
		do(lease.Leave{Resource: here, Agent: "dave"})
		do(lease.Leave{Resource: hidden[0], Agent: "alice"})
		do(lease.Renew{Resource: here, Agent: "alice", Duration: time.Minute})
		must(w.WriteSection(t.Context(), bob, id, sid, "# A\nbob's\n", &doc.Base{Version: s.Version}))
		must(w.WriteSection(t.Context(), alice, id, sid, "# A\nalice's\n", &doc.Base{Version: s.Version}))
		do(lease.Transfer{Resource: here, Agent: "alice", To: "erin"})
		must(w.WriteSection(t.Context(), alice, id, sid, "# A\nstale\n", &doc.Base{Current: true}, doc.Fenced(1)))
		refused(ask(here, "dave"), lease.Held)
		do(lease.Release{Resource: here, Agent: "erin"}) // kept for dave
		time.Sleep(6 * time.Minute)                      // who does not come for it
		do(ask(here, "alice"))
		do(lease.Break{Resource: here, By: "root", Reason: "now"})
		do(ask(here, "alice"))
		do(lease.Retire{Agent: "alice", Reason: "its last key has ended"})
		do(ask(here, "alice"))
		time.Sleep(2 * time.Minute)
		do(lease.Sweep{})

		must(w.AddSection(t.Context(), alice, id, "two", "", "# Two\n"))
		must(w.MoveSection(t.Context(), alice, id, "two", ""))
		must(w.RemoveSection(t.Context(), alice, id, "two"))
		must(w.RestoreSection(t.Context(), alice, id, "two"))
		must(w.Rename(t.Context(), alice, id, new("Title"), new(doc.Slug("essay"))))
		must(w.Post(t.Context(), alice, id, json.RawMessage(`{"text":"hello"}`)))
		a, b := w.attach(alice, id, false), w.attach(bob, id, false)
		a.mustSettle()
		b.mustSettle()
		for _, peer := range []*replica{a, b} {
			must(nil, peer.doc.Path("sections", "same").Set(map[string]any{"body": automerge.NewText("text\n"), "position": "z"}))
			must(nil, peer.doc.Path("outside").Set("the schema"))
			peer.commit()
		}
		a.mustSettle()
		b.mustSettle()
		a.at.Detach()
		b.at.Detach()
		time.Sleep(10 * time.Second) // typing is logged
		shared, _, err := w.Share(t.Context(), alice, id, time.Hour)
		must(nil, err)
		must(nil, doc.OpenKeyring(w.store, nil, nil).Revoke(t.Context(), shared.ID))
		must(w.Block(t.Context(), root, "essay", "too large"))
		must(w.Unblock(t.Context(), root, "essay"))
		must(nil, w.Delete(t.Context(), alice, id))
		must(w.Restore(t.Context(), alice, "essay"))

		events, _, err := w.Events(t.Context(), link, id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range typesOfEvents(t) {
			if !slices.Contains(types(events), want) {
				t.Errorf("nothing makes a %s, so nobody looked at what it tells", want)
			}
		}
		// What is another document's or resource's, however it is called.
		names := []string{"hidden", string(other.Sections[0].ID), other.Meta.ID.String(), other.Meta.ID.UUID()}
		for _, e := range events {
			for _, name := range names {
				if bytes.Contains(e.Payload, []byte(name)) {
					t.Errorf("a share link reads in %s %s of %q, which it may not see", e.Type, e.Payload, name)
				}
			}
		}
		if !slices.ContainsFunc(events, func(e doc.Event) bool {
			return e.Type == doc.SectionLeaseDeadlock && bytes.Contains(e.Payload, []byte(`"agents":["carol","alice","bob"]`))
		}) {
			t.Error("the log does not say who would have waited for each other")
		}
	})
}
