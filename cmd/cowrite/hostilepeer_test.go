package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/repo"
)

// line is a connection that has joined.
type line struct {
	socket *websocket.Conn
	peer   repo.PeerID
	frames chan repo.Frame // closed when the connection has ended
	end    error           // why it did, once frames is closed
}

func joinLine(ctx context.Context, p *process, key doc.Secret, peer repo.PeerID) (*line, error) {
	socket, _, err := websocket.Dial(ctx, p.address+"/api/v1/sync?token="+url.QueryEscape(string(key)), nil)
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(-1)
	l := &line{socket: socket, peer: peer, frames: make(chan repo.Frame, 64)}
	go l.read(ctx)
	if err := l.send(ctx, repo.Join{SenderID: peer, Versions: []string{repo.Version}}); err != nil {
		return nil, errors.Join(err, l.close())
	}
	answer := <-l.frames
	if _, ok := answer.(repo.Peer); !ok {
		return nil, errors.Join(fmt.Errorf("the answer to join is %#v", answer), l.close())
	}
	return l, nil
}

// read passes frames on until the connection or ctx ends.
func (l *line) read(ctx context.Context) {
	defer close(l.frames)
	for {
		_, raw, err := l.socket.Read(ctx)
		if err != nil {
			l.end = err
			return
		}
		frame, err := repo.Decode(raw)
		if err != nil {
			l.end = err
			return
		}
		select {
		case l.frames <- frame:
		case <-ctx.Done():
			l.end = ctx.Err()
			return
		}
	}
}

func (l *line) send(ctx context.Context, f repo.Frame) error {
	raw, err := repo.Encode(f)
	if err != nil {
		return err
	}
	return l.socket.Write(ctx, websocket.MessageBinary, raw)
}

// close ends the connection and waits until nothing reads it any more. What still comes is not wanted.
func (l *line) close() error {
	err := l.socket.CloseNow()
	for range l.frames {
	}
	return err
}

// victim is a document under attack, with a peer who does no harm and has it open.
type victim struct {
	id      crdt.DocumentID
	witness *line
	merged  int // changes that the witness was told of
}

// document is how the repo protocol calls it.
func (v *victim) document() repo.DocumentName { return repo.NameOf(v.id) }

// newVictim makes a document on a worker, which begins with the given changes.
func newVictim(ctx context.Context, p *process, key doc.Secret, seat int, r *rand.Rand, base [][]byte, heads []crdt.Hash) (*victim, error) {
	v := &victim{}
	for {
		binary.BigEndian.PutUint64(v.id[:], r.Uint64())
		binary.BigEndian.PutUint64(v.id[8:], r.Uint64())
		if engine.Seat(v.id, hostileWorkers) == seat {
			break
		}
	}
	var err error
	if v.witness, err = joinLine(ctx, p, key, repo.PeerID("witness-"+v.id.String())); err != nil {
		return nil, err
	}
	message := syncMessage(messageV2, heads, base...)
	if err := v.witness.send(ctx, repo.Sync{SenderID: v.witness.peer, Document: v.document(), Data: message}); err != nil {
		return nil, err
	}
	for frame := range v.witness.frames {
		if f, ok := frame.(repo.Sync); ok {
			if m, err := crdt.ParseMessage(f.Data, crdt.Limits{ChangeBytes: 1 << 24}); err == nil && len(m.Heads) > 0 {
				return v, nil
			}
		}
	}
	return nil, fmt.Errorf("the document was not taken: %w", v.witness.end)
}

// hear takes a frame that came to the witness.
func (v *victim) hear(frame repo.Frame) {
	f, ok := frame.(repo.Sync)
	if !ok {
		return
	}
	if m, err := crdt.ParseMessage(f.Data, crdt.Limits{ChangeBytes: 1 << 24}); err == nil {
		v.merged += len(m.Changes)
	}
}

// attacker sends damaged messages over connections that it makes anew whenever the server has closed one.
type attacker struct {
	process *process
	key     doc.Secret
	name    string
	line    *line
	joined  int    // connections made
	sent    uint64 // messages
}

// send sends a message about the victim and returns the word with which it was refused, "" if it was not. An error
// says that the server did what it must not.
func (a *attacker) send(ctx context.Context, v *victim, message []byte) (refused code.Code, err error) {
	if a.line == nil {
		a.joined++
		if a.line, err = joinLine(ctx, a.process, a.key, repo.PeerID(fmt.Sprint(a.name, "-", a.joined))); err != nil {
			return "", fmt.Errorf("connect: %w", err)
		}
	}
	a.sent++
	// What is said behind a message reaches the witness when the message has been dealt with. Where writing fails, reading
	// tells why.
	_ = a.line.send(ctx, repo.Sync{SenderID: a.line.peer, Document: v.document(), Data: message})
	_ = a.line.send(ctx, repo.Ephemeral{SenderID: a.line.peer, Document: v.document(), Session: "s", Count: a.sent, Data: []byte{1}})
	var said code.Code
	for {
		select {
		case frame, open := <-a.line.frames:
			if !open {
				end := a.line.end
				a.line = nil
				return said, closedWith(end, said)
			}
			switch f := frame.(type) {
			case repo.Error:
				word, _, _ := strings.Cut(f.Message, ":")
				said = code.Code(word)
			case repo.Unavailable: // the document alone is refused, and the connection goes on
				if said == "" {
					return "", errors.New("the document is unavailable, without a word")
				}
				return said, nil
			}
		case frame, open := <-v.witness.frames:
			if !open {
				return "", fmt.Errorf("a peer that did no harm was closed: %w", v.witness.end)
			}
			if e, ok := frame.(repo.Ephemeral); ok && e.SenderID == a.line.peer && e.Count == a.sent {
				return "", nil
			}
			v.hear(frame)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// closedWith says what is wrong with the end of a connection whose last error frame had the word.
func closedWith(end error, word code.Code) error {
	entry, known := code.Table[word]
	var closed websocket.CloseError
	switch {
	case !errors.As(end, &closed):
		return fmt.Errorf("the connection broke behind the word %q: %w", word, end)
	case !known || int(closed.Code) != entry.Close || !strings.HasPrefix(closed.Reason, string(word)+": "):
		return fmt.Errorf("closed with %d %q behind the word %q", closed.Code, closed.Reason, word)
	case entry.HTTP >= http.StatusInternalServerError:
		return fmt.Errorf("closed with %q, which is no refusal", word)
	}
	return nil
}

func (a *attacker) close() {
	if a.line != nil {
		_ = a.line.close() // nothing is under way
	}
}

// The types of sync messages (rust/automerge/src/sync.rs of automerge/automerge).
const (
	messageV1 = 0x42
	messageV2 = 0x43
)

// syncMessage is a sync message that names heads, asks for nothing, and brings chunks.
func syncMessage(version byte, heads []crdt.Hash, chunks ...[]byte) []byte {
	out := binary.AppendUvarint([]byte{version}, uint64(len(heads)))
	for _, h := range heads {
		out = append(out, h[:]...)
	}
	out = append(out, 0, 0) // needs nothing, and says nothing of what it has
	out = binary.AppendUvarint(out, uint64(len(chunks)))
	for _, c := range chunks {
		out = append(binary.AppendUvarint(out, uint64(len(c))), c...)
	}
	return out
}

// hashOf is what a chunk's change is called: the hash of all but magic and checksum.
func hashOf(chunk []byte) crdt.Hash { return sha256.Sum256(chunk[8:]) }
