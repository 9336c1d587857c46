package crdt

import (
	"fmt"
	"testing"
)

// One keystroke from parsing to the message for one peer, at several lengths of history.
func BenchmarkKeystroke(b *testing.B) {
	for _, history := range []int{0, 1_000, 20_000} {
		b.Run(fmt.Sprint(history), func(b *testing.B) {
			_, own := readTrace(b)
			first := parseAll(b, own[0][0])[0]
			g, src := NewGraph(), constantSource(first.Raw)
			var n uint64
			add := func() {
				n++
				c := first
				c.Deps, c.Seq, c.StartOp = g.Heads(), n, n*first.NumOps
				c.Hash = hashChunk(chunkChange, fmt.Append(nil, n))
				g.Add(c)
			}
			for range history {
				add()
			}
			s := NewSession(false)
			s.Receive(g, Message{Heads: g.Heads(), caps: capabilities{v2: true}})
			for b.Loop() {
				parseAll(b, first.Raw)
				add()
				if _, ok, err := s.Generate(g, src); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

// constantSource gives the same bytes for every change.
type constantSource []byte

func (s constantSource) Raw(hashes []Hash, _ bool) ([][]byte, error) {
	out := make([][]byte, len(hashes))
	for i := range out {
		out[i] = s
	}
	return out, nil
}

func (s constantSource) Whole() ([]byte, error) { return s, nil }

// The sequence of a recorded session of two people, of some 26,000 changes, from their bytes on.
func BenchmarkMakeSequence(b *testing.B) {
	seed, own := readTrace(b)
	all := unpack(b, [][]byte{seed})
	for _, author := range own {
		for _, raw := range author {
			all = append(all, parseAll(b, raw)...)
		}
	}
	g := NewGraph()
	ready, _, _ := g.Sort(all)
	g.Add(ready...)
	b.ReportAllocs()
	for b.Loop() {
		s := NewSequence(g, Path{"sections", "s", "body"})
		for i := range ready {
			s.Add(parseAll(b, ready[i].Raw)[0])
		}
		if n, err := s.Len(); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ready)), "ns/change")
}
