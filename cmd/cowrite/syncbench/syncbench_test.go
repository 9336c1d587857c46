package syncbench

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheRelayLosesNothing(t *testing.T) {
	server := httptest.NewServer(&Relay{})
	defer server.Close()
	target := Target{Addresses: []string{"ws" + strings.TrimPrefix(server.URL, "http")}, PID: os.Getpid(), Relayed: true}
	r, err := Run(t.Context(), target, Load{Documents: 2, Clients: 3, Writers: 2, Rate: 50, History: 10, For: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Edits < 10 || r.Deliveries != 2*r.Edits || r.Lost != 0 || r.Diverged != 0 || r.Acks != r.Edits {
		t.Errorf("%+v", r)
	}
	if r.P50 <= 0 || r.P50 > r.P95 || r.P95 > r.P99 || r.RSS <= 0 {
		t.Errorf("the figures make no sense: %+v", r)
	}
}

// Without a rate each writer goes on when its edit is acknowledged: nothing is under way at the end.
func TestWritersThatWait(t *testing.T) {
	server := httptest.NewServer(&Relay{})
	defer server.Close()
	target := Target{Addresses: []string{"ws" + strings.TrimPrefix(server.URL, "http")}, Relayed: true}
	r, err := Run(t.Context(), target, Load{Documents: 2, Clients: 2, Writers: 2, For: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Edits < 4 || r.Acks != r.Edits || len(r.Acked) != r.Edits || r.Lost != 0 || r.Diverged != 0 || r.Wrote < 200*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

func TestUsageOfAProcessThatIsNone(t *testing.T) {
	if _, err := Usage(1 << 30); err == nil {
		t.Error("it has used something")
	}
	if u, err := Usage(os.Getpid()); err != nil || u.RSS <= 0 {
		t.Errorf("this process has used %+v, %v", u, err)
	}
}
