package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"cowrite/doc/code"
	"cowrite/sync/agent"
)

// Markdown reads a document's text once, over REST, without following it.
func (c *Client) Markdown(ctx context.Context, name agent.Document) (string, error) {
	target := c.socket.JoinPath("..", "documents", string(name))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.opts.Key)
	req.Header.Set("Accept", "text/markdown")
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if resp.StatusCode == http.StatusOK {
		return string(b), nil
	}
	var refused agent.Error // the same fields as on the socket
	if err := json.Unmarshal(b, &refused); err != nil || refused.Code == "" {
		refused.Code, refused.Message = code.Internal, "the server answered "+resp.Status
	}
	return "", fmt.Errorf("read %s: %w", name, refused.Refusal())
}
