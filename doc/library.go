package doc

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/lease"
)

// Library is the door to all documents. Its methods check what the key may do; refusals are *code.Error.
type Library struct {
	opts Options
}

// Options of a library. Store, Engine and Leases are required.
type Options struct {
	Store  Store
	Engine engine.Engine
	Leases *lease.Keeper
	Limits Limits
	Now    func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
	Log    *slog.Logger     // nil: discards
}

// Limits, named once. A zero field takes its default.
type Limits struct {
	MarkdownBytes int // of a document brought in at once; 4 MiB
	SectionBytes  int // of one section's text; 1 MiB
	Sections      int // of a document; 2,000
	TitleBytes    int // 512
	MessageBytes  int // of a posted event's payload; 64 KiB
	ChangeBytes   int // of one change, after inflation; 16 MiB
	Queue         int // requests that wait at one desk; 256
}

// NewDocument is what a document begins with. All fields may be empty.
type NewDocument struct {
	ID       crdt.DocumentID // zero: a new one
	Slug     Slug            // "": made from the title or the first heading, with a random suffix
	Title    string          // "": the first heading, else the slug
	Markdown string
	Level    int // split at headings down to this level; 0 is 2
}

// Base is the version that a write was based on.
type Base struct {
	Version crdt.Version
	Current bool // the present version, whatever it is: replaces knowingly
}

// Written is what a write to a section came to.
type Written struct {
	Section  Section
	Version  crdt.Version
	Merged   bool         // others had written since the base
	Advisory *lease.Lease // somebody else's lease on the section
}

// Open starts a library.
func Open(opts Options) (*Library, error) { panic("stub") }

// Close completes the logs and ends all desks.
func (l *Library) Close(ctx context.Context) error { panic("stub") }

// Find resolves what an address calls a document: slug, former slug or document id. A deleted document is
// DOCUMENT_DELETED, one the key does not cover is FORBIDDEN, a former slug gives the document's present Meta.
func (l *Library) Find(ctx context.Context, k Key, ref string) (Meta, error) { panic("stub") }

// List gives the documents that the key covers, newest first; next is the cursor of the following page, 0 at the end.
func (l *Library) List(ctx context.Context, k Key, before int64, limit int) (docs []Meta, next int64, err error) {
	panic("stub")
}

// Create makes a document. SLUG_TAKEN, TOO_LARGE, FORBIDDEN.
func (l *Library) Create(ctx context.Context, k Key, n NewDocument) (Snapshot, error) { panic("stub") }

// Read gives the document's present content.
func (l *Library) Read(ctx context.Context, k Key, id crdt.DocumentID) (Snapshot, error) {
	panic("stub")
}

// Rename gives a document another title or slug; nil leaves it.
func (l *Library) Rename(ctx context.Context, k Key, id crdt.DocumentID, title *string, slug *Slug) (Meta, error) {
	panic("stub")
}

// Delete makes the document a tombstone: its leases end, its sockets are told, later calls say DOCUMENT_DELETED.
func (l *Library) Delete(ctx context.Context, k Key, id crdt.DocumentID) error { panic("stub") }

// WriteSection replaces a section's text as if typed on base: what others wrote since stays. A section that
// does not exist is created. Without a base, BASE_REQUIRED with the present version and text, unless the section is empty.
func (l *Library) WriteSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, text string, base *Base) (Written, error) {
	panic("stub")
}

// AddSection makes a section behind another ("" puts it last); sid "" makes an id from the heading. SECTION_EXISTS, SECTION_NOT_FOUND.
func (l *Library) AddSection(ctx context.Context, k Key, id crdt.DocumentID, sid, after SectionID, text string) (Written, error) {
	panic("stub")
}

// MoveSection puts a section behind another; after "" puts it first.
func (l *Library) MoveSection(ctx context.Context, k Key, id crdt.DocumentID, sid, after SectionID) (Written, error) {
	panic("stub")
}

// RemoveSection takes a section out of the document; its text stays and can be restored.
func (l *Library) RemoveSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID) (Written, error) {
	panic("stub")
}

// RestoreSection brings a removed section back.
func (l *Library) RestoreSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID) (Written, error) {
	panic("stub")
}

// Events gives a page of the log behind since.
func (l *Library) Events(ctx context.Context, k Key, id crdt.DocumentID, since Seq, limit int) (events []Event, more bool, err error) {
	panic("stub")
}

// Watch gives a channel that wakes its reader whenever the log may have grown.
func (l *Library) Watch(id crdt.DocumentID) (wake <-chan struct{}, stop func()) { panic("stub") }

// Post appends a message.posted event with the caller's payload, a JSON object.
func (l *Library) Post(ctx context.Context, k Key, id crdt.DocumentID, payload json.RawMessage) (Event, error) {
	panic("stub")
}

// Leases is the lease keeper.
func (l *Library) Leases() *lease.Keeper { return l.opts.Leases }

// Replica is a peer with an Automerge document of its own, attached to a desk by Attach.
type Replica interface {
	// Deliver hands the peer a sync message. It is called on the desk's goroutine, in order, and must not
	// block; false says that the peer's queue is full and detaches it.
	Deliver(id crdt.DocumentID, message []byte) bool
	// Gone says that the document cannot be synced any further, and why; the peer is detached. It must not block.
	Gone(id crdt.DocumentID, why error)
}

// Attachment is a replica at a desk.
type Attachment struct{}

// Attach opens a sync conversation. create makes the document when it does not exist (an editor's first
// sync of a document of its own); else DOCUMENT_NOT_FOUND.
func (l *Library) Attach(ctx context.Context, k Key, id crdt.DocumentID, r Replica, create bool) (*Attachment, error) {
	panic("stub")
}

// Receive takes in a sync message of the peer: its changes are applied, stored and then answered and fanned out
// through Deliver. It returns when that is done; an error is a refusal that ends the conversation.
func (a *Attachment) Receive(ctx context.Context, message []byte) error { panic("stub") }

// Detach ends the conversation. It may be called more than once.
func (a *Attachment) Detach() { panic("stub") }

// Keyring is who may do what: it makes, finds and revokes keys.
type Keyring struct{}

// OpenKeyring reads the keys. now nil is time.Now, random nil is crypto/rand.
func OpenKeyring(store Store, now func() time.Time, random io.Reader) *Keyring { panic("stub") }

// Create makes a key; the secret is given out this once.
func (r *Keyring) Create(ctx context.Context, k Key) (Key, Secret, error) { panic("stub") }

// Import makes a key with a secret chosen by the operator. The same secret again is no error.
func (r *Keyring) Import(ctx context.Context, k Key, s Secret) (Key, error) { panic("stub") }

// Authenticate finds the live key of a secret: UNAUTHORIZED or KEY_REVOKED.
func (r *Keyring) Authenticate(ctx context.Context, s Secret) (Key, error) { panic("stub") }

// List gives all keys, oldest first.
func (r *Keyring) List(ctx context.Context) ([]Key, error) { panic("stub") }

// Revoke ends a key. KEY_NOT_FOUND.
func (r *Keyring) Revoke(ctx context.Context, id KeyID) error { panic("stub") }

// Run follows changes of the keys, also by other processes, until ctx ends: at most half a second after a
// key stopped being live, ended is called with its id (and retired with an agent whose last key it was).
func (r *Keyring) Run(ctx context.Context, ended func(KeyID), retired func(Agent)) error {
	panic("stub")
}
