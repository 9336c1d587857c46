package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
)

// Options of an engine.
type Options struct {
	Random io.Reader // where actor ids come from; nil is crypto/rand
}

// New is the engine in this process. Malformed changes can abort the process: it is for tests, for tools on
// a user's own documents, and for the inside of a worker.
func New(opts Options) Engine {
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	return &inProcess{random: opts.Random}
}

type inProcess struct{ random io.Reader }

func (e *inProcess) Load(ctx context.Context, _ crdt.DocumentID, parts [][]byte) (doc Document, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer catch(&err)
	d := &document{random: e.random, doc: automerge.New()}
	for _, part := range parts {
		changes, saved, err := crdt.ParseEntry(part, crdt.NoLimits)
		if err != nil {
			return nil, &BadChangeError{Cause: err}
		}
		for _, chunk := range saved {
			if err := d.loadSaved(chunk); err != nil {
				return nil, err
			}
		}
		d.pending = append(d.pending, changes...)
	}
	if err := d.flush(); err != nil {
		return nil, err
	}
	actor, err := newActor(e.random)
	if err != nil {
		return nil, err
	}
	if err := d.doc.SetActorID(actor); err != nil {
		return nil, fmt.Errorf("set actor: %w", err)
	}
	return d, nil
}

func (e *inProcess) Save(ctx context.Context, parts [][]byte) ([]byte, error) {
	d, err := e.Load(ctx, crdt.DocumentID{}, parts)
	if err != nil {
		return nil, err
	}
	return d.Save(ctx)
}

func (e *inProcess) Unpack(ctx context.Context, chunk []byte) (changes []crdt.Change, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer catch(&err)
	if plain, saved, err := crdt.ParseEntry(chunk, crdt.NoLimits); err != nil || len(plain) > 0 || len(saved) != 1 {
		return nil, &BadChangeError{Cause: errors.New("not one saved document")}
	}
	doc, err := automerge.Load(chunk)
	if err != nil {
		return nil, &BadChangeError{Cause: err}
	}
	theirs, err := doc.Changes()
	if err != nil {
		return nil, &BadChangeError{Cause: err}
	}
	changes = make([]crdt.Change, 0, len(theirs))
	for _, c := range theirs {
		parsed, err := parseOne(c)
		if err != nil {
			return nil, &BadChangeError{Cause: err}
		}
		changes = append(changes, *parsed)
	}
	return changes, nil
}

func (e *inProcess) Close() error { return nil }

// document is a document in this process.
type document struct {
	random  io.Reader
	doc     *automerge.Doc
	pending []crdt.Change // of a Load under way

	// fork is the document as of forkAt, so that reading a version and then editing on it forks once. It is let go
	// with the next write.
	fork   *automerge.Doc
	forkAt []crdt.Hash

	references *crdt.References // nil until others' changes are to be checked
}

// loadSaved takes in a saved document. The first one is the document; a later one is merged into it.
func (d *document) loadSaved(chunk []byte) error {
	if err := d.flush(); err != nil {
		return err
	}
	saved, err := automerge.Load(chunk)
	if err != nil {
		return &BadChangeError{Cause: err}
	}
	if len(d.doc.Heads()) == 0 {
		d.doc = saved
		return nil
	}
	if _, err := d.doc.Merge(saved); err != nil {
		return &BadChangeError{Cause: err}
	}
	return nil
}

func (d *document) flush() error {
	pending := d.pending
	d.pending = nil
	return d.apply(pending)
}

func (d *document) Apply(ctx context.Context, changes []crdt.Change) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer catch(&err)
	d.dropFork()
	if err := d.knowReferences(); err != nil {
		return err
	}
	var refused error
	for i, c := range changes {
		if err := d.references.Add(c); err != nil {
			changes, refused = changes[:i], &BadChangeError{Hash: c.Hash, Cause: err}
			break
		}
	}
	if err := d.apply(changes); err != nil {
		d.references = nil // it knows more now than the core
		return err
	}
	return refused
}

// knowReferences builds what others' changes are held against, with the first of them.
func (d *document) knowReferences() error {
	if d.references != nil {
		return nil
	}
	theirs, err := d.doc.Changes()
	if err != nil {
		return fmt.Errorf("read changes: %w", err)
	}
	references := crdt.NewReferences()
	for _, c := range theirs {
		change, err := parseOne(c)
		if err != nil {
			return fmt.Errorf("read change: %w", err)
		}
		_ = references.Add(*change) // what has been taken in stays; only what comes is checked
	}
	d.references = references
	return nil
}

// dropFork has the fork's memory let go at once: it is the core's, which Go does not see, and may be as large as
// the document.
func (d *document) dropFork() {
	if d.fork != nil {
		d.fork, d.forkAt = nil, nil
		runtime.GC()
	}
}

// apply tries all at once and, when that failed, one by one from the first that is missing. The core passes in
// silence over a chunk that it cannot read, so that each change is looked up.
func (d *document) apply(changes []crdt.Change) error {
	if len(changes) > 1 {
		var all []byte
		for _, c := range changes {
			all = append(all, c.Plain()...)
		}
		_ = d.doc.LoadIncremental(all) // what went wrong shows below, with the change that it was
		missing := slices.IndexFunc(changes, func(c crdt.Change) bool { return !d.has(c.Hash) })
		if missing < 0 {
			return nil
		}
		changes = changes[missing:]
	}
	for _, c := range changes {
		err := d.doc.LoadIncremental(c.Plain())
		if err == nil && !d.has(c.Hash) {
			err = errSilent
		}
		if err != nil {
			return &BadChangeError{Hash: c.Hash, Cause: err}
		}
	}
	return nil
}

var errSilent = errors.New("the core does not take it, for a reason that it does not give")

func (d *document) has(h crdt.Hash) bool {
	_, err := d.doc.Change(automerge.ChangeHash(h))
	return err == nil
}

func (d *document) Edit(ctx context.Context, base []crdt.Hash, at time.Time, ops []Op) (change *crdt.Change, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer catch(&err)
	doc, err := d.at(base)
	if err != nil {
		return nil, err
	}
	if err := check(doc, ops); err != nil {
		return nil, err
	}
	defer d.dropFork() // what is written to is not the version that it was
	if doc != d.doc {
		actor, err := newActor(d.random)
		if err != nil {
			return nil, err
		}
		if err := doc.SetActorID(actor); err != nil {
			return nil, fmt.Errorf("set actor: %w", err)
		}
	}
	for i, op := range ops {
		if err := perform(doc, op); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	if change, err = commit(doc, at); change == nil || err != nil {
		return nil, err
	}
	if doc != d.doc {
		if err := d.apply([]crdt.Change{*change}); err != nil {
			return nil, fmt.Errorf("merge: %w", err)
		}
	}
	if d.references != nil {
		if err := d.references.Add(*change); err != nil {
			return nil, fmt.Errorf("read change: %w", err)
		}
	}
	return change, nil
}

func (d *document) EditRead(ctx context.Context, base []crdt.Hash, at time.Time, ops []Op, path crdt.Path) (*crdt.Change, Value, error) {
	change, err := d.Edit(ctx, base, at, ops)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.Read(ctx, nil, path)
	return change, v, err
}

// commit ends the change and reads it back; nil when there was nothing to commit.
func commit(doc *automerge.Doc, at time.Time) (*crdt.Change, error) {
	// The binding writes milliseconds where the format has seconds, as JavaScript writes and reads them.
	seconds := time.UnixMilli(at.Unix())
	hash, err := doc.Commit("", automerge.CommitOptions{Time: &seconds})
	if err != nil {
		if err.Error() == emptyCommit {
			return nil, nil
		}
		return nil, fmt.Errorf("commit: %w", err)
	}
	c, err := doc.Change(hash)
	if err != nil {
		return nil, fmt.Errorf("read change: %w", err)
	}
	change, err := parseOne(c)
	if err != nil {
		return nil, fmt.Errorf("read change: %w", err)
	}
	if change.Hash != crdt.Hash(hash) {
		return nil, fmt.Errorf("read change: it is %v to the core and %v to us", crdt.Hash(hash), change.Hash)
	}
	return change, nil
}

// emptyCommit is what the binding says, without a type, when there is nothing to commit.
const emptyCommit = "Commit is empty"

func parseOne(c *automerge.Change) (*crdt.Change, error) {
	changes, _, err := crdt.ParseEntry(c.Save(), crdt.NoLimits)
	if err != nil {
		return nil, err
	}
	if len(changes) != 1 {
		return nil, fmt.Errorf("%d changes in one", len(changes))
	}
	return &changes[0], nil
}

func (d *document) Read(ctx context.Context, at []crdt.Hash, path crdt.Path) (value Value, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer catch(&err)
	doc, err := d.at(at)
	if err != nil {
		return nil, err
	}
	return readPath(doc, path)
}

// at is the document as of a version; nil is the present one.
func (d *document) at(heads []crdt.Hash) (*automerge.Doc, error) {
	if heads == nil {
		return d.doc, nil
	}
	heads = slices.Compact(crdt.SortHashes(slices.Clone(heads)))
	var present []crdt.Hash
	for _, h := range d.doc.Heads() {
		present = append(present, crdt.Hash(h))
	}
	if slices.Equal(heads, crdt.SortHashes(present)) {
		return d.doc, nil
	}
	if d.fork != nil && slices.Equal(heads, d.forkAt) {
		return d.fork, nil
	}
	if len(heads) == 0 {
		d.fork, d.forkAt = automerge.New(), heads
		return d.fork, nil
	}
	theirs := make([]automerge.ChangeHash, len(heads))
	for i, h := range heads {
		if !d.has(h) {
			return nil, fmt.Errorf("%w: %v", ErrUnknownVersion, h)
		}
		theirs[i] = automerge.ChangeHash(h)
	}
	fork, err := d.doc.Fork(theirs...)
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	d.fork, d.forkAt = fork, heads
	return fork, nil
}

func (d *document) Save(ctx context.Context) (saved []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer catch(&err)
	return d.doc.Save(), nil
}

// Rebase does nothing: what is in this process is never loaded again.
func (d *document) Rebase([][]byte) {}

// Close leaves the memory, which is not Go's, to the binding's finalizers.
func (d *document) Close() error {
	d.doc, d.fork = nil, nil
	return nil
}

// newActor is a fresh actor id, as the binding spells it.
func newActor(random io.Reader) (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// catch turns a panic of the binding into an error. (The core's own faults abort the process.)
func catch(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the core's binding: %v", p)
	}
}
