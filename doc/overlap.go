package doc

import (
	"unicode/utf8"

	"cowrite/crdt"
)

// MergedFrom is what of others' writing was merged into a section since the base of a write.
type MergedFrom struct {
	Agents []Agent       // who wrote in the section since
	Ranges []MergedRange // where the section now differs from what the writer wrote
}

// MergedRange is one place where others' writing was merged in: Length code points from At on are theirs, and Deleted
// ones of the writer's text are gone.
type MergedRange struct {
	At      int `json:"at"`
	Length  int `json:"length"`
	Deleted int `json:"deleted"`
}

func (d *desk) mergedFrom(base []crdt.Hash, sid SectionID, author Agent, wanted, result string) *MergedFrom {
	m := &MergedFrom{Agents: d.authorsSince(base, sid, author)}
	shift := 0
	for _, op := range diffText(wanted, result) {
		r := MergedRange{At: op.At + shift, Length: utf8.RuneCountInString(op.Insert), Deleted: op.Delete}
		shift += r.Length - r.Deleted
		m.Ranges = append(m.Ranges, r)
	}
	return m
}

// overlapPayload is the payload of section.overlap: two authors changed the same words at the same time. The
// merge kept what both wrote, and somebody should look.
type overlapPayload struct {
	SectionID SectionID    `json:"sectionId"`
	Authors   []Agent      `json:"authors"` // who came later first
	Base      crdt.Version `json:"base"`
	Version   crdt.Version `json:"version"`
	Places    []overlap    `json:"places"` // at most maxOverlaps
}

// overlap is a passage of the base that both changed, and what each made of it.
type overlap struct {
	At    int    `json:"at"` // in code points of the base
	Text  string `json:"text"`
	Mine  string `json:"mine"` // by the first of the authors
	Their string `json:"their"`
}

const (
	maxOverlaps     = 16
	maxOverlapBytes = 1 << 10 // of each text shown
)

// stageOverlap logs where a write and what others wrote since its base changed the same words. present is the text
// that the others had made of the base.
func (d *desk) stageOverlap(s *step, author Agent, sid SectionID, p plan, present string, others []Agent) error {
	places := overlaps(p.old, diffText(p.old, p.wanted), diffText(p.old, present))
	if len(places) == 0 || len(others) == 0 {
		return nil
	}
	return d.event(s, SectionOverlap, author, overlapPayload{
		SectionID: sid, Authors: append([]Agent{author}, others...), Base: crdt.VersionOf(p.base), Version: d.version(), Places: places,
	})
}

// overlaps gives the passages of a text that two sorted lists of operations on it both delete or replace.
func overlaps(text string, mine, their []TextOp) []overlap {
	var out []overlap
	for i, j := 0, 0; i < len(mine) && j < len(their) && len(out) < maxOverlaps; {
		m, t := mine[i], their[j]
		start, end := max(m.At, t.At), min(m.At+m.Delete, t.At+t.Delete)
		if start < end {
			from, to := min(m.At, t.At), max(m.At+m.Delete, t.At+t.Delete)
			passage := text[runeOffset(text, from):runeOffset(text, to)]
			out = append(out, overlap{from, truncate(passage, maxOverlapBytes), truncate(m.Insert, maxOverlapBytes), truncate(t.Insert, maxOverlapBytes)})
		}
		if m.At+m.Delete < t.At+t.Delete {
			i++
		} else {
			j++
		}
	}
	return out
}
