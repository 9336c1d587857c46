package doc_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
)

// Whatever is written under a key happens once: at once, one after the other, and over a crash. Another request under the
// key is refused, and a refused one is not remembered.
func TestWritesWithAKeyHappenOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		once := func(key string, request byte) doc.WriteOption {
			return doc.Once(doc.IdempotencyKey(key), doc.RequestDigest{request})
		}
		create := func(request byte) (crdt.DocumentID, error) {
			s, err := w.Create(context.Background(), alice, doc.NewDocument{Title: "Made", Markdown: "# Made\n"}, once("create", request))
			return s.Meta.ID, err
		}
		message := json.RawMessage(`{"text":"hello"}`)
		var id crdt.DocumentID
		post := func(request byte) (doc.Seq, error) {
			e, err := w.Post(context.Background(), alice, id, message, once("post", request))
			return e.Seq, err
		}
		var made [8]crdt.DocumentID
		var posted [8]doc.Seq
		together(t, len(made), func(n int) (err error) { made[n], err = create(1); return err })
		id = made[0]
		together(t, len(posted), func(n int) (err error) { posted[n], err = post(1); return err })
		w.crash()
		again, err := create(1)
		if err != nil {
			t.Fatal(err)
		}
		seq, err := post(1)
		if err != nil {
			t.Fatal(err)
		}
		for n := range made {
			if made[n] != again || posted[n] != seq {
				t.Errorf("made %v and posted %s, and then %v and %s", made[n], posted[n], again, seq)
			}
		}
		docs, _, err := w.List(t.Context(), alice, 0, 100)
		if err != nil || len(docs) != 1 {
			t.Errorf("there are %d documents, %v", len(docs), err)
		}
		if got := types(w.log(id)); len(got) != 2 || got[1] != doc.MessagePosted {
			t.Errorf("the log has %v", got)
		}
		_, err = create(2)
		wantCode(t, err, code.IdempotencyMismatch)
		_, err = post(2)
		wantCode(t, err, code.IdempotencyMismatch)
		_, err = w.Post(t.Context(), alice, id, json.RawMessage(`[]`), once("refused", 1))
		wantCode(t, err, code.BadRequest)
		if _, err := w.Post(t.Context(), alice, id, message, once("refused", 1)); err != nil {
			t.Errorf("after a refusal: %v", err)
		}
	})
}

// A section that was removed, and restored by somebody since, is not removed again by a retry; nor the other way round,
// also when the first call had nothing to do.
func TestRemovingAndRestoringWithAKeyHappensOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		s := w.create("# One\n# Two\n")
		id, sid := s.Meta.ID, s.Sections[1].ID
		remove := func(opts ...doc.WriteOption) doc.Written {
			return must(w.RemoveSection(t.Context(), alice, id, sid, opts...))
		}
		restore := func(opts ...doc.WriteOption) doc.Written {
			return must(w.RestoreSection(t.Context(), alice, id, sid, opts...))
		}
		once := func(key doc.IdempotencyKey) doc.WriteOption { return doc.Once(key, doc.RequestDigest{}) }
		for _, c := range []struct {
			name     string
			got      doc.Written
			removed  bool
			repeated bool
		}{
			{"restored in vain", restore(once("a")), false, false},
			{"removed", remove(once("b")), true, false},
			{"restored in vain, retried", restore(once("a")), true, true},
			{"restored", restore(), false, false},
			{"removed, retried", remove(once("b")), false, true},
			{"moved", must(w.MoveSection(t.Context(), alice, id, sid, "", once("c"))), false, false},
			{"moved, retried", must(w.MoveSection(t.Context(), alice, id, sid, "", once("c"))), false, true},
		} {
			if c.got.Section.Removed != c.removed || c.got.Repeated != c.repeated {
				t.Errorf("%s: removed: %v, repeated: %v", c.name, c.got.Section.Removed, c.got.Repeated)
			}
		}
	})
}

// together does something several times at once.
func together(t *testing.T, times int, do func(n int) error) {
	t.Helper()
	var all sync.WaitGroup
	for n := range times {
		all.Go(func() {
			if err := do(n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A section that is made under a key and without an id is made once while the key is remembered, and anew under the same key after that.
func TestASectionIsMadeOnceUnderItsKey(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		id := w.create("").Meta.ID
		add := func(text string) (doc.Written, error) {
			return w.AddSection(context.Background(), alice, id, "", "", text, doc.Once("daily-report", doc.RequestDigest{1}))
		}
		var made [8]doc.SectionID
		together(t, len(made), func(n int) error {
			got, err := add("# Report\n")
			made[n] = got.Section.ID
			return err
		})
		w.crash()
		again, err := add("# Report\n")
		if err != nil || !again.Repeated {
			t.Errorf("after a crash: %+v, %v", again, err)
		}
		for _, sid := range made {
			if sid != again.Section.ID {
				t.Errorf("sections %v are made, and then %s", made, again.Section.ID)
			}
		}
		time.Sleep(doc.EditCallsKept)
		next, err := add("# Report\n")
		if err != nil || next.Repeated || next.Section.ID == again.Section.ID {
			t.Errorf("a day later: %+v, %v", next, err)
		}
		if n := len(w.read(id).Sections); n != 2 {
			t.Errorf("there are %d sections", n)
		}
	})
}
