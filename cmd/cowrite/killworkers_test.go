package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cowrite/cmd/cowrite/client"
)

var workerKills = flag.Int("kills", 8, "workers that TestKilledWorkers kills")

// Workers of the engine are killed while programs write over REST and replicas over their sockets, to documents on all of
// them. Nobody is refused anything, no socket is closed, and what was acknowledged is there, also for a server that is
// killed and started again.
func TestKilledWorkers(t *testing.T) {
	r := random(t)
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data, "--workers", fmt.Sprint(hostileWorkers))
	load := &workload{}
	for n, seat := range []int{underAttack, underAttack, elsewhere, elsewhere} {
		d := documentAt(t, p, seat)
		load.add(d, &writer{keyed: newAgent(t, data, fmt.Sprint("writer-", n)), document: d.DocumentID, section: d.Sections[0].ID})
		load.add(d, newReplica(newAgent(t, data, fmt.Sprint("replica-", n)), d.DocumentID, d.Sections[1].ID))
	}
	stop := load.begin(t, p)
	killed := map[int]int{} // workers, by how many ran
	for n := range *workerKills {
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond) // the random moment
		pids := workersOf(t, p)
		if len(pids) == 0 {
			t.Errorf("before kill %d no worker runs", n+1)
			break
		}
		if err := syscall.Kill(pids[r.IntN(len(pids))], syscall.SIGKILL); err != nil {
			t.Errorf("kill a worker: %v", err)
		}
		killed[len(pids)]++
		if err := load.progress(); err != nil {
			t.Errorf("after kill %d: %v", n+1, err)
			break
		}
	}
	stop()
	t.Logf("killed of so many: %v; the server noticed %d", killed, strings.Count(p.stderr.String(), `msg="engine worker ended"`))
	load.check(t, p)
	if _, err := p.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	load.check(t, start(t, data))
}

// workersOf gives the processes that a server has started.
func workersOf(t *testing.T, p *process) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid)) // proc_pid_task(5)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // the thread ended meanwhile
		}
		for field := range strings.FieldsSeq(string(list)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// workload is clients that write all the time.
type workload struct {
	documents []client.Document // of each client
	clients   []crashClient

	mu    sync.Mutex
	moved *sync.Cond // steps, or failed
	steps []int      // of each client
	err   error      // the first that went wrong
}

func (l *workload) add(d client.Document, c crashClient) {
	l.documents, l.clients, l.steps = append(l.documents, d), append(l.clients, c), append(l.steps, 0)
}

// begin has the clients work until stop is called.
func (l *workload) begin(t *testing.T, p *process) (stop func()) {
	t.Helper()
	l.moved = sync.NewCond(&l.mu)
	ctx, cancel := context.WithCancel(t.Context())
	ending := make(chan struct{})
	var working sync.WaitGroup
	for i, c := range l.clients {
		if err := c.connect(ctx, p); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		working.Go(func() {
			defer c.disconnect()
			for {
				select {
				case <-ending:
					return
				default:
				}
				err := c.step(ctx, nil)
				l.mu.Lock()
				l.steps[i]++
				if err != nil && l.err == nil {
					l.err = fmt.Errorf("%T on %s: %w", c, l.documents[i].DocumentID, err)
				}
				l.moved.Broadcast()
				l.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	return func() {
		close(ending)
		late := time.AfterFunc(patience, cancel)
		working.Wait()
		late.Stop()
		cancel()
	}
}

// progress waits until each client has done something that it began after this call.
func (l *workload) progress() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var want []int
	for _, n := range l.steps {
		want = append(want, n+2) // the one under way does not count
	}
	late := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err == nil {
			l.err = fmt.Errorf("no progress within %v: %d steps, want %d", patience, l.steps, want)
		}
		l.moved.Broadcast()
	})
	defer late.Stop()
	for i := 0; i < len(want) && l.err == nil; {
		if l.steps[i] >= want[i] {
			i++
			continue
		}
		l.moved.Wait()
	}
	return l.err
}

// check says what of all that was acknowledged is missing.
func (l *workload) check(t *testing.T, p *process) {
	t.Helper()
	for i, c := range l.clients {
		if err := c.check(t.Context(), p.client(t), verifiedLog(t, p, l.documents[i].DocumentID)); err != nil {
			t.Errorf("%T on %s: %v", c, l.documents[i].DocumentID, err)
		}
		if c.acknowledged() == 0 {
			t.Errorf("%T on %s: nothing was acknowledged", c, l.documents[i].DocumentID)
		}
	}
}
