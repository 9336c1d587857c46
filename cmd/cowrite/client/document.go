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
	Removed  []Section `json:"removed"`
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
	ID         string      `json:"id"`
	Heading    string      `json:"heading"`
	Level      int         `json:"level"`
	Text       string      `json:"text"`
	Position   string      `json:"position"`
	Version    string      `json:"version,omitempty"`
	Merged     bool        `json:"merged,omitempty"`
	MergedFrom *MergedFrom `json:"mergedFrom,omitempty"`
	Removed    bool        `json:"removed,omitempty"`
	Repeated   bool        `json:"repeated,omitempty"`
	Advisory   *Advisory   `json:"advisory,omitempty"`
}

// MergedFrom says what of others a write was merged with.
type MergedFrom struct {
	Agents []string      `json:"agents"` // whose, without the writer
	Ranges []MergedRange `json:"ranges"`
}

// MergedRange is one place where writing that the writer did not know was merged in: Length code points from At on of the
// text as it stands now came since the base, and Deleted ones of the writer's text are gone.
type MergedRange struct {
	At      int    `json:"at"`
	Length  int    `json:"length"`
	Deleted int    `json:"deleted"`
	Agent   string `json:"agent,omitempty"` // whose it is, be it the writer's own of before; "": the server cannot tell
}

// Advisory says that somebody else holds the lease of the section that was written, or that the writer's fence is
// stale. The write stands.
type Advisory struct {
	Kind      string `json:"kind"`
	Holder    string `json:"holder"`
	LeaseID   string `json:"leaseId"`
	ExpiresAt string `json:"expiresAt"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message"`
}

// NewDocument is what a document begins with; empty fields are left to the server.
type NewDocument struct {
	Slug     string `json:"slug,omitempty"`
	Title    string `json:"title,omitempty"`
	Markdown string `json:"markdown"`
	Level    int    `json:"level,omitempty"`
}

// CreateDocument makes a document.
func (c *Client) CreateDocument(ctx context.Context, n NewDocument) (Document, error) {
	var d Document
	err := c.json(ctx, Create(n), &d)
	return d, err
}

// Create is the call that makes a document.
func Create(n NewDocument) Call {
	return Call{Method: http.MethodPost, Path: []string{"documents"}, Body: n}
}

// SavedType is a document as Automerge saves it.
const SavedType = "application/vnd.automerge"

// Import is the call that makes a document of a saved one; slug "" is left to the server.
func Import(slug string, saved []byte) Call {
	in := Call{Method: http.MethodPost, Path: []string{"documents"}, Raw: saved, Header: map[string]string{"Content-Type": SavedType}}
	if slug != "" {
		in.Query = url.Values{"slug": {slug}}
	}
	return in
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
	err = c.json(ctx, Call{Method: http.MethodGet, Path: []string{"documents"}, Query: query}, &page)
	return page.Documents, page.Next, err
}

// Read is the call that reads a document as it was at a version; "" is now.
func Read(ref, version string) Call {
	in := Call{Method: http.MethodGet, Path: []string{"documents", ref}}
	if version != "" {
		in.Query = url.Values{"version": {version}}
	}
	return in
}

// Document reads a document with its sections as it was at a version; "" is now.
func (c *Client) Document(ctx context.Context, ref, version string) (Document, error) {
	var d Document
	err := c.json(ctx, Read(ref, version), &d)
	return d, err
}

// Download writes a document, as it was at a version ("" is now), to w in a media type: text/markdown gives it byte for
// byte, SavedType as Automerge saves it.
func (c *Client) Download(ctx context.Context, ref, version, media string, w io.Writer) error {
	in := Read(ref, version)
	in.Accept = media
	resp, err := c.open(ctx, in)
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
	err := c.json(ctx, Call{Method: http.MethodGet, Path: []string{"documents", ref, "sections", sid}}, &s)
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
	err := c.json(ctx, Call{Method: http.MethodPut, Path: []string{"documents", ref, "sections", sid}, Body: body}, &s)
	return s, err
}
