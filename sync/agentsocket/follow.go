package agentsocket

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/agent"
)

// pendingUpdates is how many updates a document may get while it is being opened.
const pendingUpdates = 1024

// eventPage is how many events are read from the log at once.
const eventPage = 100

// followed is a document that is open on a socket.
type followed struct {
	s       *socket
	name    agent.Document // as the client calls it
	id      crdt.DocumentID
	view    agent.View
	section doc.SectionID // of a section's view
	room    *room
	life    context.Context
	die     context.CancelFunc
	log     sync.WaitGroup // who follows the log
	left    sync.Once

	mu      sync.Mutex    // held while no lock is taken but the outbox's and that of the room's encoder
	ready   bool          // it was answered with opened
	over    bool          // it was told that it is closed, or left
	why     *code.Error   // why it was over before it was ready
	pending []*doc.Update // before it was ready
	feed    *doc.Feed     // nil before it was begun, and for the log alone
	last    crdt.Version  // where the client is
}

func (s *socket) followed() []*followed {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*followed, 0, len(s.open))
	for _, f := range s.open {
		all = append(all, f)
	}
	return all
}

// follow opens a document.
func (s *socket) follow(r *agent.Open) error {
	since, err := sinceOf(r)
	if err != nil {
		return err
	}
	meta, section, err := s.find(r.Document, r.Section)
	if err == nil && since != nil {
		err = meta.Reaches(*since)
	}
	if err != nil {
		return err
	}
	if former := s.take(r.Document); former != nil {
		former.leave()
	}
	f := &followed{s: s, name: r.Document, id: meta.ID, view: r.View, section: section}
	f.life, f.die = context.WithCancel(s.life)
	if err := s.enlist(f); err != nil {
		f.die()
		return err
	}
	var others []*agent.Present
	f.room, others = s.rooms.enter(f)
	opened, missed, err := f.begin(r, meta)
	if err == nil {
		err = f.start(opened, missed, others)
	}
	if err != nil {
		f.leave()
		return err
	}
	if since == nil && r.View == agent.LogOnly {
		since = &meta.LastSeq
	}
	if since != nil {
		f.startLog(*since)
	}
	return nil
}

func sinceOf(r *agent.Open) (*doc.Seq, error) {
	if r.Since == nil {
		return nil, nil
	}
	seq, err := doc.ParseSeq(string(*r.Since))
	if err != nil {
		return nil, code.New(code.InvalidCursor, "a position in the log is a decimal number from 0 on").With("field", "since").Because(err)
	}
	return &seq, nil
}

// enlist puts a document on the socket's list.
func (s *socket) enlist(f *followed) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= s.limits.Documents {
		return code.New(code.TooManyDocuments, "a socket may have %d documents open", s.limits.Documents).With("limit", s.limits.Documents)
	}
	s.open[f.name] = f
	return nil
}

// take takes a document off the socket's list; nil if it is not on it.
func (s *socket) take(name agent.Document) *followed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.open[name]
	delete(s.open, name)
	return f
}

// begin reads the document, and what the client missed of it where its version is known. From then on updates arrive.
func (f *followed) begin(r *agent.Open, meta doc.Meta) (*agent.Opened, []*doc.Update, error) {
	s := f.s
	opened := &agent.Opened{
		Header: agent.Header{ID: r.ID}, Document: f.name, DocumentID: meta.ID.String(), Slug: string(meta.Slug), Title: meta.Title, View: f.view,
		LastSeq: agent.Seq(meta.LastSeq.String()), Me: agent.Me{Agent: s.key.Agent, Role: string(s.key.Role), CanWrite: s.key.CanWrite(meta)},
	}
	if f.view == agent.LogOnly {
		return opened, nil, nil
	}
	snap, feed, err := s.Library.Follow(s.work, s.key, meta.ID, f)
	if err != nil {
		return nil, nil, err
	}
	f.keep(feed)
	opened.Title, opened.Version = snap.Meta.Title, snap.Version
	opened.Sections, opened.Removed = sectionsOf(snap.Sections, f.sees), sectionsOf(snap.Removed, f.sees)
	if f.view == agent.OneSection && len(opened.Sections)+len(opened.Removed) == 0 {
		return nil, nil, code.New(code.SectionNotFound, "there is no section %q", f.section).With("sectionId", f.section)
	}
	missed, err := f.missed(r.Version, snap.Version)
	switch {
	case code.Is(err, code.InvalidVersion) || r.Version == "":
		return opened, nil, nil
	case err != nil:
		return nil, nil, err
	}
	opened.Resumed, opened.Sections, opened.Removed = true, nil, nil
	return opened, missed, nil
}

// keep has the leaving close the feed. It closes it itself when the document was told to be gone before the feed was here.
func (f *followed) keep(feed *doc.Feed) {
	f.mu.Lock()
	over := f.over
	if !over {
		f.feed = feed
	}
	f.mu.Unlock()
	if over {
		feed.Close()
	}
}

// missed is what leads from a client's version to the document's; nothing when it is there, or has none.
func (f *followed) missed(from, to crdt.Version) ([]*doc.Update, error) {
	if from == "" || from == to {
		return nil, nil
	}
	if updates, ok := f.room.recent.between(from, to); ok {
		return updates, nil
	}
	u, err := f.s.Library.Diff(f.s.work, f.s.key, f.id, from, to)
	if err != nil {
		return nil, err
	}
	return []*doc.Update{u}, nil
}

// sees says whether a section is in the view.
func (f *followed) sees(sid doc.SectionID) bool {
	return f.view != agent.OneSection || sid == f.section
}

func sectionsOf(all []doc.Section, sees func(doc.SectionID) bool) []agent.Section {
	var out []agent.Section
	for _, s := range all {
		if sees(s.ID) {
			out = append(out, agent.Section{ID: agent.SectionID(s.ID), Heading: s.Heading, Level: s.Level, Text: s.Text, Position: s.Position, Removed: s.Removed})
		}
	}
	return out
}

// start answers the client, and hands it what happened meanwhile.
func (f *followed) start(opened *agent.Opened, missed []*doc.Update, others []*agent.Present) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return f.why
	}
	f.s.say(opened)
	for _, p := range others {
		f.s.say(p)
	}
	f.ready, f.last = true, opened.Version
	if len(missed) > 0 {
		f.last = missed[0].From
	}
	for _, u := range slices.Concat(missed, f.pending) {
		f.hand(u)
	}
	f.pending = nil
	return nil
}

// Updated leaves an update in the socket's outbox. It is called by the document's desk, and does not block.
func (f *followed) Updated(_ crdt.DocumentID, u *doc.Update) bool {
	f.room.recent.record(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
		return false
	case f.ready:
		return f.hand(u)
	case len(f.pending) == pendingUpdates:
		f.s.End(code.New(code.SlowReader, "the document changes faster than it can be opened"))
		return false
	}
	f.pending = append(f.pending, u)
	return true
}

// hand sends an update, unless it is about nothing that the client sees. The mutex is held.
func (f *followed) hand(u *doc.Update) bool {
	if f.view == agent.Whole && f.last == u.From {
		b, err := f.room.encoded(u, f.name)
		if err != nil {
			f.s.End(code.From(err))
			return false
		}
		f.last = u.To
		return f.s.post(b)
	}
	c := changed(u, f.name, f.sees)
	if len(c.Sections) == 0 && c.Title == nil && f.view == agent.OneSection {
		return true // the next one leads on from where the client is
	}
	c.From, f.last = f.last, u.To
	b, err := agent.Encode(c)
	if err != nil {
		f.s.End(code.From(err))
		return false
	}
	return f.s.post(b)
}

// changed is an update as it is sent.
func changed(u *doc.Update, name agent.Document, sees func(doc.SectionID) bool) *agent.Changed {
	c := &agent.Changed{Document: name, From: u.From, To: u.To, Authors: u.Authors, Title: u.Title}
	for _, s := range u.Sections {
		if !sees(s.ID) {
			continue
		}
		change := agent.SectionChange{
			Section: agent.Section{ID: agent.SectionID(s.ID), Heading: s.Heading, Level: s.Level, Text: s.Text, Position: s.Position, Removed: s.Removed},
			Made:    s.Made, Gone: s.Gone,
		}
		for _, op := range s.Ops {
			change.Ops = append(change.Ops, agent.TextOp(op))
		}
		c.Sections = append(c.Sections, change)
	}
	return c
}

// Gone tells the client that the document is followed no longer. It is called by the document's desk, which must not
// wait for the leaving.
func (f *followed) Gone(_ crdt.DocumentID, why error) { f.end(why) }

// end tells the client, once, why the document is closed, and leaves it.
func (f *followed) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	f.over = true
	e := code.From(why)
	if f.ready {
		f.s.say(&agent.Closed{Document: f.name, Code: e.Code, Message: e.Message})
	} else {
		f.why = e
	}
	f.s.gone.Go(f.leave)
}

// leave ends everything of the document on the socket. It waits until nothing more comes of it.
func (f *followed) leave() {
	f.left.Do(func() {
		f.mu.Lock()
		f.over = true
		feed := f.feed
		f.mu.Unlock()
		f.s.mu.Lock()
		if f.s.open[f.name] == f {
			delete(f.s.open, f.name)
		}
		f.s.mu.Unlock()
		f.die()
		f.log.Wait()
		f.s.rooms.leave(f)
		if feed != nil {
			feed.Close()
		}
	})
}

// unfollow closes a document. That it is not open is no error.
func (s *socket) unfollow(r *agent.Close) (agent.Frame, error) {
	if f := s.take(r.Document); f != nil {
		f.leave()
	}
	return &agent.Closed{Header: agent.Header{ID: r.ID}, Document: r.Document}, nil
}

// startLog begins to follow the log, unless the document was left meanwhile.
func (f *followed) startLog(since doc.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.log.Go(func() { f.followLog(f.life, since) })
	}
}

// followLog sends the log behind since, and what is appended to it, until ctx ends. It begins to watch before it reads
// the first page: what is appended in between is in that page, or wakes it, or both; and as every page starts behind
// the last event sent, nothing is sent twice.
func (f *followed) followLog(ctx context.Context, since doc.Seq) {
	wake, stop := f.s.Library.Watch(f.id)
	defer stop()
	for {
		events, more, err := f.s.Library.Events(ctx, f.s.key, f.id, since, eventPage)
		if err == nil {
			err = f.handEvents(ctx, events)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.s.gone.Go(func() { f.end(fmt.Errorf("follow log: %w", err)) }) // the leaving waits for this goroutine
			return
		}
		if len(events) > 0 {
			since = events[len(events)-1].Seq
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
}

// handEvents sends events no faster than the client takes them.
func (f *followed) handEvents(ctx context.Context, events []doc.Event) error {
	for _, e := range events {
		record, err := recordOf(e)
		if err != nil {
			return err
		}
		f.s.out.Rest()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !f.tell(&agent.Event{Document: f.name, Event: *record}) {
			return nil // the leaving ends ctx
		}
	}
	return nil
}

// tell says something about the document, unless the client was told that it is closed: nothing comes behind that.
func (f *followed) tell(frame agent.Frame) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.s.say(frame)
	}
	return !f.over
}

func recordOf(e doc.Event) (*agent.EventRecord, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("marshal event %s: %w", e.Seq, err)
	}
	record := new(agent.EventRecord)
	if err := json.Unmarshal(b, record); err != nil {
		return nil, fmt.Errorf("read event %s: %w", e.Seq, err)
	}
	return record, nil
}
