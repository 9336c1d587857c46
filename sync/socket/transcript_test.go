package socket

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// capturedFrame is a frame of a transcript in sync/repo/testdata.
type capturedFrame struct {
	client, dir string
	bytes       []byte
}

func capturedFrames(t *testing.T, story string) []capturedFrame {
	t.Helper()
	text, err := os.ReadFile("../repo/testdata/" + story + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	var frames []capturedFrame
	for _, part := range strings.Split(string(text), "\n-- ")[1:] {
		title, digits, _ := strings.Cut(part, " --\n")
		words := strings.Fields(title)
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, capturedFrame{words[0], words[1], b})
	}
	return frames
}
