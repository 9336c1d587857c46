package storetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"cowrite/doc"
	"cowrite/doc/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) doc.Store { return storetest.NewMemory() })
}
