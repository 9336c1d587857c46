package crdt

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/automerge/automerge-go"
	"pgregory.net/rapid"
)

// Whatever the engine writes is read here with the same hash, author, number and dependencies, and deflating
// it changes nothing but the bytes.
func TestParseAgreesWithTheEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReplica(t, 0)
		other := newReplica(t, 1)
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			rapid.SampledFrom([]*replica{r, other}).Draw(t, "author").edit(t)
			if rapid.Bool().Draw(t, "merge") {
				if _, err := r.doc.Merge(other.doc); err != nil {
					t.Fatalf("merge: %v", err)
				}
			}
		}
		theirs, err := r.doc.Changes()
		if err != nil {
			t.Fatalf("read changes: %v", err)
		}
		var plain, deflated []byte
		for _, c := range theirs {
			plain = append(plain, c.Save()...)
			deflated = append(deflated, deflate(c.Save())...)
		}
		for _, entry := range [][]byte{plain, deflated} {
			ours, documents, err := ParseEntry(entry, testLimits)
			if err != nil || len(documents) > 0 || len(ours) != len(theirs) {
				t.Fatalf("%d of %d changes, %d documents, %v", len(ours), len(theirs), len(documents), err)
			}
			for i, c := range theirs {
				compareChange(t, ours[i], c)
			}
		}
	})
}

func compareChange(t require, ours Change, theirs *automerge.Change) {
	t.Helper()
	if ours.Hash != Hash(theirs.Hash()) || ours.Actor.String() != theirs.ActorID() || ours.Seq != theirs.ActorSeq() || ours.Message != theirs.Message() {
		t.Errorf("got %v by %v, number %d, %q", ours.Hash, ours.Actor, ours.Seq, ours.Message)
	}
	var deps []Hash
	for _, d := range theirs.Dependencies() {
		deps = append(deps, Hash(d))
	}
	if !slices.Equal(ours.Deps, deps) {
		t.Errorf("dependencies %v, want %v", ours.Deps, deps)
	}
	if !bytes.Equal(ours.Plain(), theirs.Save()) {
		t.Errorf("the plain chunk is not the engine's")
	}
}

// deflate makes a type 2 chunk of a type 1 chunk.
func deflate(chunk []byte) []byte {
	r := reader{rest: chunk[9:]}
	body := r.prefixed()
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		panic(err)
	}
	w.Write(body)
	w.Close()
	out := append(slices.Clone(chunk[:8]), chunkDeflated)
	out = binary.AppendUvarint(out, uint64(packed.Len()))
	return append(out, packed.Bytes()...)
}

// signed puts a right checksum and length around the body of a change.
func signed(body []byte) []byte {
	h := hashChunk(chunkChange, body)
	out := append(chunkMagic[:len(chunkMagic):len(chunkMagic)], h[:checksumLength]...)
	out = append(out, chunkChange)
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}

type recordedTrace struct {
	Seed string     `json:"seed"`
	Own  [][]string `json:"own"`
}

func readTrace(t testing.TB) (seed []byte, own [][][]byte) {
	t.Helper()
	f, err := os.Open("../../shared/traces/friendsforever.changes.json.gz")
	if err != nil {
		t.Fatalf("open the recorded session: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("unzip: %v", err)
	}
	var trace recordedTrace
	if err := json.NewDecoder(z).Decode(&trace); err != nil {
		t.Fatalf("decode: %v", err)
	}
	decode := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		return b
	}
	for _, author := range trace.Own {
		var list [][]byte
		for _, c := range author {
			list = append(list, decode(c))
		}
		own = append(own, list)
	}
	return decode(trace.Seed), own
}

// Two people's session as the JavaScript library recorded it: every change has the hash and dependencies that the
// engine finds, and touches the one text.
func TestRecordedSession(t *testing.T) {
	seed, own := readTrace(t)
	doc, err := automerge.Load(seed)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	_, documents, err := ParseEntry(seed, testLimits)
	if err != nil || len(documents) != 1 || !bytes.Equal(documents[0], seed) {
		t.Fatalf("%d documents, %v", len(documents), err)
	}
	g, objects := NewGraph(), NewObjects()
	seeds := (&replica{doc}).changes(t)
	g.Add(seeds...)
	for _, c := range seeds {
		objects.Add(c)
	}
	var all []Change
	for _, list := range own {
		for _, raw := range list {
			all = append(all, parseAll(t, raw)...)
		}
	}
	ready, orphans, refused := g.Sort(all)
	if len(ready) != len(all) || len(orphans)+len(refused) > 0 {
		t.Fatalf("%d ready, %d orphans, %d refused of %d", len(ready), len(orphans), len(refused), len(all))
	}
	// They typed at the same time, on older heads, and come one behind the other.
	lead, end := leadOf(slices.Concat(seeds, ready))
	if lead > maxLead/100 || end > 0 {
		t.Errorf("the changes number their operations %d ahead, in the end by %d", lead, end)
	}
	t.Logf("the changes number their operations %d ahead, in the end by %d", lead, end)
	g.Add(ready...)
	for i, c := range ready {
		theirs, err := automerge.LoadChanges(c.Plain())
		if err == nil && len(theirs) == 1 {
			compareChange(t, c, theirs[0])
		}
		paths := objects.Add(c)
		if len(paths) != 1 || !slices.Equal(paths[0].Path, Path{"sections", "s", "body"}) {
			t.Fatalf("change %d touches %v", i, paths)
		}
		if err := doc.LoadIncremental(c.Raw); err != nil {
			t.Fatalf("apply change %d: %v", i, err)
		}
	}
	if got := (&replica{doc}).heads(); !slices.Equal(g.Heads(), got) {
		t.Errorf("heads %v, the engine's %v", g.Heads(), got)
	}
	theirs, err := doc.Changes()
	if err != nil || len(theirs) != g.Len() {
		t.Fatalf("%d changes, the engine has %d, %v", g.Len(), len(theirs), err)
	}
	for _, c := range theirs {
		if !g.Has(Hash(c.Hash())) {
			t.Errorf("%v is missing", c.Hash())
		}
	}
}

func TestRefusedChunks(t *testing.T) {
	r := newReplica(t, 0)
	if err := r.doc.RootMap().Set("k", automerge.NewText("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.doc.Commit("m"); err != nil {
		t.Fatal(err)
	}
	good := r.changes(t)[0]
	body := func(parts ...any) []byte { // of a change without dependencies, from the author on
		out := []byte{0}
		for _, p := range parts {
			switch p := p.(type) {
			case int:
				out = binary.AppendUvarint(out, uint64(p))
			case uint64:
				out = binary.AppendUvarint(out, p)
			case []byte:
				out = append(out, p...)
			}
		}
		return out
	}
	start := func(startOp uint64, columns ...any) []byte { // author, seq, start, time, message, other authors
		return body(append([]any{1, []byte{7}, 1, startOp, 0, 0, 0}, columns...)...)
	}
	huge := uint64(1) << 62
	bomb := bytes.Repeat([]byte{0}, 1<<20)
	limits := Limits{ChangeBytes: 1 << 16, Ops: 1000}

	for name, c := range map[string]struct {
		entry    []byte
		tooLarge bool
	}{
		"magic":                     {entry: append([]byte{1}, good.Raw[1:]...)},
		"checksum":                  {entry: append(append(slices.Clone(good.Raw[:4]), good.Raw[4]+1), good.Raw[5:]...)},
		"cut":                       {entry: good.Raw[:len(good.Raw)-1]},
		"rest":                      {entry: append(slices.Clone(good.Raw), 0)},
		"type":                      {entry: append(append(slices.Clone(good.Raw[:8]), 9), good.Raw[9:]...)},
		"count of dependencies":     {entry: signed(binary.AppendUvarint(nil, huge))},
		"length of the author":      {entry: signed(body(huge))},
		"count of authors":          {entry: signed(body(1, []byte{7}, 1, 1, 0, 0, huge))},
		"count of columns":          {entry: signed(start(1, huge))},
		"length of a column":        {entry: signed(start(1, 1, columnAction, huge))},
		"columns out of order":      {entry: signed(start(1, 2, columnInsert, 0, columnKeyName, 0))},
		"a column twice":            {entry: signed(start(1, 2, columnInsert, 0, columnInsert, 0))},
		"deflated column":           {entry: signed(start(1, 1, columnAction|columnDeflated, 0))},
		"operations out of nothing": {entry: signed(start(1, 1, columnAction, 6, appendInt(1<<34), []byte{1}))},
		"too many operations":       {entry: signed(start(1, 1, columnAction, 3, appendInt(1001), []byte{1})), tooLarge: true},
		"operation number":          {entry: signed(start(1<<32-1, 1, columnAction, 2, appendInt(2), []byte{1}))},
		"number of the first":       {entry: signed(start(0, 1, columnAction, 2, appendInt(2), []byte{1}))},
		"action":                    {entry: signed(start(1, 1, columnAction, 2, appendInt(2), []byte{8}))},
		"no action":                 {entry: signed(start(1, 1, columnAction, 2, appendInt(0), []byte{2}))},
		"unlisted author":           {entry: signed(start(1, 2, columnObjActor, 2, columnAction, 2, appendInt(2), []byte{1}, appendInt(2), []byte{1}))},
		"predecessors":              {entry: signed(start(1, 2, columnAction, 2, columnPredCount, 10, appendInt(2), []byte{1}, appendInt(2), huge))},
		"predecessors left out":     {entry: signed(start(1, 2, columnAction, 2, columnPredCount, 2, appendInt(2), []byte{1}, appendInt(2), []byte{1}))},
		"value":                     {entry: signed(start(1, 2, columnAction, 2, columnValueMeta, 2, appendInt(2), []byte{1}, appendInt(2), []byte{0x16}))},
		"text":                      {entry: signed(body(1, []byte{7}, 1, 1, 0, 1, []byte{0xff}, 0, 0))},
		"long number":               {entry: signed(body(1, []byte{7}, []byte{0x81, 0}, 1, 0, 0, 0, 0))},
		"deflate":                   {entry: append(append(slices.Clone(good.Raw[:8]), chunkDeflated, 2), 0xff, 0xff)},
		"large":                     {entry: signed(append(start(1, 0), bomb[:1<<16]...)), tooLarge: true},
		"bomb":                      {entry: deflate(signed(append(start(1, 0), bomb...))), tooLarge: true},
		"bombs":                     {entry: bytes.Repeat(deflate(signed(append(start(1, 0), bomb[:60000]...))), 100), tooLarge: true},
	} {
		t.Run(name, func(t *testing.T) {
			changes, documents, err := ParseEntry(c.entry, limits)
			var e *ParseError
			if !errors.As(err, &e) || changes != nil || documents != nil {
				t.Fatalf("got %d changes, %d documents, %v", len(changes), len(documents), err)
			}
			if e.TooLarge != c.tooLarge {
				t.Errorf("%q: too large is %v", e.What, e.TooLarge)
			}
		})
	}
	// As many puts of null under one key as are allowed.
	puts := start(1, 5, columnKeyName, 4, columnInsert, 2, columnAction, 3, columnValueMeta, 3, columnPredCount, 3,
		appendInt(1000), []byte{1, 'k'}, 1000, appendInt(1000), []byte{1}, appendInt(1000), []byte{0}, appendInt(1000), []byte{0})
	if _, _, err := ParseEntry(signed(puts), limits); err != nil {
		t.Errorf("a change of as many operations as are allowed: %v", err)
	}
}

// appendInt is a signed LEB128 number.
func appendInt(n int64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if (n == 0 && b&0x40 == 0) || (n == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		r := reader{rest: appendInt(n)}
		if got := r.int(); got != n || r.err != nil || !r.empty() {
			t.Errorf("got %d, %v", got, r.err)
		}
		r = reader{rest: binary.AppendUvarint(nil, uint64(n))}
		if got := r.uint(); got != uint64(n) || r.err != nil || !r.empty() {
			t.Errorf("got %d, %v", got, r.err)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	_, own := readTrace(f)
	f.Add(own[0][0])
	f.Add(deflate(parseAll(f, own[0][0])[0].Plain()))
	f.Fuzz(func(t *testing.T, entry []byte) {
		for _, e := range [][]byte{entry, signed(entry)} {
			changes, _, err := ParseEntry(e, Limits{ChangeBytes: 1 << 20})
			var pe *ParseError
			if err != nil && !errors.As(err, &pe) {
				t.Fatalf("not a ParseError: %v", err)
			}
			g, objects := NewGraph(), NewObjects()
			ready, _, _ := g.Sort(changes)
			g.Add(ready...)
			for _, c := range ready {
				objects.Add(c)
			}
		}
	})
}

// A few bytes that claim millions of operations are read as quickly as others.
func TestManyOperationsInFewBytes(t *testing.T) {
	r := newReplica(t, 0)
	long := strings.Repeat("x", 100_000)
	if err := r.doc.RootMap().Set("k", automerge.NewText(long)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.doc.Commit("m"); err != nil {
		t.Fatal(err)
	}
	if err := r.doc.Path("k").Text().Delete(10, 99_980); err != nil {
		t.Fatal(err)
	}
	if _, err := r.doc.Commit("m"); err != nil {
		t.Fatal(err)
	}
	deletion := r.changes(t)[1]
	if deletion.NumOps != 99_980 || len(deletion.Raw) > 200 {
		t.Fatalf("%d operations in %d bytes", deletion.NumOps, len(deletion.Raw))
	}
	rows := newRows(&deletion)
	steps := 0
	for ; rows.next(); steps++ {
		rows.skipAlike()
	}
	if rows.err() != nil || steps > 10 || rows.op.self.counter != deletion.StartOp+deletion.NumOps-1 {
		t.Errorf("%d steps to operation %d, %v", steps, rows.op.self.counter, rows.err())
	}
}
