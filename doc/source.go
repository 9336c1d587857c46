package doc

import (
	"errors"
	"fmt"
	"slices"

	"cowrite/crdt"
	"cowrite/crdt/engine"
)

// whole is a form of the document that a new peer can be given without the engine: a saved chunk that reaches
// up to a change, to be followed by the changes behind it.
type whole struct {
	chunk []byte
	upto  int
}

// unpacked is changes out of the saved document, for peers that understand no other form: unpacking it once for each of their
// messages would hold up the desk, and the one worker that opens what is not trusted.
type unpacked struct {
	raws  map[crdt.Hash][]byte
	bytes int
}

// maxUnpacked bounds what is kept of one document: some 280,000 changes of one character. Those behind them are unpacked
// each time.
const maxUnpacked = 32 << 20

// Raw makes the desk the source of its sync sessions: the bytes of changes, from the tail, from the store's rows, or,
// when they must be had, out of the saved document.
func (d *desk) Raw(hashes []crdt.Hash, must bool) ([][]byte, error) {
	raws := make([][]byte, len(hashes))
	var missing []crdt.Hash
	var numbers []int64
	for i, h := range hashes {
		if raws[i] = d.tail.raws[h]; raws[i] != nil {
			continue
		}
		n, ok := d.graph.Number(h)
		if !ok {
			return nil, fmt.Errorf("read change %s: the document does not have it", h)
		}
		missing, numbers = append(missing, h), append(numbers, int64(n)+1)
	}
	if len(missing) == 0 {
		return raws, nil
	}
	stored, err := d.lib.store.Raw(d.lib.ctx, d.id, numbers)
	if err != nil {
		return nil, err
	}
	found := make(map[crdt.Hash][]byte, len(missing))
	for i, h := range missing {
		found[h] = stored[i]
	}
	if slices.ContainsFunc(stored, func(raw []byte) bool { return raw == nil }) {
		if !must {
			return nil, crdt.ErrCompacted
		}
		if err := d.unpackInto(found); err != nil {
			return nil, err
		}
	}
	for i, h := range hashes {
		if raws[i] == nil {
			raws[i] = found[h]
		}
		if raws[i] == nil {
			return nil, fmt.Errorf("read change %s: it is not there", h)
		}
	}
	return raws, nil
}

// unpackInto fills in the changes that are only in the saved document.
func (d *desk) unpackInto(found map[crdt.Hash][]byte) error {
	d.used = d.lib.now()
	if d.takeUnpacked(found) {
		return nil
	}
	saved, err := d.lib.store.Saved(d.lib.ctx, d.id, true)
	if err != nil {
		return err
	}
	changes, err := d.lib.engine.Unpack(d.lib.ctx, saved.Chunk)
	if err != nil {
		return unavailable("unpack saved document", err)
	}
	d.unpacked = unpacked{raws: make(map[crdt.Hash][]byte, len(changes))}
	for _, c := range changes {
		if raw, asked := found[c.Hash]; asked && raw == nil {
			found[c.Hash] = c.Raw
		}
		if d.unpacked.bytes += len(c.Raw); d.unpacked.bytes <= maxUnpacked {
			d.unpacked.raws[c.Hash] = c.Raw
		}
	}
	d.unpacked.bytes = min(d.unpacked.bytes, maxUnpacked)
	d.lib.weigh(d)
	return nil
}

// takeUnpacked fills in what was unpacked before, and says whether that is all.
func (d *desk) takeUnpacked(found map[crdt.Hash][]byte) bool {
	all := true
	for h, raw := range found {
		if raw == nil {
			found[h] = d.unpacked.raws[h]
			all = all && found[h] != nil
		}
	}
	return all
}

// A chunk is followed by so many changes of so many bytes at most; then a new one is made. A large change is better
// saved, too: the one change that imported 1 MB of text takes a peer 4 s and 1 MB of traffic, saved it takes 1.6 s and 18 KB
// (Automerge 3.5 in Chromium).
const (
	wholeTail  = 256
	wholeBytes = 256 << 10
)

// Whole is the document for a peer that has little or nothing of it.
func (d *desk) Whole() ([]byte, error) {
	if d.whole.chunk == nil && d.upto > 0 && d.graph.Len()-d.upto <= wholeTail {
		saved, err := d.lib.store.Saved(d.lib.ctx, d.id, true)
		if err != nil {
			return nil, err
		}
		d.whole = whole{saved.Chunk, int(saved.Upto)}
	}
	if d.graph.Len()-d.whole.upto <= wholeTail {
		all, tail, err := d.chunkAndTail()
		if err != nil || tail <= wholeBytes {
			return all, err
		}
	}
	if !d.compaction.never {
		switch chunk, err := d.save(d.lib.ctx); {
		case errors.Is(err, engine.ErrUnsavable):
			d.compaction.never = true
		case err != nil:
			return nil, err
		default:
			d.whole = whole{chunk, d.graph.Len()}
		}
	}
	all, _, err := d.chunkAndTail()
	return all, err
}

// chunkAndTail gives the chunk with the changes behind it, and how many bytes those are.
func (d *desk) chunkAndTail() (all []byte, tail int, err error) {
	raws, err := d.Raw(d.graph.From(d.whole.upto), true)
	if err != nil {
		return nil, 0, err
	}
	all = slices.Concat(append([][]byte{d.whole.chunk}, raws...)...)
	return all, len(all) - len(d.whole.chunk), nil
}
