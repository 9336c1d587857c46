package doc

import (
	"context"
	"errors"
	"unicode/utf8"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// Blame is who wrote what of a section's text at a version.
type Blame struct {
	Version crdt.Version
	Ranges  []BlameRange // from the beginning of the text to its end, without gaps
}

// BlameRange is a passage by one author, in code points.
type BlameRange struct {
	At, Length int
	Agent      Agent     // "": it is not known
	Change     crdt.Hash // the latest change that wrote any of it; zero when the agent is not known
}

// Blame says who inserted each character of a section's text as it was at a version ("" is now). A section whose text
// the server cannot follow, as one that a replica keeps as a scalar string, is one passage by nobody that is known.
// SECTION_NOT_FOUND, INVALID_VERSION.
func (l *Library) Blame(ctx context.Context, k Key, id crdt.DocumentID, sid SectionID, v crdt.Version) (Blame, error) {
	if _, err := l.meta(ctx, k, id, false); err != nil {
		return Blame{}, err
	}
	var b Blame
	err := l.at(ctx, id, func(d *desk) *request {
		return &request{stage: func(*step) error {
			c, err := d.current(l.ctx)
			if err != nil {
				return err
			}
			present, ok := c.sections[sid]
			if !ok {
				return sectionNotFound(sid)
			}
			b = Blame{Version: v}
			if v == "" {
				b.Version = d.version()
			}
			b.Ranges, err = d.blame(l.ctx, sid, b.Version, present)
			return err
		}}
	})
	return b, err
}

func (d *desk) blame(ctx context.Context, sid SectionID, v crdt.Version, present sectionContent) ([]BlameRange, error) {
	heads, err := d.headsOf(v)
	if err != nil {
		return nil, err
	}
	p, _, err := d.past(ctx, sid, heads, present)
	switch {
	case err == nil:
		return d.blamed(p.Written()), nil
	case errors.Is(err, crdt.ErrNoText):
		return nil, code.New(code.InvalidVersion, "the section has no text at that version").With("version", d.version())
	case !errors.Is(err, crdt.ErrUnmapped):
		return nil, err
	}
	_, text, _, err := d.textAt(ctx, sid, present, Base{Version: v})
	if err != nil || text == "" {
		return nil, err
	}
	return []BlameRange{{Length: utf8.RuneCountInString(text)}}, nil
}

// blamed puts the passages of each author together.
func (d *desk) blamed(written []crdt.Written) []BlameRange {
	var out []BlameRange
	latest := 0
	for _, w := range written {
		agent, _ := d.origins.of(w.Change)
		if n := len(out); n > 0 && out[n-1].Agent == agent {
			out[n-1].Length += w.Length
			latest = max(latest, w.Change)
		} else {
			out = append(out, BlameRange{At: w.At, Length: w.Length, Agent: agent})
			latest = w.Change
		}
		if agent != "" {
			out[len(out)-1].Change = d.graph.Hash(latest)
		}
	}
	return out
}
