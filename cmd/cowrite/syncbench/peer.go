// Package syncbench measures servers of the automerge-repo protocol: many clients with real Automerge documents in
// one process type into documents of a server, and note when each change reaches each of the others. The bare
// relay beside it is the floor: the same clients, frames and acknowledgements, and a server that forwards.
package syncbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/automerge/automerge-go"
	"github.com/coder/websocket"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/sync/repo"
)

// answerPause is how long a client gathers what arrives before it answers, as stock clients do (100 ms).
const answerPause = 100 * time.Millisecond

// parserLimits are beyond what any server here sends.
var parserLimits = crdt.Limits{ChangeBytes: 1 << 26}

// client is one client of one document.
type client struct {
	name     repo.PeerID
	document repo.DocumentName
	relayed  bool // the server is the bare relay
	notes    *notes

	socket *websocket.Conn
	server repo.PeerID
	acked  chan struct{} // holds one: the last change is acknowledged
	ended  chan struct{} // closed when nothing is read any more

	mu      sync.Mutex // guards what follows
	graph   *crdt.Graph
	session *crdt.Session
	raws    map[crdt.Hash][]byte
	text    *automerge.Doc // a writer's document, which takes in what arrived when it next types; nil for a viewer
	inbox   []byte         // changes not yet in text, one behind the other
	waiting map[crdt.Hash]time.Time
	dirty   bool // there may be something to say
}

// connect joins the server and begins the conversation about the document.
func connect(ctx context.Context, address string, name repo.PeerID, document repo.DocumentName, n *notes, relayed, writes bool) (*client, error) {
	socket, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	socket.SetReadLimit(-1)
	c := &client{
		name: name, document: document, relayed: relayed, notes: n, socket: socket, acked: make(chan struct{}, 1), ended: make(chan struct{}),
		graph: crdt.NewGraph(), session: crdt.NewSession(false), raws: map[crdt.Hash][]byte{}, waiting: map[crdt.Hash]time.Time{},
	}
	if writes {
		c.text = automerge.New()
	}
	if err := c.send(ctx, repo.Join{SenderID: name, Versions: []string{repo.Version}}); err != nil {
		return nil, errors.Join(err, socket.CloseNow())
	}
	frame, err := c.receive(ctx)
	if err != nil {
		return nil, errors.Join(err, socket.CloseNow())
	}
	peer, ok := frame.(repo.Peer)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the answer to join is %T", frame), socket.CloseNow())
	}
	c.server = peer.SenderID
	return c, nil
}

func (c *client) send(ctx context.Context, f repo.Frame) error {
	data, err := repo.Encode(f)
	if err != nil {
		return err
	}
	return c.socket.Write(ctx, websocket.MessageBinary, data)
}

func (c *client) receive(ctx context.Context) (repo.Frame, error) {
	_, data, err := c.socket.Read(ctx)
	if err != nil {
		return nil, err
	}
	return repo.Decode(data)
}

// read takes in what the server sends until ctx ends or the socket does.
func (c *client) read(ctx context.Context) error {
	defer close(c.ended)
	for {
		frame, err := c.receive(ctx)
		if err != nil {
			return err
		}
		s, ok := frame.(repo.Sync)
		if !ok || s.Document != c.document {
			continue
		}
		if err := c.take(ctx, s.Data); err != nil {
			return err
		}
	}
}

func (c *client) take(ctx context.Context, data []byte) error {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relayed {
		if len(data) == len(crdt.Hash{}) { // the relay's acknowledgement
			c.acknowledged(crdt.Hash(data), now)
			return nil
		}
		changes, _, err := crdt.ParseEntry(data, parserLimits)
		if err != nil {
			return err
		}
		c.add(changes, now)
		c.dirty = true
		return nil
	}
	m, err := crdt.ParseMessage(data, parserLimits)
	if err != nil {
		return err
	}
	changes := m.Changes
	for _, chunk := range m.Documents {
		unpacked, err := engine.New(engine.Options{}).Unpack(ctx, chunk)
		if err != nil {
			return err
		}
		changes = append(unpacked, changes...)
	}
	ready, _, _ := c.graph.Sort(changes)
	c.add(ready, now)
	c.session.Receive(c.graph, m)
	c.dirty = true
	if len(c.waiting) > 0 { // what the server's heads contain is acknowledged
		missing := map[crdt.Hash]bool{}
		for _, h := range c.graph.Since(m.Heads) {
			missing[h] = true
		}
		for h := range c.waiting {
			if !missing[h] {
				c.acknowledged(h, now)
			}
		}
	}
	return nil
}

func (c *client) acknowledged(h crdt.Hash, now time.Time) {
	if sent, ok := c.waiting[h]; ok {
		c.notes.acknowledged(now.Sub(sent))
		delete(c.waiting, h)
		select {
		case c.acked <- struct{}{}:
		default:
		}
	}
}

// add takes changes of others into the graph and notes their arrival.
func (c *client) add(changes []crdt.Change, now time.Time) {
	for _, change := range changes {
		if c.graph.Has(change.Hash) {
			continue
		}
		c.graph.Add(change)
		c.raws[change.Hash] = change.Raw
		c.inbox = append(c.inbox, change.Plain()...)
		c.notes.arrived(change.Hash, now)
	}
}

// Raw and Whole make the client the source of its session.
func (c *client) Raw(hashes []crdt.Hash, _ bool) ([][]byte, error) {
	out := make([][]byte, len(hashes))
	for i, h := range hashes {
		out[i] = c.raws[h]
	}
	return out, nil
}

func (c *client) Whole() ([]byte, error) {
	raws, err := c.Raw(c.graph.From(0), true)
	return slices.Concat(raws...), err
}

// answer says what there is to say, every answerPause, until ctx ends.
func (c *client) answer(ctx context.Context) error {
	tick := time.NewTicker(answerPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := c.say(ctx); err != nil {
				return err
			}
		}
	}
}

func (c *client) say(ctx context.Context) error {
	c.mu.Lock()
	if !c.dirty {
		c.mu.Unlock()
		return nil
	}
	c.dirty = false
	if c.relayed { // it has what it forwards, and is told no more than that it arrived
		c.session.Receive(c.graph, crdt.Message{Heads: c.graph.Heads()})
	}
	data, ok, err := c.session.Generate(c.graph, c)
	c.mu.Unlock()
	if err != nil || !ok {
		return err
	}
	return c.send(ctx, repo.Sync{SenderID: c.name, TargetID: c.server, Document: c.document, Data: data})
}

// begin asks for the document, or says that it is here.
func (c *client) begin(ctx context.Context) error {
	c.mu.Lock()
	data, ok, err := c.session.Generate(c.graph, c)
	empty := c.graph.Len() == 0
	c.mu.Unlock()
	if err != nil || !ok || c.relayed {
		return err
	}
	if empty {
		return c.send(ctx, repo.Request{SenderID: c.name, TargetID: c.server, Document: c.document, Data: data})
	}
	return c.send(ctx, repo.Sync{SenderID: c.name, TargetID: c.server, Document: c.document, Data: data})
}

// write makes a change in the client's document, which has taken in all that arrived, and sends it.
func (c *client) write(ctx context.Context, edit func(*automerge.Doc) error) error {
	c.mu.Lock()
	change, err := c.make(edit)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	now := time.Now()
	c.waiting[change.Hash] = now
	c.notes.sent(change.Hash, now)
	c.mu.Unlock()
	if c.relayed {
		return c.send(ctx, repo.Sync{SenderID: c.name, TargetID: c.server, Document: c.document, Data: change.Raw})
	}
	c.mu.Lock()
	c.dirty = true
	c.mu.Unlock()
	return c.say(ctx)
}

// make makes a change; c.mu is held.
func (c *client) make(edit func(*automerge.Doc) error) (crdt.Change, error) {
	if len(c.inbox) > 0 {
		if err := c.text.LoadIncremental(c.inbox); err != nil {
			return crdt.Change{}, fmt.Errorf("take in changes: %w", err)
		}
		c.inbox = nil
	}
	if err := edit(c.text); err != nil {
		return crdt.Change{}, err
	}
	hash, err := c.text.Commit("")
	if err != nil {
		return crdt.Change{}, fmt.Errorf("commit: %w", err)
	}
	made, err := c.text.Change(hash)
	if err != nil {
		return crdt.Change{}, err
	}
	changes, _, err := crdt.ParseEntry(made.Save(), parserLimits)
	if err != nil {
		return crdt.Change{}, err
	}
	c.graph.Add(changes[0])
	c.raws[changes[0].Hash] = changes[0].Raw
	return changes[0], nil
}

// content is the text that the client has, through the Automerge core.
func (c *client) content() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.Whole()
	if err != nil {
		return "", err
	}
	doc := automerge.New()
	if err := doc.LoadIncremental(all); err != nil {
		return "", err
	}
	return doc.Path("sections", sectionName, "body").Text().Get()
}
