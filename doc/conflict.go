package doc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"cowrite/crdt"
)

// conflictPayload is the payload of section.conflict.
type conflictPayload struct {
	SectionID SectionID    `json:"sectionId"`
	CopiedTo  SectionID    `json:"copiedTo"` // a new section that has the hidden one's text
	Version   crdt.Version `json:"version"`
	Hash      string       `json:"hash"`
}

// stageConflicts sees to it that nobody's text vanishes: two replicas may make a section of the same id at the same
// time. Automerge shows one and hides the other, whose text is copied into a new section behind it.
//
// The new section's id is made from the hidden one's name in the document, so that a text is copied once, whoever
// notices it and however often.
func (d *desk) stageConflicts(ctx context.Context, s *step, author Agent, t touched) error {
	for _, sid := range t.sectionIDs() {
		if !t.sections[sid].made || d.objects.Made(sectionPath(sid)) < 2 {
			continue
		}
		q, err := d.sequence(ctx, sid)
		if errors.Is(err, crdt.ErrUnmapped) {
			d.lib.log.Warn("a section may hide another, which cannot be read", "document", d.id, "section", sid)
			continue
		}
		if err != nil {
			return err
		}
		for _, hidden := range q.Hidden() {
			if err := d.uncover(ctx, s, author, sid, hidden); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *desk) uncover(ctx context.Context, s *step, author Agent, sid SectionID, hidden crdt.HiddenText) error {
	c, err := d.current(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(hidden.Name))
	copied := SectionID(fmt.Sprintf("%.*s-%s", maxNameLength-13, sid, hex.EncodeToString(sum[:6])))
	if _, done := c.sections[copied]; done || hidden.Text == "" {
		return nil
	}
	change, err := d.edit(ctx, s, author, nil, sectionOps(copied, hidden.Text, c.positionBehind(copied, sid, false)))
	if err != nil {
		return err
	}
	return d.event(s, SectionConflict, author, conflictPayload{sid, copied, d.version(), change.Hash.String()})
}
