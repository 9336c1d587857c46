package syncbench

import (
	"context"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"cowrite/crdt"
	"cowrite/sync/repo"
)

// relayQueue is how many frames may wait for a client of the relay.
const relayQueue = 4096

// Relay is the bare relay, an http.Handler: it forwards each change to the other clients of its document and
// acknowledges it to the sender by its hash; the clients' own acknowledgements it reads and drops. It stores nothing,
// merges nothing and knows nobody.
type Relay struct {
	mu    sync.Mutex
	peers map[repo.DocumentName]map[*relayPeer]struct{}
}

type relayPeer struct {
	socket *websocket.Conn
	queue  chan []byte
}

const relayName repo.PeerID = "relay"

// ServeHTTP serves one client until it goes.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	socket, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has answered
	}
	defer socket.CloseNow()
	socket.SetReadLimit(-1)
	ctx, stop := context.WithCancel(req.Context())
	defer stop()
	p := &relayPeer{socket, make(chan []byte, relayQueue)}
	var writer sync.WaitGroup
	writer.Go(func() { p.write(ctx) })
	defer writer.Wait()
	defer stop()
	var joined []repo.DocumentName
	defer func() { r.leave(p, joined) }()
	for {
		_, data, err := socket.Read(ctx)
		if err != nil {
			return
		}
		frame, err := repo.Decode(data)
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case repo.Join:
			p.put(repo.Peer{SenderID: relayName, TargetID: f.SenderID, Version: repo.Version})
		case repo.Request: // begins a document
			joined = append(joined, f.Document)
			r.join(p, f.Document)
			p.put(repo.Sync{SenderID: relayName, TargetID: f.SenderID, Document: f.Document, Data: f.Data})
		case repo.Sync:
			r.forward(p, f)
		}
	}
}

func (p *relayPeer) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case data := <-p.queue:
			if err := p.socket.Write(ctx, websocket.MessageBinary, data); err != nil {
				return
			}
		}
	}
}

// put encodes and queues a frame; a full queue loses it, which the run reports.
func (p *relayPeer) put(f repo.Frame) {
	if data, err := repo.Encode(f); err == nil {
		p.putBytes(data)
	}
}

func (p *relayPeer) putBytes(data []byte) {
	select {
	case p.queue <- data:
	default:
	}
}

func (r *Relay) join(p *relayPeer, d repo.DocumentName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers == nil {
		r.peers = map[repo.DocumentName]map[*relayPeer]struct{}{}
	}
	if r.peers[d] == nil {
		r.peers[d] = map[*relayPeer]struct{}{}
	}
	r.peers[d][p] = struct{}{}
}

func (r *Relay) leave(p *relayPeer, documents []repo.DocumentName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range documents {
		delete(r.peers[d], p)
	}
}

func (r *Relay) forward(from *relayPeer, s repo.Sync) {
	changes, _, err := crdt.ParseEntry(s.Data, parserLimits)
	if err != nil {
		return // an acknowledgement
	}
	data, err := repo.Encode(repo.Sync{SenderID: relayName, Document: s.Document, Data: s.Data})
	if err != nil {
		return
	}
	r.mu.Lock()
	for p := range r.peers[s.Document] {
		if p != from {
			p.putBytes(data)
		}
	}
	r.mu.Unlock()
	for _, c := range changes {
		from.put(repo.Sync{SenderID: relayName, Document: s.Document, Data: c.Hash[:]})
	}
}
