package doc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"

	"cowrite/crdt"
	"cowrite/crdt/engine"
	"cowrite/doc/code"
)

// Edit is one way to say how a section's text is to change: exactly one of the types below.
type Edit interface {
	// on gives the operations on a text, sorted and apart. Refusals are INVALID_RANGE, TEXT_NOT_FOUND,
	// TEXT_AMBIGUOUS, TOO_LARGE.
	on(text string) ([]TextOp, error)
}

// TextEdit gives the whole new text. It is compared with the base word by word, so that concurrent edits of other
// words stay whole.
type TextEdit struct{ Text string }

// OpsEdit gives operations, in any order; their ranges do not overlap.
type OpsEdit struct{ Ops []TextOp }

// ReplaceEdit replaces passages by what they say. Each is looked for in the base; none may overlap another.
type ReplaceEdit struct{ Replacements []Replacement }

// TextOp replaces, in a text, Delete code points from At on by Insert. Positions of several count in the text as it was
// before any of them.
type TextOp struct {
	At     int    `json:"at"`
	Delete int    `json:"delete,omitempty"`
	Insert string `json:"insert,omitempty"`
}

// Replacement replaces the passage Find by With.
type Replacement struct {
	Find, With string
	Occurrence int // which, from 1; 0: it must be the only one
}

const (
	maxOps = 10_000 // operations or replacements of one edit
	// maxSearched is how many bytes of text the replacements of one edit may be looked for in, each in the whole.
	maxSearched = 128 << 20
)

func (e TextEdit) on(text string) ([]TextOp, error) { return diffText(text, e.Text), nil }

func (e OpsEdit) on(text string) ([]TextOp, error) {
	length := utf8.RuneCountInString(text)
	ops := slices.SortedStableFunc(slices.Values(e.Ops), func(a, b TextOp) int { return cmp.Compare(a.At, b.At) })
	end := 0
	for _, op := range ops {
		if op.At < end || op.Delete < 0 || op.At > length || op.Delete > length-op.At {
			return nil, code.New(code.InvalidRange, "operations lie within the base's %d code points and do not overlap", length).
				With("length", length).With("at", op.At)
		}
		end = op.At + op.Delete
	}
	return ops, nil
}

func (e ReplaceEdit) on(text string) ([]TextOp, error) {
	if most := maxSearched / max(1, len(text)); len(e.Replacements) > most {
		return nil, code.New(code.TooLarge, "one edit of a text of %d bytes takes at most %d replacements: make several, or give operations", len(text), most).
			With("limit", most)
	}
	var passages []TextOp
	for _, r := range e.Replacements {
		at, err := r.find(text)
		if err != nil {
			return nil, err
		}
		passages = append(passages, TextOp{At: utf8.RuneCountInString(text[:at]), Delete: utf8.RuneCountInString(r.Find)})
	}
	if _, err := (OpsEdit{passages}).on(text); err != nil {
		return nil, err
	}
	var ops []TextOp
	left := diffTimeout
	for i, r := range e.Replacements {
		began := time.Now()
		for _, op := range diffWithin(left, r.Find, r.With) { // what the two have in common is left alone
			op.At += passages[i].At
			ops = append(ops, op)
		}
		left -= time.Since(began)
	}
	return OpsEdit{ops}.on(text)
}

// find gives the byte at which the passage stands.
func (r Replacement) find(text string) (int, error) {
	if r.Find == "" {
		return 0, code.New(code.BadRequest, `"find" is empty`)
	}
	count := strings.Count(text, r.Find)
	switch {
	case count == 0 || r.Occurrence > count:
		near, at := nearest(text, r.Find)
		return 0, code.New(code.TextNotFound, "the text to replace is there %d times; nothing was written", count).
			With("find", r.Find).With("near", near).With("at", at)
	case count > 1 && r.Occurrence == 0:
		at := strings.Index(text, r.Find)
		return 0, code.New(code.TextAmbiguous, `the text to replace is there %d times: say which by "occurrence", or give more of it; nothing was written`, count).
			With("find", r.Find).With("count", count).With("near", around(text, at, len(r.Find)))
	}
	at := strings.Index(text, r.Find)
	for range r.Occurrence - 1 {
		at += len(r.Find) + strings.Index(text[at+len(r.Find):], r.Find)
	}
	return at, nil
}

// nearest looks for the passage that is most like what was not found, and gives the text around it and its position
// in code points; "" and -1 when nothing is like it.
func nearest(text, find string) (near string, at int) {
	const pattern = 32 // as many characters as the search takes
	dmp := diffmatchpatch.New()
	dmp.MatchDistance = 10 * len(text)
	i := dmp.MatchMain(text, truncate(find, pattern), 0)
	if i < 0 {
		return "", -1
	}
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return around(text, i, len(find)), utf8.RuneCountInString(text[:i])
}

// around gives a passage of a text with some of what stands before and behind it.
func around(text string, at, length int) string {
	const context = 80
	start, end := max(0, at-context), min(len(text), at+length+context)
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return text[start:end]
}

// ApplyOps does operations to a text, sorted as an Update has them.
func ApplyOps(text string, ops []TextOp) string {
	var b strings.Builder
	at := 0 // code points of text that are done with
	for _, op := range ops {
		n := runeOffset(text, op.At-at)
		b.WriteString(text[:n])
		b.WriteString(op.Insert)
		text = text[n:]
		text = text[runeOffset(text, op.Delete):]
		at = op.At + op.Delete
	}
	b.WriteString(text)
	return b.String()
}

// runeOffset is the length in bytes of a text's first n code points.
func runeOffset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// splices turns sorted operations on a text into the engine's, each of which counts in what those before it left.
func splices(path crdt.Path, ops []TextOp) []engine.Op {
	var out []engine.Op
	shift := 0
	for _, op := range ops {
		if op.Delete == 0 && op.Insert == "" {
			continue
		}
		out = append(out, engine.Splice{Path: path, At: op.At + shift, Delete: op.Delete, Insert: op.Insert})
		shift += utf8.RuneCountInString(op.Insert) - op.Delete
	}
	return out
}

// EditSection changes a section's text as if typed on base: what others wrote since stays. A section that does not
// exist is made, at the end, by a TextEdit alone; the others are SECTION_NOT_FOUND. A TextEdit without a base (nil) is
// BASE_REQUIRED with the present version and text, unless the section is empty or not there; the others then mean
// the present version. INVALID_VERSION for a base that this document never had, or that did not have the section;
// TOO_LARGE, BAD_REQUEST, and the refusals of the edit itself, with the present version.
func (l *Library) EditSection(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, e Edit, base *Base, opts ...WriteOption) (Written, error) {
	if err := l.checkEdit(e); err != nil {
		return Written{}, err
	}
	return l.changeSection(ctx, k, id, sid, func(d *desk, c *content) (plan, error) {
		present, ok := c.sections[sid]
		text, whole := e.(TextEdit)
		switch {
		case !ok && !whole:
			return plan{}, sectionNotFound(sid)
		case !ok:
			ops, err := l.addOps(c, sid, "", text.Text)
			return plan{what: SectionCreated, ops: ops}, err
		case base == nil && whole && present.Text != "":
			return plan{}, code.New(code.BaseRequired, `say in "base" which version the text was based on, or "current" to replace the present one`).
				With("version", d.version()).With("text", present.Text)
		case base == nil:
			base = &Base{Current: true}
		}
		heads, old, past, err := d.textAt(l.ctx, sid, present, *base)
		if err != nil {
			return plan{}, err
		}
		ops, err := e.on(old)
		if refusal := (*code.Error)(nil); errors.As(err, &refusal) {
			return plan{}, refusal.With("version", d.version())
		}
		p := plan{what: SectionEdited, base: heads, old: old, wanted: ApplyOps(old, ops)}
		if err := l.checkText("section", p.wanted, l.limits.SectionBytes); err != nil {
			return plan{}, err
		}
		switch path := sectionPath(sid, keyBody); {
		case p.wanted == old && past == nil:
		case present.scalarBody && heads == nil:
			p.ops = []engine.Op{engine.PutText{Path: path, Text: p.wanted}}
		case past != nil:
			p.mapped, p.typed, p.onto, p.since = true, ops, onto(past, ops), d.differences(past)
			p.ops = splices(path, p.onto)
			after := ApplyOps(present.Text, p.onto)
			p.after = &after
		case heads != nil:
			p.ops = splices(path, ops)
		default:
			p.ops, p.after = splices(path, ops), &p.wanted
		}
		return p, nil
	}, opts...)
}

// readBack is from how many bytes on it costs more to read a section's text out of the engine after each edit than to know
// its sequence.
const readBack = 4 << 10

// editSection makes a planned change to a section, whose content is known then without asking the engine once more: from
// the plan where it leads to one text for sure, else read with the change.
func (d *desk) editSection(ctx context.Context, s *step, author Agent, sid SectionID, p plan) (*crdt.Change, error) {
	base := p.base
	if p.mapped {
		base = nil
	}
	var q *crdt.Sequence // nil: what comes of splices is not known for sure
	if p.after != nil {
		if q = d.sequences[sid]; q == nil && len(*p.after) >= readBack {
			var err error
			if q, err = d.sequence(ctx, sid); err != nil && !errors.Is(err, crdt.ErrUnmapped) {
				return nil, err
			}
		}
	}
	if q != nil {
		change, err := d.edit(ctx, s, author, base, p.ops)
		if err != nil || change == nil {
			return change, err
		}
		if n, err := q.Len(); err == nil && n == utf8.RuneCountInString(*p.after) {
			d.content.setText(sid, *p.after)
			delete(d.stale, sid)
		}
		return change, nil
	}
	doc, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	change, section, err := doc.EditRead(ctx, base, s.at, p.ops, sectionPath(sid))
	if err != nil {
		return nil, unavailable("edit section", err)
	}
	d.stageEdit(s, change, author)
	if !d.reread && d.content.readSection(string(sid), section) {
		delete(d.stale, sid)
	}
	return change, nil
}

// checkEdit refuses what no text could make right.
func (l *Library) checkEdit(e Edit) error {
	count := 0
	var inserted strings.Builder
	switch e := e.(type) {
	case TextEdit:
		inserted.WriteString(e.Text)
	case OpsEdit:
		count = len(e.Ops)
		for _, op := range e.Ops {
			inserted.WriteString(op.Insert)
		}
	case ReplaceEdit:
		count = len(e.Replacements)
		for _, r := range e.Replacements {
			inserted.WriteString(r.With)
			if r.Occurrence < 0 {
				return code.New(code.BadRequest, "occurrences count from 1")
			}
		}
	}
	if count > maxOps {
		return code.New(code.TooLarge, "an edit has at most %d operations", maxOps).With("limit", maxOps)
	}
	return l.checkText("section", inserted.String(), l.limits.SectionBytes)
}

// How long and how many writes are remembered for their retries.
const (
	EditCallsKept     = 24 * time.Hour
	EditCallsPerAgent = 10_000 // at least; the oldest are forgotten first
)

// EditCall is an edit, or another write to a document, that was made with an Idempotency-Key, as it is remembered for its
// retries.
type EditCall struct {
	Agent    Agent
	Key      IdempotencyKey
	Request  RequestDigest
	Section  SectionID // "": it was of no section
	Hash     crdt.Hash // the change that it made; zero: none
	At       time.Time
	Document crdt.DocumentID // set by the store
	Seq      Seq             // of the log's last event with it; set by the store
}

// remember stages that a write was done.
func (s *step) remember(a Agent, sid SectionID, o writeOptions, h crdt.Hash) {
	if o.key != "" {
		s.Calls = append(s.Calls, EditCall{Agent: a, Key: o.key, Request: o.request, Section: sid, Hash: h, At: s.at})
	}
}

// repeats says whether an edit was done before, be it in this very step.
func (d *desk) repeats(ctx context.Context, s *step, a Agent, sid SectionID, o writeOptions) (bool, error) {
	if o.key == "" {
		return false, nil
	}
	former, err := d.lib.store.EditCall(ctx, a, o.key)
	if i := slices.IndexFunc(s.Calls, func(c EditCall) bool { return c.Agent == a && c.Key == o.key }); i >= 0 {
		former, err = s.Calls[i], nil
	}
	switch {
	case errors.Is(err, ErrNotFound), err == nil && s.at.Sub(former.At) >= EditCallsKept:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("recall edit: %w", err)
	case former.Request != o.request || former.Section != sid || former.Hash != (crdt.Hash{}) && !d.graph.Has(former.Hash):
		return false, idempotencyMismatch()
	}
	return true, nil
}
