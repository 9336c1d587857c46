package lease

import "time"

// newClock gives a clock that starts at the wall clock's time and then follows elapsed alone, so that a wall
// clock that is set moves nothing.
func newClock(wall func() time.Time, elapsed func() time.Duration) func() time.Time {
	began, offset := wall().Round(0).UTC(), elapsed()
	return func() time.Time { return began.Add(elapsed() - offset) }
}

// monotonic is the time since the process began to count it, by the monotonic clock.
func monotonic() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
