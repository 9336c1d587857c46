package doc

import (
	"slices"

	"cowrite/crdt"
)

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
func (d *desk) stageOverlap(s *step, author Agent, sid SectionID, p plan, present string, merged *MergedFrom) error {
	others := merged.Agents
	if p.mapped {
		others = overlapping(author, p)
	}
	if len(others) == 0 {
		return nil
	}
	places := overlaps(p.old, diffText(p.old, p.wanted), diffText(p.old, present))
	if len(places) == 0 {
		return nil
	}
	return d.event(s, SectionOverlap, author, overlapPayload{
		SectionID: sid, Authors: append([]Agent{author}, others...), Base: crdt.VersionOf(p.base), Version: d.version(), Places: places,
	})
}

// overlapping gives the others whose writing since the base touches what the write removes: who took out of it what was
// there, or put in what stands beside the writer's words now.
func overlapping(author Agent, p plan) []Agent {
	var out []Agent
	first := 0 // of the differences that reach what is looked at
	for _, op := range p.typed {
		for ; first < len(p.since) && p.since[first].end() < op.At; first++ {
		}
		for _, c := range p.since[first:] {
			end := op.At + op.Delete
			if c.Then > end {
				break
			}
			touches := op.Delete > 0 && (!c.Removed || op.At < c.end() && c.Then < end)
			if touches && c.agent != author && c.agent != "" && !slices.Contains(out, c.agent) {
				out = append(out, c.agent)
			}
		}
	}
	return out
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
