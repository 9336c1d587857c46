package socket

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc/code"
	"cowrite/sync/hub"
	"cowrite/sync/repo"
)

// slowDocument takes messages in at once, or not at once, and is done with them later, in order.
type slowDocument struct {
	random *rand.Rand

	mu     sync.Mutex
	placed [][]byte
	gone   []*code.Error
	heard  []uint64 // ephemeral messages
	early  int      // of them, those that came when a message before them was under way
	ended  int
	dones  chan func(error)
}

func (d *slowDocument) offer(c *conversation, n note, done func(error)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, message := n.frame.(repo.Sync); !message || c.attachment == nil || d.random.IntN(2) == 0 {
		return false
	}
	d.place(n, done)
	return true
}

func (d *slowDocument) handle(c *conversation, n note, done func(error)) {
	time.Sleep(time.Duration(d.random.IntN(2)) * time.Millisecond) // it has to wait for a place
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.gone != nil {
		d.gone = append(d.gone, n.gone)
	}
	switch f := n.frame.(type) {
	case nil:
		done(nil)
	case repo.Ephemeral:
		d.heard = append(d.heard, f.Count)
		if d.ended < len(d.placed) {
			d.early++
		}
		done(nil)
	default:
		c.attachment = open{}
		d.place(n, done)
	}
}

// open is an attachment of which nothing is asked.
type open struct{ hub.Attachment }

func (d *slowDocument) place(n note, done func(error)) {
	d.placed = append(d.placed, n.frame.(repo.Sync).Data)
	d.dones <- done
}

// Messages have their places in the order in which they came, however many of them are under way; a closed inbox is
// drained when the last one has come to its end.
func TestMessagesUnderWayStayInOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		d := &slowDocument{random: rand.New(rand.NewPCG(seed, 0)), dones: make(chan func(error), 1000)}
		b := newInbox(hub.Limits{InboundFrames: 10, InboundBytes: 1 << 20, Documents: 10, Workers: 2}, d.handle, d.offer)
		ended := 0
		var ending sync.WaitGroup
		ending.Go(func() {
			for done := range d.dones {
				time.Sleep(time.Millisecond)
				ended++
				done(nil)
			}
		})
		var want [][]byte
		most := 0
		for i := range 200 {
			data := []byte{1, byte(i)}
			want = append(want, data)
			if err := b.put(name("d"), repo.Sync{Data: data}, len(data)); err != nil {
				t.Fatal(err)
			}
			most = max(most, len(d.dones))
		}
		if most < 2 || most > 10 {
			t.Errorf("up to %d messages were under way, want some, and 10 at most", most)
		}
		b.close()
		b.drain()
		if ended != 200 {
			t.Errorf("drained when %d of 200 messages had come to their end", ended)
		}
		close(d.dones)
		ending.Wait()
		if !slices.EqualFunc(d.placed, want, slices.Equal[[]byte]) {
			t.Errorf("placed in the order %v", d.placed)
		}
	})
}

// What a peer says besides is heard behind all that it had said before, in order, also when that takes long, and what it
// says next waits no longer than that. Nothing is left behind in a closed inbox.
func TestEphemeralMessagesWaitForWhatIsUnderWay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		d := &slowDocument{random: rand.New(rand.NewPCG(seed, 0)), dones: make(chan func(error), 1000)}
		b := newInbox(hub.Limits{InboundFrames: 10, InboundBytes: 1 << 20, Documents: 10, Workers: 2}, d.handle, d.offer)
		var ending sync.WaitGroup
		ending.Go(func() {
			for done := range d.dones {
				time.Sleep(time.Millisecond)
				d.mu.Lock()
				d.ended++
				d.mu.Unlock()
				done(nil)
			}
		})
		chance := rand.New(rand.NewPCG(seed, 1))
		var messages, said int
		for range 400 {
			frame := repo.Frame(repo.Sync{Data: []byte{1}})
			if chance.IntN(4) == 0 {
				frame = repo.Ephemeral{Count: uint64(said), Data: []byte{1}}
				said++
			} else {
				messages++
			}
			if err := b.put(name("d"), frame, 1); err != nil {
				t.Fatal(err)
			}
		}
		b.close()
		b.drain()
		close(d.dones)
		ending.Wait()
		if len(d.placed) != messages || len(d.heard) != said || !slices.IsSorted(d.heard) {
			t.Errorf("%d of %d messages were placed; of %d ephemeral ones came %v", len(d.placed), messages, said, d.heard)
		}
		if d.early > 0 {
			t.Errorf("%d of %d ephemeral messages came before what was said before them", d.early, said)
		}
	})
}

// A message that is refused after it had its place ends the conversation as a document does that lets go of it.
func TestARefusalThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &slowDocument{random: rand.New(rand.NewPCG(0, 0)), dones: make(chan func(error), 10)}
		b := newInbox(hub.Limits{InboundFrames: 10, InboundBytes: 1 << 20, Documents: 10, Workers: 2}, d.handle, d.offer)
		for range 3 {
			if err := b.put(name("d"), repo.Sync{Data: []byte{1}}, 1); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{nil, code.New(code.BadChange, "no"), errors.New("the disk is full")} {
			(<-d.dones)(err)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		b.close()
		b.drain()
		if len(d.gone) != 2 || d.gone[0].Code != code.BadChange || d.gone[1].Code != code.Internal {
			t.Errorf("the conversation was told %v", d.gone)
		}
	})
}
