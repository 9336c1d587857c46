package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"cowrite/cmd/cowrite/client"
)

// stdio is the SDK's own client of `cowrite mcp`, started as a host of agents starts it.
type stdio struct {
	t       *testing.T
	session *mcp.ClientSession
	updated chan string
}

func speak(t *testing.T, address, key, revision string) *stdio {
	t.Helper()
	cmd := exec.Command("cowrite", "mcp", "--url", address)
	cmd.Env = append(cmd.Environ(), "COWRITE_KEY="+key)
	s := &stdio{t: t, updated: make(chan string, 16)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) { s.updated <- req.Params.URI },
	})
	session, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
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
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
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
			if err := s.session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: section}); err != nil {
				t.Fatal(err)
			}
			edit := map[string]any{"document": "paper", "section": sid, "replace": []any{map[string]any{"find": "hello", "with": "welcome"}}}
			s.ok("edit", edit)
			select {
			case uri := <-s.updated:
				if uri != section {
					t.Errorf("told of %s", uri)
				}
			case <-time.After(patience):
				t.Fatal("no notice came")
			}
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

// A server that was away is called anew, and what was listened to is listened to again.
func TestMCPOverStdioReconnects(t *testing.T) {
	data := t.TempDir()
	p := start(t, data)
	s := speak(t, p.address, adminKey, "2025-11-25")
	s.ok("create", map[string]any{"slug": "paper", "text": "# Paper\n"})
	if err := s.session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "cowrite://documents/paper"}); err != nil {
		t.Fatal(err)
	}
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
	c, err := client.New(again.address, adminKey)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for told, end := false, time.Now().Add(patience); !told; { // the stream is open again at some time after the server
		if time.Now().After(end) {
			t.Fatal("no notice came")
		}
		if _, err := c.PutSection(t.Context(), "paper", "more", fmt.Sprintf("## More\n%v\n", time.Now()), "current"); err != nil {
			t.Fatal(err)
		}
		select {
		case uri := <-s.updated:
			told = uri == "cowrite://documents/paper"
		case <-time.After(100 * time.Millisecond):
		}
	}
	s.ok("outline", nil)
}
