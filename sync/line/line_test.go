package line

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCloseReasonsFit(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 123), strings.Repeat("x", 124), strings.Repeat("ü", 100)} {
		got := reason(text)
		if len(got) > 123 || !strings.HasPrefix(text, got) || len(text)-len(got) > max(0, len(text)-122) {
			t.Errorf("reason of %d bytes has %d", len(text), len(got))
		}
	}
}
