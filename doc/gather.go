package doc

import "time"

// gatherPause is how long at most a replica's message waits for others that share its step: one call to the engine, one
// commit, one message to each peer. DESIGN.md says why it is so long.
const gatherPause = 20 * time.Millisecond

// patience is how a request may be made to wait for others. The greater waits whenever the less does.
type patience int32

const (
	none    patience = iota // somebody waits for it who has nothing else to do
	bringer                 // as long as the last step is fresh: a replica's changes or questions
	teller                  // at any time: a replica says what it has, and expects no answer
)

func (r *request) patience() patience {
	switch {
	case r.brought == nil:
		return none
	case r.brought.asks:
		return bringer
	default:
		return teller
	}
}

// gather takes the requests that are waiting, up to the first that must be alone, and waits for more as long as all of
// them have the patience. A desk that waits for more is woken only by what has not.
func (d *desk) gather(first *request) []*request {
	batch := []*request{first}
	least, began := first.patience(), d.lib.now()
	take := func() {
		// What is alone cannot be put back in its place; what came before it is served first.
		for len(batch) < deskBatch && !batch[len(batch)-1].alone {
			select {
			case r := <-d.requests:
				batch = append(batch, r)
				least = min(least, r.patience())
			default:
				return
			}
		}
	}
	for take(); len(batch) < deskBatch && !batch[len(batch)-1].alone; take() {
		left := d.left(least, began)
		if left <= 0 {
			break
		}
		n := len(batch)
		d.pause.Store(int32(least))
		if take(); len(batch) > n {
			continue // what came in between may have woken nobody
		}
		pause := time.NewTimer(left)
		select {
		case <-d.wake:
		case <-pause.C:
		}
		pause.Stop()
	}
	d.pause.Store(int32(none))
	return batch
}

// left is how long a batch may still wait for more that began at a time.
func (d *desk) left(least patience, began time.Time) time.Duration {
	since := began
	switch least {
	case none:
		return 0
	case bringer:
		since = d.stepped
	}
	return min(gatherPause, gatherPause-d.lib.now().Sub(since)) // the clock may go back
}
