package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// Memory is a store in memory: slow, obvious, and forgotten at Close. Tests may use it where a disk has no say.
type Memory struct {
	mu        sync.Mutex
	closed    bool
	documents []*memoryDocument
	slugs     map[doc.Slug]*memoryDocument
	watchers  map[crdt.DocumentID][]chan struct{}
	fence     lease.Fence
	records   map[lease.Resource]lease.Record
	agents    map[lease.Agent]lease.AgentRecord
	ledger    []doc.LedgerEntry
	ledgerSeq doc.Seq
	calls     []doc.LeaseCall
	edits     []doc.EditCall
	keys      []doc.Key
	version   int64
}

type memoryDocument struct {
	meta    doc.Meta
	changes []doc.ChangeRow // those behind saved
	saved   doc.Saved
	events  []doc.Event
}

var _ doc.Store = (*Memory)(nil)

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{
		slugs:    make(map[doc.Slug]*memoryDocument),
		watchers: make(map[crdt.DocumentID][]chan struct{}),
		records:  make(map[lease.Resource]lease.Record),
		agents:   make(map[lease.Agent]lease.AgentRecord),
	}
}

// enter begins a call and returns what ends it.
func (s *Memory) enter(ctx context.Context) (leave func(), err error) {
	s.mu.Lock()
	err = ctx.Err()
	if s.closed {
		err = errors.New("the store is closed")
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return s.mu.Unlock, nil
}

// any finds a document, purged ones too.
func (s *Memory) any(id crdt.DocumentID) (*memoryDocument, error) {
	i := slices.IndexFunc(s.documents, func(d *memoryDocument) bool { return d.meta.ID == id })
	if i < 0 {
		return nil, doc.ErrNotFound
	}
	return s.documents[i], nil
}

func (s *Memory) find(id crdt.DocumentID) (*memoryDocument, error) {
	d, err := s.any(id)
	if err == nil && !d.meta.Purge.At.IsZero() {
		return nil, doc.ErrNotFound
	}
	return d, err
}

// mayTake says whether a slug may lead to d, nil being a new document.
func (s *Memory) mayTake(slug doc.Slug, d *memoryDocument) error {
	if owner, ok := s.slugs[slug]; ok && owner != d {
		return fmt.Errorf("slug %q: %w", slug, doc.ErrSlugTaken)
	}
	return nil
}

func millis(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Create makes a document.
func (s *Memory) Create(ctx context.Context, m doc.Meta, first doc.Append) ([]doc.Event, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if _, err := s.any(m.ID); err == nil {
		return nil, doc.ErrConflict
	}
	for _, slug := range []doc.Slug{m.Slug, first.Slug} {
		if err := s.mayTake(slug, nil); err != nil {
			return nil, err
		}
	}
	if err := follow(0, first.Changes); err != nil {
		return nil, err
	}
	m.CreatedAt = millis(m.CreatedAt)
	m.ChangedAt, m.LastSeq, m.Number, m.Posted, m.Block, m.Deletion, m.Purge = m.CreatedAt, 0, int64(len(s.documents)+1), 0, doc.Block{}, doc.Deletion{}, doc.Purge{}
	d := &memoryDocument{meta: m}
	s.documents = append(s.documents, d)
	if m.Slug != "" {
		s.slugs[m.Slug] = d
	}
	first.Expect = doc.AnySeq
	events, err := s.add(d, first)
	if err != nil {
		s.documents = s.documents[:len(s.documents)-1]
		delete(s.slugs, m.Slug)
	}
	return events, err
}

// Append adds to a document.
func (s *Memory) Append(ctx context.Context, id crdt.DocumentID, a doc.Append) ([]doc.Event, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return s.add(d, a)
}

// follow says whether changes are numbered on from the last one.
func follow(last int64, changes []doc.ChangeRow) error {
	for i, c := range changes {
		if c.Number != last+int64(i)+1 {
			return doc.ErrConflict
		}
	}
	return nil
}

func (s *Memory) add(d *memoryDocument, a doc.Append) ([]doc.Event, error) {
	if a.Expect != doc.AnySeq && a.Expect != d.meta.LastSeq {
		return nil, doc.ErrConflict
	}
	if err := s.mayTake(a.Slug, d); err != nil {
		return nil, err
	}
	if err := follow(d.saved.Upto+int64(len(d.changes)), a.Changes); err != nil {
		return nil, err
	}
	keys, err := s.share(d.meta.ID, a)
	if err != nil {
		return nil, err
	}
	if a.Share != nil || a.Unshare != nil {
		s.keys = keys
		s.version++
	}
	if a.Slug != "" {
		s.slugs[a.Slug] = d
		d.meta.Slug = a.Slug
	}
	if a.Title != nil {
		d.meta.Title = *a.Title
	}
	for _, c := range clone(a.Changes) {
		c.At = millis(c.At)
		d.changes = append(d.changes, c)
	}
	for i := range d.changes {
		d.changes[i].Logged = d.changes[i].Logged || slices.Contains(a.Logged, d.changes[i].Number)
	}
	var added []doc.Event
	for _, n := range a.Events {
		var previous doc.EventHash
		if len(d.events) > 0 {
			previous = d.events[len(d.events)-1].Hash
		}
		n.At, n.Payload = millis(n.At), bytes.Clone(n.Payload)
		e := doc.Chain(previous, d.meta.LastSeq+1, n)
		d.meta.LastSeq, d.meta.ChangedAt = e.Seq, e.At
		if e.Type == doc.MessagePosted {
			d.meta.Posted += int64(len(e.Payload))
		}
		d.events = append(d.events, e)
		added = append(added, e)
	}
	for _, c := range a.Calls {
		s.edits = slices.DeleteFunc(s.edits, func(e doc.EditCall) bool {
			return e.Agent == c.Agent && e.Key == c.Key || millis(e.At).Before(millis(c.At).Add(-doc.EditCallsKept))
		})
		c.At, c.Document, c.Seq = millis(c.At), d.meta.ID, d.meta.LastSeq
		s.edits = append(s.edits, c)
	}
	if a.Block != nil {
		d.meta.Block = *a.Block
		if !a.Block.At.IsZero() {
			d.meta.Block.At = millis(a.Block.At)
		}
	}
	if a.Deletion != nil {
		d.meta.Deletion = *a.Deletion
		if !a.Deletion.At.IsZero() {
			d.meta.Deletion.At = millis(a.Deletion.At)
		}
	}
	d.weigh()
	if len(added) > 0 {
		s.wake(d.meta.ID)
	}
	return cloneEvents(added), nil
}

// Wake tells the document's watchers.
func (s *Memory) Wake(id crdt.DocumentID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(id)
}

func (s *Memory) wake(id crdt.DocumentID) {
	for _, c := range s.watchers[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// weigh counts the document's changes and their bytes.
func (d *memoryDocument) weigh() {
	d.meta.Changes = d.saved.Upto + int64(len(d.changes))
	d.meta.Bytes = int64(len(d.saved.Chunk) + len(d.saved.Index))
	for _, c := range d.changes {
		d.meta.Bytes += int64(len(c.Raw))
	}
}

func cloneEvents(events []doc.Event) []doc.Event {
	out := slices.Clone(events)
	for i := range out {
		out[i].Payload = bytes.Clone(out[i].Payload)
	}
	return out
}

// EditCall finds a remembered edit.
func (s *Memory) EditCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) (doc.EditCall, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return doc.EditCall{}, err
	}
	defer leave()
	if i := slices.IndexFunc(s.edits, func(c doc.EditCall) bool { return c.Agent == a && c.Key == k }); i >= 0 {
		return s.edits[i], nil
	}
	return doc.EditCall{}, doc.ErrNotFound
}

// Raw gives the bytes of changes.
func (s *Memory) Raw(ctx context.Context, id crdt.DocumentID, numbers []int64) ([][]byte, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := s.find(id)
	if err != nil {
		return nil, err
	}
	raws := make([][]byte, len(numbers))
	for i, number := range numbers {
		if at := slices.IndexFunc(d.changes, func(c doc.ChangeRow) bool { return c.Number == number }); at >= 0 {
			raws[i] = bytes.Clone(d.changes[at].Raw)
		}
	}
	return raws, nil
}

// Saved gives what the document was last compacted to.
func (s *Memory) Saved(ctx context.Context, id crdt.DocumentID, chunk bool) (doc.Saved, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return doc.Saved{}, err
	}
	defer leave()
	d, err := s.find(id)
	if err != nil {
		return doc.Saved{}, err
	}
	saved := doc.Saved{Upto: d.saved.Upto, Index: bytes.Clone(d.saved.Index)}
	if chunk {
		saved.Chunk = bytes.Clone(d.saved.Chunk)
	}
	return saved, nil
}

// Compact puts a saved form in the place of rows.
func (s *Memory) Compact(ctx context.Context, id crdt.DocumentID, saved doc.Saved) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	d, err := s.find(id)
	if err != nil {
		return err
	}
	n := saved.Upto - d.saved.Upto
	if n <= 0 || n > int64(len(d.changes)) || slices.ContainsFunc(d.changes[:n], func(c doc.ChangeRow) bool { return !c.Logged }) {
		return doc.ErrConflict
	}
	d.saved = doc.Saved{Upto: saved.Upto, Chunk: bytes.Clone(saved.Chunk), Index: bytes.Clone(saved.Index)}
	d.changes = slices.Clone(d.changes[n:])
	d.weigh()
	return nil
}

// Document finds a document by its id.
func (s *Memory) Document(ctx context.Context, id crdt.DocumentID) (doc.Meta, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return doc.Meta{}, err
	}
	defer leave()
	d, err := s.any(id)
	if err != nil {
		return doc.Meta{}, err
	}
	return d.meta, nil
}

// FindSlug finds a document by its present or a former slug.
func (s *Memory) FindSlug(ctx context.Context, slug doc.Slug) (doc.Meta, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return doc.Meta{}, err
	}
	defer leave()
	d, ok := s.slugs[slug]
	if !ok {
		return doc.Meta{}, doc.ErrNotFound
	}
	return d.meta, nil
}

// List gives living documents, the newest first.
func (s *Memory) List(ctx context.Context, before int64, limit int) ([]doc.Meta, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []doc.Meta
	for _, d := range slices.Backward(s.documents) {
		if len(list) < limit && d.meta.Deletion.At.IsZero() && (before == 0 || d.meta.Number < before) {
			list = append(list, d.meta)
		}
	}
	return list, nil
}

// Largest gives the living documents that take most bytes.
func (s *Memory) Largest(ctx context.Context, limit int) ([]doc.Meta, error) {
	list, err := s.sorted(ctx, lives, func(a, b doc.Meta) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return page(list, 0, limit), err
}

// Blocked gives the living documents that are blocked.
func (s *Memory) Blocked(ctx context.Context) ([]doc.Meta, error) {
	return s.sorted(ctx, func(m doc.Meta) bool { return lives(m) && !m.Block.At.IsZero() }, func(a, b doc.Meta) int { return b.Block.At.Compare(a.Block.At) })
}

// Deleted gives the documents that are deleted, the latest first.
func (s *Memory) Deleted(ctx context.Context, behind doc.DeletedPlace, limit int) ([]doc.Meta, error) {
	order := func(a, b doc.DeletedPlace) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Number, a.Number))
	}
	behind.At = millis(behind.At)
	wanted := func(m doc.Meta) bool {
		return !lives(m) && m.Purge.At.IsZero() && (behind.Number == 0 || order(m.DeletedPlace(), behind) > 0)
	}
	list, err := s.sorted(ctx, wanted, func(a, b doc.Meta) int { return order(a.DeletedPlace(), b.DeletedPlace()) })
	return page(list, 0, limit), err
}

func lives(m doc.Meta) bool { return m.Deletion.At.IsZero() }

// sorted gives the documents that are wanted, in order, equals by their age.
func (s *Memory) sorted(ctx context.Context, wanted func(doc.Meta) bool, order func(a, b doc.Meta) int) ([]doc.Meta, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var list []doc.Meta
	for _, d := range s.documents {
		if wanted(d.meta) {
			list = append(list, d.meta)
		}
	}
	slices.SortStableFunc(list, order)
	return list, nil
}

// page is the part of a list behind its first after elements, at most limit.
func page[T any](list []T, after int64, limit int) []T {
	list = list[min(max(after, 0), int64(len(list))):]
	return list[:min(max(limit, 0), len(list))]
}

// Purge takes a deleted document's content away for good.
func (s *Memory) Purge(ctx context.Context, id crdt.DocumentID, p doc.Purge) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	d, err := s.any(id)
	switch {
	case err != nil:
		return err
	case lives(d.meta):
		return doc.ErrConflict
	case !d.meta.Purge.At.IsZero():
		return nil
	}
	m := d.meta
	*d = memoryDocument{meta: doc.Meta{ID: m.ID, CreatedAt: m.CreatedAt, CreatedBy: m.CreatedBy, ChangedAt: m.ChangedAt, Number: m.Number,
		Deletion: m.Deletion, Purge: doc.Purge{At: millis(p.At), By: p.By}}}
	maps.DeleteFunc(s.slugs, func(_ doc.Slug, owner *memoryDocument) bool { return owner == d })
	s.ledger = slices.DeleteFunc(s.ledger, func(e doc.LedgerEntry) bool {
		return strings.HasPrefix(string(e.Resource), doc.SectionsPrefix(id))
	})
	return nil
}

// Changes gives the document's changes behind a number.
func (s *Memory) Changes(ctx context.Context, id crdt.DocumentID, after int64, limit int) ([]doc.ChangeRow, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return clone(page(d.changes, after-d.saved.Upto, limit)), nil
}

// Events gives the document's events behind a seq.
func (s *Memory) Events(ctx context.Context, id crdt.DocumentID, since doc.Seq, limit int) ([]doc.Event, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return cloneEvents(page(d.events, int64(since), limit)), nil
}

// Watch gives a channel that receives whenever events were appended to the document.
func (s *Memory) Watch(id crdt.DocumentID) (wake <-chan struct{}, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.watchers[id] = append(s.watchers[id], c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers[id] = slices.DeleteFunc(s.watchers[id], func(other chan struct{}) bool { return other == c })
	}
}

// LoadLeases returns the lease state as last saved.
func (s *Memory) LoadLeases(ctx context.Context) (lease.State, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return lease.State{}, err
	}
	defer leave()
	state := lease.State{Fence: s.fence, Agents: slices.Collect(maps.Values(s.agents))}
	for _, r := range s.records {
		state.Records = append(state.Records, cloneRecord(r))
	}
	return state, nil
}

func cloneRecord(r lease.Record) lease.Record {
	r.Leases, r.Queue = slices.Clone(r.Leases), slices.Clone(r.Queue)
	for i := range r.Leases {
		l := &r.Leases[i]
		l.AcquiredAt, l.ExpiresAt = l.AcquiredAt.UTC(), l.ExpiresAt.UTC()
	}
	return r
}

// SaveLeases saves what commits changed and appends their events.
func (s *Memory) SaveLeases(ctx context.Context, commits []doc.LeaseCommit) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for _, c := range commits {
		s.fence = max(s.fence, c.Fence)
		s.records[c.Record.Resource] = cloneRecord(c.Record)
		if len(c.Record.Leases) == 0 && len(c.Record.Queue) == 0 {
			delete(s.records, c.Record.Resource)
		}
		for _, a := range c.Agents {
			s.agents[a.Agent] = a
		}
		for _, e := range c.Commit.Events {
			s.ledgerSeq++
			s.ledger = append(s.ledger, doc.LedgerEntry{Seq: s.ledgerSeq, Event: cloneLeaseEvent(e)})
		}
		for _, call := range c.Calls {
			call.At = millis(call.At)
			s.forgetCall(call.Agent, call.Key)
			s.calls = append(s.calls, call)
		}
		if d, err := s.find(c.Document); err == nil {
			if _, err := s.add(d, doc.Append{Expect: doc.AnySeq, Events: c.Events}); err != nil {
				return err
			}
		}
	}
	return nil
}

func cloneLeaseEvent(e lease.Event) lease.Event {
	for _, t := range []*time.Time{&e.At, &e.Lease.AcquiredAt, &e.Lease.ExpiresAt, &e.Previous.AcquiredAt, &e.Previous.ExpiresAt,
		&e.Waiter.Since, &e.Waiter.Until, &e.Waiter.Reserved} {
		*t = t.UTC()
	}
	e.Cycle = slices.Clone(e.Cycle)
	return e
}

// Ledger gives the entries that a query asks for.
func (s *Memory) Ledger(ctx context.Context, q doc.LedgerQuery) ([]doc.LedgerEntry, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var found []doc.LedgerEntry
	for _, e := range s.ledger {
		granted := e.Kind == lease.Granted || e.Kind == lease.Handed
		about := cmp.Or(e.Waiter.Agent, e.Lease.Holder, e.Actor)
		switch {
		case e.Seq <= q.After,
			q.Before != 0 && e.Seq >= q.Before,
			q.Resource != "" && e.Resource != q.Resource,
			q.Agent != "" && e.Actor != q.Agent && about != q.Agent,
			q.Kind != "" && e.Kind != q.Kind,
			!q.Since.IsZero() && e.At.UnixMilli() < q.Since.UnixMilli(),
			q.MinFence > 0 && (!granted || e.Lease.Fence < q.MinFence),
			q.MaxFence > 0 && (!granted || e.Lease.Fence > q.MaxFence):
			continue
		}
		e.Event = cloneLeaseEvent(e.Event)
		found = append(found, e)
	}
	if q.Newest {
		slices.Reverse(found)
	}
	return page(found, 0, q.Limit), nil
}

func (s *Memory) forgetCall(a doc.Agent, k doc.IdempotencyKey) {
	s.calls = slices.DeleteFunc(s.calls, func(c doc.LeaseCall) bool { return c.Agent == a && c.Key == k })
}

// ForgetLeaseCall forgets a lease call.
func (s *Memory) ForgetLeaseCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s.forgetCall(a, k)
	return nil
}

// LeaseCall finds a remembered lease call.
func (s *Memory) LeaseCall(ctx context.Context, a doc.Agent, k doc.IdempotencyKey) (doc.LeaseCall, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return doc.LeaseCall{}, err
	}
	defer leave()
	if i := slices.IndexFunc(s.calls, func(c doc.LeaseCall) bool { return c.Agent == a && c.Key == k }); i >= 0 {
		return s.calls[i], nil
	}
	return doc.LeaseCall{}, doc.ErrNotFound
}

// Close forgets everything.
func (s *Memory) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
