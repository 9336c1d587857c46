package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// workerVariable in the environment makes the test binary a worker.
const workerVariable = "COWRITE_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := ServeWorker(context.Background(), &saboteur{in: os.Stdin}, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func workerCommand() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	return cmd
}

// What a change or saved document has to contain for a test's worker to come to harm.
const (
	abortMark = "ABORT THE PROCESS"
	hangMark  = "HANG FOR EVER"
)

// saboteur stands before a worker and plays the core's faults, on requests to apply or unpack something marked.
type saboteur struct {
	in  io.Reader
	out bytes.Buffer
}

func (s *saboteur) Read(b []byte) (int, error) {
	if s.out.Len() == 0 {
		var q request
		if err := readFrame(s.in, &q); err != nil {
			return 0, err
		}
		for _, part := range q.Parts {
			if (q.Method == methodApply || q.Method == methodUnpack) && bytes.Contains(part, []byte(abortMark)) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
				select {}
			}
			if q.Method == methodApply && bytes.Contains(part, []byte(hangMark)) {
				select {}
			}
		}
		if err := writeFrame(&s.out, q); err != nil {
			return 0, err
		}
	}
	return s.out.Read(b)
}
