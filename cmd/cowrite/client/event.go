package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
)

// eventPage is how many events one page asks for: the server's most.
const eventPage = 1000

// firstRetry is how long to wait after a cut when the server said nothing about it.
const firstRetry = time.Second

// EventPage is a part of a document's log, in order.
type EventPage struct {
	Events []doc.Event `json:"events"`
	More   bool        `json:"has_more"`
	Next   string      `json:"next_since"`
}

// Events gives a page of a document's log behind since, in order.
func (c *Client) Events(ctx context.Context, ref string, since doc.Seq) (events []doc.Event, more bool, err error) {
	var page EventPage
	query := url.Values{"since": {since.String()}, "limit": {strconv.Itoa(eventPage)}}
	err = c.json(ctx, Call{Method: http.MethodGet, Path: []string{"documents", ref, "events"}, Query: query}, &page)
	return page.Events, page.More, err
}

// Post appends an event of the caller's own to a document's log: payload is a JSON object.
func (c *Client) Post(ctx context.Context, ref string, payload json.RawMessage) (doc.Event, error) {
	var e doc.Event
	err := c.json(ctx, Call{Method: http.MethodPost, Path: []string{"documents", ref, "events"}, Body: payload}, &e)
	return e, err
}

// Follow calls take with every event behind since, in order, none left out and none twice, and goes on as
// new ones come until ctx ends or take returns an error. After a cut it waits as long as the server asked for and
// resumes behind the last event taken. It does not retry what the server refuses, nor the very first call.
func (c *Client) Follow(ctx context.Context, ref string, since doc.Seq, take func(doc.Event) error) error {
	s := stream{client: c, ref: ref, last: since, retry: firstRetry, take: take}
	for {
		err := s.read(ctx)
		var refused *code.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.taking != nil:
			return s.taking
		case errors.As(err, &refused) && refused.Entry().HTTP < http.StatusInternalServerError:
			return err
		case err != nil && !s.began:
			return err
		}
		wait := time.NewTimer(s.retry)
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
	}
}

// stream is a followed log over as many connections as it takes.
type stream struct {
	client *Client
	ref    string
	last   doc.Seq // of the last event taken
	retry  time.Duration
	began  bool // a connection was once made
	taking error
	take   func(doc.Event) error
}

// read follows one connection to its end.
func (s *stream) read(ctx context.Context) error {
	resp, err := s.client.open(ctx, Call{
		Method: http.MethodGet,
		Path:   []string{"documents", s.ref, "events", "stream"},
		Accept: "text/event-stream",
		Header: map[string]string{"Last-Event-ID": s.last.String()},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.began = true
	for frame, err := range Frames(resp.Body) {
		if err != nil {
			return err
		}
		if ms, err := strconv.Atoi(frame.Retry); err == nil {
			s.retry = time.Duration(ms) * time.Millisecond
		}
		if frame.Data == "" {
			continue
		}
		if err := s.event(frame.Data); err != nil {
			return err
		}
	}
	return nil
}

// event hands one frame on and checks that none is missing before it.
func (s *stream) event(data string) error {
	var e doc.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		s.taking = fmt.Errorf("read the event stream: %w", err)
		return s.taking
	}
	if e.Seq != s.last+1 {
		s.taking = fmt.Errorf("the event stream has %s behind %s", e.Seq, s.last)
		return s.taking
	}
	if s.taking = s.take(e); s.taking == nil {
		s.last = e.Seq
	}
	return s.taking
}
