package doc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/storetest"
	"cowrite/lease"
)

var (
	formSequences = flag.Int("forms.sequences", 20, "how many sequences of edits TestEditsAreForkAndMerge makes")
	formSeed      = flag.Uint64("forms.seed", 1, "the first seed")
)

const formSteps = 16 // edits of a sequence

// Edits of the three forms on versions old and new come to what a fork of the document there, edited and merged by the
// core, comes to, whoever else writes; and what they say was merged in is whose it is. To see one sequence again:
// -forms.sequences 1 -forms.seed N.
func TestEditsAreForkAndMerge(t *testing.T) {
	var next, edits, merged, overlapped atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for n := next.Add(1) - 1; n < uint64(*formSequences) && !t.Failed(); n = next.Add(1) - 1 {
				s := &forms{rnd: rand.New(rand.NewPCG(*formSeed+n, 0))}
				if err := s.run(t.Context()); err != nil {
					t.Errorf("seed %d: %v", *formSeed+n, err)
				}
				edits.Add(s.edits)
				merged.Add(s.merged)
				overlapped.Add(s.overlapped)
			}
		})
	}
	all.Wait()
	t.Logf("%d edits in %d sequences, %d merged, %d with an overlap", edits.Load(), *formSequences, merged.Load(), overlapped.Load())
	if merged.Load() == 0 || overlapped.Load() == 0 {
		t.Error("nothing was merged, or nothing overlapped")
	}
}

// forms is one sequence of edits of a section by several agents and a replica.
type forms struct {
	rnd     *rand.Rand
	library *doc.Library
	store   *storetest.Memory
	id      crdt.DocumentID
	sid     doc.SectionID
	replica *doc.Attachment

	core     engine.Document // what the core makes of the same changes
	parts    [][]byte
	versions []crdt.Version
	texts    []string // of the section, at each version

	edits, merged, overlapped uint64
}

var formAgents = []doc.Key{alice, bob, editor("carol")}

func (s *forms) run(ctx context.Context) (err error) {
	s.store = storetest.NewMemory()
	keeper, err := lease.Open(ctx, doc.LeaseStore(s.store, nil), lease.Options{})
	if err != nil {
		return err
	}
	core := engine.New(engine.Options{})
	if s.library, err = doc.Open(doc.Options{Store: s.store, Engine: core, Leases: keeper}); err != nil {
		return err
	}
	defer func() {
		s.replica.Detach()
		err = errors.Join(err, s.library.Close(context.WithoutCancel(ctx)), keeper.Close(), s.store.Close())
	}()
	snap, err := s.library.Create(ctx, alice, doc.NewDocument{Markdown: s.text(8)})
	if err != nil {
		return err
	}
	if s.id = snap.Meta.ID; len(snap.Sections) == 0 {
		w, err := s.library.AddSection(ctx, alice, s.id, "s", "", "a")
		if err != nil {
			return err
		}
		s.sid = w.Section.ID
	} else {
		s.sid = snap.Sections[0].ID
	}
	if s.replica, err = s.library.Attach(ctx, editor("dave"), s.id, deaf{}, false); err != nil {
		return err
	}
	if s.core, err = core.Load(ctx, s.id, nil); err != nil {
		return err
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	for n := range formSteps {
		step := s.edit
		if s.rnd.IntN(4) == 0 {
			step = s.typed
		}
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
	}
	return nil
}

// text draws a text of few letters, so that a comparison of texts would often go wrong; one is outside of the basic plane.
func (s *forms) text(most int) string {
	var b strings.Builder
	for range s.rnd.IntN(most + 1) {
		b.WriteRune([]rune("aab 🙂")[s.rnd.IntN(5)])
	}
	return b.String()
}

func (s *forms) path() crdt.Path { return crdt.Path{"sections", string(s.sid), "body"} }

func (s *forms) read(ctx context.Context, d engine.Document) (string, error) {
	v, err := d.Read(ctx, nil, s.path())
	text, ok := v.(engine.Text)
	if err == nil && !ok {
		err = fmt.Errorf("the section's text is %T", v)
	}
	return string(text), err
}

// follow takes what was stored since into the core's document, and compares.
func (s *forms) follow(ctx context.Context) error {
	rows, err := s.store.Changes(ctx, s.id, int64(len(s.parts)), 1000)
	if err != nil {
		return err
	}
	for _, row := range rows {
		changes, _, err := crdt.ParseEntry(row.Raw, crdt.Limits{ChangeBytes: 1 << 20})
		if err != nil {
			return err
		}
		if err := s.core.Apply(ctx, changes); err != nil {
			return err
		}
		s.parts = append(s.parts, row.Raw)
	}
	snap, err := s.library.Read(ctx, alice, s.id)
	if err != nil {
		return err
	}
	want, err := s.read(ctx, s.core)
	if got := snap.Sections[0].Text; err == nil && got != want {
		err = fmt.Errorf("the section reads %q, and to the core %q", got, want)
	}
	s.versions, s.texts = append(s.versions, snap.Version), append(s.texts, want)
	return err
}

// base draws a version, and gives the section's text there.
func (s *forms) base() (v crdt.Version, heads []crdt.Hash, text string, err error) {
	n := s.rnd.IntN(len(s.versions))
	heads, err = s.versions[n].Heads()
	return s.versions[n], heads, s.texts[n], err
}

// typed has the replica write on an old version, as one does that was away.
func (s *forms) typed(ctx context.Context) error {
	_, heads, text, err := s.base()
	if err != nil {
		return err
	}
	fork, err := engine.New(engine.Options{}).Load(ctx, s.id, s.parts)
	if err != nil {
		return err
	}
	change, err := fork.Edit(ctx, heads, time.Unix(1, 0), s.onText(s.operations(text)))
	if err != nil || change == nil {
		return err
	}
	message := append([]byte{0x42, 1}, change.Hash[:]...) // a sync message: heads, nothing needed, nothing had, one change
	message = append(message, 0, 0, 1)
	message = append(binary.AppendUvarint(message, uint64(len(change.Raw))), change.Raw...)
	if err := s.replica.Receive(ctx, message); err != nil {
		return err
	}
	return s.follow(ctx)
}

// operations draws some on a text, sorted and apart.
func (s *forms) operations(text string) []doc.TextOp {
	var out []doc.TextOp
	length, at := utf8.RuneCountInString(text), 0
	for range 1 + s.rnd.IntN(3) {
		at += s.rnd.IntN(length - at + 1)
		op := doc.TextOp{At: at, Delete: s.rnd.IntN(min(4, length-at) + 1)}
		if op.Delete == 0 || s.rnd.IntN(2) == 0 {
			op.Insert = s.text(3)
		}
		at += op.Delete
		out = append(out, op)
	}
	return out
}

// onText turns them into the core's, each of which counts in what those before it left.
func (s *forms) onText(ops []doc.TextOp) []engine.Op {
	var out []engine.Op
	shift := 0
	for _, op := range ops {
		out = append(out, engine.Splice{Path: s.path(), At: op.At + shift, Delete: op.Delete, Insert: op.Insert})
		shift += utf8.RuneCountInString(op.Insert) - op.Delete
	}
	return out
}

// form draws an edit of a text, and what it comes to in operations.
func (s *forms) form(text string) (doc.Edit, []doc.TextOp) {
	ops := s.operations(text)
	switch s.rnd.IntN(3) {
	case 0:
		wanted := doc.ApplyOps(text, ops)
		return doc.TextEdit{Text: wanted}, doc.DiffText(text, wanted)
	case 1:
		if r, ops, ok := s.replacement(text); ok {
			return doc.ReplaceEdit{Replacements: []doc.Replacement{r}}, ops
		}
	}
	mixed := slices.Clone(ops)
	if slices.IndexFunc(ops, func(op doc.TextOp) bool { return op.Delete == 0 }) < 0 { // those at one place are kept in order
		s.rnd.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	}
	return doc.OpsEdit{Ops: mixed}, ops
}

// replacement draws a passage that stands in a text, be it several times, and what it is replaced by.
func (s *forms) replacement(text string) (r doc.Replacement, ops []doc.TextOp, ok bool) {
	runes := []rune(text)
	if len(runes) == 0 {
		return r, nil, false
	}
	from := s.rnd.IntN(len(runes))
	find := runes[from : from+1+s.rnd.IntN(min(4, len(runes)-from))]
	var places []int
	for at := 0; at+len(find) <= len(runes); at++ {
		if slices.Equal(runes[at:at+len(find)], find) {
			places = append(places, at)
			at += len(find) - 1
		}
	}
	which := s.rnd.IntN(len(places))
	r = doc.Replacement{Find: string(find), With: s.text(4), Occurrence: which + 1}
	if len(places) == 1 && s.rnd.IntN(2) == 0 {
		r.Occurrence = 0
	}
	for _, op := range doc.DiffText(r.Find, r.With) {
		op.At += places[which]
		ops = append(ops, op)
	}
	return r, ops, true
}

// edit has an agent edit a version, and compares.
func (s *forms) edit(ctx context.Context) error {
	s.edits++
	version, heads, then, err := s.base()
	if err != nil {
		return err
	}
	form, ops := s.form(then)
	want, err := s.merge(ctx, heads, ops)
	if err != nil {
		return err
	}
	by := formAgents[s.rnd.IntN(len(formAgents))]
	before, err := s.store.Document(ctx, s.id)
	if err != nil {
		return err
	}
	got, err := s.library.EditSection(ctx, by, s.id, s.sid, form, &doc.Base{Version: version})
	if err != nil {
		return err
	}
	if got.Section.Text != want {
		return fmt.Errorf("%+v on %q gave %q, want %q", form, then, got.Section.Text, want)
	}
	wanted := doc.ApplyOps(then, ops)
	if got.Merged != (want != wanted) || got.Merged != (got.MergedFrom != nil) {
		return fmt.Errorf("%+v on %q gave %q, merged: %v, from %+v", form, then, want, got.Merged, got.MergedFrom)
	}
	if got.Merged {
		s.merged++
		if err := s.attributed(ctx, by.Agent, wanted, got); err != nil {
			return fmt.Errorf("%+v on %q gave %q, merged from %+v: %w", form, then, want, got.MergedFrom, err)
		}
	}
	events, err := s.store.Events(ctx, s.id, before.LastSeq, 10)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Type == doc.SectionOverlap {
			s.overlapped++
		}
	}
	return s.follow(ctx)
}

// merge is what the core makes of operations on a version: by the author with the lowest id of all, which is how inserts at
// the same place are put in order.
func (s *forms) merge(ctx context.Context, heads []crdt.Hash, ops []doc.TextOp) (string, error) {
	highest, lowest := bytes.Repeat([]byte{0xff}, 16), make([]byte, 16)
	d, err := engine.New(engine.Options{Random: io.MultiReader(bytes.NewReader(highest), bytes.NewReader(lowest))}).Load(ctx, s.id, s.parts)
	if err != nil {
		return "", err
	}
	if _, err := d.Edit(ctx, heads, time.Unix(1, 0), s.onText(ops)); err != nil {
		return "", err
	}
	return s.read(ctx, d)
}

// attributed checks what was merged in: without it the text is what the writer wanted, and each range is of who the
// blame says wrote it.
func (s *forms) attributed(ctx context.Context, by doc.Agent, wanted string, got doc.Written) error {
	blame, err := s.library.Blame(ctx, alice, s.id, s.sid, got.Version)
	if err != nil {
		return err
	}
	var authors []doc.Agent // of each character
	for _, r := range blame.Ranges {
		authors = append(authors, slices.Repeat([]doc.Agent{r.Agent}, r.Length)...)
	}
	text, rest := []rune(got.Section.Text), []rune(wanted)
	var agents []doc.Agent
	at := 0
	for _, r := range got.MergedFrom.Ranges {
		if r.At < at || r.Length+r.Deleted == 0 || r.At+r.Length > len(text) {
			return fmt.Errorf("range %+v", r)
		}
		for ; at < r.At; at++ { // the writer's, but for what was removed of it
			i := slices.Index(rest, text[at])
			if i < 0 {
				return fmt.Errorf("%q at %d is not what the writer wanted", text[at], at)
			}
			rest = rest[i+1:]
		}
		for ; at < r.At+r.Length; at++ {
			if authors[at] != r.Agent {
				return fmt.Errorf("%q at %d is by %s", text[at], at, authors[at])
			}
		}
		if r.Agent != by && !slices.Contains(agents, r.Agent) {
			agents = append(agents, r.Agent)
		}
	}
	length := len(text)
	for _, r := range got.MergedFrom.Ranges {
		length += r.Deleted - r.Length
	}
	if length != utf8.RuneCountInString(wanted) || !slices.Equal(agents, got.MergedFrom.Agents) {
		return fmt.Errorf("of %d characters that were wanted %d are told of, by %v", utf8.RuneCountInString(wanted), length, agents)
	}
	return nil
}
