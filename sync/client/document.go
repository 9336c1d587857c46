package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/sync/agent"
)

// eventQueue is how many events wait to be read from one document. What comes beyond is asked for again when they
// have been read: the log has it.
const eventQueue = 1024

// Open says how a document is followed. The zero value follows the whole text.
type Open struct {
	Section agent.SectionID // not "": this section alone
	LogOnly bool            // no text
	Events  bool            // the log too, from After on; with LogOnly it always is
	After   agent.Seq       // the last event that is known; "": from the first. See Next for one that the server does not know
}

// Document is a document that is followed: its text is kept exact by what the server sends.
type Document struct {
	c    *Client
	name agent.Document
	how  Open

	mu      sync.Mutex // taken after the client's, never the other way round
	opening agent.RequestID
	mirror  agent.Mirror
	ready   bool          // it was opened once
	live    bool          // it was opened since it was last asked for: what comes before belongs to the time before
	opens   int           // how often it was
	behind  crdt.Version  // what it is to reach since it was last opened; "": nothing
	change  chan struct{} // closed, and replaced, whenever something changed
	events  []agent.EventRecord
	read    agent.Seq // the last event that was given to Next
	lagging bool      // events were dropped behind those that wait
	err     error     // why it is followed no longer
	retries int

	openers int // calls of Open that have it or wait for it; the client's mutex guards it
}

// Open follows a document and returns when its text is there. Opening one again gives the same Document.
// DOCUMENT_NOT_FOUND, DOCUMENT_DELETED, SECTION_NOT_FOUND, FORBIDDEN.
func (c *Client) Open(ctx context.Context, name agent.Document, how Open) (*Document, error) {
	d := &Document{c: c, name: name, how: how, change: make(chan struct{}), read: how.After}
	if d.read == "" {
		d.read = "0"
	}
	c.mu.Lock()
	if c.fatal != nil {
		defer c.mu.Unlock()
		return nil, c.fatal
	}
	former := c.documents[name]
	if former == nil {
		c.documents[name] = d
	} else {
		d = former
	}
	d.openers++
	c.mu.Unlock()
	if former == nil {
		c.sendNow(d.openFrame())
	}
	err := d.until(ctx, func() bool { return d.ready })
	if err != nil {
		d.release(false)
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return d, nil
}

// openFrame asks for the document from where it is.
func (d *Document) openFrame() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.openFrameAt(d.mirror.Version)
}

func (d *Document) openFrameAt(v crdt.Version) []byte {
	d.opening, d.live = newID(), false
	f := &agent.Open{Header: agent.Header{ID: d.opening}, Document: d.name, View: agent.Whole, Version: v}
	switch {
	case d.how.LogOnly:
		f.View = agent.LogOnly
	case d.how.Section != "":
		f.View, f.Section = agent.OneSection, d.how.Section
	}
	if d.how.Events || d.how.LogOnly {
		since := d.read
		if n := len(d.events); n > 0 {
			since = d.events[n-1].Seq
		}
		f.Since, d.lagging = &since, false
	}
	b, err := agent.Encode(f)
	if err != nil { // strings alone: they always encode
		panic(err)
	}
	return b
}

// Name is how the document was opened.
func (d *Document) Name() agent.Document { return d.name }

// Close follows the document no longer, whoever else has opened it.
func (d *Document) Close() { d.release(true) }

// release takes back one call of Open. The document is followed no longer when that was the last, or for all of them.
func (d *Document) release(all bool) {
	d.c.mu.Lock()
	d.openers--
	if d.c.documents[d.name] != d || d.openers > 0 && !all {
		d.c.mu.Unlock()
		return
	}
	delete(d.c.documents, d.name)
	d.c.mu.Unlock()
	if b, err := agent.Encode(&agent.Close{Document: d.name}); err == nil {
		d.c.sendNow(b)
	}
	d.fail(ErrClosed)
}

// Version is the version that the text is at.
func (d *Document) Version() crdt.Version {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mirror.Version
}

// Title is the document's title.
func (d *Document) Title() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mirror.Title
}

// Markdown is the whole text.
func (d *Document) Markdown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mirror.Markdown()
}

// Sections are the sections that are not removed, in order.
func (d *Document) Sections() []agent.Section {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mirror.Sections()
}

// Section is one section, removed or not, and the version at which it is so: what an edit of it is based on.
func (d *Document) Section(sid agent.SectionID) (s agent.Section, at crdt.Version, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok = d.mirror.Section(sid)
	return s, d.mirror.Version, ok
}

// until waits until a condition holds: it is asked, under the document's mutex, now and whenever something changed.
func (d *Document) until(ctx context.Context, holds func() bool) error {
	for {
		d.mu.Lock()
		ok, change, err := holds(), d.change, d.err
		d.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitText waits until a section's text is as wanted, and returns it.
func (d *Document) WaitText(ctx context.Context, sid agent.SectionID, wanted func(text string) bool) (string, error) {
	var text string
	err := d.until(ctx, func() bool {
		s, ok := d.mirror.Section(sid)
		text = s.Text
		return ok && wanted(text)
	})
	return text, err
}

// WaitVersion waits until the text is at another version than at.
func (d *Document) WaitVersion(ctx context.Context, at crdt.Version) error {
	return d.until(ctx, func() bool { return d.mirror.Version != at })
}

// CatchUp waits until the text has everything that was acknowledged before the call, to whomever: one's own edits, for
// example, whose acknowledgement may overtake the change that they made.
func (d *Document) CatchUp(ctx context.Context) error {
	d.mu.Lock()
	before, at := d.opens, d.mirror.Version
	if d.how.Section != "" {
		at = "" // of a part nobody says when all that concerns it has been told
	}
	frame := d.openFrameAt(at)
	d.mu.Unlock()
	d.c.sendNow(frame) // it is answered behind whatever was acknowledged
	return d.until(ctx, func() bool { return d.opens > before && d.behind == "" })
}

// Next waits for the next event of the log: in order, without gap or repeat, also over broken lines. Where the server's log has
// not come to the last event that is known, because it was restored from a backup, Next begins anew with the first.
func (d *Document) Next(ctx context.Context) (agent.EventRecord, error) {
	if !d.how.Events && !d.how.LogOnly {
		return agent.EventRecord{}, errors.New("the document was opened without its log")
	}
	var e agent.EventRecord
	err := d.until(ctx, func() bool {
		if len(d.events) == 0 {
			return false
		}
		e, d.events = d.events[0], d.events[1:]
		d.read = e.Seq
		return true
	})
	if err != nil {
		return e, err
	}
	d.mu.Lock()
	again := d.lagging && len(d.events) == 0
	d.mu.Unlock()
	if again {
		d.c.sendNow(d.openFrame())
	}
	return e, nil
}

// changedNow wakes who waits. The mutex is held.
func (d *Document) changedNow() {
	close(d.change)
	d.change = make(chan struct{})
}

func (d *Document) isOpening(id agent.RequestID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return id != "" && id == d.opening
}

func (d *Document) opened(f *agent.Opened) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.ID != d.opening {
		return // it was opened anew meanwhile
	}
	if d.behind = ""; f.Resumed && f.Version != d.mirror.Version {
		d.behind = f.Version
	}
	d.mirror.Begin(f)
	d.ready, d.live, d.retries = true, true, 0
	d.opens++
	d.changedNow()
}

func (d *Document) changed(f *agent.Changed) {
	d.mu.Lock()
	if !d.live {
		d.mu.Unlock()
		return
	}
	err := d.mirror.Apply(f)
	if err == nil {
		if d.behind == f.To {
			d.behind = ""
		}
		d.changedNow()
	} else {
		d.mirror.Version = "" // it cannot go on from here: all of it is asked for
	}
	d.mu.Unlock()
	if err != nil {
		d.c.opts.Log.Warn("mirror begins anew", "document", d.name, "err", err)
		d.c.sendNow(d.openFrame())
	}
}

func (d *Document) event(e agent.EventRecord) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.live || d.lagging || len(d.events) >= eventQueue {
		d.lagging = d.live
		return
	}
	d.events = append(d.events, e)
	d.changedNow()
}

// closed deals with the server's following the document no longer, or not opening it: it is opened again, if that is
// worth a try.
func (d *Document) closed(why *code.Error) {
	if _, shorter := why.Facts["lastSeq"]; shorter && why.Code == code.InvalidCursor {
		d.anew()
		d.c.sendNow(d.openFrame())
		return
	}
	if !comesBack(why) {
		d.fail(why)
		return
	}
	d.mu.Lock()
	attempt := d.retries
	d.retries++
	d.mu.Unlock()
	d.c.all.Go(func() {
		if d.c.pause(d.c.ctx, attempt) == nil && d.c.document(d.name) == d {
			d.c.sendNow(d.openFrame())
		}
	})
}

// anew has the log begin with its first event again.
func (d *Document) anew() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read, d.events, d.lagging = "0", nil, false
}

func (d *Document) fail(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = why
		d.changedNow()
	}
}

// Say tells who else has the document open what this agent does, until ttl (1 s to 5 min) has passed or it says
// something else; nil takes it back. It may be lost.
func (d *Document) Say(section agent.SectionID, state any, ttl time.Duration) error {
	f := &agent.Presence{Document: d.name, Section: section, TTLSeconds: ttl.Seconds()}
	if state != nil {
		raw, err := marshal(state)
		if err != nil {
			return err
		}
		f.State = raw
	}
	b, err := agent.Encode(f)
	if err != nil {
		return err
	}
	d.c.sendNow(b)
	return nil
}

// Post appends a message, any JSON object of at most 64 KiB, to the log.
func (d *Document) Post(ctx context.Context, payload any) (agent.EventRecord, error) {
	raw, err := marshal(payload)
	if err != nil {
		return agent.EventRecord{}, err
	}
	id := newID()
	ack, err := d.c.ack(ctx, id, &agent.Post{Header: agent.Header{ID: id}, Document: d.name, Payload: raw})
	if err != nil {
		return agent.EventRecord{}, fmt.Errorf("post: %w", err)
	}
	return *ack.Event, nil
}
