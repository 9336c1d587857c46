package repo

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// The frame that is written by hand is what the encoder makes of its fields, for every length of a head.
func TestASyncFrameIsEncodedAsOthersAre(t *testing.T) {
	for _, size := range []int{1, 23, 24, 255, 256, math.MaxUint16, math.MaxUint16 + 1} {
		for _, f := range []Sync{
			{"a", "b", "d", make([]byte, size)},
			{"", PeerID(strings.Repeat("ü", 20)), DocumentName(strings.Repeat("d", 300)), bytes.Repeat([]byte{7}, size)},
			{PeerID(strings.Repeat("s", 24)), "", "", []byte{1}},
		} {
			got, err := Encode(f)
			if err != nil {
				t.Fatal(err)
			}
			fields, err := dataFrame(header{typeSync, f.SenderID, f.TargetID}, f.Document, f.Data)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := encoding.Marshal(fields); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes of data: %.80x, want %.80x, %v", len(f.Data), got, want, err)
			}
		}
	}
	if _, err := Encode(Sync{SenderID: "a", Document: "d"}); err == nil {
		t.Error("empty data is encoded")
	}
}
