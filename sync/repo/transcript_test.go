package repo

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite how the codec reads the captured frames")

// A transcript is a conversation that was taken down on the wire, in the txtar format: a comment, then one
// file a frame.
type transcript struct {
	comment string
	frames  []captured
}

// captured is one frame: who was the client, ">" if it was sent by it and "<" if by the server, how the
// codec reads it, and its bytes in lines of hexadecimal digits.
type captured struct{ client, dir, reading, digits string }

func (c captured) bytes(t testing.TB) []byte {
	t.Helper()
	frame, err := hex.DecodeString(strings.Join(strings.Fields(c.digits), ""))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// transcripts reads them all, by file name.
func transcripts(t testing.TB) map[string]*transcript {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no transcripts in testdata (%v)", err)
	}
	all := make(map[string]*transcript)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "\n-- ")
		tr := &transcript{comment: parts[0]}
		for _, part := range parts[1:] {
			title, digits, _ := strings.Cut(part, " --\n")
			words := strings.SplitN(title, " ", 3)
			tr.frames = append(tr.frames, captured{words[0], words[1], words[2], digits})
		}
		all[name] = tr
	}
	return all
}

func (tr *transcript) write(name string) error {
	var b strings.Builder
	b.WriteString(tr.comment)
	for _, c := range tr.frames {
		fmt.Fprintf(&b, "\n-- %s %s %s --\n%s", c.client, c.dir, c.reading, c.digits)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// describe is how a transcript shows a frame: all that the codec read.
func describe(frame Frame) string {
	metadata := func(m Metadata) string { return fmt.Sprintf("storage=%q ephemeral=%v", m.StorageID, m.IsEphemeral) }
	switch f := frame.(type) {
	case Join:
		return fmt.Sprintf("join from=%s versions=%q %s", f.SenderID, f.Versions, metadata(f.Metadata))
	case Peer:
		return fmt.Sprintf("peer from=%s to=%s version=%q %s", f.SenderID, f.TargetID, f.Version, metadata(f.Metadata))
	case Error:
		return fmt.Sprintf("error from=%s to=%s %q", f.SenderID, f.TargetID, f.Message)
	case Sync:
		return fmt.Sprintf("sync from=%s to=%s document=%s bytes=%d content=%v", f.SenderID, f.TargetID, f.Document, len(f.Data), HasContent(f.Data))
	case Request:
		return fmt.Sprintf("request from=%s to=%s document=%s bytes=%d content=%v", f.SenderID, f.TargetID, f.Document, len(f.Data), HasContent(f.Data))
	case Unavailable:
		return fmt.Sprintf("doc-unavailable from=%s to=%s document=%s", f.SenderID, f.TargetID, f.Document)
	case Ephemeral:
		return fmt.Sprintf("ephemeral from=%s to=%s document=%s session=%s count=%d data=%x", f.SenderID, f.TargetID, f.Document, f.Session, f.Count, f.Data)
	case Subscription:
		return fmt.Sprintf("remote-subscription-change from=%s add=%d remove=%d", f.SenderID, len(f.Add), len(f.Remove))
	case Heads:
		var heads int
		var at uint64
		for _, h := range f.Storages {
			heads, at = heads+len(h.Heads), max(at, h.Timestamp)
		}
		return fmt.Sprintf("remote-heads-changed from=%s document=%s storages=%d heads=%d at=%d", f.SenderID, f.Document, len(f.Storages), heads, at)
	}
	return fmt.Sprintf("%T %+v", frame, frame)
}

// Every frame that was captured from the stock client and its reference server is read in full, and reads
// the same after it was written by our own encoder.
func TestTranscripts(t *testing.T) {
	kinds := make(map[string]bool)
	for name, tr := range transcripts(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			for i, c := range tr.frames {
				frame, err := Decode(c.bytes(t))
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				got := describe(frame)
				kinds[strings.Fields(got)[0]] = true
				tr.frames[i].reading = got
				if !*update && got != c.reading {
					t.Errorf("frame %d reads\n%s, want\n%s", i, got, c.reading)
				}
				if again, ok := rewritten(t, frame); ok && describe(again) != got {
					t.Errorf("frame %d, written and read again, reads\n%s, want\n%s", i, describe(again), got)
				}
			}
			if *update {
				if err := tr.write(name); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	for _, kind := range []string{"join", "peer", "sync", "request", "doc-unavailable", "ephemeral", "remote-subscription-change", "remote-heads-changed"} {
		if !kinds[kind] {
			t.Errorf("no captured frame of type %s", kind)
		}
	}
}

// rewritten encodes and decodes a frame; ok is false for those that are only ever read.
func rewritten(t testing.TB, frame Frame) (Frame, bool) {
	t.Helper()
	switch frame.(type) {
	case Subscription, Heads, Leave, Unknown:
		return nil, false
	}
	b, err := Encode(frame)
	if err != nil {
		t.Fatalf("encode %s: %v", describe(frame), err)
	}
	again, err := Decode(b)
	if err != nil {
		t.Fatalf("decode what was encoded of %s: %v", describe(frame), err)
	}
	return again, true
}

// The transcripts hold the traps that the grammar warns of, so that reading them proves something.
func TestTranscriptsHoldTheTraps(t *testing.T) {
	var all [][]byte
	for _, tr := range transcripts(t) {
		for _, c := range tr.frames {
			all = append(all, c.bytes(t))
		}
	}
	for what, part := range map[string][]byte{
		"a map header longer than needed": {0xb9, 0x00, 0x04},
		"undefined as a storage id":       append([]byte("storageId"), 0xf7),
		"a time as a float":               append([]byte("timestamp"), 0xfb),
		"undefined instead of a list":     append([]byte("remove"), 0xf7),
	} {
		if !slices.ContainsFunc(all, func(frame []byte) bool { return bytes.Contains(frame, part) }) {
			t.Errorf("no captured frame has %s (% x)", what, part)
		}
	}
}
