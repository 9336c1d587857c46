package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"cowrite/doc"
	"cowrite/doc/code"
)

const (
	// heartbeat is the time between comments on a stream: proxies drop lines that are silent for longer.
	heartbeat = 15 * time.Second
	// streamPage is how many events one batch has, at most.
	streamPage = 200
	// reconnectMs is how long a client waits before it comes back.
	reconnectMs = 5000
)

type streamEventsInput struct {
	DocumentPath
	Since       string `query:"since" doc:"A seq: only what comes behind it."`
	LastEventID string `header:"Last-Event-ID" doc:"The same; wins over since."`
	Token       string `query:"token" doc:"The key, where no header can be set. It is not logged."`
}

type streamEventsOutput struct {
	Body func(huma.Context)
}

func (s *Server) streamEvents(ctx context.Context, in *streamEventsInput) (*streamEventsOutput, error) {
	from := in.LastEventID
	if from == "" {
		from = in.Since
	}
	since, err := parseSince(from)
	if err != nil {
		return nil, err
	}
	meta, err := s.find(ctx, in.Slug)
	if err == nil {
		err = meta.Reaches(since)
	}
	if err != nil {
		return nil, err
	}
	if s.opts.Stop.Err() != nil {
		return nil, code.New(code.ShuttingDown, "the server is shutting down")
	}
	c := callOf(ctx)
	ctx, cancel := s.untilStop(ctx)
	closeStream, err := s.streams.open(c.key.ID, cancel)
	if err != nil {
		cancel()
		return nil, err
	}
	// A key that ended before the stream was on the list would have left the stream open.
	if _, err := s.authenticate(c.request); err != nil {
		closeStream()
		return nil, err
	}
	return &streamEventsOutput{func(hctx huma.Context) {
		defer closeStream()
		_, w := humago.Unwrap(hctx)
		if err := s.follow(ctx, w, c.key, meta, since); err != nil && ctx.Err() == nil {
			s.log.DebugContext(ctx, "event stream ended", "request", c.id, "err", err)
		}
	}}, nil
}

// follow writes the log behind since, and what is appended to it, until ctx ends, the reader is stuck or gone,
// or the key may not read the document any longer. It begins to watch before it reads the first page: what is
// appended in between is in that page, or wakes it, or both; and as every page starts behind the last event
// written, nothing is written twice.
func (s *Server) follow(ctx context.Context, w http.ResponseWriter, k doc.Key, meta doc.Meta, since doc.Seq) error {
	wake, stop := s.library.Watch(meta.ID)
	defer stop()
	tick, stopTicker := s.newTicker(heartbeat)
	defer stopTicker()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := batchWriter{w, http.NewResponseController(w)}
	if err := out.write(fmt.Appendf(nil, "retry: %d\n\n", reconnectMs)); err != nil || callOf(ctx).request.Method == http.MethodHead {
		return err
	}
	for {
		events, more, err := s.library.Events(ctx, k, meta.ID, since, streamPage)
		if code.Is(err, code.DocumentDeleted) || code.Is(err, code.DocumentBlocked) {
			return nil // its log was read to the end
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if len(events) > 0 {
			batch, err := encodeEvents(events)
			if err != nil {
				return err
			}
			if err := out.write(batch); err != nil {
				return err
			}
			since = events[len(events)-1].Seq
			if slices.ContainsFunc(events, func(e doc.Event) bool { return e.Type == doc.DocumentDeleted || e.Type == doc.DocumentBlocked }) {
				more = true // or refused, unless it is back
			}
		}
		for !more {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-wake:
				more = true
			case <-tick:
				if err := out.write([]byte(": \n\n")); err != nil {
					return err
				}
			}
		}
	}
}

// encodeEvents writes frames of the event stream format (HTML Living Standard, section 9.2.6).
func encodeEvents(events []doc.Event) ([]byte, error) {
	var b bytes.Buffer
	for _, e := range events {
		data, err := json.Marshal(e) // on one line
		if err != nil {
			return nil, fmt.Errorf("marshal event %s: %w", e.Seq, err)
		}
		fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data)
	}
	return b.Bytes(), nil
}

// batchWriter sends what it is given at once. The reader has writeTimeout to take it.
type batchWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (b batchWriter) write(p []byte) error {
	if _, err := b.w.Write(p); err != nil {
		return fmt.Errorf("write to stream: %w", err)
	}
	if err := b.control.Flush(); err != nil {
		return fmt.Errorf("flush stream: %w", err)
	}
	return nil
}

// errKeyEnded is what a long poll is told whose key ends meanwhile.
var errKeyEnded = code.New(code.KeyRevoked, "this key was revoked, or has ended, while its call waited")

// whileKeyLives gives a context for a long poll that also ends, with KEY_REVOKED as its cause, when the caller's key does. end is
// to be called when the poll is over.
func (s *Server) whileKeyLives(ctx context.Context) (polling context.Context, end func(), err error) {
	c := callOf(ctx)
	polling, cancel := context.WithCancelCause(ctx)
	end, err = s.polls.open(c.key.ID, func() { cancel(errKeyEnded) })
	if err != nil {
		return nil, nil, err
	}
	// A key that ended before the poll was on the list would have left the poll under way.
	if _, err := s.authenticate(c.request); err != nil {
		end()
		return nil, nil, err
	}
	return polling, end, nil
}

// streams counts what is open in the name of each key, and ends it.
type streams struct {
	limit int
	mu    sync.Mutex
	byKey map[doc.KeyID]map[*stream]struct{}
}

type stream struct{ cancel context.CancelFunc }

func newStreams(limit int) *streams {
	return &streams{limit: limit, byKey: map[doc.KeyID]map[*stream]struct{}{}}
}

// open adds a stream or long poll, which cancel ends. closeStream does too, and takes it away again.
func (s *streams) open(id doc.KeyID, cancel context.CancelFunc) (closeStream func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byKey[id]) >= s.limit {
		return nil, code.New(code.TooManySockets, "this key has %d event streams open, which is the most that one may have", s.limit).With("limit", s.limit)
	}
	if s.byKey[id] == nil {
		s.byKey[id] = map[*stream]struct{}{}
	}
	st := &stream{cancel}
	s.byKey[id][st] = struct{}{}
	return func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byKey[id], st)
		if len(s.byKey[id]) == 0 {
			delete(s.byKey, id)
		}
	}, nil
}

// count gives how many are open.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, of := range s.byKey {
		n += len(of)
	}
	return n
}

// end ends what a key has open.
func (s *streams) end(id doc.KeyID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.byKey[id] {
		st.cancel()
	}
}
