package doc

import "time"

// How long at most a replica's message waits for others that share its step: one call to the engine, one commit, one message to
// each peer. DESIGN.md says why so long.
const (
	longPause  = 20 * time.Millisecond // with up to fewPeers
	fewPeers   = 12
	shortPause = 5 * time.Millisecond // however many there are
)

// gatherPause is the shorter the more peers share what a step costs.
func (d *desk) gatherPause() time.Duration {
	return max(shortPause, longPause*fewPeers/time.Duration(max(fewPeers, len(d.peers))))
}

// A document is busy while others than before bring at least busyChanges within busyTime. Four people who type are slower,
// and for one who is fast there is nobody to wait for.
const (
	busyChanges = 10
	busyTime    = 200 * time.Millisecond
)

// patience is how a request may be made to wait for others. The greater waits whenever the less does.
type patience int32

const (
	none    patience = iota // somebody waits for it who has nothing else to do
	bringer                 // as long as the last step is fresh, or the document busy: a replica's changes or questions
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
	least, began := first.patience(), first.came
	take := func() {
		// What is alone cannot be put back in its place; what came before it is served first.
		for len(batch) < deskBatch && !batch[len(batch)-1].alone {
			select {
			case r := <-d.requests:
				batch = append(batch, r)
				if p := r.patience(); p < least {
					least, began = p, r.came
				}
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

// left is how long a batch may still wait for more, of which those of the least patience began to come at a time.
func (d *desk) left(least patience, began time.Time) time.Duration {
	since := began
	switch {
	case least == none:
		return 0
	case least == bringer && !d.pace.busy(began):
		since = d.stepped
	}
	pause := d.gatherPause()
	return min(pause, pause-d.lib.now().Sub(since)) // the clock may go back
}

// pace remembers when the latest changes were merged that came from another replica than the one before, in a ring.
type pace struct {
	at   [busyChanges]time.Time
	next int // the oldest
	last *Attachment
}

func (p *pace) note(from *Attachment, now time.Time) {
	if from == p.last {
		return
	}
	p.last = from
	p.at[p.next] = now
	p.next = (p.next + 1) % busyChanges
}

func (p *pace) busy(now time.Time) bool { return now.Sub(p.at[p.next]) < busyTime }
