package agentsocket

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/sync/agent"
	"cowrite/sync/hub"
)

// Whoever applies every changed frame has the text that REST has, always: whatever several agents and an Automerge
// replica write, on whatever bases, and wherever a client leaves and resumes.
func TestMirrorsStayExact(t *testing.T) {
	inWorld(t, hub.Limits{}, func(w *world) {
		documents := 0
		writers := []*client{w.join("alice"), w.join("bob"), w.join("carol")}
		reader := w.join("vera")
		rapid.Check(t, func(t *rapid.T) {
			documents++
			p := newPlay(w, t, fmt.Sprintf("d%d", documents))
			p.writers, p.reader = writers, reader
			p.open("")
			if rapid.Bool().Draw(t, "someone stays") { // and so the latest past is kept
				writers[0].send(&agent.Open{Document: p.name})
				await[*agent.Opened](writers[0])
			}
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				p.step()
			}
			p.settle()
			for _, c := range append(writers, reader) {
				c.send(&agent.Close{Document: p.name})
				await[*agent.Closed](c)
			}
			p.replica.attachment.Detach()
		})
	})
}

// play is a document that is written to at random, and everyone's copy of it.
type play struct {
	w        *world
	t        *rapid.T
	name     agent.Document
	id       crdt.DocumentID
	writers  []*client
	reader   *client
	mirror   agent.Mirror
	versions []crdt.Version
	replica  *replica
}

func newPlay(w *world, t *rapid.T, slug string) *play {
	ctx := context.Background()
	snap, err := w.library.Create(ctx, w.keys["alice"], doc.NewDocument{Slug: doc.Slug(slug), Markdown: "# One\n\nälpha beta\n## Two\n\n\U0001F600 gamma delta\n"})
	w.must(err)
	p := &play{w: w, t: t, name: agent.Document(slug), id: snap.Meta.ID, versions: []crdt.Version{snap.Version}}
	p.replica = &replica{doc: automerge.New(), id: p.id}
	p.replica.state = automerge.NewSyncState(p.replica.doc)
	p.replica.attachment, err = w.library.Attach(ctx, w.keys["carol"], p.id, p.replica, false)
	w.must(err)
	w.must(p.replica.sync())
	return p
}

func (p *play) read() doc.Snapshot {
	snap, err := p.w.library.Read(context.Background(), p.w.keys["alice"], p.id)
	p.w.must(err)
	return snap
}

// open has the reader open the document, from a version that it has.
func (p *play) open(from crdt.Version) {
	p.reader.send(&agent.Open{Document: p.name, Version: from})
	opened := await[*agent.Opened](p.reader)
	if opened.Resumed != (from != "") {
		p.t.Fatalf("opened from %q with resumed %v", from, opened.Resumed)
	}
	p.mirror.Begin(opened)
}

// follow applies what has arrived.
func (p *play) follow() {
	synctest.Wait()
	for {
		select {
		case r, ok := <-p.reader.frames:
			if !ok {
				p.t.Fatalf("the reader was closed: %v", p.reader.end)
			}
			if c, isChange := r.frame.(*agent.Changed); isChange && c.Document == p.name {
				if err := p.mirror.Apply(c); err != nil {
					p.t.Fatalf("%v: %s", err, r.raw)
				}
			}
		default:
			return
		}
	}
}

// step is something that somebody does, after which the mirror is what a reader of REST gets.
func (p *play) step() {
	snap := p.read()
	p.versions = append(p.versions, snap.Version)
	switch what := rapid.SampledFrom([]string{"edit", "edit", "edit", "edit", "structure", "type", "type", "leave"}).Draw(p.t, "what"); what {
	case "edit":
		p.edit(snap)
	case "structure":
		p.structure(snap)
	case "type":
		p.replica.write(p.t)
		if rapid.Bool().Draw(p.t, "sync") {
			p.w.must(p.replica.sync())
		}
	case "leave":
		p.follow()
		p.reader.send(&agent.Close{Document: p.name})
		for closed := false; !closed; {
			switch f := p.reader.next().frame.(type) {
			case *agent.Closed:
				closed = true
			case *agent.Changed:
				p.w.must(p.mirror.Apply(f))
			}
		}
		p.edit(snap)
		p.open(p.mirror.Version)
	}
	p.check()
}

func (p *play) check() {
	p.follow()
	snap := p.read()
	if p.mirror.Version != snap.Version || p.mirror.Markdown() != snap.Markdown() || len(p.mirror.Removed()) != len(snap.Removed) {
		p.t.Fatalf("the mirror has\n%q at %s\nREST has\n%q at %s", p.mirror.Markdown(), p.mirror.Version, snap.Markdown(), snap.Version)
	}
	for _, s := range snap.Removed {
		if m, _ := p.mirror.Section(agent.SectionID(s.ID)); m.Text != s.Text || !m.Removed {
			p.t.Fatalf("the mirror has %+v, REST %+v", m, s)
		}
	}
}

// settle lets the replica's last words in.
func (p *play) settle() {
	p.w.must(p.replica.sync())
	p.check()
	body, err := p.replica.text()
	p.w.must(err)
	for sid, text := range body {
		if m, _ := p.mirror.Section(agent.SectionID(sid)); m.Text != text {
			p.t.Fatalf("the mirror has %q, the replica %q", m.Text, text)
		}
	}
}

var words = rapid.SampledFrom([]string{"", "x", "é", "\U0001F600", "word ", "\n", "# ", "two words", "\U0001F469\u200d\U0001F680"})

// edit is one of the three forms, on a base that any version may be.
func (p *play) edit(now doc.Snapshot) {
	all := append(append([]doc.Section{}, now.Sections...), now.Removed...)
	sid := rapid.SampledFrom(all).Draw(p.t, "section").ID
	base := rapid.SampledFrom(p.versions).Draw(p.t, "base")
	then, err := p.w.library.ReadAt(context.Background(), p.w.keys["alice"], p.id, base)
	p.w.must(err)
	old, there := "", false
	for _, s := range append(then.Sections, then.Removed...) {
		if s.ID == sid {
			old, there = s.Text, true
		}
	}
	if !there {
		return
	}
	e := &agent.Edit{Document: p.name, Section: agent.SectionID(sid), Base: base}
	length := utf8.RuneCountInString(old)
	at := rapid.IntRange(0, length).Draw(p.t, "at")
	op := agent.TextOp{At: at, Delete: rapid.IntRange(0, min(5, length-at)).Draw(p.t, "delete"), Insert: words.Draw(p.t, "insert")}
	switch rapid.IntRange(0, 2).Draw(p.t, "form") {
	case 0:
		e.Ops = []agent.TextOp{op}
	case 1:
		whole, err := agent.ApplyOps(old, []agent.TextOp{op})
		p.w.must(err)
		e.Text = &whole
	case 2:
		if length == 0 {
			return
		}
		from := rapid.IntRange(0, length-1).Draw(p.t, "from")
		e.Replace = []agent.Replacement{{Find: string([]rune(old)[from:min(length, from+8)]), With: op.Insert, Occurrence: 1}}
	}
	c := rapid.SampledFrom(p.writers).Draw(p.t, "writer")
	c.send(e)
	await[*agent.Ack](c)
}

func (p *play) structure(now doc.Snapshot) {
	all := append(append([]doc.Section{}, now.Sections...), now.Removed...)
	pick := func() agent.SectionID { return agent.SectionID(rapid.SampledFrom(all).Draw(p.t, "section").ID) }
	c := rapid.SampledFrom(p.writers).Draw(p.t, "writer")
	sid := pick()
	switch rapid.IntRange(0, 3).Draw(p.t, "structure") {
	case 0:
		c.send(&agent.Create{Document: p.name, After: sid, Text: text("## " + words.Draw(p.t, "heading") + "\n")})
	case 1:
		c.send(&agent.Remove{Document: p.name, Section: sid})
	case 2:
		c.send(&agent.Restore{Document: p.name, Section: sid})
	case 3:
		behind := pick()
		if behind == sid {
			behind = ""
		}
		c.send(&agent.Move{Document: p.name, Section: sid, After: &behind})
	}
	await[*agent.Ack](c)
}

// replica is an Automerge document of somebody's own, which syncs when it is told to.
type replica struct {
	doc        *automerge.Doc
	state      *automerge.SyncState
	id         crdt.DocumentID
	attachment *doc.Attachment

	mu    sync.Mutex
	inbox [][]byte
}

func (r *replica) Deliver(_ crdt.DocumentID, message []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, message)
	return true
}

func (r *replica) Gone(crdt.DocumentID, error) {}

// sync says and hears all that there is.
func (r *replica) sync() error {
	for {
		said := false
		for m, more := r.state.GenerateMessage(); more; m, more = r.state.GenerateMessage() {
			if err := r.attachment.Receive(context.Background(), m.Bytes()); err != nil {
				return err
			}
			said = true
		}
		synctest.Wait()
		r.mu.Lock()
		heard := r.inbox
		r.inbox = nil
		r.mu.Unlock()
		for _, m := range heard {
			if _, err := r.state.ReceiveMessage(m); err != nil {
				return err
			}
		}
		if !said && len(heard) == 0 {
			return nil
		}
	}
}

// write changes something in some section's body.
func (r *replica) write(t *rapid.T) {
	sections := r.doc.Path("sections").Map()
	names, err := sections.Keys()
	if err != nil {
		t.Fatal(err)
	}
	body := r.doc.Path("sections", rapid.SampledFrom(names).Draw(t, "section"), "body").Text()
	length := body.Len()
	at := rapid.IntRange(0, length).Draw(t, "at")
	if err := body.Splice(at, rapid.IntRange(0, min(3, length-at)).Draw(t, "delete"), words.Draw(t, "insert")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.doc.Commit(""); err != nil {
		t.Logf("nothing to commit: %v", err)
	}
}

// text is what the replica has, by section.
func (r *replica) text() (map[string]string, error) {
	names, err := r.doc.Path("sections").Map().Keys()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range names {
		if out[name], err = r.doc.Path("sections", name, "body").Text().Get(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
