package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"cowrite/lease"
	"cowrite/sync/agent"
)

// leaseLostHeader has the ids of leases that the caller lost, in an answer of any kind; one in JSON says more of them.
const leaseLostHeader = "Cowrite-Lease-Lost"

// tellLost tells of the leases that an answer says were lost. The answer can still be read as it came.
func (c *Client) tellLost(resp *http.Response) error {
	ids := resp.Header.Get(leaseLostHeader)
	if ids == "" || c.LeaseLost == nil {
		return nil
	}
	var said struct {
		LeaseLost []agent.LostLease `json:"leaseLost"`
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(raw), resp.Body}
		_ = json.Unmarshal(raw, &said) // what is no answer of Cowrite is found out by who reads it
	}
	if len(said.LeaseLost) == 0 {
		for id := range strings.SplitSeq(ids, ", ") {
			said.LeaseLost = append(said.LeaseLost, agent.LostLease{LeaseID: lease.ID(id)})
		}
	}
	for _, lost := range said.LeaseLost {
		c.LeaseLost(lost)
	}
	return nil
}
