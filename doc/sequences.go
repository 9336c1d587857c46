package doc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// past gives a section's text as it was at older heads, and the way to lead edits of it over to the present one.
// crdt.ErrNoText when there was no text; crdt.ErrUnmapped when only the engine can tell.
func (d *desk) past(ctx context.Context, sid SectionID, heads []crdt.Hash, present sectionContent) (*crdt.Past, string, error) {
	if present.scalarBody {
		return nil, "", crdt.ErrUnmapped
	}
	q, err := d.sequence(ctx, sid)
	if err != nil {
		return nil, "", err
	}
	p, err := q.Past(heads)
	if err != nil {
		return nil, "", err
	}
	text, err := p.Text(present.Text)
	return p, text, err
}

// formerText gives a section's text as it was at a version; "" is the present one. INVALID_VERSION, also when the section was
// not there.
func (d *desk) formerText(ctx context.Context, sid SectionID, v crdt.Version, present sectionContent) (string, error) {
	heads, err := d.headsOf(v)
	if err != nil {
		return "", err
	}
	if heads != nil {
		_, text, err := d.past(ctx, sid, heads, present)
		if err == nil || !errors.Is(err, crdt.ErrUnmapped) && !errors.Is(err, crdt.ErrNoText) {
			return text, err
		}
	}
	then, err := d.contentAt(ctx, v) // it may have been something else than a text
	if err != nil {
		return "", err
	}
	former, ok := then.sections[sid]
	if !ok {
		return "", code.New(code.InvalidVersion, "the section was not there at that version")
	}
	return former.Text, nil
}

// sequence gives the sequence of a section's text. It is made when it is first asked for and kept, up to date, as long as
// the document is in the engine. One that cannot be made is not tried again before the document is loaded anew.
func (d *desk) sequence(ctx context.Context, sid SectionID) (*crdt.Sequence, error) {
	if _, err := d.engine(ctx); err != nil {
		return nil, err
	}
	q, known := d.sequences[sid]
	if !known {
		var err error
		if q, err = d.makeSequence(ctx, sid); err != nil {
			d.lib.log.Warn("make sequence of section", "document", d.id, "section", sid, "err", err)
		}
		if d.sequences == nil {
			d.sequences = map[SectionID]*crdt.Sequence{}
		}
		d.sequences[sid] = q
		d.lib.weigh(d)
	}
	if q == nil {
		return nil, crdt.ErrUnmapped
	}
	return q, nil
}

// makeSequence goes through all the document's changes: those of the saved document, of the store's rows, and those that
// wait to be stored.
func (d *desk) makeSequence(ctx context.Context, sid SectionID) (*crdt.Sequence, error) {
	q := crdt.NewSequence(d.graph, sectionPath(sid, keyBody))
	taken := 0
	take := func(c crdt.Change) error {
		n, ok := d.graph.Number(c.Hash)
		if !ok || n > taken {
			return fmt.Errorf("change %s does not follow the ones before it", c.Hash)
		}
		if n == taken {
			q.Add(c)
			taken++
		}
		return nil
	}
	chunk, raws, err := d.storedForm(ctx)
	if err != nil {
		return nil, err
	}
	if chunk != nil {
		changes, err := d.lib.engine.Unpack(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("unpack saved document: %w", err)
		}
		number := func(c crdt.Change) int { n, _ := d.graph.Number(c.Hash); return n }
		slices.SortFunc(changes, func(a, b crdt.Change) int { return cmp.Compare(number(a), number(b)) })
		for _, c := range changes {
			if err := take(c); err != nil {
				return nil, err
			}
		}
	}
	takeRaw := func(raw []byte) error {
		changes, _, err := crdt.ParseEntry(raw, crdt.NoLimits)
		if err != nil || len(changes) != 1 {
			return cmp.Or(err, errors.New("not one change"))
		}
		return take(changes[0])
	}
	for _, raw := range raws {
		if err := takeRaw(raw); err != nil {
			return nil, err
		}
	}
	for _, h := range d.graph.From(taken) {
		if err := takeRaw(d.tail.raws[h]); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// rememberIn has the sequences take in a change that touches their sections.
func (d *desk) rememberIn(c crdt.Change, t touched) {
	for sid, q := range d.sequences {
		if _, here := t.sections[sid]; q != nil && (here || len(t.other) > 0) {
			q.Add(c)
		}
	}
}

func (d *desk) sequencesSize() int {
	size := 0
	for _, q := range d.sequences {
		if q != nil {
			size += q.Size()
		}
	}
	return size
}

// onto leads operations on an older text over to the present one.
func onto(p *crdt.Past, ops []TextOp) []TextOp {
	spliced := make([]crdt.Splice, len(ops))
	for i, op := range ops {
		spliced[i] = crdt.Splice(op)
	}
	var out []TextOp
	for _, s := range p.Onto(spliced) {
		out = append(out, TextOp(s))
	}
	return out
}
