package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"cowrite/doc"
)

// sealedLog is a log as a server keeps it.
func sealedLog(t *testing.T, n int) []doc.Event {
	t.Helper()
	var log []doc.Event
	var last doc.EventHash
	for i := range n {
		id := doc.EventID(uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)))
		e, err := doc.MakeEvent(id, doc.MessagePosted, "alpha", time.UnixMilli(int64(i)), map[string]any{"text": "<a & b>\u2028", "n": i})
		if err != nil {
			t.Fatal(err)
		}
		sealed := doc.Chain(last, doc.Seq(i+1), e)
		log, last = append(log, sealed), sealed.Hash
	}
	return log
}

// logServer serves a log in pages, whatever is wrong with it.
func logServer(t *testing.T, log []doc.Event, perPage int) *process {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/documents/d/events" {
			http.NotFound(w, r)
			return
		}
		since, err := doc.ParseSeq(r.URL.Query().Get("since"))
		if err != nil {
			t.Error(err)
		}
		from := slices.IndexFunc(log, func(e doc.Event) bool { return e.Seq > since })
		page := struct {
			Events []doc.Event `json:"events"`
			More   bool        `json:"has_more"`
		}{Events: []doc.Event{}}
		if from >= 0 {
			page.Events = log[from:min(len(log), from+perPage)]
			page.More = from+perPage < len(log)
		}
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(page); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &process{address: server.URL}
}

func TestVerifyReadsTheWholeLog(t *testing.T) {
	log := sealedLog(t, 25)
	for _, perPage := range []int{1, 7, 25, 100} {
		stdout, stderr, exit := logServer(t, log, perPage).exec(t, "", "events", "verify", "d")
		want := fmt.Sprintf("25 events, last hash %s\n", log[24].Hash)
		if exit != 0 || stdout != want {
			t.Errorf("pages of %d: exit code %d, %q %q, want %q", perPage, exit, stdout, stderr, want)
		}
	}
	if stdout, _, exit := logServer(t, nil, 1).exec(t, "", "events", "verify", "d"); exit != 0 || !strings.HasPrefix(stdout, "0 events") {
		t.Errorf("the empty log: exit code %d, %q", exit, stdout)
	}
}

// Whatever is done to one event, the first bad one is named.
func TestVerifyNamesTheFirstBadEvent(t *testing.T) {
	tamper := map[string]struct {
		do   func([]doc.Event) []doc.Event
		want string
	}{
		"one is gone":        {func(l []doc.Event) []doc.Event { return slices.Delete(l, 5, 6) }, "event 6 is missing: the log goes on with 7"},
		"the first are gone": {func(l []doc.Event) []doc.Event { return l[3:] }, "event 1 is missing"},
		"two change places": {func(l []doc.Event) []doc.Event {
			l[5], l[6] = l[6], l[5]
			l[5].Seq, l[6].Seq = l[6].Seq, l[5].Seq
			return l
		}, "event 6 ("},
		"one is there twice": {func(l []doc.Event) []doc.Event { return slices.Insert(l, 5, l[4]) }, "event 6 is missing: the log goes on with 5"},
		"another payload":    {func(l []doc.Event) []doc.Event { l[5].Payload = json.RawMessage(`{}`); return l }, "event 6 ("},
		"another actor":      {func(l []doc.Event) []doc.Event { l[5].Actor = "beta"; return l }, "event 6 ("},
		"another type":       {func(l []doc.Event) []doc.Event { l[5].Type = doc.SectionEdited; return l }, "event 6 ("},
		"another time":       {func(l []doc.Event) []doc.Event { l[5].At = l[5].At.Add(time.Millisecond); return l }, "event 6 ("},
		"another id":         {func(l []doc.Event) []doc.Event { l[5].ID[0] ^= 1; return l }, "event 6 ("},
		"another hash":       {func(l []doc.Event) []doc.Event { l[5].Hash[0] ^= 1; return l }, "event 6 ("},
		"one sealed anew": {func(l []doc.Event) []doc.Event {
			l[5].Actor = "beta"
			l[5] = doc.Chain(l[4].Hash, l[5].Seq, l[5].NewEvent)
			return l
		}, "event 7 ("},
	}
	for name, c := range tamper {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, exit := logServer(t, c.do(sealedLog(t, 10)), 4).exec(t, "", "events", "verify", "d")
			if exit != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "cowrite: "+c.want) {
				t.Errorf("exit code %d, %q, %q, want %q", exit, stdout, stderr, c.want)
			}
		})
	}
}
