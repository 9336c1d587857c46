package sqlite

import (
	"testing"

	"go.uber.org/goleak"

	"cowrite/doc"
	"cowrite/doc/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func openStore(t *testing.T, dir string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) doc.Store { return openStore(t, t.TempDir(), Options{}) })
}

func TestDurable(t *testing.T) {
	storetest.RunDurable(t, func(t *testing.T) func() doc.Store {
		dir := t.TempDir()
		return func() doc.Store { return openStore(t, dir, Options{}) }
	})
}
