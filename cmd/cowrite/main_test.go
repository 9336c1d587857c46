package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

// patience is how long a process may take to do what it was asked, on a busy machine.
const patience = 30 * time.Second

// TestMain lets this binary be started as the command cowrite, so that the tests run real processes.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"cowrite": func() { os.Exit(run()) }})
}

// leakChecked fails tests that leave goroutines behind.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	exit := m.M.Run()
	if err := goleak.Find(); err != nil && exit == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return exit
}

// random draws the chances of a test, whose seed is shown when it fails.
func random(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./cmd/cowrite -run %s -seed %d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0))
}
