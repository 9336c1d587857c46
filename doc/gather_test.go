package doc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

// pause is the longest that a replica's changes and questions wait for others, as DESIGN.md promises it. What only
// acknowledges waits for twice as long at most.
const pause = 20 * time.Millisecond

// countingStore counts what changes are stored, in how many appends, and how many there are without any.
type countingStore struct {
	doc.Store
	appends, changes, others atomic.Int64
}

func (s *countingStore) Append(ctx context.Context, id crdt.DocumentID, a doc.Append) ([]doc.Event, error) {
	if len(a.Changes) > 0 {
		s.appends.Add(1)
		s.changes.Add(int64(len(a.Changes)))
	} else {
		s.others.Add(1)
	}
	return s.Store.Append(ctx, id, a)
}

// count has the world's store counted from now on.
func (w *world) count() *countingStore {
	s := &countingStore{Store: w.store.Store}
	w.store.Store = s
	return s
}

// typing runs a test on a world with a document of one section, which n replicas have open and which has come to rest.
func typing(t *testing.T, n int, test func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica)) {
	t.Helper()
	in(t, func(t *testing.T, w *world) {
		s := w.create("# A\n")
		all := make([]*replica, n)
		for i := range all {
			all[i] = w.attach(editor(fmt.Sprint("typist-", i)), s.Meta.ID, false)
			all[i].mustSettle()
		}
		time.Sleep(time.Second)
		test(t, w, s.Meta.ID, s.Sections[0].ID, all)
		for _, r := range all {
			r.at.Detach()
		}
	})
}

// say hands all that the replica has to say to the desk and gives the number of messages; ended is told of each, from 0
// on, after how long it came to what. A message that waited for too long is an error.
func (r *replica) say(ended func(n int, after time.Duration, err error)) int {
	r.w.t.Helper()
	for n := 0; ; n++ {
		m, ok := r.sync.GenerateMessage()
		if !ok {
			return n
		}
		parsed, err := crdt.ParseMessage(m.Bytes(), crdt.Limits{ChangeBytes: 1 << 20})
		if err != nil {
			r.w.t.Fatal(err)
		}
		most := pause
		if parsed.Acknowledges() {
			most = 2 * pause
		}
		began := time.Now()
		r.at.Enqueue(context.Background(), m.Bytes(), func(err error) {
			after := time.Since(began)
			if after > most {
				r.w.t.Errorf("message %d waited for %v, more than %v", n, after, most)
			}
			ended(n, after, err)
		})
	}
}

// hear takes in what was delivered and says in how many messages that was.
func (r *replica) hear() int {
	r.w.t.Helper()
	r.mu.Lock()
	inbox := r.inbox
	r.inbox = nil
	r.mu.Unlock()
	for _, m := range inbox {
		if _, err := r.sync.ReceiveMessage(m); err != nil {
			r.w.t.Fatal(err)
		}
	}
	return len(inbox)
}

func TestALoneChangeGoesAtOnce(t *testing.T) {
	typing(t, 2, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		for range 5 {
			all[0].typeIn(sid, 0, "x")
			all[0].say(func(_ int, after time.Duration, err error) {
				if err != nil || after != 0 {
					t.Errorf("a lone change took %v and came to %v", after, err)
				}
			})
			synctest.Wait()
			if all[1].hear() != 1 || all[1].text(sid) != all[0].text(sid) {
				t.Errorf("the other has %q, want %q", all[1].text(sid), all[0].text(sid))
			}
			all[0].mustSettle()
			all[1].mustSettle()
			time.Sleep(pause)
		}
	})
}

// What a caller says to the others once it was answered comes behind what it wrote.
func TestOthersAreToldBeforeTheCallerIsAnswered(t *testing.T) {
	typing(t, 4, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		answered := 0
		for range 5 {
			for _, r := range all[:2] {
				r.typeIn(sid, 0, "x")
				r.say(func(_ int, _ time.Duration, err error) {
					answered++
					if err != nil {
						t.Error(err)
					}
					for n, other := range all[2:] {
						other.mu.Lock()
						if len(other.inbox) == 0 {
							t.Errorf("reader %d was told nothing yet", n)
						}
						other.mu.Unlock()
					}
				})
			}
			synctest.Wait()
			time.Sleep(pause)
			synctest.Wait()
			for _, r := range all {
				r.hear()
			}
			for _, r := range all {
				r.mustSettle()
			}
		}
		if answered < 10 {
			t.Errorf("%d answers to 10 messages", answered)
		}
	})
}

func TestABurstTravelsTogether(t *testing.T) {
	typing(t, 12, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		reader := all[11]
		store := w.count()
		began := time.Now()
		for i, r := range all[:11] { // one each millisecond; the first finds the document at rest
			r.typeIn(sid, 0, fmt.Sprintf("%x", i))
			r.say(func(_ int, _ time.Duration, err error) {
				if want := began.Add(pause); err != nil || i > 0 && !time.Now().Equal(want) {
					t.Errorf("change %d was stored %v after the first and came to %v", i, time.Since(began), err)
				}
			})
			synctest.Wait()
			if i == 0 && reader.hear() != 1 {
				t.Error("the first change waits")
			}
			time.Sleep(time.Millisecond)
		}
		if n := reader.hear(); n != 0 {
			t.Errorf("%d messages before the pause is over", n)
		}
		time.Sleep(pause)
		synctest.Wait()
		if n := reader.hear(); n != 1 {
			t.Errorf("ten changes came in %d messages", n)
		}
		if appends, changes := store.appends.Load(), store.changes.Load(); appends != 2 || changes != 11 {
			t.Errorf("%d changes were stored in %d appends, want 11 in 2", changes, appends)
		}
		for range 3 {
			for _, r := range all {
				r.mustSettle()
			}
		}
		want := w.read(id).Sections[0].Text
		for i, r := range all {
			if got := r.text(sid); got != want || len(got) != len("# A\n")+11 {
				t.Errorf("replica %d has %q, the server %q", i, got, want)
			}
		}
	})
}

// In a document that many write to also the first of a burst waits, so that a burst is one step; when they have
// gone, what somebody types goes at once again.
func TestABurstInABusyDocumentIsOneStep(t *testing.T) {
	typing(t, 11, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		reader := all[10]
		store := w.count()
		burst := func() {
			for _, r := range all[:10] { // one each millisecond
				r.typeIn(sid, 0, "x")
				r.say(func(_ int, _ time.Duration, err error) {
					if err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Millisecond)
			}
			time.Sleep(90 * time.Millisecond)
			for _, r := range all {
				r.hear()
				r.say(func(int, time.Duration, error) {})
			}
		}
		burst() // finds it at rest
		for range 5 {
			before := store.appends.Load()
			burst()
			if n := store.appends.Load() - before; n != 1 {
				t.Errorf("a burst was stored in %d appends, want 1", n)
			}
		}
		time.Sleep(time.Second)
		reader.typeIn(sid, 0, "y")
		reader.say(func(_ int, after time.Duration, err error) {
			if err != nil || after != 0 {
				t.Errorf("a lone change took %v and came to %v", after, err)
			}
		})
		synctest.Wait()
		if got := w.read(id).Sections[0].Text; len(got) != len("# A\n")+61 || !strings.HasPrefix(got, "y") {
			t.Errorf("the text is %q", got)
		}
	})
}

// The more are told of a step, the less it costs each of them, and the shorter is the pause.
func TestWithManyPeersThePauseIsShort(t *testing.T) {
	typing(t, 48, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		var longest time.Duration
		for range 3 {
			for _, r := range all {
				r.typeIn(sid, 0, "x")
				r.say(func(_ int, after time.Duration, err error) {
					if err != nil {
						t.Error(err)
					}
					longest = max(longest, after)
				})
				time.Sleep(time.Millisecond)
			}
			time.Sleep(pause)
			synctest.Wait()
			for _, r := range all {
				r.hear()
			}
		}
		if longest != pause/4 {
			t.Errorf("of 48 who type a change waited for %v, want %v at most", longest, pause/4)
		}
	})
}

// Whoever waits for an answer to a request of its own neither waits for the pause nor overtakes what came before.
func TestAnEditThroughTheServerEndsThePause(t *testing.T) {
	typing(t, 1, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		began := time.Now()
		for range 2 { // the second one is within the pause
			all[0].typeIn(sid, 0, "x")
			all[0].say(func(int, time.Duration, error) {})
			synctest.Wait()
		}
		if got := w.read(id); got.Sections[0].Text != "xx# A\n" || time.Since(began) != 0 {
			t.Errorf("a reader got %q after %v", got.Sections[0].Text, time.Since(began))
		}
		for range 20 {
			if _, err := w.EditSection(t.Context(), alice, id, sid, doc.OpsEdit{Ops: []doc.TextOp{{Insert: "y"}}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("twenty edits one behind the other took %v of waiting", took)
		}
	})
}

// Of many who type, ask and acknowledge at random times, nobody waits for too long (say), each is answered in the
// order in which it spoke, and all come to the same.
func TestNothingWaitsLongerThanThePause(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	typing(t, 5, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		random := rand.New(rand.NewPCG(seed, 0))
		var (
			mu    sync.Mutex
			said  = make([]int, len(all))
			ended = make([]int, len(all))
			typed int
			wrong []string
		)
		for range 300 {
			i := random.IntN(len(all))
			r := all[i]
			r.hear() // what it says next may acknowledge it
			if random.IntN(2) == 0 {
				r.typeIn(sid, random.IntN(2), "x")
				typed++
			}
			first := said[i]
			said[i] += r.say(func(n int, _ time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				if n += first; err != nil || ended[i] != n {
					wrong = append(wrong, fmt.Sprintf("message %d of %d, after %d: %v", n, i, ended[i], err))
				}
				ended[i]++
			})
			time.Sleep(time.Duration(random.IntN(12)) * time.Millisecond)
		}
		time.Sleep(pause)
		synctest.Wait()
		for range 3 {
			for _, r := range all {
				r.mustSettle()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 {
			t.Error(strings.Join(wrong, "\n"))
		}
		want := w.read(id).Sections[0].Text
		for i, r := range all {
			if got := r.text(sid); got != want || len(got) != len("# A\n")+typed {
				t.Errorf("replica %d has %q, the server %q", i, got, want)
			}
			if said[i] != ended[i] {
				t.Errorf("%d of %d messages of replica %d came to an end", ended[i], said[i], i)
			}
		}
	})
}

// What one peer brings wrong is refused to that peer alone, also where others' changes are merged in the same go.
func TestABadChangeInABurstHarmsNobodyElse(t *testing.T) {
	typing(t, 3, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		twin := w.attach(editor("twin"), id, false) // who writes as the same actor as the first replica
		twin.mustSettle()
		actor := all[0].doc.ActorID()
		all[0].typeIn(sid, 0, "0")
		all[0].mustSettle() // the document is no longer at rest
		if err := twin.doc.SetActorID(actor); err != nil {
			t.Fatal(err)
		}
		results := make([]error, 3)
		twin.typeIn(sid, 0, "t")
		twin.say(func(_ int, _ time.Duration, err error) { results[0] = errors.Join(results[0], err) })
		for i, r := range all[1:] {
			r.typeIn(sid, 0, fmt.Sprint(i+1))
			r.say(func(_ int, _ time.Duration, err error) { results[i+1] = errors.Join(results[i+1], err) })
		}
		time.Sleep(pause)
		synctest.Wait()
		if results[0] == nil || results[1] != nil || results[2] != nil {
			t.Errorf("the twin: %v; the others: %v", results[0], results[1:])
		}
		if got := w.read(id).Sections[0].Text; strings.Contains(got, "t") || len(got) != len("# A\n")+3 {
			t.Errorf("the text is %q", got)
		}
		twin.at.Detach()
	})
}

func TestWhatIsRemovedAndRestoredInABurstIsLoggedAsThat(t *testing.T) {
	typing(t, 2, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		all[0].typeIn(sid, 0, "x")
		all[0].mustSettle()
		for _, removed := range []bool{true, false, true} {
			if err := all[1].doc.Path("sections", string(sid), "removed").Set(removed); err != nil {
				t.Fatal(err)
			}
			all[1].commit()
			all[1].say(func(_ int, _ time.Duration, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		var got []doc.EventType
		for _, e := range w.log(id) {
			if e.Type == doc.SectionRemoved || e.Type == doc.SectionRestored {
				got = append(got, e.Type)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint([]doc.EventType{doc.SectionRemoved, doc.SectionRestored, doc.SectionRemoved}) {
			t.Errorf("the log says %v", got)
		}
	})
}

// However many type, what is to be logged of it is stored together, once in two seconds.
func TestFoldsAreLoggedTogether(t *testing.T) {
	typing(t, 3, func(t *testing.T, w *world, id crdt.DocumentID, sid doc.SectionID, all []*replica) {
		store := w.count()
		for i := range 90 { // nine seconds
			r := all[i%len(all)]
			r.typeIn(sid, 0, "x")
			r.mustSettle()
			time.Sleep(100 * time.Millisecond)
		}
		if n := store.others.Load(); n < 3 || n > 5 {
			t.Errorf("%d appends beside those of the typing", n)
		}
		time.Sleep(5 * time.Second)
		counted := 0
		for _, e := range w.log(id) {
			var p struct{ Changes int }
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				t.Fatal(err)
			}
			if e.Type == doc.SectionEdited {
				counted += p.Changes
			}
		}
		if counted != 90 {
			t.Errorf("the log tells of %d changes, want 90", counted)
		}
	})
}
