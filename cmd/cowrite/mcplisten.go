package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc/code"
)

// The pauses between attempts to listen again; each is drawn from the upper half of what it may be.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// listenRevision is the revision of the protocol whose subscriptions/listen it speaks.
const listenRevision = "2026-07-28"

// listener listens at the server to what the host subscribed to. The SDK's client keeps to itself what the server answers,
// and when a stream ends, so each resource has a request of the listener's own.
type listener struct {
	endpoint string
	http     *http.Client
	updated  func(uri string)

	ctx  context.Context // of the streams
	stop context.CancelFunc
	all  sync.WaitGroup // streams

	mu      sync.Mutex
	streams map[string]*noticeStream // by URI
}

// noticeStream is a resource's notices, over as many lines as it takes.
type noticeStream struct {
	cancel   context.CancelFunc
	answered chan struct{} // closed when the server first acknowledged it, or did not
	err      error         // why it did not; set before
}

func newListener(ctx context.Context, endpoint string, client *http.Client, updated func(uri string)) *listener {
	l := &listener{endpoint: endpoint, http: client, updated: updated, streams: map[string]*noticeStream{}}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// close ends the streams.
func (l *listener) close() {
	l.stop()
	l.all.Wait()
}

// subscribe returns once the server listens: whatever changes from then on is told, however often the line breaks. A
// refusal by the server is a *jsonrpc.Error, or a *code.Error where it did not come to that.
func (l *listener) subscribe(ctx context.Context, uri string) error {
	l.mu.Lock()
	s := l.streams[uri]
	if s == nil {
		s = &noticeStream{answered: make(chan struct{})}
		var listening context.Context
		listening, s.cancel = context.WithCancel(l.ctx)
		l.streams[uri] = s
		l.all.Go(func() { l.keep(listening, uri, s) })
	}
	l.mu.Unlock()
	select {
	case <-s.answered:
		return s.err
	case <-ctx.Done():
		l.forget(uri, s)
		return ctx.Err()
	}
}

// unsubscribe has no more told of a resource.
func (l *listener) unsubscribe(uri string) {
	l.mu.Lock()
	s := l.streams[uri]
	l.mu.Unlock()
	if s != nil {
		l.forget(uri, s)
	}
}

// forget ends a stream. Who subscribes to the resource again gets another.
func (l *listener) forget(uri string, s *noticeStream) {
	s.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[uri] == s {
		delete(l.streams, uri)
	}
}

// keep listens, again whenever the line broke, until the stream is forgotten or the server refuses. What changed while
// nobody listened, a refusal too, is told by one notice.
func (l *listener) keep(ctx context.Context, uri string, s *noticeStream) {
	acknowledged := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := l.listen(ctx, uri, func() {
			if acknowledged {
				l.updated(uri)
			} else {
				close(s.answered)
			}
			acknowledged, pause = true, firstPause
		})
		switch {
		case !acknowledged:
			l.forget(uri, s)
			s.err = err
			close(s.answered)
			return
		case isFinalRPC(err):
			l.forget(uri, s)
			l.updated(uri)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// isFinalRPC is isFinal of a refusal that may be told in JSON-RPC.
func isFinalRPC(err error) bool {
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return isFinal(err)
	}
	var refusal struct {
		Error code.Code `json:"error"`
	}
	if err := json.Unmarshal(rpc.Data, &refusal); err != nil {
		return true // the SDK's own, without data: there is no such resource or method
	}
	return isFinal(&code.Error{Code: refusal.Error})
}

var errStreamEnded = errors.New("the stream of notices ended")

// listen reads a stream of a resource's notices from its beginning, which the server acknowledges, to its end.
func (l *listener) listen(ctx context.Context, uri string, acknowledged func()) error {
	params, err := json.Marshal(&mcp.SubscriptionsListenParams{
		Meta:          mcp.Meta{mcp.MetaKeyProtocolVersion: listenRevision, mcp.MetaKeyClientCapabilities: struct{}{}},
		Notifications: &mcp.NotificationSubscriptions{ResourceSubscriptions: []string{uri}},
	})
	if err != nil {
		return fmt.Errorf("marshal what to listen to: %w", err)
	}
	id, err := jsonrpc.MakeID(uri)
	if err != nil {
		return fmt.Errorf("make a request's id: %w", err)
	}
	call := &jsonrpc.Request{ID: id, Method: "subscriptions/listen", Params: params}
	body, err := jsonrpc.EncodeMessage(call)
	if err != nil {
		return fmt.Errorf("encode what to listen to: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", listenRevision)
	req.Header.Set("Mcp-Method", call.Method)
	resp, err := l.http.Do(req)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusedRPC(resp)
	}
	for frame, err := range client.Frames(resp.Body) {
		if err != nil {
			return err
		}
		message, err := jsonrpc.DecodeMessage([]byte(frame.Data))
		if err != nil {
			return fmt.Errorf("read a notice: %w", err)
		}
		switch m := message.(type) {
		case *jsonrpc.Response: // the last of the stream
			return cmp.Or(m.Error, errStreamEnded)
		case *jsonrpc.Request:
			switch m.Method {
			case "notifications/subscriptions/acknowledged":
				var agreed mcp.SubscriptionsAcknowledgedParams
				if err := json.Unmarshal(m.Params, &agreed); err != nil {
					return fmt.Errorf("read the acknowledgement: %w", err)
				}
				if !slices.Contains(agreed.Notifications.ResourceSubscriptions, uri) {
					return code.New(code.MethodNotAllowed, "the server has no notices of %s", uri)
				}
				acknowledged()
			case "notifications/resources/updated":
				l.updated(uri)
			}
		}
	}
	return errStreamEnded
}

// refusedRPC is why a request was refused before there was a stream: as JSON-RPC, or as everything else is refused.
func refusedRPC(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessageBytes))
	if err != nil {
		return fmt.Errorf("read the refusal: %w", err)
	}
	if message, err := jsonrpc.DecodeMessage(body); err == nil {
		if answer, ok := message.(*jsonrpc.Response); ok && answer.Error != nil {
			return answer.Error
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return client.Refusal(resp)
}
