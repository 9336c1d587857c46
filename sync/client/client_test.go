package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/agent"
	"cowrite/sync/client"
)

func TestMirrorAndEdits(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	alice, bob := s.connect("alice"), s.connect("bob")
	defer alice.Close()
	defer bob.Close()
	name, err := alice.CreateDocument(ctx, client.NewDocument{Slug: "notes", Markdown: "# Notes\n\nOne two three.\n"})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := alice.Open(ctx, name, client.Open{})
	if err != nil {
		t.Fatal(err)
	}
	his, err := bob.Open(ctx, name, client.Open{})
	if err != nil {
		t.Fatal(err)
	}
	section := mine.Sections()[0]
	base := mine.Version()
	if _, err := mine.Edit(ctx, section.ID, client.Replace(agent.Replacement{Find: "two", With: "2"}).On(base)); err != nil {
		t.Fatal(err)
	}
	ack, err := his.Edit(ctx, section.ID, client.Text("# Notes\n\nOne two three four.\n").On(base))
	if err != nil {
		t.Fatal(err)
	}
	if !ack.Merged || ack.MergedFrom.Agents[0] != "alice" {
		t.Errorf("the merge was told as %+v", ack)
	}
	const merged = "# Notes\n\nOne 2 three four.\n"
	for _, d := range []*client.Document{mine, his} {
		if _, err := d.WaitText(ctx, section.ID, func(text string) bool { return text == merged }); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := alice.Markdown(ctx, name); err != nil || got != merged {
		t.Errorf("REST reads %q, %v", got, err)
	}
	if _, err := his.Change(ctx, section.ID, strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	if _, err := his.Edit(ctx, section.ID, client.Replace(agent.Replacement{Find: "nowhere", With: "x"})); !code.Is(err, code.TextNotFound) {
		t.Errorf("a passage that is not there: %v", err)
	}
	if _, err := his.Edit(ctx, section.ID, client.Ops(agent.TextOp{At: 0, Insert: "\U0001F600"})); err != nil {
		t.Fatal(err)
	}
	added, err := mine.Add(ctx, "", section.ID, "## More\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Move(ctx, added.Section.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Remove(ctx, section.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Restore(ctx, section.ID); err != nil {
		t.Fatal(err)
	}
	want := "## More\n\U0001F600# NOTES\n\nONE 2 THREE FOUR.\n"
	waitMarkdown(t, his, want)
	if _, err := bob.Open(ctx, "nowhere", client.Open{}); !code.Is(err, code.DocumentNotFound) {
		t.Errorf("a document that is not there: %v", err)
	}
	if _, err := bob.Markdown(ctx, "nowhere"); !code.Is(err, code.DocumentNotFound) {
		t.Errorf("a document that is not there: %v", err)
	}
}

// waitMarkdown waits until a document has a text.
func waitMarkdown(t *testing.T, d *client.Document, want string) {
	t.Helper()
	ctx := soon(t)
	for {
		before := d.Version()
		if d.Markdown() == want {
			return
		}
		if err := d.WaitVersion(ctx, before); err != nil {
			t.Fatalf("the text is %q, want %q: %v", d.Markdown(), want, err)
		}
	}
}

// Whatever the line does, edits count once, the mirror stays exact and the log has no gap.
func TestBrokenLines(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	lines := newCuttable()
	alice, err := client.Connect(ctx, client.Options{URL: s.url, Key: s.key("alice"), HTTP: lines.Client, After: atOnce})
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close()
	if _, err := alice.CreateDocument(ctx, client.NewDocument{Slug: "notes", Markdown: "# Notes\n"}); err != nil {
		t.Fatal(err)
	}
	d, err := alice.Open(ctx, "notes", client.Open{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	section := d.Sections()[0].ID
	want := "# Notes\n"
	for i := range 10 {
		line := fmt.Sprintf("line %d\n", i)
		done := make(chan error, 1)
		go func() {
			_, err := d.Edit(ctx, section, client.Ops(agent.TextOp{At: len(want), Insert: line}))
			done <- err
		}()
		lines.cut(false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want += line
	}
	waitMarkdown(t, d, want)
	for seq := 1; seq <= 11; seq++ { // the document's creation, and ten edits
		e, err := d.Next(ctx)
		if err != nil || string(e.Seq) != fmt.Sprint(seq) {
			t.Fatalf("event %d is %+v, %v", seq, e, err)
		}
	}
}

// A server that was restored from a backup knows no event of the number that was read last: its log is read from the first on.
func TestALogThatBecameShorterIsReadAnew(t *testing.T) {
	now, backup := start(), start()
	defer now.close()
	defer backup.close()
	ctx := soon(t)
	key := now.key("alice")
	if _, err := backup.keyring.Import(ctx, doc.Key{Agent: "alice", Role: doc.Editor, Pattern: "*"}, doc.Secret(key)); err != nil {
		t.Fatal(err)
	}
	now.document("notes", "# Notes\n")
	backup.document("notes", "# Notes as they were\n")
	lines := newCuttable()
	alice, err := client.Connect(ctx, client.Options{URL: now.url, Key: key, HTTP: lines.Client, Random: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close()
	d, err := alice.Open(ctx, "notes", client.Open{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	post := func() {
		t.Helper()
		if _, err := d.Post(ctx, struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	next := func(want agent.Seq) {
		t.Helper()
		if e, err := d.Next(ctx); err != nil || e.Seq != want {
			t.Fatalf("event %s is %+v, %v", want, e, err)
		}
	}
	post()
	post()
	for _, seq := range []agent.Seq{"1", "2", "3"} {
		next(seq)
	}
	lines.move(backup)
	next("1")
	waitMarkdown(t, d, "# Notes as they were\n")
	post()
	next("2")
}

// Whoever has caught up has what was acknowledged, by whatever view, also over lines that break.
func TestCatchUp(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	lines := newCuttable()
	alice, err := client.Connect(ctx, client.Options{URL: s.url, Key: s.key("alice"), HTTP: lines.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close()
	bob := s.connect("bob")
	defer bob.Close()
	name, err := alice.CreateDocument(ctx, client.NewDocument{Markdown: "# Notes\n"})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := alice.Open(ctx, name, client.Open{})
	if err != nil {
		t.Fatal(err)
	}
	sid := whole.Sections()[0].ID
	part, err := bob.Open(ctx, name, client.Open{Section: sid})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 30 {
		line := fmt.Sprintf("line %d\n", n)
		if _, err := whole.Edit(ctx, sid, client.Ops(agent.TextOp{Insert: line})); err != nil {
			t.Fatal(err)
		}
		if n%10 == 5 {
			lines.cut(false)
		}
		for _, d := range []*client.Document{whole, part} {
			if err := d.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
			if now, _, _ := d.Section(sid); !strings.HasPrefix(now.Text, line) {
				t.Fatalf("caught up with %q, without %q", now.Text, line)
			}
		}
		if _, err := whole.Add(ctx, "", "", "## Another\n"); err != nil { // which the part does not show
			t.Fatal(err)
		}
		if err := part.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// What is made and posted over lines that break is there once.
func TestMadeAndPostedOnce(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	lines := newCuttable()
	alice, err := client.Connect(ctx, client.Options{URL: s.url, Key: s.key("alice"), HTTP: lines.Client, After: atOnce})
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close()
	name, err := alice.CreateDocument(ctx, client.NewDocument{Title: "Log"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := alice.Open(ctx, name, client.Open{LogOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(do func() error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- do() }()
		lines.cut(false)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	const times = 20
	made := map[agent.Document]bool{name: true}
	for n := range times {
		cut(func() error {
			e, err := d.Post(ctx, map[string]int{"n": n})
			if err == nil && string(e.Payload) != fmt.Sprintf(`{"n":%d}`, n) {
				err = fmt.Errorf("it was answered with %s", e.Payload)
			}
			return err
		})
		cut(func() error {
			name, err := alice.CreateDocument(ctx, client.NewDocument{Title: "Made"})
			made[name] = true
			return err
		})
	}
	for n := range times {
		if e, err := nextMessage(ctx, d); err != nil || string(e.Payload) != fmt.Sprintf(`{"n":%d}`, n) {
			t.Fatalf("message %d is %s, %v", n, e.Payload, err)
		}
	}
	all, _, err := s.library.List(ctx, doc.Key{Agent: "alice", Role: doc.Editor, Pattern: "*"}, 0, 100)
	if err != nil || len(all) != times+1 || len(made) != times+1 {
		t.Errorf("there are %d documents, of which %d were told of, %v", len(all), len(made), err)
	}
}

func nextMessage(ctx context.Context, d *client.Document) (agent.EventRecord, error) {
	for {
		e, err := d.Next(ctx)
		if err != nil || e.Type == string(doc.MessagePosted) {
			return e, err
		}
	}
}

// A lease renews itself for as long as it is held; when the line is down for too long it is lost, and its holder hears of it.
func TestLeaseRenewsItself(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	lines := newCuttable()
	var told atomic.Int32
	alice, err := client.Connect(ctx, client.Options{
		URL: s.url, Key: s.key("alice"), HTTP: lines.Client, LeaseLost: func(agent.LostLease) { told.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer alice.Close()
	if _, err := alice.CreateDocument(ctx, client.NewDocument{Slug: "notes", Markdown: "# Notes\n"}); err != nil {
		t.Fatal(err)
	}
	d, err := alice.Open(ctx, "notes", client.Open{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	section := d.Sections()[0].ID
	held, err := d.Lease(ctx, section, client.Ask{Duration: time.Second, Reason: "writing"})
	if err != nil {
		t.Fatal(err)
	}
	if !held.Granted {
		t.Error("a new lease was there before")
	}
	for renewals := 0; renewals < 4; { // longer than its second
		e, err := d.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == string(doc.SectionLeaseRenewed) {
			renewals++
		}
	}
	bob := s.connect("bob")
	defer bob.Close()
	his, err := bob.Open(ctx, "notes", client.Open{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := his.Lease(ctx, section, client.Ask{}); !code.Is(err, code.SectionLeased) {
		t.Errorf("a lease that is held: %v", err)
	}
	lines.cut(true)
	got, err := his.Lease(ctx, section, client.Ask{Duration: 10 * time.Second, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-held.Lost():
	case <-ctx.Done():
		t.Fatal("the loss was not noticed")
	}
	lines.cut(false)
	for told.Load() == 0 && ctx.Err() == nil {
		if _, err := d.Next(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Edit(ctx, section, client.Ops(agent.TextOp{Insert: "!"}).Under(held.Fence)); err != nil {
			t.Fatal(err)
		}
	}
	ack, err := d.Edit(ctx, section, client.Ops(agent.TextOp{Insert: "!"}).Under(held.Fence))
	if err != nil || ack.Advisory == nil || ack.Advisory.Kind != "stale_fence" || ack.Advisory.Holder != "bob" {
		t.Errorf("a write under a lost lease: %+v, %v", ack, err)
	}
	if err := got.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if len(s.keeper.Status(doc.SectionResource(mustFind(t, s), doc.SectionID(section))).Holders) != 0 {
		t.Error("a released lease is still held")
	}
}

// A revoked key ends the client for good.
func TestRevokedKeyEndsTheClient(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	alice := s.connect("alice")
	defer alice.Close()
	name, err := alice.CreateDocument(ctx, client.NewDocument{Slug: "notes", Markdown: "# Notes\n"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := alice.Open(ctx, name, client.Open{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range s.hub.Sockets() {
		s.hub.CloseKey(info.Key, code.New(code.KeyRevoked, "revoked"))
	}
	for err == nil {
		_, err = d.Next(ctx)
	}
	if !code.Is(err, code.KeyRevoked) || !code.Is(alice.Err(), code.KeyRevoked) {
		t.Errorf("after the revocation: %v, %v", err, alice.Err())
	}
	if _, err := d.Edit(ctx, "x", client.Text("")); !code.Is(err, code.KeyRevoked) {
		t.Errorf("an edit after it: %v", err)
	}
	if _, err := client.Connect(ctx, client.Options{URL: s.url, Key: "cw_nonsense", HTTP: fresh()}); !code.Is(err, code.Unauthorized) {
		t.Errorf("a key that is none: %v", err)
	}
}

func mustFind(t *testing.T, s *server) crdt.DocumentID {
	t.Helper()
	meta, err := s.library.Find(t.Context(), doc.Key{Role: doc.Viewer, Pattern: "*"}, "notes")
	if err != nil {
		t.Fatal(err)
	}
	return meta.ID
}

// A reader that falls behind the log asks for what it dropped, and misses nothing.
func TestSlowReaderOfTheLog(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	alice := s.connect("alice")
	defer alice.Close()
	name, err := alice.CreateDocument(ctx, client.NewDocument{Slug: "notes", Markdown: "# Notes\n"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := alice.Open(ctx, name, client.Open{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	const events = 3000 // more than a client keeps
	id, bob := mustFind(t, s), doc.Key{Agent: "bob", Role: doc.Editor, Pattern: "*"}
	for range events {
		if _, err := s.library.Post(ctx, bob, id, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Edit(ctx, d.Sections()[0].ID, client.Ops(agent.TextOp{Insert: "!"})); err != nil {
		t.Fatal(err)
	}
	for seq := 1; seq <= events+2; seq++ {
		e, err := d.Next(ctx)
		if err != nil || string(e.Seq) != fmt.Sprint(seq) {
			t.Fatalf("event %d is %+v, %v", seq, e, err)
		}
	}
}

// While the server is away the pauses between tries grow, with jitter, up to ten seconds.
func TestPausesGrow(t *testing.T) {
	s := start()
	defer s.close()
	ctx := soon(t)
	lines := newCuttable()
	pauses := make(chan time.Duration)
	at := make(chan time.Time)
	alice, err := client.Connect(ctx, client.Options{
		URL: s.url, Key: s.key("alice"), HTTP: lines.Client, Random: func() float64 { return 0.5 },
		After: func(d time.Duration) <-chan time.Time { pauses <- d; return at },
	})
	if err != nil {
		t.Fatal(err)
	}
	lines.cut(true)
	for i, want := range []time.Duration{75, 150, 300, 600, 1200, 2400, 4800, 7500, 7500} {
		if got := <-pauses; got != want*time.Millisecond {
			t.Errorf("pause %d is %v, want %v ms", i, got, int64(want))
		}
		at <- time.Time{}
	}
	<-pauses
	lines.cut(false)
	at <- time.Time{}
	if _, err := alice.CreateDocument(ctx, client.NewDocument{Slug: "notes"}); err != nil {
		t.Errorf("after the server has come back: %v", err)
	}
	alice.Close()
}
