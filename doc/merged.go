package doc

import (
	"slices"
	"unicode/utf8"

	"cowrite/crdt"
)

// MergedFrom is what of others' writing was merged into a section since the base of a write.
type MergedFrom struct {
	Agents []Agent       // whose, without the writer
	Ranges []MergedRange // where the section differs from what the writer wrote, from its beginning to its end
}

// MergedRange is one place where writing that the writer did not know was merged in: Length code points from At on of the
// section's text came since the base, and Deleted ones of the writer's text are gone.
type MergedRange struct {
	At      int   `json:"at"`
	Length  int   `json:"length"`
	Deleted int   `json:"deleted"`
	Agent   Agent `json:"agent,omitempty"` // whose it is, be it the writer's own of before; "": the server cannot tell
}

// difference is a passage by which a section's text differs from what it was at the base of a write, and by whom.
type difference struct {
	crdt.Difference
	agent Agent
}

// end is where it ends in the text at the base: what was inserted since has no length there.
func (d *difference) end() int {
	if d.Removed {
		return d.Then + d.Length
	}
	return d.Then
}

// differences must be asked for before the write.
func (d *desk) differences(p *crdt.Past) []difference {
	var out []difference
	for _, c := range p.Differences() {
		agent, _ := d.origins.of(c.Change)
		out = append(out, difference{c, agent})
	}
	return out
}

// mergedFrom says what of others is in the text that a write came to, beside what the writer wanted.
func (d *desk) mergedFrom(author Agent, sid SectionID, p plan, result string) *MergedFrom {
	if !p.mapped {
		return d.comparedFrom(author, sid, p, result)
	}
	m := &MergedFrom{}
	for _, r := range mergedRanges(p) {
		m.Ranges = append(m.Ranges, r)
		if r.Agent != "" && r.Agent != author && !slices.Contains(m.Agents, r.Agent) {
			m.Agents = append(m.Agents, r.Agent)
		}
	}
	return m
}

// comparedFrom is mergedFrom of an edit that the engine merged: who wrote is known, and which of several wrote what is not.
func (d *desk) comparedFrom(author Agent, sid SectionID, p plan, result string) *MergedFrom {
	m := &MergedFrom{Agents: d.authorsSince(p.base, sid, author)}
	shift := 0
	for _, op := range diffText(p.wanted, result) {
		r := MergedRange{At: op.At + shift, Length: utf8.RuneCountInString(op.Insert), Deleted: op.Delete}
		shift += r.Length - r.Deleted
		m.Ranges = append(m.Ranges, r)
	}
	return m
}

// mergedRanges leads what others wrote since the base over to the text that the write came to.
func mergedRanges(p plan) []MergedRange {
	var out []MergedRange
	add := func(r MergedRange) {
		if n := len(out); n > 0 && out[n-1].Agent == r.Agent && out[n-1].At+out[n-1].Length == r.At {
			out[n-1].Length += r.Length
			out[n-1].Deleted += r.Deleted
			return
		}
		out = append(out, r)
	}
	shift, next := 0, 0 // of the operations on the present text that end before what is looked at
	pass := func(upto int) {
		for ; next < len(p.onto) && p.onto[next].At+p.onto[next].Delete <= upto; next++ {
			shift += utf8.RuneCountInString(p.onto[next].Insert) - p.onto[next].Delete
		}
	}
	for _, c := range p.since {
		pass(c.Now)
		at, end := c.Now, c.Now+c.Length
		if c.Removed {
			if next < len(p.onto) && p.onto[next].At < at { // in the midst of what the writer removes
				at = p.onto[next].At + utf8.RuneCountInString(p.onto[next].Insert)
			}
			if kept := c.Length - deletedWithin(p.typed, c.Then, c.Then+c.Length); kept > 0 {
				add(MergedRange{At: at + shift, Deleted: kept, Agent: c.agent})
			}
			continue
		}
		for next < len(p.onto) && p.onto[next].At < end { // what is typed in the midst of it is the writer's
			to := p.onto[next].At
			add(MergedRange{At: at + shift, Length: to - at, Agent: c.agent})
			at = to
			shift += utf8.RuneCountInString(p.onto[next].Insert) - p.onto[next].Delete
			next++
		}
		add(MergedRange{At: at + shift, Length: end - at, Agent: c.agent})
	}
	return out
}

// deletedWithin counts what sorted operations delete of a range.
func deletedWithin(ops []TextOp, from, to int) int {
	n := 0
	for _, op := range ops {
		n += max(0, min(op.At+op.Delete, to)-max(op.At, from))
	}
	return n
}
