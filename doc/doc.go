// Package doc is the document: its sections, its Markdown, its event log, who may do what with it, and the
// desk at which every write to it is applied, stored and only then acknowledged. A [Library] is the door;
// behind it each open document has one desk, a goroutine that owns the document's content.
//
// Storage is behind [Store], whose backends are subpackages and pass the suite in doc/storetest.
package doc

import (
	"strings"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
	"cowrite/lease"
)

// Agent is the name of who acts: an agent or a person.
type Agent = lease.Agent

// System acts where nobody did.
const System = lease.System

// Slug is a document's name in addresses: [a-z0-9][a-z0-9-]{0,63}, unique on the server and never reused.
type Slug string

// SectionID names a section in its document for ever: [a-z0-9][a-z0-9-]{0,63}.
type SectionID string

// Meta is what is known of a document without opening it.
type Meta struct {
	ID        crdt.DocumentID
	Slug      Slug // "" for a document made by a replica and not named yet
	Title     string
	CreatedAt time.Time
	CreatedBy Agent
	ChangedAt time.Time // of the last event
	LastSeq   Seq
	Number    int64    // documents count from 1 in the order of their creation; set by the store
	Changes   int64    // that it has; set by the store
	Bytes     int64    // that they take in the store, as rows and as what they were compacted to; set by the store
	Posted    int64    // bytes of the payloads of its messages; set by the store
	Block     Block    // zero: it is in service
	Deletion  Deletion // zero: it lives
	Purge     Purge    // zero: it can be restored
}

// Block is that an operator took a document out of service: it is neither read nor written until the block is lifted.
type Block struct {
	At     time.Time
	By     Agent
	Reason string
}

// Ref is how the document is best called in an address: by its slug, or by its id if it has none.
func (m Meta) Ref() string {
	if m.Slug != "" {
		return string(m.Slug)
	}
	return m.ID.String()
}

// Section is one section as a reader sees it.
type Section struct {
	ID       SectionID
	Heading  string // the text of the heading line, "" without one
	Level    int    // of the heading, 1 to 6; 0 without one
	Text     string // raw Markdown with its heading line
	Position string // fractional index
	Removed  bool
}

// Snapshot is a document as it stood at one version.
type Snapshot struct {
	Meta     Meta
	Version  crdt.Version
	Sections []Section // in order, without the removed
	Removed  []Section // in order; their text stays and can be restored
	Ignored  []string  // paths of the content that do not fit the schema, the first 64
}

// Markdown joins the sections: what was imported, byte for byte.
func (s Snapshot) Markdown() string {
	var b strings.Builder
	for _, sec := range s.Sections {
		b.WriteString(sec.Text)
	}
	return b.String()
}

const maxNameLength = 64

// ParseSlug checks a slug.
func ParseSlug(s string) (Slug, error) {
	if !isName(s) {
		return "", code.New(code.InvalidSlug, "a slug is 1 to %d of a-z, 0-9 and -, not beginning with -", maxNameLength)
	}
	return Slug(s), nil
}

// ParseSectionID checks a section id.
func ParseSectionID(s string) (SectionID, error) {
	if !isName(s) {
		return "", code.New(code.InvalidSectionID, "a section id is 1 to %d of a-z, 0-9 and -, not beginning with -", maxNameLength)
	}
	return SectionID(s), nil
}

func isName(s string) bool {
	if len(s) == 0 || len(s) > maxNameLength || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// ParseAgent checks an agent's name, written bare or as did:cowrite:<name>. "system" is nobody's.
func ParseAgent(s string) (Agent, error) {
	name := strings.TrimPrefix(s, "did:cowrite:")
	ok := len(name) > 0 && len(name) <= 63 && name != string(System)
	for i, c := range []byte(name) {
		alnum := (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
		ok = ok && (alnum || (i > 0 && (c == '.' || c == '_' || c == '-')))
	}
	if !ok {
		return "", code.New(code.InvalidAgent, "an agent's name is 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit, and not %q", System)
	}
	return Agent(name), nil
}

// SectionResource is the lease resource of a section: the document's UUID stands for its slug, so that a
// document that gets another slug keeps its leases.
func SectionResource(id crdt.DocumentID, sid SectionID) lease.Resource {
	return lease.Resource(sectionPrefix + id.UUID() + "/" + string(sid))
}

// SectionsPrefix begins the names of all section resources of a document.
func SectionsPrefix(id crdt.DocumentID) string { return sectionPrefix + id.UUID() + "/" }

const sectionPrefix = "section:"

// ParseSectionResource is the inverse of SectionResource; ok is false for any other resource.
func ParseSectionResource(r lease.Resource) (id crdt.DocumentID, sid SectionID, ok bool) {
	rest, ok := strings.CutPrefix(string(r), sectionPrefix)
	if !ok {
		return id, "", false
	}
	ref, name, ok := strings.Cut(rest, "/")
	if !ok || !isName(name) {
		return id, "", false
	}
	id, err := crdt.ParseDocumentID(ref)
	return id, SectionID(name), err == nil
}
