package doc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"cowrite/crdt"
)

// origins is who made each change, and in which section, by the change's number in the graph.
type origins struct {
	agents   table[Agent]
	sections table[SectionID]
	runs     []originRun
	size     uint32
}

// originRun is changes in a row that one author made in one section, up to the next run.
type originRun struct {
	first  uint32 // number of a change
	by, in uint16
}

// anywhere stands for the section of a change that touches none, or several.
const anywhere SectionID = ""

func (o *origins) add(author Agent, sections []SectionID) {
	sid := anywhere
	if len(sections) == 1 {
		sid = sections[0]
	}
	o.extend(originRun{o.size, o.agents.number(author), o.sections.number(sid)}, 1)
}

// extend adds so many changes of one author in one section.
func (o *origins) extend(r originRun, changes uint32) {
	if l := len(o.runs); l == 0 || o.runs[l-1].by != r.by || o.runs[l-1].in != r.in {
		o.runs = append(o.runs, r)
	}
	o.size += changes
}

// of gives who made a change, and in which section.
func (o *origins) of(n int) (Agent, SectionID) {
	i, found := slices.BinarySearchFunc(o.runs, uint32(n), func(r originRun, n uint32) int { return cmp.Compare(r.first, n) })
	if !found {
		i--
	}
	return o.agents.values[o.runs[i].by], o.sections.values[o.runs[i].in]
}

// table numbers values in the order in which they come. There are 65,536 numbers; values beyond share the one
// of the zero value.
type table[T comparable] struct {
	values  []T
	numbers map[T]uint16
}

func (t *table[T]) number(v T) uint16 {
	if n, ok := t.numbers[v]; ok {
		return n
	}
	if t.numbers == nil {
		var zero T
		t.values, t.numbers = []T{zero}, map[T]uint16{zero: 0}
		return t.number(v)
	}
	if len(t.values) > 1<<16-1 {
		return 0
	}
	n := uint16(len(t.values))
	t.values, t.numbers[v] = append(t.values, v), n
	return n
}

// since gives the authors of the changes since base that may have touched a section, without one of them.
func (d *desk) authorsSince(base []crdt.Hash, sid SectionID, without Agent) []Agent {
	var out []Agent
	for _, h := range d.graph.Since(base) {
		n, _ := d.graph.Number(h)
		author, in := d.origins.of(n)
		if (in == sid || in == anywhere) && author != without && !slices.Contains(out, author) {
			out = append(out, author)
		}
	}
	return out
}

// index is what Saved.Index holds, in CBOR.
type index struct {
	Graph    []byte      `cbor:"1,keyasint"`
	Objects  []byte      `cbor:"2,keyasint"`
	Agents   []Agent     `cbor:"3,keyasint"`
	Sections []SectionID `cbor:"4,keyasint"`
	By       []byte      `cbor:"5,keyasint,omitempty"` // read in place of Origins, as it was written once: see firstOrigins
	In       []byte      `cbor:"6,keyasint,omitempty"`
	Origins  []byte      `cbor:"7,keyasint"` // of changes in a row: their count, and the numbers of their author and section, as uvarints
}

func (d *desk) makeIndex() ([]byte, error) {
	x := index{Agents: d.origins.agents.values, Sections: d.origins.sections.values}
	var err error
	if x.Graph, err = d.graph.AppendBinary(nil); err != nil {
		return nil, err
	}
	if x.Objects, err = d.objects.AppendBinary(nil); err != nil {
		return nil, err
	}
	for i, r := range d.origins.runs {
		end := d.origins.size
		if i+1 < len(d.origins.runs) {
			end = d.origins.runs[i+1].first
		}
		for _, v := range []uint32{end - r.first, uint32(r.by), uint32(r.in)} {
			x.Origins = binary.AppendUvarint(x.Origins, uint64(v))
		}
	}
	return cbor.Marshal(x)
}

func (d *desk) readIndex(data []byte) error {
	mode, err := cbor.DecOptions{MaxArrayElements: 1 << 17}.DecMode()
	if err != nil {
		return err
	}
	var x index
	if err := mode.Unmarshal(data, &x); err != nil {
		return err
	}
	if err := d.graph.UnmarshalBinary(x.Graph); err != nil {
		return err
	}
	if err := d.objects.UnmarshalBinary(x.Objects); err != nil {
		return err
	}
	for _, a := range x.Agents {
		d.origins.agents.number(a)
	}
	for _, s := range x.Sections {
		d.origins.sections.number(s)
	}
	if len(x.By) > 0 {
		x.Origins = firstOrigins(x.By, x.In)
	}
	return d.origins.read(x.Origins, d.graph.Len())
}

// firstOrigins makes origins of the numbers of each change's author and of its section, 2 bytes each, big endian.
func firstOrigins(by, in []byte) []byte {
	var out []byte
	for i := 0; i+1 < min(len(by), len(in)); i += 2 {
		out = binary.AppendUvarint(out, 1)
		out = binary.AppendUvarint(out, uint64(binary.BigEndian.Uint16(by[i:])))
		out = binary.AppendUvarint(out, uint64(binary.BigEndian.Uint16(in[i:])))
	}
	return out
}

// read takes in what makeIndex wrote of so many changes.
func (o *origins) read(data []byte, changes int) error {
	for len(data) > 0 {
		var v [3]uint64
		for i := range v {
			n := 0
			if v[i], n = binary.Uvarint(data); n <= 0 {
				return errors.New("origins are cut short")
			}
			data = data[n:]
		}
		if v[0] == 0 || v[0] > uint64(changes)-uint64(o.size) || v[1] >= uint64(len(o.agents.values)) || v[2] >= uint64(len(o.sections.values)) {
			return fmt.Errorf("origins of %d changes by author %d in section %d", v[0], v[1], v[2])
		}
		o.extend(originRun{o.size, uint16(v[1]), uint16(v[2])}, uint32(v[0]))
	}
	if int(o.size) != changes {
		return fmt.Errorf("origins of %d changes, want %d", o.size, changes)
	}
	return nil
}
