package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc/code"
)

// stdio is the SDK's own client of `cowrite mcp`, started as a host of agents starts it.
type stdio struct {
	t        *testing.T
	session  *mcp.ClientSession
	listened chan error // what answered subscriptions/listen
	updated  chan string
}

// revisions are those of the protocol in which a host may subscribe, each in its way.
var revisions = []string{listenRevision, "2025-11-25"}

// overheard is a transport that tells what answers subscriptions/listen, which the SDK's client keeps to itself.
type overheard struct {
	mcp.Transport
	listened chan error
}

func (o overheard) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := o.Transport.Connect(ctx)
	return &overheardConn{Connection: conn, listened: o.listened}, err
}

type overheardConn struct {
	mcp.Connection
	listened chan error
	listens  sync.Map // ids of requests
}

func (c *overheardConn) Write(ctx context.Context, message jsonrpc.Message) error {
	if r, ok := message.(*jsonrpc.Request); ok && r.Method == "subscriptions/listen" {
		c.listens.Store(r.ID, nil)
	}
	return c.Connection.Write(ctx, message)
}

func (c *overheardConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	switch m := message.(type) {
	case *jsonrpc.Request:
		if m.Method == "notifications/subscriptions/acknowledged" {
			c.listened <- nil
		}
	case *jsonrpc.Response:
		if _, ok := c.listens.LoadAndDelete(m.ID); ok && m.Error != nil {
			c.listened <- m.Error
		}
	}
	return message, err
}

func speak(t *testing.T, address, key, revision string) *stdio {
	t.Helper()
	cmd := exec.Command("cowrite", "mcp", "--url", address)
	cmd.Env = append(cmd.Environ(), "COWRITE_KEY="+key)
	s := &stdio{t: t, listened: make(chan error, 16), updated: make(chan string, 16)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) { s.updated <- req.Params.URI },
	})
	session, err := c.Connect(t.Context(), overheard{&mcp.CommandTransport{Command: cmd}, s.listened}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	if got := session.InitializeResult(); got.ProtocolVersion != revision || !strings.Contains(got.Instructions, "advisory") {
		t.Fatalf("it says %+v", got)
	}
	s.session = session
	return s
}

// subscribe returns when the bridge has answered that it is on, or why it is not.
func (s *stdio) subscribe(uri string) error {
	s.t.Helper()
	err := s.session.Subscribe(s.t.Context(), &mcp.SubscribeParams{URI: uri})
	if err != nil || s.session.InitializeResult().ProtocolVersion < listenRevision {
		return err
	}
	select {
	case err = <-s.listened:
	case <-time.After(patience):
		s.t.Fatal("no answer came")
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.session.Unsubscribe(s.t.Context(), &mcp.UnsubscribeParams{URI: uri})) // which the SDK takes for subscribed
}

// told waits until there was a notice of each resource. There may be more.
func (s *stdio) told(of ...string) {
	s.t.Helper()
	for end := time.After(patience); len(of) > 0; {
		select {
		case uri := <-s.updated:
			of = slices.DeleteFunc(of, func(awaited string) bool { return awaited == uri })
		case <-end:
			s.t.Fatalf("no notice came of %s", of)
		}
	}
}

func (s *stdio) call(ctx context.Context, tool string, arguments map[string]any) (result map[string]any, refused bool, err error) {
	r, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, false, err
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return nil, false, err
	}
	return result, r.IsError, json.Unmarshal(data, &result)
}

func (s *stdio) ok(tool string, arguments map[string]any) map[string]any {
	s.t.Helper()
	result, refused, err := s.call(s.t.Context(), tool, arguments)
	if err != nil || refused {
		s.t.Fatalf("%s: %v, %v", tool, result, err)
	}
	return result
}

// Over stdio an agent has what it has over HTTP, whatever the revision that its host speaks; and notices too.
func TestMCPOverStdio(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			p := start(t, t.TempDir())
			s := speak(t, p.address, adminKey, revision)
			tools, err := s.session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 12 || tools.Tools[0].OutputSchema == nil {
				t.Fatalf("%v, %v", tools, err)
			}
			made := s.ok("create", map[string]any{"slug": "paper", "text": "# Paper\nhello\n"})
			sid := made["sections"].([]any)[0]

			section := fmt.Sprintf("cowrite://documents/paper/sections/%v", sid)
			if err := s.subscribe(section); err != nil {
				t.Fatal(err)
			}
			edit := map[string]any{"document": "paper", "section": sid, "replace": []any{map[string]any{"find": "hello", "with": "welcome"}}}
			s.ok("edit", edit)
			s.told(section)
			r, err := s.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: section})
			if err != nil || r.Contents[0].Text != "# Paper\nwelcome\n" || r.Contents[0].Meta["cowrite/version"] == nil {
				t.Errorf("%v, %v", r, err)
			}
			if no, refused, err := s.call(t.Context(), "edit", edit); err != nil || !refused || no["error"] != "TEXT_NOT_FOUND" || no["near"] == "" {
				t.Errorf("refused with %v, %v", no, err)
			}
			if _, err := s.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "cowrite://documents/none"}); err == nil || !strings.Contains(err.Error(), "there is no document") {
				t.Errorf("a document that is none: %v", err)
			}
		})
	}
}

// A wait that the host's client gives up has no place in the queue, two doors further.
func TestMCPOverStdioGivesUp(t *testing.T) {
	data := t.TempDir()
	p := start(t, data)
	holder, waiter := speak(t, p.address, adminKey, "2025-11-25"), speak(t, p.address, string(newAgent(t, data, "beta").key), "2025-11-25")
	lock := map[string]any{"resource": "lock:a"}
	waiters := func() int {
		queues := holder.ok("coordination.wait", lock)["queues"].([]any)
		return len(queues[0].(map[string]any)["waiters"].([]any))
	}
	until := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); waiters() != n; {
			if time.Now().After(end) {
				t.Fatalf("there are %d waiters, not %d", waiters(), n)
			}
		}
	}
	holder.ok("coordination.lease.acquire", map[string]any{"resource": "lock:a", "ttlMs": 300000})
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := waiter.call(ctx, "coordination.lease.acquire", map[string]any{"resource": "lock:a", "waitMs": 60000})
		done <- err
	}()
	until(1)
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	until(0)
}

// between is a proxy before a server, which may be cut.
type between struct {
	*httptest.Server
	cut     atomic.Bool  // nobody gets through
	listens atomic.Int64 // subscriptions/listen that the server answered
}

func standBetween(t *testing.T, address string) *between {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	b := new(between)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Header.Get("Mcp-Method") == "subscriptions/listen" {
			b.listens.Add(1)
		}
		return nil
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.cut.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		// ReverseProxy loses the line of an answer that begins before the body's end was read.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// What cannot be subscribed to is refused in the server's own words, and asked for once.
func TestMCPOverStdioRefusesSubscriptions(t *testing.T) {
	data := t.TempDir()
	p := start(t, data)
	if _, err := p.client(t).CreateDocument(t.Context(), client.NewDocument{Slug: "paper", Markdown: "# Paper\n"}); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, exit := p.exec(t, "", "keys", "create", "--data", data, "--agent", "outsider", "--role", "editor", "--documents", "team-*")
	if exit != 0 {
		t.Fatalf("keys create: exit code %d: %s", exit, stderr)
	}
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			b := standBetween(t, p.address)
			s := speak(t, b.URL, strings.TrimSpace(stdout), revision)
			for uri, word := range map[string]code.Code{
				"cowrite://documents/none":  code.DocumentNotFound,
				"cowrite://documents/paper": code.Forbidden,
			} {
				err := s.subscribe(uri)
				refused, ok := errors.AsType[*jsonrpc.Error](err)
				if !ok || refused.Code != int64(code.Table[word].MCP) || !strings.Contains(string(refused.Data), string(word)) {
					t.Errorf("%s is refused with %v", uri, err)
				}
			}
			if err := s.subscribe("file:///etc/passwd"); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("what is no resource is refused with %v", err)
			}
			if n := b.listens.Load(); n != 3 {
				t.Errorf("for three subscriptions the server was asked %d times", n)
			}
		})
	}
}

// A server that was away is listened to again, what may have changed meanwhile is told, and what is gone too.
func TestMCPOverStdioReconnects(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			data := t.TempDir()
			p := start(t, data)
			b := standBetween(t, p.address)
			s := speak(t, b.URL, adminKey, revision)
			for _, slug := range []string{"kept", "lost"} {
				s.ok("create", map[string]any{"slug": slug, "text": "# Paper\n"})
				if err := s.subscribe("cowrite://documents/" + slug); err != nil {
					t.Fatal(err)
				}
			}
			b.cut.Store(true)
			if _, err := p.end(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			again, err := launch(data, []string{"COWRITE_ADMIN_KEY=" + adminKey}, "--addr", strings.TrimPrefix(p.address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := again.end(syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			})
			c := again.client(t)
			if _, err := c.Do(t.Context(), client.Call{Method: http.MethodDelete, Path: []string{"documents", "lost"}}); err != nil {
				t.Fatal(err)
			}
			b.cut.Store(false)
			s.told("cowrite://documents/kept", "cowrite://documents/lost")
			if _, err := c.PutSection(t.Context(), "kept", "more", "## More\n", "current"); err != nil {
				t.Fatal(err)
			}
			s.told("cowrite://documents/kept")
			if _, err := s.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "cowrite://documents/lost"}); err == nil || !strings.Contains(err.Error(), "deleted") {
				t.Errorf("the lost document: %v", err)
			}
			s.ok("outline", nil)
			if n := b.listens.Load(); n != 4 {
				t.Errorf("for two subscriptions, before and after, the server was asked %d times", n)
			}
		})
	}
}
