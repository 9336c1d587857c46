package crdt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Splice replaces, in a text, Delete code points from At on by Insert. Positions of several count in the text as it
// was before any of them; they are sorted and do not overlap.
type Splice struct {
	At, Delete int
	Insert     string
}

// Past is the text of one version, seen from the present. It holds until the next change is added.
type Past struct {
	sequence *Sequence
	text     *elements
	version  horizon
	next     uint32 // number of the operation that would be typed next there
	pieces   []piece
}

// piece is where the texts of the past and of the present differ: elements that only one of them shows.
type piece struct {
	run            *run
	offset, length uint32
	added          bool // since; or else removed
	rank           int  // of the run
	then, now      int  // where it begins in either text
}

// Past gives the text as it was at a version. The cost is that of what was written since. ErrNoText; ErrUnmapped when
// the sequence cannot tell how it was, or when another Text stands at the path now.
func (s *Sequence) Past(heads []Hash) (*Past, error) {
	version, err := s.horizon(heads)
	if err != nil {
		return nil, err
	}
	p := &Past{sequence: s, text: s.at(version), version: version, next: 1}
	switch {
	case p.text == nil:
		return nil, ErrNoText
	case p.text.unread || p.text != s.at(nil):
		return nil, ErrUnmapped
	}
	for _, h := range heads {
		if n, ok := s.graph.number(h); ok {
			p.next = max(p.next, s.graph.maxOp(n)+1)
		}
	}
	p.compare()
	return p, nil
}

// compare finds the pieces.
func (p *Past) compare() {
	removed := make(map[*run]bool)
	for actor, end := range p.version {
		p.text.byActor[actor].from(end, func(r *run) bool {
			from := max(end, r.first.counter) - r.first.counter
			if r.shown() > 0 {
				p.pieces = append(p.pieces, piece{run: r, offset: from, length: r.length - from, added: true})
			}
			return true
		})
		for _, d := range p.text.removedSince(opRef{end, actor}) {
			p.text.byActor[d.first.actor].from(d.first.counter, func(r *run) bool {
				if r.first.counter >= d.first.counter+d.length {
					return false
				}
				if length := p.shown(r); length > 0 && !removed[r] {
					removed[r] = true
					p.pieces = append(p.pieces, piece{run: r, length: length})
				}
				return true
			})
		}
	}
	for i := range p.pieces {
		c := &p.pieces[i]
		c.rank, c.now = p.text.place(c.run)
		c.now += int(c.offset)
	}
	slices.SortFunc(p.pieces, func(a, b piece) int { return cmp.Compare(a.rank, b.rank) })
	shift := 0
	for i := range p.pieces {
		c := &p.pieces[i]
		c.then = c.now - shift
		if c.added {
			shift += int(c.length)
		} else {
			shift -= int(c.length)
		}
	}
}

// shown is how many of a run's elements, from the first on, the past shows.
func (p *Past) shown(r *run) uint32 {
	if r.mark || slices.ContainsFunc(r.deleters, p.version.has) {
		return 0
	}
	if end, ok := p.version[r.first.actor]; ok {
		return min(r.length, max(end, r.first.counter)-r.first.counter)
	}
	return r.length
}

// ends gives where a piece ends in either text.
func (c *piece) ends() (then, now int) {
	if c.added {
		return c.then, c.now + int(c.length)
	}
	return c.then + int(c.length), c.now
}

// Text gives the text of the past, made of the present one. ErrUnmapped when that is not as the sequence has it.
func (p *Past) Text(now string) (string, error) {
	if have, want := utf8.RuneCountInString(now), p.now(); have != want {
		return "", fmt.Errorf("%w: the present text has %d characters, want %d", ErrUnmapped, have, want)
	}
	var b strings.Builder
	at := 0 // in code points of the present text, of which now is what is left
	take := func(upto int) string {
		cut := byteOffsetIn(now, upto-at)
		taken := now[:cut]
		now, at = now[cut:], upto
		return taken
	}
	for i := range p.pieces {
		c := &p.pieces[i]
		b.WriteString(take(c.now))
		if c.added {
			take(c.now + int(c.length))
		} else {
			b.Write(c.run.text[:byteOffset(c.run.text, c.run.length, c.length)])
		}
	}
	b.WriteString(now)
	return b.String(), nil
}

func byteOffsetIn(text string, characters int) int {
	for i := range text {
		if characters == 0 {
			return i
		}
		characters--
	}
	return len(text)
}

// now is the length of the present text.
func (p *Past) now() int {
	_, length := p.text.place(nil)
	return length
}

// Onto leads an edit of the past's text over to the present one: what it deletes goes as far as it is still there, and
// what it inserts stands where it would stand had it been typed on the past and merged, by an author whose id is the
// lowest of all. The operations must lie within the past's text.
func (p *Past) Onto(ops []Splice) []Splice {
	var out []Splice
	add := func(op Splice) {
		if n := len(out); n > 0 && op.Insert == "" && out[n-1].At+out[n-1].Delete == op.At {
			out[n-1].Delete += op.Delete
			return
		}
		out = append(out, op)
	}
	typed := p.next
	for i := 0; i < len(ops); {
		// Operations that touch come to one: what is inserted in the place of the second stands behind what is
		// inserted in the place of the first.
		from, to := ops[i].At, ops[i].At
		var inserted strings.Builder
		var number uint32 // of the first insertion
		for ; i < len(ops) && ops[i].At == to; i++ {
			typed += uint32(ops[i].Delete)
			if inserted.Len() == 0 {
				number = typed
			}
			to += ops[i].Delete
			inserted.WriteString(ops[i].Insert)
			typed += uint32(utf8.RuneCountInString(ops[i].Insert))
		}
		if inserted.Len() > 0 {
			add(Splice{At: p.insertion(from, number), Insert: inserted.String()})
		}
		p.visible(from, to, func(at, length int) { add(Splice{At: at, Delete: length}) })
	}
	return out
}

// before is the number of pieces that begin at or before a position of the past.
func (p *Past) before(then int) int {
	n, _ := slices.BinarySearchFunc(p.pieces, then+1, func(c piece, then int) int { return cmp.Compare(c.then, then) })
	return n
}

// insertion is where in the present text something stands that was inserted at a position of the past by an
// operation with the given number: behind the character before it, and behind all younger ones there.
func (p *Past) insertion(then int, number uint32) int {
	var r *run
	if then > 0 {
		var offset uint32
		r, offset = p.character(then - 1)
		if inner := r.first.counter + offset + 1; offset+1 < r.length && inner < number {
			_, before := p.text.place(r)
			return before + int(min(r.shown(), offset+1))
		}
	}
	_, before := p.text.place(p.text.nextBelow(r, number))
	return before
}

// character finds a character of the past.
func (p *Past) character(then int) (r *run, offset uint32) {
	i := p.before(then)
	if i == 0 {
		r, n := p.text.at(then)
		return r, uint32(n)
	}
	c := &p.pieces[i-1]
	endThen, endNow := c.ends()
	if then < endThen {
		return c.run, c.offset + uint32(then-c.then)
	}
	r, n := p.text.at(endNow + then - endThen)
	return r, uint32(n)
}

// visible gives the ranges of the present text that are left of a range of the past's.
func (p *Past) visible(from, to int, yield func(at, length int)) {
	for i := p.before(from); from < to; i++ {
		var then, now int // where the piece before ends
		if i > 0 {
			then, now = p.pieces[i-1].ends()
		}
		upto := to
		if i < len(p.pieces) {
			upto = min(to, p.pieces[i].then)
		}
		from = max(from, then)
		if from < upto {
			yield(now+from-then, upto-from)
			from = upto
		}
	}
}

// Difference is a passage that only one of the texts of the past and of the present shows, through one change.
type Difference struct {
	Then, Now int // where it stands, or would stand, in either text, in code points
	Length    int // code points
	Removed   bool
	Change    int // that inserted it or, of several the first that is known here, removed it: its number in the graph
}

// Differences gives what leads from the text of the past to the present one, from its beginning to its end.
func (p *Past) Differences() []Difference {
	var out []Difference
	for i := range p.pieces {
		c := &p.pieces[i]
		if c.added {
			at := c.now
			first := opRef{c.run.first.counter + c.offset, c.run.first.actor}
			p.sequence.written(first, c.length, func(length, change int) {
				out = append(out, Difference{Then: c.then, Now: at, Length: length, Change: change})
				at += length
			})
			continue
		}
		by := slices.IndexFunc(c.run.deleters, func(d opRef) bool { return !p.version.has(d) })
		change, _ := p.sequence.change(c.run.deleters[by])
		out = append(out, Difference{Then: c.then, Now: c.now, Length: int(c.length), Removed: true, Change: change})
	}
	return out
}

// Written is characters of a text that stand together and were inserted by one change.
type Written struct {
	At, Length int // code points
	Change     int // number in the graph
}

// Written gives the text of the past by the changes that inserted it, from its beginning to its end. The cost is that of
// all that was ever inserted.
func (p *Past) Written() []Written {
	var out []Written
	at := 0
	for r := p.text.next(nil); r != nil; r = p.text.next(r) {
		p.sequence.written(r.first, p.shown(r), func(length, change int) {
			if n := len(out); n > 0 && out[n-1].Change == change {
				out[n-1].Length += length
			} else {
				out = append(out, Written{at, length, change})
			}
			at += length
		})
	}
	return out
}

// written gives so many elements of one author, from the first on, by the changes that inserted them.
func (s *Sequence) written(first opRef, length uint32, yield func(length, change int)) {
	for length > 0 {
		change, last := s.change(first)
		n := min(length, last-first.counter+1)
		yield(int(n), change)
		first.counter += n
		length -= n
	}
}
