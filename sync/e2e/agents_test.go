package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/sync/agent"
	"cowrite/sync/e2e/server"
)

// The length of the agents' work: a few seconds among the other tests, five minutes in `make soak`.
const (
	soakLength  = "COWRITE_SOAK"
	shortLength = 6 * time.Second
)

const agents = 8

// Eight agents, each in a process of its own, write one document at once, over lines that are cut behind a third of
// their requests, on bases that are out of date and into sections that others have leased. At the end every edit is in
// the text once, what was overridden or overlapped is in the log, and the mirrors, REST and a stock Automerge replica
// agree to the byte.
func TestEightAgents(t *testing.T) {
	length := shortLength
	if given := os.Getenv(soakLength); given != "" {
		var err error
		if length, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	site := rest{t, server.Start(t, server.Build(t)) + "/api/v1"}
	var markdown strings.Builder
	for i := range 4 {
		fmt.Fprintf(&markdown, "## Part %d\n\n%sstart\n%s", i, motto, mark)
	}
	var document struct{ Slug, URL string }
	site.call(http.MethodPost, "/documents", map[string]string{"slug": "together", "markdown": markdown.String()}, &document)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, for %v", seed, length)
	all := make([]*agentProcess, agents)
	for i := range all {
		all[i] = site.launch(task{Name: fmt.Sprintf("agent%d", i), Document: agent.Document(document.Slug), For: length, Seed: seed + uint64(i)})
	}
	var total report
	for _, p := range all {
		p.read(&p.report)
		r := p.report
		t.Logf("%s: %d tokens, %d cut, %d stale, %d repeated, %d overrides, %d overlaps", p.Name, len(r.Tokens), r.Cut, r.Stale, r.Repeated, len(r.Overrides), len(r.Overlaps))
		total.Cut, total.Stale, total.Repeated = total.Cut+r.Cut, total.Stale+r.Stale, total.Repeated+r.Repeated
		total.Overrides, total.Overlaps = append(total.Overrides, r.Overrides...), append(total.Overlaps, r.Overlaps...)
	}
	if total.Cut == 0 || total.Stale == 0 || total.Repeated == 0 || len(total.Overrides) == 0 || len(total.Overlaps) == 0 {
		t.Errorf("the agents had it too easy: %+v", total)
	}

	text, version := site.text(document.Slug)
	for _, p := range all {
		for _, token := range p.Tokens {
			if n := strings.Count(text, token); n != 1 {
				t.Errorf("%q is in the text %d times", token, n)
			}
		}
	}
	site.checkLog(document.Slug, all)
	for _, p := range all {
		fmt.Fprintln(p.stdin, version)
		var mirror string
		p.read(&mirror)
		if mirror != text {
			t.Errorf("the mirror of %s is not the text that REST reads: %d bytes, not %d", p.Name, len(mirror), len(text))
		}
		p.end()
	}
	replica := exec.CommandContext(t.Context(), "node", "replica.mjs", document.URL)
	replica.Env = append(os.Environ(), "COWRITE_URL="+strings.TrimSuffix(site.base, "/api/v1"), "COWRITE_KEY="+server.AdminKey)
	var stderr bytes.Buffer
	replica.Stdin, replica.Stderr = strings.NewReader(text), &stderr
	if err := replica.Run(); err != nil {
		t.Errorf("the stock replica: %v\n%s", err, stderr.String())
	}
}

// agentProcess is a running agent.
type agentProcess struct {
	task
	report
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func (r rest) launch(work task) *agentProcess {
	r.t.Helper()
	var key struct{ Key string }
	r.call(http.MethodPost, "/keys", map[string]string{"agent": work.Name, "role": "editor"}, &key)
	work.URL, work.Key = strings.TrimSuffix(r.base, "/api/v1"), key.Key
	encoded, err := json.Marshal(work)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &agentProcess{task: work, t: r.t, cmd: exec.CommandContext(r.t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), agentTask+"="+string(encoded))
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// read takes in the next line of JSON that an agent prints.
func (p *agentProcess) read(out any) {
	p.t.Helper()
	line, err := p.stdout.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, out)
	}
	if err != nil {
		_ = p.cmd.Wait() // it has said what is wrong
		p.t.Fatalf("%s ended: %v\n%s", p.Name, err, p.stderr.String())
	}
}

func (p *agentProcess) end() {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%s: %v\n%s", p.Name, err, p.stderr.String())
	}
}

// rest calls the server as its administrator.
type rest struct {
	t    *testing.T
	base string
}

func (r rest) call(method, path string, body, out any) {
	r.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, bytes.NewReader(encoded))
	if err != nil {
		r.t.Fatal(err)
	}
	if body == nil {
		req.Body = http.NoBody
	}
	req.Header.Set("Authorization", "Bearer "+server.AdminKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		r.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, b, err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		r.t.Fatalf("%s %s: %v in %s", method, path, err, b)
	}
}

func (r rest) text(slug string) (text string, version crdt.Version) {
	r.t.Helper()
	var document struct {
		Version  crdt.Version
		Sections []agent.Section
	}
	r.call(http.MethodGet, "/documents/"+slug, nil, &document)
	for _, s := range document.Sections {
		text += s.Text
	}
	return text, document.Version
}

// logged is what of an event's payload the check looks at.
type logged struct {
	Version   crdt.Version
	Hash      string
	Hashes    []string
	LeaseID   string
	Authors   []string
	SectionID string
}

// checkLog checks that the log has each override and overlap that an agent was told of.
func (r rest) checkLog(slug string, all []*agentProcess) {
	r.t.Helper()
	edits := map[crdt.Version]agent.EventRecord{}
	hashes := map[crdt.Version]string{}
	overrides := map[string]bool{} // hash and lease
	overlaps := map[crdt.Version][]string{}
	for since := "0"; ; {
		var page struct {
			Events    []agent.EventRecord
			HasMore   bool   `json:"has_more"`
			NextSince string `json:"next_since"`
		}
		r.call(http.MethodGet, "/documents/"+slug+"/events?limit=1000&since="+since, nil, &page)
		for _, e := range page.Events {
			var p logged
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				r.t.Fatal(err)
			}
			switch e.Type {
			case "section.edited":
				edits[p.Version], hashes[p.Version] = e, p.Hashes[0]
			case "section.lease_overridden":
				overrides[p.Hash+p.LeaseID] = true
			case "section.overlap":
				overlaps[p.Version] = p.Authors
			}
		}
		if since = page.NextSince; !page.HasMore {
			break
		}
	}
	for _, p := range all {
		for _, o := range p.Overrides {
			e, logged := edits[o.Version]
			if !logged || !overrides[hashes[o.Version]+string(o.LeaseID)] {
				r.t.Errorf("%s wrote under lease %s, and the log has no word of it (edit %s)", p.Name, o.LeaseID, e.Seq)
			}
		}
		for _, v := range p.Overlaps {
			if !slices.Contains(overlaps[v], p.Name) || len(overlaps[v]) < 2 {
				r.t.Errorf("%s changed what others had changed, and the log names %v (edit %s)", p.Name, overlaps[v], edits[v].Seq)
			}
		}
	}
}
