// Package linetest is a network in memory: tests whose sockets go over it have a time of their own (testing/synctest).
package linetest

import (
	"context"
	"net"
	"sync"
)

// Network is a listener whose connections are pipes without buffers.
type Network struct {
	incoming chan net.Conn
	done     chan struct{}
	once     sync.Once
}

// New makes a network.
func New() *Network { return &Network{incoming: make(chan net.Conn), done: make(chan struct{})} }

// Dial connects to whoever accepts, whatever the address: as http.Transport.DialContext wants it.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n.incoming <- far:
		return near, nil
	case <-n.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for a connection.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case line := <-n.incoming:
		return line, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

// Close lets nobody connect any more. Connections live on.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.done) })
	return nil
}

// Addr is none in particular.
func (n *Network) Addr() net.Addr { return &net.TCPAddr{} }
