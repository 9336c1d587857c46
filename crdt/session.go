package crdt

// Session is what one peer is known to have of one document: the Automerge sync protocol, V1 and V2.
// It lives as long as the peer's connection. Not safe for concurrent use.
type Session struct{}

// NewSession begins a conversation. A readOnly peer is told so with the READ_ONLY flag, is sent everything
// and never asked for anything.
func NewSession(readOnly bool) *Session { panic("stub") }

// Message is a parsed sync message.
type Message struct {
	Changes   []Change // parsed out of all entries
	Documents [][]byte // whole-document chunks, unopened
	// plus what the session needs
}

// ParseMessage reads a sync message; every count in it is checked against the bytes that are there.
// Errors are *ParseError.
func ParseMessage(data []byte, limits Limits) (Message, error) { panic("stub") }

// Receive takes note of a message whose changes the graph already has (those that were accepted).
func (s *Session) Receive(g *Graph, m Message) { panic("stub") }

// Source gives the bytes of changes for Generate.
type Source interface {
	// Raw returns the chunks of the given changes, in the same order.
	Raw(hashes []Hash) ([][]byte, error)
	// Whole returns the document as one saved chunk that contains at least the graph's changes.
	Whole() ([]byte, error)
}

// Generate returns the next message for the peer, or ok false when there is nothing to say.
func (s *Session) Generate(g *Graph, src Source) (data []byte, ok bool, err error) { panic("stub") }
