// Package client calls a Cowrite server over HTTP, as the command line does. A refusal by the server is a
// *code.Error with the code, the message and the facts that were sent; anything else that goes wrong is an
// error that names the call.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/sync/agent"
)

// answerTimeout is how long a server may take until it begins to answer: longer than any long poll (60 s).
const answerTimeout = 2 * time.Minute

// maxRefusalBytes bounds what is read of a refusal's body.
const maxRefusalBytes = 1 << 20

// Client calls one server with one key. It is safe for concurrent use.
type Client struct {
	// LeaseLost is told of each lease of the key's agent that ended without its doing, as the server says it once, with
	// any answer or refusal. It is set before the first call and may be called concurrently. nil: nobody.
	LeaseLost func(agent.LostLease)

	base *url.URL
	key  doc.Secret
	http *http.Client
}

// New makes a client of the server at address, such as http://127.0.0.1:8080. The key may be empty, for
// what needs none.
func New(address string, key doc.Secret) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("the server's address must look like http://host:port, not %q", address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = answerTimeout
	return &Client{base: base, key: key, http: &http.Client{Transport: transport}}, nil
}

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call is one request.
type Call struct {
	Method string
	Path   []string // segments behind /api/v1, not yet escaped
	Query  url.Values
	Accept string // "" is JSON
	Body   any    // sent as JSON unless nil
	Raw    []byte // sent as it is where there is no Body; Header says what it is
	Header map[string]string
}

// open sends a call and returns the answer of a success; the caller closes its body.
func (c *Client) open(ctx context.Context, in Call) (*http.Response, error) {
	var body io.Reader
	if in.Body != nil {
		encoded, err := json.Marshal(in.Body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	} else if in.Raw != nil {
		body = bytes.NewReader(in.Raw)
	}
	segments := []string{"api", "v1"}
	for _, s := range in.Path {
		segments = append(segments, url.PathEscape(s))
	}
	target := c.base.JoinPath(segments...)
	target.RawQuery = in.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, in.Method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if in.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if in.Accept != "" {
		req.Header.Set("Accept", in.Accept)
	}
	for name, value := range in.Header {
		req.Header.Set(name, value)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.key))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the server: %w", err)
	}
	if err := c.tellLost(resp); err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("read the answer to %s %s: %w", in.Method, strings.Join(in.Path, "/"), err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, Refusal(resp)
}

// Do sends a call and returns the JSON of its answer, as it came.
func (c *Client) Do(ctx context.Context, in Call) (json.RawMessage, error) {
	resp, err := c.open(ctx, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", in.Method, strings.Join(in.Path, "/"), err)
	}
	return answer, nil
}

// json sends a call and decodes the answer into out, which may be nil.
func (c *Client) json(ctx context.Context, in Call, out any) error {
	answer, err := c.Do(ctx, in)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", in.Method, strings.Join(in.Path, "/"), err)
	}
	return nil
}

// Refusal turns the body of an error answer back into the error that the server meant, a *code.Error. The coordination door spells
// its codes in lower case: here they are as in the table.
func Refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes))
	facts := map[string]any{}
	if err == nil {
		err = json.Unmarshal(raw, &facts)
	}
	word, _ := facts["error"].(string)
	if err != nil || word == "" {
		return errors.Join(fmt.Errorf("the server answered %s, which is no answer of Cowrite", resp.Status), err)
	}
	message, _ := facts["message"].(string)
	for _, said := range []string{"error", "message", "ok"} {
		delete(facts, said)
	}
	return &code.Error{Code: code.Code(strings.ToUpper(word)), Message: message, Facts: facts}
}
