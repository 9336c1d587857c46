package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/automerge/automerge-go"

	"cowrite/crdt"
	"cowrite/crdt/crdttest"
)

// base is the document that attacks begin with. It is the same in every run.
type base struct {
	doc     *automerge.Doc
	changes [][]byte
	heads   []crdt.Hash
	saved   []byte
}

func newBase(t *testing.T) *base {
	t.Helper()
	d := automerge.New()
	if err := d.SetActorID(strings.Repeat("b0", 16)); err != nil {
		t.Fatal(err)
	}
	section := func(text, position string) map[string]any {
		return map[string]any{"body": automerge.NewText(text), "position": position}
	}
	b := &base{doc: d}
	for _, put := range []struct {
		at    []any
		value any
	}{
		{[]any{"schema"}, 1},
		{[]any{"title"}, automerge.NewText("Under attack")},
		{[]any{"sections"}, map[string]any{"a": section("# A\nsome text\n", "P"), "b": section("# B\nmore text\n", "g")}},
		{[]any{"list"}, []any{1, "two", 3.5, nil, true, []byte{6}, time.UnixMilli(7)}},
		{[]any{"map"}, map[string]any{"n": 1234, "count": automerge.NewCounter(5), "deep": map[string]any{"er": "value"}}},
	} {
		if err := d.Path(put.at...).Set(put.value); err != nil {
			t.Fatal(err)
		}
		if err := commit(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Path("sections", "a", "body").Text().Splice(4, 5, "a better "); err != nil {
		t.Fatal(err)
	}
	if err := commit(d); err != nil {
		t.Fatal(err)
	}
	changes, err := d.Changes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		b.changes = append(b.changes, c.Save())
	}
	for _, h := range d.Heads() {
		b.heads = append(b.heads, crdt.Hash(h))
	}
	b.saved = d.Save()
	return b
}

func commit(d *automerge.Doc) error {
	_, err := d.Commit("", automerge.CommitOptions{Time: new(time.Unix(1, 0))})
	return err
}

// branch is the document with one change more by an author of its own, and that change.
func (b *base) branch(r *rand.Rand) (*automerge.Doc, []byte, error) {
	d, err := b.doc.Fork()
	if err != nil {
		return nil, nil, err
	}
	var author [16]byte
	for i := range author {
		author[i] = byte(r.Uint32())
	}
	if err := d.SetActorID(hex.EncodeToString(author[:])); err != nil {
		return nil, nil, err
	}
	for range 1 + r.IntN(3) {
		if err := edit(d, r); err != nil {
			return nil, nil, err
		}
	}
	if err := commit(d); err != nil {
		return nil, nil, err
	}
	changes, err := d.Changes(b.doc.Heads()...)
	if err != nil || len(changes) != 1 {
		return nil, nil, fmt.Errorf("%d changes: %w", len(changes), err)
	}
	parsed, _, err := crdt.ParseEntry(changes[0].Save(), crdt.Limits{ChangeBytes: 1 << 20})
	if err != nil {
		return nil, nil, err
	}
	return d, parsed[0].Plain(), nil
}

// edit does one thing of those that a replica may do.
func edit(d *automerge.Doc, r *rand.Rand) error {
	text := "some words"[:1+r.IntN(10)]
	list, err := d.Path("list").Get()
	if err != nil {
		return err
	}
	switch r.IntN(9) {
	case 0, 1:
		return d.Path("sections", "a", "body").Text().Splice(r.IntN(9), r.IntN(4), text)
	case 2:
		return d.Path("map", "n").Set(r.Int64() >> r.IntN(64))
	case 3:
		return d.Path("map").Map().Delete("deep")
	case 4:
		return list.List().Insert(r.IntN(4), text, r.Float64())
	case 5:
		return list.List().Delete(r.IntN(3))
	case 6:
		return d.Path("map", "count").Counter().Inc(r.Int64N(1000))
	case 7:
		return d.Path("sections", fmt.Sprint("new-", r.IntN(3))).Set(map[string]any{"body": automerge.NewText("# New\n" + text), "position": "k"})
	default:
		return d.Path("sections", "b", "position").Set(text)
	}
}

// damagedChange is a change with bytes turned over, or with its operations numbered anew, and a sound message that brings it.
func (b *base) damagedChange(r *rand.Rand) (message, chunk []byte, err error) {
	_, change, err := b.branch(r)
	if err != nil {
		return nil, nil, err
	}
	if chunk = crdttest.Mutate(r, change); r.IntN(10) == 0 {
		chunk = crdttest.Renumber(change, 1<<r.IntN(33))
	}
	return syncMessage(messageV1+byte(r.IntN(2)), []crdt.Hash{hashOf(chunk)}, chunk), chunk, nil
}

// damagedMessage is a message with bytes turned over: one that says what its sender has, one that brings changes, or one
// that brings a whole document, of which only that document is damaged.
func (b *base) damagedMessage(r *rand.Rand) (message, chunk []byte, err error) {
	d, change, err := b.branch(r)
	if err != nil {
		return nil, nil, err
	}
	mine := automerge.NewSyncState(d)
	m, _ := mine.GenerateMessage()
	switch r.IntN(3) {
	case 0:
		return crdttest.Scramble(r, m.Bytes()), change, nil
	case 1:
		theirs := automerge.NewSyncState(b.doc)
		answer, _ := theirs.GenerateMessage()
		if _, err := mine.ReceiveMessage(answer.Bytes()); err != nil {
			return nil, nil, err
		}
		m, _ := mine.GenerateMessage()
		return crdttest.Scramble(r, m.Bytes()), change, nil
	default:
		chunk = crdttest.Mutate(r, d.Save())
		return syncMessage(messageV2, []crdt.Hash{hashOf(change)}, chunk), chunk, nil
	}
}

// keep writes what ended a worker to the engine's tests, when it is asked for.
func (b *base) keep(chunk []byte) error {
	const folder = "../../crdt/engine/testdata/crashers"
	switch {
	case !*keepCrashers:
		return nil
	case chunk[8] == 0: // the type of a chunk that is a saved document
		return crdttest.Keep(folder, "document", chunk)
	default:
		return crdttest.Keep(folder, "change", append(b.changes[:len(b.changes):len(b.changes)], chunk)...)
	}
}
