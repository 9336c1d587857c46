package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Listed is a document in a list.
type Listed struct {
	Slug       string `json:"slug"` // "" for a document that has none
	DocumentID string `json:"documentId"`
	URL        string `json:"url"`
	Title      string `json:"title"`
	CreatedAt  string `json:"createdAt"`
	CreatedBy  string `json:"createdBy"`
	ChangedAt  string `json:"changedAt"`
	LastSeq    string `json:"lastSeq"`
	Leases     int    `json:"leases"`
}

// Document is a document with its sections.
type Document struct {
	Listed
	Version  string    `json:"version"`
	Sections []Section `json:"sections"`
}

// Ref is how the document is best called.
func (d Listed) Ref() string {
	if d.Slug != "" {
		return d.Slug
	}
	return d.DocumentID
}

// Section is one section, with what a read or a write of it tells besides.
type Section struct {
	ID       string    `json:"id"`
	Heading  string    `json:"heading"`
	Level    int       `json:"level"`
	Text     string    `json:"text"`
	Position string    `json:"position"`
	Version  string    `json:"version,omitempty"`
	Merged   bool      `json:"merged,omitempty"`
	Removed  bool      `json:"removed,omitempty"`
	Advisory *Advisory `json:"advisory,omitempty"`
}

// Advisory says that somebody else holds the lease of the section that was written. The write stands.
type Advisory struct {
	Holder    string `json:"holder"`
	LeaseID   string `json:"leaseId"`
	ExpiresAt string `json:"expiresAt"`
	Reason    string `json:"reason,omitempty"`
}

// NewDocument is what a document begins with; empty fields are left to the server.
type NewDocument struct {
	Slug     string `json:"slug,omitempty"`
	Title    string `json:"title,omitempty"`
	Markdown string `json:"markdown"`
}

// CreateDocument makes a document.
func (c *Client) CreateDocument(ctx context.Context, n NewDocument) (Document, error) {
	var d Document
	err := c.json(ctx, call{method: http.MethodPost, path: []string{"documents"}, body: n}, &d)
	return d, err
}

// SavedType is a document as Automerge saves it.
const SavedType = "application/vnd.automerge"

// ImportDocument makes a document of a saved one; slug "" is left to the server.
func (c *Client) ImportDocument(ctx context.Context, slug string, saved []byte) (Document, error) {
	query := url.Values{}
	if slug != "" {
		query.Set("slug", slug)
	}
	var d Document
	err := c.json(ctx, call{method: http.MethodPost, path: []string{"documents"}, query: query, raw: saved, header: map[string]string{"Content-Type": SavedType}}, &d)
	return d, err
}

// Documents gives one page of the documents that the key may read, newest first, and the cursor of the next
// page: "" at the end.
func (c *Client) Documents(ctx context.Context, after string) (docs []Listed, next string, err error) {
	var page struct {
		Documents []Listed `json:"documents"`
		Next      string   `json:"next"`
	}
	query := url.Values{"limit": {"200"}}
	if after != "" {
		query.Set("after", after)
	}
	err = c.json(ctx, call{method: http.MethodGet, path: []string{"documents"}, query: query}, &page)
	return page.Documents, page.Next, err
}

// Markdown writes the document's Markdown to w, byte for byte.
func (c *Client) Markdown(ctx context.Context, ref string, w io.Writer) error {
	return c.download(ctx, ref, "text/markdown", w)
}

// Saved writes the document to w as Automerge saves it.
func (c *Client) Saved(ctx context.Context, ref string, w io.Writer) error {
	return c.download(ctx, ref, SavedType, w)
}

func (c *Client) download(ctx context.Context, ref, media string, w io.Writer) error {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: []string{"documents", ref}, accept: media})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	return nil
}

// Section reads a section and the version it is of.
func (c *Client) Section(ctx context.Context, ref, sid string) (Section, error) {
	var s Section
	err := c.json(ctx, call{method: http.MethodGet, path: []string{"documents", ref, "sections", sid}}, &s)
	return s, err
}

// PutSection writes a section's text as if typed on the version base; "current" replaces whatever is there,
// "" is allowed for a section that is empty or new.
func (c *Client) PutSection(ctx context.Context, ref, sid, text, base string) (Section, error) {
	body := struct {
		Text string `json:"text"`
		Base string `json:"base,omitempty"`
	}{text, base}
	var s Section
	err := c.json(ctx, call{method: http.MethodPut, path: []string{"documents", ref, "sections", sid}, body: body}, &s)
	return s, err
}
