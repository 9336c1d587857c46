package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"cowrite/doc/code"
	"cowrite/sync/agent"
	"cowrite/sync/client"
)

// The pauses grow too when the server welcomes and then closes, whatever for, and begin anew after a line that held.
func TestPausesGrowWhileLinesAreShort(t *testing.T) {
	for _, why := range []code.Code{code.SlowReader, code.Busy, code.ShuttingDown, code.Internal, code.TooManySockets, ""} {
		t.Run(string(why), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const steady = 5 * time.Second
				lives := make(chan time.Duration, 8) // of the lines, one after the other
				for _, life := range []time.Duration{0, time.Second, 0, steady - 1, steady, 0, time.Minute, time.Hour} {
					lives <- life
				}
				opts, end := scripted(func(ws *websocket.Conn, say func(agent.Frame)) {
					ended := ws.CloseRead(context.Background()) // pings are answered
					select {
					case <-time.After(<-lives):
					case <-ended.Done():
					}
					if why != "" { // else the line breaks
						say(&agent.Error{Code: why, Message: "come back"})
					}
				})
				defer end()
				var pauses []time.Duration
				opts.Random = func() float64 { return 0.5 }
				opts.After = func(d time.Duration) <-chan time.Time { pauses = append(pauses, d); return time.After(d) }
				alice, err := client.Connect(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer alice.Close()
				after(10 * time.Minute)
				for i, want := range []time.Duration{75, 150, 300, 600, 75, 150, 75} {
					if i >= len(pauses) || pauses[i] != want*time.Millisecond {
						t.Fatalf("the pauses are %v, the one of index %d ought to be %d ms", pauses, i, int64(want))
					}
				}
			})
		})
	}
}
