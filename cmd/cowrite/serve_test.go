package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coder/websocket"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
	"cowrite/doc/code"
)

// A server that is asked to stop ends everything it began: its sockets with a code that says "come back",
// its event streams as if nothing had happened, its goroutines (TestMain looks for them).
func TestServeEndsWhatItBegan(t *testing.T) {
	stderr, write := io.Pipe()
	program := Program{Stdout: io.Discard, Stderr: write, Env: func(name string) string {
		return map[string]string{"COWRITE_ADMIN_KEY": adminKey}[name]
	}, Worker: func() *exec.Cmd { return exec.Command("cowrite", "worker") }}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	exit := make(chan int, 1)
	go func() {
		exit <- program.Run(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data")})
		write.Close()
	}()
	log := bufio.NewReader(stderr)
	line, err := log.ReadString('\n')
	if err != nil {
		t.Fatalf("the first log line: %q, %v", line, err)
	}
	go io.Copy(io.Discard, log) //nolint:errcheck // what follows in the log is not looked at
	found := addressInLog.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("the first log line has no address: %q", line)
	}
	p := &process{address: "http://" + found[1]}
	server := p.client(t)
	made, err := server.CreateDocument(t.Context(), client.NewDocument{Slug: "d", Markdown: "# D\n"})
	if err != nil {
		t.Fatal(err)
	}

	r := newReplica(keyed{agent: "admin", key: adminKey}, made.DocumentID, made.Sections[0].ID)
	if err := r.connect(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	defer r.disconnect()
	following, unfollow := context.WithCancel(t.Context())
	defer unfollow()
	streaming, streamed := make(chan struct{}), make(chan error, 1)
	go func() {
		streamed <- server.Follow(following, "d", 0, func(e doc.Event) error {
			if e.Seq == 1 {
				close(streaming)
			}
			return nil
		})
	}()
	<-streaming

	stop()
	for {
		if _, err = r.receive(t.Context()); err != nil {
			break
		}
	}
	if got, want := int(websocket.CloseStatus(err)), code.Table[code.ShuttingDown].Close; got != want {
		t.Errorf("the socket was closed with %d, want %d: %v", got, want, err)
	}
	if got := <-exit; got != 0 {
		t.Errorf("exit code %d", got)
	}
	unfollow()
	if err := <-streamed; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream was cut instead of waiting for the server to return: %v", err)
	}
	if _, err := net.Dial("tcp", found[1]); err == nil {
		t.Error("something still listens")
	}
}
