package doc

import (
	"context"
	"errors"
	"time"

	"cowrite/crdt"
	"cowrite/lease"
)

// Errors of a Store, to be found with errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrSlugTaken = errors.New("slug is taken, or was once")
	ErrConflict  = errors.New("the log is not where it was expected to be")
	ErrTooMany   = errors.New("there are as many as there may be")
	ErrInUse     = errors.New("in use by another server")
)

// ChangeRow is a change as it is stored.
type ChangeRow struct {
	Number   int64 // position among the document's changes, from 1: it names the change to the store
	Hash     crdt.Hash
	Author   Agent
	Sections []SectionID // whose text or place it touches
	Logged   bool        // an event covers it
	At       time.Time   // when it was accepted
	Raw      []byte
}

// Saved is the changes of a document up to a number, in one piece that is many times smaller than their rows.
type Saved struct {
	Upto  int64  // the number of the last change in it; 0 is none
	Chunk []byte // the saved document, as the engine writes it
	Index []byte // what is to be known of the changes without opening the chunk
}

// Append is what one step adds to a document, in one transaction.
type Append struct {
	// Expect is the seq of the last event that must be the document's last, or AnySeq. It and the numbers of Changes are how
	// two servers over one store notice each other.
	Expect  Seq
	Changes []ChangeRow // numbered on from the document's last one
	Events  []NewEvent
	Logged  []int64    // numbers of changes of earlier appends that Events cover
	Calls   []EditCall // to be remembered for their retries
	Title   *string    // the title to list the document under, nil: as it is
	Slug    Slug       // a new slug, or a former one of its own, "": as it is; the present one goes on to lead here
	Block   *Block     // a block, or the zero Block to lift it; nil: as it is

	// Deletion makes the document a tombstone, which still takes appends; the zero Deletion restores it; nil: as it is.
	Deletion *Deletion

	Share   *NewShare // a share link of the document to be made
	Unshare *EndShare // a share link of the document to be ended
}

// NewShare is a share link about to be made, a key for the document that is appended to. ErrTooMany when Limit of the
// document's links are live at its CreatedAt, ErrConflict when its id or digest exists.
type NewShare struct {
	Key
	Limit int
}

// EndShare revokes a share link. ErrConflict when the document has no such link that is live at that instant.
type EndShare struct {
	ID KeyID
	At time.Time
}

// AnySeq in Append.Expect expects nothing.
const AnySeq Seq = -1

// LeaseCommit is a commit of the lease keeper with the events that it means for a document's log.
type LeaseCommit struct {
	lease.Commit
	Document crdt.DocumentID // zero when the resource is no section
	Events   []NewEvent
	Calls    []LeaseCall // to be remembered, in place of what was remembered of the same agents' keys
}

// Store keeps documents, their logs, leases and keys. A method that writes returns when what it wrote is on
// disk, or with an error and nothing written; when the error is the context's, either is possible. What it returns belongs to
// the caller; what it is given it does not keep or change, and the caller may change it as soon as the method returned. All
// methods may be called concurrently; appends to one document happen one after the other. A limit below 1 gives nothing.
// Instants come back in UTC, to the millisecond; those of leases exactly.
type Store interface {
	// Create makes a document with its first changes and events (Expect is ignored; of m, what the store sets). ErrSlugTaken
	// when the slug leads or ever led to a document, ErrConflict when the id exists or the changes are not numbered from 1.
	Create(ctx context.Context, m Meta, first Append) ([]Event, error)

	// Append adds to a document and returns the events as they now stand in the log. ErrConflict when the document's last
	// event is not the one expected, or its last change not the one in front of Changes. Hashes are not looked at: that no
	// change is there twice is the caller's to see to. Numbers in Logged that are no rows are passed over. ErrNotFound,
	// ErrSlugTaken, and what NewShare and EndShare say.
	Append(ctx context.Context, id crdt.DocumentID, a Append) ([]Event, error)

	// Document finds by id, FindSlug by a present or former slug; tombstones too. ErrNotFound.
	Document(ctx context.Context, id crdt.DocumentID) (Meta, error)
	FindSlug(ctx context.Context, slug Slug) (Meta, error)

	// List gives living documents, the newest first: those whose Number is below before (0: all), at most limit.
	List(ctx context.Context, before int64, limit int) ([]Meta, error)

	// Largest gives the living documents of most Bytes, the largest first and of equals the older, at most limit. Blocked
	// gives the living ones with a Block, the latest blocked first and of equals the older.
	Largest(ctx context.Context, limit int) ([]Meta, error)
	Blocked(ctx context.Context) ([]Meta, error)

	// Deleted gives the documents with a Deletion, the latest deleted first and of equals the newest: those behind a place
	// in that order (zero: all), at most limit.
	Deleted(ctx context.Context, behind DeletedPlace, limit int) ([]Meta, error)

	// Purge takes away for good what a document with a Deletion holds, its log and the entries of its sections in the ledger
	// too; its slugs are free again. What stays is its id, which is never used again: Document gives it with its Deletion and
	// the Purge, no other method finds it. ErrConflict when the document is living, ErrNotFound. It is so from its first step on, also
	// when an error is returned; what an interrupted one left is gone at the latest when the store is next opened, or Purge is called again.
	Purge(ctx context.Context, id crdt.DocumentID, p Purge) error

	// Changes gives the rows of the document's changes behind number after, in order, at most limit. ErrNotFound when the
	// document is not there.
	Changes(ctx context.Context, id crdt.DocumentID, after int64, limit int) ([]ChangeRow, error)

	// Raw gives the bytes of the changes with the given numbers, in the same order: nil for one that the document does not
	// have, or not as a row any more. ErrNotFound when the document is not there.
	Raw(ctx context.Context, id crdt.DocumentID, numbers []int64) ([][]byte, error)

	// Saved gives what the document was last compacted to, the zero Saved when it never was; chunk false leaves out the
	// chunk. Compact puts a saved form in the place of the rows of the changes that it holds, all at once: ErrConflict when
	// one of them is not logged yet, when there are not so many, or when the last one reached as far. ErrNotFound when the
	// document is not there.
	Saved(ctx context.Context, id crdt.DocumentID, chunk bool) (Saved, error)
	Compact(ctx context.Context, id crdt.DocumentID, s Saved) error

	// EditCall finds a remembered edit. ErrNotFound, also for one that was forgotten: those older than EditCallsKept are, when
	// a later one comes, and those not among the agent's latest EditCallsPerAgent.
	EditCall(ctx context.Context, a Agent, k IdempotencyKey) (EditCall, error)

	// Events gives the events behind since, in order, at most limit. ErrNotFound when the document is not there.
	Events(ctx context.Context, id crdt.DocumentID, since Seq, limit int) ([]Event, error)

	// Watch gives a channel that receives (at most one value waiting) whenever events were appended to the document, which
	// need not be there yet. The channel is never closed; stop may be called again.
	Watch(id crdt.DocumentID) (wake <-chan struct{}, stop func())

	// Wake is for what another process appended: the document's watchers receive.
	Wake(id crdt.DocumentID)

	// LoadLeases and SaveLeases keep the lease state, of each resource and agent the last record, and the highest fence;
	// SaveLeases appends the events in the same transaction. Events for a document that does not exist are dropped.
	LoadLeases(ctx context.Context) (lease.State, error)
	SaveLeases(ctx context.Context, commits []LeaseCommit) error

	// Ledger gives, of the lease events saved with commits, those that the query asks for, as they were saved.
	Ledger(ctx context.Context, q LedgerQuery) ([]LedgerEntry, error)

	// LeaseCall finds a remembered call; ErrNotFound. Those made LeaseCallsKept before the last one saved may be gone, and of
	// an agent all but the last LeaseCallsPerAgent. ForgetLeaseCall is no error where there is none.
	LeaseCall(ctx context.Context, a Agent, k IdempotencyKey) (LeaseCall, error)
	ForgetLeaseCall(ctx context.Context, a Agent, k IdempotencyKey) error

	// Keys. AddKey: ErrConflict when the id or digest exists. Key finds by digest, revoked ones too; KeyByID by id. ErrNotFound.
	// Keys lists all, oldest first. RevokeKey is ErrNotFound for an unknown id and keeps an earlier end. SetKeyKind is
	// ErrNotFound too, also sets a revoked key's, and changes nothing where it is so already. People gives, sorted, those of the agents with a person's key, be it revoked.
	AddKey(ctx context.Context, k Key) error
	Key(ctx context.Context, d KeyDigest) (Key, error)
	KeyByID(ctx context.Context, id KeyID) (Key, error)
	Keys(ctx context.Context) ([]Key, error)
	RevokeKey(ctx context.Context, id KeyID, at time.Time) error
	SetKeyKind(ctx context.Context, id KeyID, kind Kind) error

	// DropShares removes share links that had ended, by their time or revoked, before an instant: the first to end, at most
	// limit. It says how many.
	DropShares(ctx context.Context, before time.Time, limit int) (dropped int, err error)

	People(ctx context.Context, among []Agent) ([]Agent, error)

	// KeysVersion changes whenever any process changed the keys, and at nothing else.
	KeysVersion(ctx context.Context) (int64, error)

	// Close waits for what is under way and lets go of the data. Calls after it fail; Close again does nothing.
	Close() error
}
