package agentsocket

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
)

func TestEditInThreeWays(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		_, mirror := bob.openDocument(agent.Open{})
		v0 := w.read().Version

		alice.send(&agent.Edit{Header: agent.Header{ID: "1"}, Document: slug, Section: "a", Base: v0, Text: text("# Notes\n\nIt is a great truth.\n")})
		first := want[*agent.Ack](alice)
		if first.ID != "1" || first.Version == v0 || first.Merged || first.Section == nil || first.Section.Text != nil {
			t.Errorf("acknowledged with %s", jsonOf(first))
		}
		alice.send(&agent.Edit{Header: agent.Header{ID: "2"}, Document: slug, Section: "a", Base: v0, Ops: []agent.TextOp{{At: 9, Delete: 2, Insert: "That"}}})
		second := want[*agent.Ack](alice)
		if second.Merged {
			t.Logf("one's own words count as merged: %s", jsonOf(second))
		}
		alice.send(&agent.Edit{Header: agent.Header{ID: "3"}, Document: slug, Section: "a", Replace: []agent.Replacement{{Find: "truth", With: "lie"}}})
		want[*agent.Ack](alice)
		bob.follow(mirror)
		if got, _ := mirror.Section("a"); got.Text != "# Notes\n\nThat is a great lie.\n" {
			t.Errorf("the section is %q", got.Text)
		}
	})
}

// What was there already at a stale base stays, and the writer is told whose it is.
func TestStaleBaseMerges(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		v0 := w.read().Version
		alice.send(&agent.Edit{Document: slug, Section: "a", Base: v0, Replace: []agent.Replacement{{Find: "Notes", With: "Our notes"}}})
		want[*agent.Ack](alice)
		bob.send(&agent.Edit{Document: slug, Section: "a", Base: v0, Text: text("# Notes\n\nIt is a lie.\n")})
		ack := want[*agent.Ack](bob)
		if !ack.Merged || ack.MergedFrom == nil || len(ack.MergedFrom.Agents) != 1 || ack.MergedFrom.Agents[0] != "alice" {
			t.Errorf("the merge was told as %s", jsonOf(ack))
		}
		if ack.Section.Text == nil || *ack.Section.Text != "# Our notes\n\nIt is a lie.\n" {
			t.Errorf("merged to %s", jsonOf(ack.Section))
		}
	})
}

func TestRetriedRequestsCountOnce(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice := w.join("alice")
		edit := &agent.Edit{Header: agent.Header{ID: "e1"}, Document: slug, Section: "a", Ops: []agent.TextOp{{At: 0, Insert: "x"}}}
		alice.send(edit)
		want[*agent.Ack](alice)
		again := w.join("alice")
		again.send(edit)
		if ack := want[*agent.Ack](again); !ack.Repeated {
			t.Errorf("a retry was acknowledged with %s", jsonOf(ack))
		}
		create := &agent.Create{Header: agent.Header{ID: "c1"}, Document: slug, Text: text("## New\n")}
		alice.send(create)
		made := want[*agent.Ack](alice)
		again.send(create)
		if ack := want[*agent.Ack](again); !ack.Repeated || ack.Section.ID != made.Section.ID {
			t.Errorf("made %s, and again %s", jsonOf(made), jsonOf(ack))
		}
		if got := w.read().Markdown(); got != "x"+firstText+"## More\n\nEnd.\n## New\n" {
			t.Errorf("the document is %q", got)
		}
		again.send(&agent.Edit{Header: agent.Header{ID: "e1"}, Document: slug, Section: "a", Ops: []agent.TextOp{{At: 0, Insert: "y"}}})
		again.wantError("e1", code.IdempotencyMismatch)

		twice := func(r agent.Frame) (first, second *agent.Ack) {
			t.Helper()
			alice.send(r)
			first = want[*agent.Ack](alice)
			again.send(r)
			return first, want[*agent.Ack](again)
		}
		document := &agent.Create{Header: agent.Header{ID: "d1"}, Title: "Made"}
		if first, second := twice(document); first.DocumentID == "" || second.DocumentID != first.DocumentID {
			t.Errorf("made %s, and again %s", jsonOf(first), jsonOf(second))
		}
		message := &agent.Post{Header: agent.Header{ID: "p1"}, Document: slug, Payload: json.RawMessage(`{"text":"hello"}`)}
		if first, second := twice(message); jsonOf(first) != jsonOf(second) || first.Event == nil {
			t.Errorf("posted %s, and again %s", jsonOf(first), jsonOf(second))
		}
		remove := &agent.Remove{Header: agent.Header{ID: "r1"}, Document: slug, Section: "b"}
		restore := &agent.Restore{Header: agent.Header{ID: "r2"}, Document: slug, Section: "b"}
		if first, second := twice(remove); first.Repeated || !second.Repeated {
			t.Errorf("removed %s, and again %s", jsonOf(first), jsonOf(second))
		}
		if first, second := twice(restore); first.Repeated || !second.Repeated {
			t.Errorf("restored %s, and again %s", jsonOf(first), jsonOf(second))
		}
		again.send(remove)
		if ack := want[*agent.Ack](again); !ack.Repeated || ack.Section.Removed {
			t.Errorf("removed again, after it was restored: %s", jsonOf(ack))
		}
		acquire := &agent.LeaseRequest{Header: agent.Header{ID: "l1"}, Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 60}
		alice.send(acquire)
		granted := want[*agent.Ack](alice)
		again.send(acquire)
		if ack := want[*agent.Ack](again); ack.Lease == nil || ack.Lease.LeaseID != granted.Lease.LeaseID {
			t.Errorf("granted %s, and again %s", jsonOf(granted), jsonOf(ack))
		}
	})
}

func TestStructure(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		_, mirror := bob.openDocument(agent.Open{})
		alice.send(&agent.Create{Document: slug, Section: "c", After: "a", Text: text("## Between\n")})
		want[*agent.Ack](alice)
		alice.send(&agent.Move{Document: slug, Section: "b", After: after("")})
		want[*agent.Ack](alice)
		alice.send(&agent.Remove{Document: slug, Section: "a"})
		want[*agent.Ack](alice)
		bob.follow(mirror)
		if got := mirror.Markdown(); got != "## More\n\nEnd.\n## Between\n" {
			t.Errorf("the document is %q", got)
		}
		alice.send(&agent.Restore{Document: slug, Section: "a"})
		want[*agent.Ack](alice)
		bob.follow(mirror)
		alice.send(&agent.Create{Slug: "other", Markdown: "# One\n## Two\n"})
		made := want[*agent.Ack](alice)
		if made.Slug != "other" || made.DocumentID == "" || made.Version == "" {
			t.Errorf("a document was made: %s", jsonOf(made))
		}
		alice.send(&agent.Create{Header: agent.Header{ID: "x"}, Slug: "other"})
		alice.wantError("x", code.SlugTaken)
	})
}

func after(s agent.SectionID) *agent.SectionID { return &s }

// A client that comes back with a version gets what it missed; with one that is none of the document's, all.
func TestResume(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		_, mirror := bob.openDocument(agent.Open{})
		bob.leave()
		alice.send(&agent.Edit{Document: slug, Section: "b", Replace: []agent.Replacement{{Find: "End", With: "The end"}}})
		want[*agent.Ack](alice)

		back := w.join("bob")
		back.send(&agent.Open{Document: slug, Version: mirror.Version})
		opened := want[*agent.Opened](back)
		if !opened.Resumed || opened.Sections != nil {
			t.Fatalf("opened again with %s", jsonOf(opened))
		}
		back.follow(mirror)
		back.send(&agent.Open{Document: slug, Version: mirror.Version})
		if opened := want[*agent.Opened](back); !opened.Resumed || opened.Version != mirror.Version {
			t.Errorf("opened at the present version with %s", jsonOf(opened))
		}
		back.wantQuiet()

		other, err := w.library.Create(context.Background(), w.keys["alice"], doc.NewDocument{Slug: "other", Markdown: "# Other\n"})
		w.must(err)
		for _, version := range []crdt.Version{other.Version, "nonsense"} {
			back.send(&agent.Open{Document: slug, Version: version})
			if opened := want[*agent.Opened](back); opened.Resumed || len(opened.Sections) != 2 {
				t.Errorf("opened from %s with %s", version, jsonOf(opened))
			}
		}
	})
}

// While somebody follows the document its latest past is kept, and handed to who resumes as it happened.
func TestResumeFromTheLatestPast(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob, carol := w.join("alice"), w.join("bob"), w.join("carol")
		carol.openDocument(agent.Open{})
		_, mirror := bob.openDocument(agent.Open{})
		_, narrow := alice.openDocument(agent.Open{View: agent.OneSection, Section: "b"})
		bob.leave()
		alice.leave()
		for range 3 {
			for _, section := range []agent.SectionID{"a", "b"} {
				carol.send(&agent.Edit{Document: slug, Section: section, Ops: []agent.TextOp{{Insert: "."}}})
				await[*agent.Ack](carol)
			}
		}
		back := w.join("bob")
		back.send(&agent.Open{Document: slug, Version: mirror.Version})
		if opened := want[*agent.Opened](back); !opened.Resumed {
			t.Fatalf("opened again with %s", jsonOf(opened))
		}
		for range 6 {
			c := want[*agent.Changed](back)
			if len(c.Authors) != 1 || c.Authors[0] != "carol" {
				t.Errorf("handed %s", jsonOf(c))
			}
			w.must(mirror.Apply(c))
		}
		w.wantSame(mirror)
		again := w.join("alice")
		again.send(&agent.Open{Document: slug, View: agent.OneSection, Section: "b", Version: narrow.Version})
		want[*agent.Opened](again)
		for range 3 {
			w.must(narrow.Apply(want[*agent.Changed](again)))
		}
		again.wantQuiet()
		if got := narrow.Markdown(); got != "...## More\n\nEnd.\n" {
			t.Errorf("the section is %q", got)
		}
	})
}

// The latest past is bounded, and a gap in it is none of it.
func TestRecentIsBounded(t *testing.T) {
	var r recent
	version := func(i int) crdt.Version { return crdt.Version(fmt.Sprint(i)) }
	for i := range 2 * recentUpdates {
		u := &doc.Update{From: version(i), To: version(i + 1)}
		r.record(u)
		r.record(u)
	}
	if len(r.all) != recentUpdates {
		t.Errorf("%d updates are kept", len(r.all))
	}
	if got, ok := r.between(version(recentUpdates+2), version(2*recentUpdates-1)); !ok || len(got) != recentUpdates-3 {
		t.Errorf("%d updates between, %v", len(got), ok)
	}
	if _, ok := r.between(version(1), version(2*recentUpdates)); ok {
		t.Error("what is not kept was found")
	}
	large := &doc.Update{From: version(2 * recentUpdates), To: "x", Sections: []doc.SectionUpdate{{Section: doc.Section{Text: strings.Repeat("x", recentBytes)}}}}
	r.record(large)
	if len(r.all) != 0 || r.bytes != 0 {
		t.Errorf("%d updates and %d bytes are kept behind one that is too large", len(r.all), r.bytes)
	}
	r.record(&doc.Update{From: "a", To: "b"})
	r.record(&doc.Update{From: "c", To: "d"})
	if len(r.all) != 1 {
		t.Errorf("%d updates are kept over a gap", len(r.all))
	}
}

func TestOneSectionsView(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		opened, mirror := bob.openDocument(agent.Open{View: agent.OneSection, Section: "b"})
		if len(opened.Sections) != 1 || opened.Sections[0].ID != "b" {
			t.Fatalf("opened with %s", jsonOf(opened))
		}
		for _, section := range []agent.SectionID{"a", "b", "a"} {
			alice.send(&agent.Edit{Document: slug, Section: section, Ops: []agent.TextOp{{At: 0, Insert: "."}}})
			want[*agent.Ack](alice)
		}
		w.must(mirror.Apply(want[*agent.Changed](bob)))
		bob.wantQuiet()
		if got := mirror.Markdown(); got != ".## More\n\nEnd.\n" {
			t.Errorf("the section is %q", got)
		}
		bob.send(&agent.Open{Header: agent.Header{ID: "x"}, Document: slug, View: agent.OneSection, Section: "z"})
		bob.wantError("x", code.SectionNotFound)
	})
}

// The log comes without gap or repeat, from wherever a client says that it is.
func TestLog(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		bob.send(&agent.Open{Document: slug, View: agent.LogOnly})
		opened := want[*agent.Opened](bob)
		for i := range 3 {
			alice.send(&agent.Post{Document: slug, Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
			want[*agent.Ack](alice)
		}
		var last agent.Seq
		for i := range 3 {
			e := want[*agent.Event](bob)
			if e.Event.Type != "message.posted" || string(e.Event.Payload) != fmt.Sprintf(`{"n":%d}`, i) {
				t.Errorf("event %d is %s", i, jsonOf(e))
			}
			last = e.Event.Seq
		}
		bob.wantQuiet()
		bob.send(&agent.Close{Header: agent.Header{ID: "c"}, Document: slug})
		if closed := want[*agent.Closed](bob); closed.ID != "c" || closed.Code != "" {
			t.Errorf("closed with %s", jsonOf(closed))
		}
		alice.send(&agent.Post{Document: slug, Payload: json.RawMessage(`{"n":3}`)})
		want[*agent.Ack](alice)
		bob.wantQuiet()

		bob.send(&agent.Open{Document: slug, View: agent.LogOnly, Since: &last})
		want[*agent.Opened](bob)
		if e := want[*agent.Event](bob); string(e.Event.Payload) != `{"n":3}` {
			t.Errorf("resumed with %s", jsonOf(e))
		}
		zero := agent.Seq("0")
		bob.send(&agent.Open{Document: slug, View: agent.LogOnly, Since: &zero})
		want[*agent.Opened](bob)
		for seq := 1; ; seq++ {
			e := want[*agent.Event](bob)
			if string(e.Event.Seq) != fmt.Sprint(seq) {
				t.Fatalf("event %d has seq %s", seq, e.Event.Seq)
			}
			if string(e.Event.Payload) == `{"n":3}` {
				break
			}
		}
		bob.wantQuiet()
		if opened.LastSeq == "" || opened.Sections != nil {
			t.Errorf("the log was opened with %s", jsonOf(opened))
		}
	})
}

func TestLeases(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		ask := agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 60, Reason: "writing"}
		alice.send(&ask)
		got := want[*agent.Ack](alice).Lease
		if got == nil || got.Holder != "alice" || got.ExpiresInMs != 60_000 || got.Fence == 0 || got.SectionID != "a" {
			t.Fatalf("granted %s", jsonOf(got))
		}
		bob.send(&ask)
		refused := bob.wantError("", code.SectionLeased)
		if refused.Facts["holder"] != "alice" || refused.Facts["reason"] != "writing" || refused.Facts["expiresInMs"] == nil {
			t.Errorf("refused with %v", refused.Facts)
		}
		bob.send(&agent.Edit{Document: slug, Section: "a", Ops: []agent.TextOp{{Insert: "!"}}})
		if ack := want[*agent.Ack](bob); ack.Advisory == nil || ack.Advisory.Kind != "leased" || ack.Advisory.Holder != "alice" {
			t.Errorf("a write under another's lease was acknowledged with %s", jsonOf(ack))
		}

		waiting := ask
		waiting.ID, waiting.Queue = "w", true
		bob.send(&waiting)
		if q := want[*agent.Queued](bob); q.ID != "w" || q.Position != 1 || q.Holder != "alice" {
			t.Errorf("queued with %s", jsonOf(q))
		}
		time.Sleep(50 * time.Second) // bob's place lives as long as his socket
		alice.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Renew, LeaseDurationSeconds: 100})
		want[*agent.Ack](alice)
		time.Sleep(90 * time.Second)
		alice.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Release, LeaseID: got.LeaseID})
		if ack := want[*agent.Ack](alice); !ack.Released {
			t.Errorf("released with %s", jsonOf(ack))
		}
		if ack := want[*agent.Ack](bob); ack.ID != "w" || ack.Lease == nil || ack.Lease.Holder != "bob" {
			t.Errorf("bob was granted %s", jsonOf(ack))
		}
		bob.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Transfer, To: "carol"})
		if ack := want[*agent.Ack](bob); ack.Lease == nil || ack.Lease.Holder != "carol" {
			t.Errorf("handed %s", jsonOf(ack))
		}
		bob.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Transfer, To: "vera", Header: agent.Header{ID: "t"}})
		bob.wantError("t", code.InvalidAgent)
		under := agent.Remove{Document: slug, Section: "a", Fence: got.Fence} // carol's came since
		for _, write := range []agent.Request{&under, (*agent.Restore)(&under)} {
			alice.send(write)
			if ack := want[*agent.Ack](alice); ack.Advisory == nil || ack.Advisory.Kind != "stale_fence" || ack.Advisory.Holder != "carol" {
				t.Errorf("a write under an old fence was acknowledged with %s", jsonOf(ack))
			}
		}
		bob.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Leave})
		if ack := want[*agent.Ack](bob); ack.Left == nil || *ack.Left {
			t.Errorf("left nothing with %s", jsonOf(ack))
		}
	})
}

// A wait that is bounded ends with a refusal that says who is in the way.
func TestBoundedWait(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		ask := agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 300}
		alice.send(&ask)
		want[*agent.Ack](alice)
		ask.ID, ask.WaitSeconds = "w", 100
		began := time.Now()
		bob.send(&ask)
		refused := bob.wantError("w", code.SectionLeased)
		if took := time.Since(began); took != 100*time.Second || refused.Facts["position"] != 1. {
			t.Errorf("refused after %v with %v", took, refused.Facts)
		}
	})
}

// Who waits and is gone loses the place, and the next one gets the lease.
func TestWaiterThatIsGoneLosesItsPlace(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob, carol := w.join("alice"), w.join("bob"), w.join("carol")
		ask := agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 60}
		alice.send(&ask)
		want[*agent.Ack](alice)
		ask.Queue = true
		bob.send(&ask)
		want[*agent.Queued](bob)
		synctest.Wait()
		carol.send(&ask)
		if q := want[*agent.Queued](carol); q.Position != 2 {
			t.Errorf("queued with %s", jsonOf(q))
		}
		synctest.Wait()
		resource := doc.SectionResource(w.id(), "a")
		if queue := w.keeper.Status(resource).Queue; len(queue) != 2 {
			t.Fatalf("the queue is %+v", queue)
		}
		bob.leave()
		synctest.Wait()
		if queue := w.keeper.Status(resource).Queue; len(queue) != 1 || queue[0].Agent != "carol" {
			t.Errorf("the queue is %+v", queue)
		}
		alice.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Release})
		want[*agent.Ack](alice)
		if ack := want[*agent.Ack](carol); ack.Lease == nil {
			t.Errorf("carol got %s", jsonOf(ack))
		}
	})
}

func TestLostLeasesAreTold(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, second := w.join("alice"), w.join("alice")
		alice.send(&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 5})
		held := want[*agent.Ack](alice).Lease
		for _, c := range []*client{alice, second} {
			lost := want[*agent.LeaseLost](c).LeaseLost
			if len(lost) != 1 || lost[0].LeaseID != held.LeaseID || lost[0].Action != lease.Expired || lost[0].Resource != "section:notes/a" {
				t.Errorf("told %s", jsonOf(lost))
			}
		}
		alice.leave()
		second.leave()
		w.mustOf(w.keeper.Do(context.Background(), lease.Acquire{Resource: doc.SectionResource(w.id(), "b"), Agent: "alice", Duration: time.Second}))
		time.Sleep(2 * time.Second)
		back := w.join("alice")
		if lost := want[*agent.LeaseLost](back).LeaseLost; len(lost) == 0 || lost[len(lost)-1].SectionID != "b" {
			t.Errorf("told on return %s", jsonOf(lost))
		}
	})
}

func (w *world) mustOf(_ any, err error) { w.Helper(); w.must(err) }

// A presence reaches who has the document open, also later; it ends by itself, when it is taken back, and with the socket.
func TestPresence(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice, bob := w.join("alice"), w.join("bob")
		alice.send(&agent.Presence{Header: agent.Header{ID: "p"}, Document: slug, State: json.RawMessage(`1`)})
		alice.wantError("p", code.BadRequest)
		alice.openDocument(agent.Open{})
		bob.openDocument(agent.Open{})
		alice.send(&agent.Presence{Document: slug, Section: "a", State: json.RawMessage(`{"at":3}`), TTLSeconds: 10})
		p := want[*agent.Present](bob)
		if p.Agent != "alice" || p.Section != "a" || string(p.State) != `{"at":3}` || p.ExpiresInMs != 10_000 || p.Document != slug {
			t.Errorf("bob heard %s", jsonOf(p))
		}
		carol := w.join("carol")
		carol.openDocument(agent.Open{View: agent.LogOnly})
		if late := want[*agent.Present](carol); late.Session != p.Session {
			t.Errorf("carol heard %s", jsonOf(late))
		}
		time.Sleep(11 * time.Second)
		if gone := want[*agent.Present](bob); !gone.Gone || gone.Session != p.Session {
			t.Errorf("bob heard %s", jsonOf(gone))
		}
		want[*agent.Present](carol)
		alice.send(&agent.Presence{Document: slug, State: json.RawMessage(`2`)})
		want[*agent.Present](bob)
		want[*agent.Present](carol)
		alice.send(&agent.Presence{Document: slug})
		if gone := want[*agent.Present](bob); !gone.Gone {
			t.Errorf("bob heard %s", jsonOf(gone))
		}
		want[*agent.Present](carol)
		alice.send(&agent.Presence{Document: slug, State: json.RawMessage(`3`)})
		want[*agent.Present](bob)
		alice.leave()
		if gone := want[*agent.Present](bob); !gone.Gone {
			t.Errorf("bob heard %s", jsonOf(gone))
		}
		bob.wantQuiet()
	})
}

func TestViewersReadOnly(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		vera, alice := w.join("vera"), w.join("alice")
		opened, mirror := vera.openDocument(agent.Open{})
		if opened.Me.CanWrite {
			t.Errorf("a viewer was told %s", jsonOf(opened.Me))
		}
		for _, f := range []agent.Frame{
			&agent.Edit{Document: slug, Section: "a", Ops: []agent.TextOp{{Insert: "!"}}},
			&agent.Create{Document: slug, Text: text("x")},
			&agent.Create{Slug: "mine"},
			&agent.Move{Document: slug, Section: "a", After: after("b")},
			&agent.Remove{Document: slug, Section: "a"},
			&agent.Restore{Document: slug, Section: "a"},
			&agent.LeaseRequest{Document: slug, Section: "a", Action: agent.Acquire, LeaseDurationSeconds: 5},
			&agent.Post{Document: slug, Payload: json.RawMessage(`{}`)},
		} {
			vera.send(f)
			vera.wantError("", code.Forbidden)
		}
		alice.send(&agent.Edit{Document: slug, Section: "a", Ops: []agent.TextOp{{Insert: "!"}}})
		want[*agent.Ack](alice)
		vera.follow(mirror)
	})
}

func TestDeletedDocument(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice := w.join("alice")
		zero := agent.Seq("0")
		alice.openDocument(agent.Open{Since: &zero})
		w.must(w.library.Delete(context.Background(), w.keys["alice"], w.id()))
		if closed := await[*agent.Closed](alice); closed.Code != code.DocumentDeleted || closed.Document != slug {
			t.Errorf("closed with %s", jsonOf(closed))
		}
		alice.wantQuiet()
		alice.send(&agent.Open{Header: agent.Header{ID: "o"}, Document: slug})
		alice.wantError("o", code.DocumentDeleted)
		alice.send(&agent.Open{Header: agent.Header{ID: "n"}, Document: "nowhere"})
		alice.wantError("n", code.DocumentNotFound)
	})
}

// Wrong input is answered with a code, and the socket lives.
func TestWrongInput(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		alice := w.join("alice")
		other, err := w.library.Create(context.Background(), w.keys["alice"], doc.NewDocument{Slug: "other", Markdown: "# Other\n"})
		w.must(err)
		gone := crdt.VersionOf([]crdt.Hash{{1, 2, 3}})
		tenMB := strings.Repeat("0123456789", 1<<20)
		for _, c := range []struct {
			id   agent.RequestID
			text string
			want code.Code
		}{
			{"", ``, code.InvalidJSON},
			{"", `hello`, code.InvalidJSON},
			{"", `[]`, code.InvalidJSON},
			{"", `17`, code.InvalidJSON},
			{"", `{"type":"edit"`, code.InvalidJSON},
			{"", "{\"type\":\"edit\xff\"}", code.InvalidJSON},
			{"", `{}`, code.BadRequest},
			{"1", `{"id":"1"}`, code.BadRequest},
			{"1", `{"id":"1","type":"fly"}`, code.BadRequest},
			{"", `{"id":7,"type":"edit"}`, code.BadRequest},
			{"", `{"id":"","type":"close","document":"notes"}`, code.BadRequest},
			{"", `{"id":"` + strings.Repeat("x", 300) + `","type":"close","document":"notes"}`, code.BadRequest},
			{"1", `{"id":"1","type":"ack"}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit"}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a"}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","text":"x","ops":[]}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","text":"x"}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","section":"a","text":"x"}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","txet":"x"}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"A B","text":"x"}`, code.InvalidSectionID},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","text":"x"}`, code.BaseRequired},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","text":"x","base":"` + string(other.Version) + `"}`, code.InvalidVersion},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","text":"x","base":"` + string(gone) + `"}`, code.InvalidVersion},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","text":"x","base":"nonsense"}`, code.InvalidVersion},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","ops":[{"at":1e300}]}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","ops":[{"at":9223372036854775807,"delete":9223372036854775807}]}`, code.InvalidRange},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","ops":[{"at":-1}]}`, code.InvalidRange},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","replace":[{"find":"nowhere","with":"x"}]}`, code.TextNotFound},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","replace":[{"find":"t","with":"x"}]}`, code.TextAmbiguous},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","replace":[{"find":"t","with":"x","occurrence":-1}]}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","fence":18446744073709551616,"ops":[]}`, code.BadRequest},
			{"1", `{"id":"1","type":"edit","document":"notes","section":"a","base":"current","text":"` + tenMB + `"}`, code.TooLarge},
			{"1", `{"id":"1","type":"create","markdown":"` + tenMB + `"}`, code.TooLarge},
			{"1", `{"id":"1","type":"create","document":"notes"}`, code.BadRequest},
			{"1", `{"id":"1","type":"create","section":"a","text":"x"}`, code.BadRequest},
			{"1", `{"id":"1","type":"create","document":"notes","section":"a","text":"x"}`, code.SectionExists},
			{"1", `{"id":"1","type":"create","slug":"NO"}`, code.InvalidSlug},
			{"1", `{"id":"1","type":"move","document":"notes","section":"a"}`, code.BadRequest},
			{"1", `{"id":"1","type":"move","document":"notes","section":"a","after":"z"}`, code.SectionNotFound},
			{"1", `{"id":"1","type":"remove","document":"notes","section":"z"}`, code.SectionNotFound},
			{"1", `{"id":"1","type":"restore","document":"nowhere","section":"z"}`, code.DocumentNotFound},
			{"1", `{"id":"1","type":"open"}`, code.BadRequest},
			{"1", `{"id":"1","type":"open","document":"notes","view":"half"}`, code.BadRequest},
			{"1", `{"id":"1","type":"open","document":"notes","view":"section"}`, code.BadRequest},
			{"1", `{"id":"1","type":"open","document":"notes","since":"-1"}`, code.InvalidCursor},
			{"1", `{"id":"1","type":"open","document":"notes","since":"99999999999999999999"}`, code.InvalidCursor},
			{"1", `{"id":"1","type":"open","document":"notes","since":"99999"}`, code.InvalidCursor},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a"}`, code.BadRequest},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a","action":"steal"}`, code.BadRequest},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a","action":"acquire","leaseDurationSeconds":1e9}`, code.InvalidDuration},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a","action":"acquire","leaseDurationSeconds":5,"waitSeconds":1e99}`, code.BadRequest},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a","action":"renew","leaseDurationSeconds":5}`, code.NoActiveLease},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a","action":"release"}`, code.NoActiveLease},
			{"1", `{"id":"1","type":"lease","document":"notes","section":"a","action":"transfer"}`, code.BadRequest},
			{"1", `{"id":"1","type":"presence","document":"notes","state":"` + strings.Repeat("x", 5000) + `"}`, code.TooLarge},
			{"1", `{"id":"1","type":"presence","document":"notes","ttlSeconds":1e9}`, code.BadRequest},
			{"1", `{"id":"1","type":"post","document":"notes"}`, code.BadRequest},
			{"1", `{"id":"1","type":"post","document":"notes","payload":[1]}`, code.BadRequest},
			{"1", `{"id":"1","type":"post","document":"notes","payload":{"x":"` + strings.Repeat("x", 70_000) + `"}}`, code.TooLarge},
			{"1", `{"id":"1","type":"close","document":"` + strings.Repeat("[", 100) + `","x":` + strings.Repeat("[", 20_000) + `}`, code.InvalidJSON},
		} {
			alice.sendText(c.text)
			e := want[*agent.Error](alice)
			if e.ID != c.id && c.want != code.InvalidJSON || e.Code != c.want {
				t.Errorf("%.120s was answered %s %q (id %q), want %s", c.text, e.Code, e.Message, e.ID, c.want)
			}
			if e.Message == "" || strings.Contains(e.Message, "agent.") {
				t.Errorf("%.120s was answered %q", c.text, e.Message)
			}
		}
		if got := w.read().Markdown(); got != firstText+"## More\n\nEnd.\n" {
			t.Errorf("the document is now %q", got)
		}
		alice.send(&agent.Edit{Document: slug, Section: "a", Ops: []agent.TextOp{{Insert: "!"}}})
		want[*agent.Ack](alice)
	})
}
