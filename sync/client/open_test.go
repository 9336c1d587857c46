package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"cowrite/sync/agent"
	"cowrite/sync/client"
)

// Several callers open one document, and some give up before it is there: the others get it, and none of them when nobody is left.
func TestWhoGivesUpOpeningClosesNothingOfOthers(t *testing.T) {
	for name, patient := range map[string][]bool{ // of the callers, in order
		"the second gives up": {true, false}, "the first gives up": {false, true}, "two of three": {false, true, false}, "all": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				opts, end := scripted(func(ws *websocket.Conn, say func(agent.Frame)) {
					for {
						_, b, err := ws.Read(context.Background())
						if err != nil {
							return
						}
						request, id, err := agent.DecodeRequest(b)
						must(err)
						if open, ok := request.(*agent.Open); ok {
							<-answer
							say(&agent.Opened{Header: agent.Header{ID: id}, Document: open.Document, View: open.View, Version: "v1"})
						}
					}
				})
				defer end()
				alice, err := client.Connect(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer alice.Close()
				type opened struct {
					d   *client.Document
					err error
				}
				short, giveUp := context.WithCancel(t.Context())
				results := make([]opened, len(patient))
				for i := range patient {
					ctx := short
					if patient[i] {
						ctx = t.Context()
					}
					go func() { results[i].d, results[i].err = alice.Open(ctx, "notes", client.Open{}) }()
					synctest.Wait()
				}
				giveUp()
				synctest.Wait()
				close(answer)
				synctest.Wait()
				last, err := alice.Open(t.Context(), "notes", client.Open{})
				if err != nil || last.Version() != "v1" {
					t.Fatalf("who opens it afterwards: %v", err)
				}
				for i, r := range results {
					switch {
					case patient[i] && (r.err != nil || r.d != last):
						t.Errorf("caller %d has another document, %v", i, r.err)
					case !patient[i] && !errors.Is(r.err, context.Canceled):
						t.Errorf("caller %d gave up and was told %v", i, r.err)
					}
				}
			})
		})
	}
}
