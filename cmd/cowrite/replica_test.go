package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"

	"github.com/automerge/automerge-go"
	"github.com/coder/websocket"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
	"cowrite/sync/repo"
)

// replica is a client with an Automerge document of its own, which appends lines to one section over the
// automerge-repo protocol. A line counts as acknowledged when the heads that the server sends contain it.
type replica struct {
	keyed
	document repo.DocumentName
	section  string
	lines    lines

	local  *automerge.Doc // kept over restarts, as a real client keeps it
	socket *websocket.Conn
	state  *automerge.SyncState
	server repo.PeerID
}

func newReplica(k keyed, documentID, section string) *replica {
	return &replica{keyed: k, document: repo.DocumentName(documentID), section: section, local: automerge.New()}
}

func (r *replica) peer() repo.PeerID { return repo.PeerID(r.agent) }

func (r *replica) connect(ctx context.Context, p *process) error {
	if err := r.keyed.connect(ctx, p); err != nil {
		return err
	}
	address := p.address + "/api/v1/sync?token=" + url.QueryEscape(string(r.key))
	socket, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		return err
	}
	socket.SetReadLimit(-1)
	r.socket, r.state = socket, automerge.NewSyncState(r.local)
	if err := r.send(ctx, repo.Join{SenderID: r.peer(), Versions: []string{repo.Version}}); err != nil {
		return err
	}
	answer, err := r.receive(ctx)
	if err != nil {
		return err
	}
	peer, ok := answer.(repo.Peer)
	if !ok {
		return fmt.Errorf("the answer to join is %#v", answer)
	}
	r.server = peer.SenderID
	for r.body() == nil {
		if err := r.exchange(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *replica) disconnect() {
	_ = r.socket.CloseNow() // the server is gone
	r.keyed.disconnect()
}

// body is the section's text, nil before it has arrived.
func (r *replica) body() *automerge.Text {
	value, err := r.local.Path("sections", r.section, "body").Get()
	if err != nil || value.Kind() != automerge.KindText {
		return nil
	}
	return value.Text()
}

func (r *replica) acknowledged() int { return len(r.lines.acknowledged) }

func (r *replica) step(ctx context.Context, _ *rand.Rand) error {
	line := r.lines.next(r.agent)
	if err := r.body().Append(line); err != nil {
		return err
	}
	mine, err := r.local.Commit("")
	if err != nil {
		return err
	}
	for {
		heads, err := r.exchangeHeads(ctx)
		if err != nil {
			return err
		}
		missing, err := r.local.Changes(heads...)
		if err != nil {
			continue // the server's heads are not known here yet
		}
		if !slices.ContainsFunc(missing, func(c *automerge.Change) bool { return c.Hash() == mine }) {
			r.lines.acknowledged = append(r.lines.acknowledged, line)
			return nil
		}
	}
}

func (r *replica) check(ctx context.Context, server *client.Client, _ []doc.Event) error {
	now, err := server.Section(ctx, string(r.document), r.section)
	if err != nil {
		return err
	}
	return r.lines.check(now.Text)
}

func (r *replica) exchange(ctx context.Context) error {
	_, err := r.exchangeHeads(ctx)
	return err
}

// exchangeHeads sends what is to be sent, takes in one message and returns the heads that it names.
func (r *replica) exchangeHeads(ctx context.Context) ([]automerge.ChangeHash, error) {
	for {
		message, more := r.state.GenerateMessage()
		if !more {
			break
		}
		frame := repo.Sync{SenderID: r.peer(), TargetID: r.server, Document: r.document, Data: message.Bytes()}
		if err := r.send(ctx, frame); err != nil {
			return nil, err
		}
	}
	for {
		frame, err := r.receive(ctx)
		if err != nil {
			return nil, err
		}
		sync, ok := frame.(repo.Sync)
		if !ok || sync.Document != r.document {
			continue
		}
		message, err := r.state.ReceiveMessage(sync.Data)
		if err != nil {
			return nil, fmt.Errorf("receive: %w", err)
		}
		return message.Heads(), nil
	}
}

func (r *replica) send(ctx context.Context, f repo.Frame) error {
	raw, err := repo.Encode(f)
	if err != nil {
		return err
	}
	return r.socket.Write(ctx, websocket.MessageBinary, raw)
}

func (r *replica) receive(ctx context.Context) (repo.Frame, error) {
	_, raw, err := r.socket.Read(ctx)
	if err != nil {
		return nil, err
	}
	return repo.Decode(raw)
}
