package doc

import (
	"fmt"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"cowrite/crdt"
)

// origins is who made each change, and in which section, by the change's number in the graph.
type origins struct {
	agents   table[Agent]
	sections table[SectionID]
	by, in   []uint16
}

// anywhere stands for the section of a change that touches none, or several.
const anywhere SectionID = ""

func (o *origins) add(author Agent, sections []SectionID) {
	sid := anywhere
	if len(sections) == 1 {
		sid = sections[0]
	}
	o.by = append(o.by, o.agents.number(author))
	o.in = append(o.in, o.sections.number(sid))
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
		author, in := d.origins.agents.values[d.origins.by[n]], d.origins.sections.values[d.origins.in[n]]
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
	By       []byte      `cbor:"5,keyasint"` // for each change, the number of its author: 2 bytes, big endian
	In       []byte      `cbor:"6,keyasint"` // and of its section
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
	for n := range d.origins.by {
		by, in := d.origins.by[n], d.origins.in[n]
		x.By = append(x.By, byte(by>>8), byte(by))
		x.In = append(x.In, byte(in>>8), byte(in))
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
	if d.origins.by, err = numbers(x.By, d.graph.Len(), len(x.Agents)); err != nil {
		return fmt.Errorf("authors: %w", err)
	}
	if d.origins.in, err = numbers(x.In, d.graph.Len(), len(x.Sections)); err != nil {
		return fmt.Errorf("sections: %w", err)
	}
	return nil
}

// numbers reads so many numbers, each below a limit.
func numbers(data []byte, count, limit int) ([]uint16, error) {
	if len(data) != 2*count {
		return nil, fmt.Errorf("%d bytes for %d changes", len(data), count)
	}
	out := make([]uint16, count)
	for i := range out {
		if out[i] = uint16(data[2*i])<<8 | uint16(data[2*i+1]); int(out[i]) >= limit {
			return nil, fmt.Errorf("number %d of %d", out[i], limit)
		}
	}
	return out, nil
}
