package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"cowrite/sync/agent"
	"cowrite/sync/client"
)

// wrong is an edit that no door takes, as fields of JSON without braces, and what it is refused with: one of several
// codes where a door with a schema looks at that first.
type wrong struct {
	section string
	fields  string
	code    string
}

// What is wrong is refused with a code at every door alike, and the door stays open.
func TestWrongInputAtEveryDoor(t *testing.T) {
	s := start()
	defer s.close()
	ctx := t.Context()
	c := s.connect("alice")
	defer c.Close()
	var versions []string
	for _, slug := range []string{"notes", "other"} {
		name, err := c.CreateDocument(ctx, client.NewDocument{Slug: slug, Markdown: "# " + slug + "\n"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Open(ctx, name, client.Open{})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, string(d.Version()))
	}
	d, err := c.Open(ctx, "notes", client.Open{})
	if err != nil {
		t.Fatal(err)
	}
	sid := string(d.Sections()[0].ID)
	gone := versions[0][:len(versions[0])-4] + "AAAA"
	if gone == versions[0] {
		gone = versions[0][:len(versions[0])-4] + "BBBB"
	}
	key := s.key("alice")
	doors := map[string]func(wrong) (string, error){
		"socket": dialAgent(ctx, t, s.url, key),
		"REST":   restDoor(ctx, s.url, key),
		"MCP":    mcpDoor(ctx, s.url, key),
	}
	for name, w := range map[string]wrong{
		"nothing to do":             {sid, `"fence":1`, "BAD_REQUEST"},
		"two ways at once":          {sid, `"ops":[],"replace":[]`, "BAD_REQUEST"},
		"an unknown field":          {sid, `"txet":"x"`, "BAD_REQUEST"},
		"an operation without at":   {sid, `"ops":[{"insert":7}]`, "BAD_REQUEST"},
		"a replacement of nothing":  {sid, `"replace":[{"find":"","with":"x"}]`, "BAD_REQUEST"},
		"a text that is a number":   {sid, `"text":7,"base":"current"`, "BAD_REQUEST"},
		"a negative position":       {sid, `"ops":[{"at":-1}]`, "BAD_REQUEST INVALID_RANGE"},
		"a position past the end":   {sid, `"ops":[{"at":1000000}]`, "INVALID_RANGE"},
		"a huge position":           {sid, `"ops":[{"at":99999999999999999999999999}]`, "BAD_REQUEST"},
		"a position that overflows": {sid, `"ops":[{"at":9223372036854775807,"delete":9223372036854775807}]`, "BAD_REQUEST INVALID_RANGE"},
		"a fraction":                {sid, `"ops":[{"at":0.5}]`, "BAD_REQUEST"},
		"a base of another":         {sid, `"text":"x","base":"` + versions[1] + `"`, "INVALID_VERSION"},
		"a base that is gone":       {sid, `"text":"x","base":"` + gone + `"`, "INVALID_VERSION"},
		"a base that is none":       {sid, `"text":"x","base":"!"`, "INVALID_VERSION"},
		"no base":                   {sid, `"text":"x"`, "BASE_REQUIRED"},
		"a section that is none":    {"no such one", `"text":"x"`, "INVALID_SECTION_ID"},
		"a section that is not":     {"nowhere", `"ops":[{"at":0,"insert":"x"}]`, "SECTION_NOT_FOUND"},
		"a text of 10 MB":           {sid, `"base":"current","text":"` + strings.Repeat("x", 10<<20) + `"`, "TOO_LARGE"},
		"too many operations":       {sid, `"ops":[` + strings.Repeat(`{"at":0},`, 10_000) + `{"at":0}]`, "TOO_LARGE"},
	} {
		for door, send := range doors {
			got, err := send(w)
			if err != nil {
				t.Fatalf("%s, %s: %v", door, name, err)
			}
			if !strings.Contains(" "+w.code+" ", " "+got+" ") {
				t.Errorf("%s, %s: %q, want %s", door, name, got, w.code)
			}
		}
	}
	for door, send := range doors {
		if got, err := send(wrong{sid, `"ops":[{"at":0,"insert":"x"}]`, ""}); err != nil || got != "" {
			t.Errorf("%s, what is right: %q, %v", door, got, err)
		}
	}
	if err := d.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	if text := d.Markdown(); text != "xxx# notes\n" {
		t.Errorf("the text is %q", text)
	}
}

// dialAgent opens a socket that lives as long as the test, whatever is sent on it.
func dialAgent(ctx context.Context, t *testing.T, url, key string) func(wrong) (string, error) {
	t.Helper()
	ws, _, err := websocket.Dial(ctx, url+"/api/v1/agent?token="+key, &websocket.DialOptions{Subprotocols: []string{agent.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	frames := make(chan []byte, 1)
	var reading sync.WaitGroup
	reading.Go(func() { // always, so that pings are answered
		defer close(frames)
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return
			}
			frames <- b
		}
	})
	t.Cleanup(func() {
		_ = ws.CloseNow()
		reading.Wait()
	})
	<-frames // the welcome
	n := 0
	return func(w wrong) (string, error) {
		n++
		frame := fmt.Sprintf(`{"type":"edit","id":"%d","document":"notes","section":%q,%s}`, n, w.section, w.fields)
		if err := ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			return "", err
		}
		b, ok := <-frames
		if !ok {
			return "", errors.New("the socket is closed")
		}
		var answer struct{ Type, ID, Error string }
		if err := json.Unmarshal(b, &answer); err != nil {
			return "", err
		}
		if answer.ID != fmt.Sprint(n) || answer.Error == "" && answer.Type != "ack" {
			return "", fmt.Errorf("answered with %.200s", b)
		}
		return answer.Error, nil
	}
}

func restDoor(ctx context.Context, url, key string) func(wrong) (string, error) {
	return func(w wrong) (string, error) {
		path := url + "/api/v1/documents/notes/sections/" + strings.ReplaceAll(w.section, " ", "%20")
		b, err := ask(ctx, http.MethodPatch, path, key, "{"+w.fields+"}")
		if err != nil {
			return "", err
		}
		var answer struct{ Error string }
		return answer.Error, json.Unmarshal(b, &answer)
	}
}

func mcpDoor(ctx context.Context, url, key string) func(wrong) (string, error) {
	return func(w wrong) (string, error) {
		b, err := ask(ctx, http.MethodPost, url+"/mcp", key, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"edit","arguments":{"document":"notes","section":%q,%s}}}`, w.section, w.fields))
		if err != nil {
			return "", err
		}
		_, data, _ := bytes.Cut(b, []byte("data: "))
		if len(data) == 0 {
			data = b
		}
		var answer struct {
			Error  string // of the door, before there is a call
			Result struct {
				StructuredContent struct{ Error string }
			}
		}
		if err := json.Unmarshal(data, &answer); err != nil {
			return "", fmt.Errorf("answered with %.300s: %w", b, err)
		}
		return answer.Error + answer.Result.StructuredContent.Error, nil
	}
}

// ask sends JSON and gives the answer, whatever its status.
func ask(ctx context.Context, method, url, key, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := fresh().Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
