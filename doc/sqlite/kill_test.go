package sqlite

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// writeUntilKilled in the environment makes the test binary a process that writes to the folder named there.
const writeUntilKilled = "COWRITE_TEST_WRITE_UNTIL_KILLED"

const (
	killDocuments = 3
	killWriters   = 6
	killResource  = lease.Resource("lock:kill")
)

// killDocument is written to by writers, all but the last, which has the lease events.
func killDocument(i int) crdt.DocumentID { return crdt.DocumentID{0: 0xd0, 15: byte(i)} }

var leaseDocument = killDocument(killDocuments)

// untilKilled appends and saves leases for ever; each line that it prints acknowledges what is on disk.
func untilKilled(dir string) int {
	s, err := Open(context.Background(), dir, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := range killDocuments + 1 {
		_, err := s.Create(context.Background(), doc.Meta{ID: killDocument(i)}, doc.Append{})
		if err != nil && !errors.Is(err, doc.ErrConflict) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	failed := make(chan error)
	for w := range killWriters {
		go func() { failed <- writeForEver(s, killDocument(w%killDocuments)) }()
	}
	go func() { failed <- leaseForEver(s) }()
	fmt.Fprintln(os.Stderr, <-failed)
	return 1
}

func writeForEver(s *Store, id crdt.DocumentID) error {
	for {
		a := anyAppend(1 + rand.IntN(3))
		raw := make([]byte, 1+rand.IntN(2000))
		for i := range raw {
			raw[i] = byte(rand.Uint32())
		}
		m, err := s.Document(context.Background(), id)
		if err != nil {
			return err
		}
		change := doc.ChangeRow{Number: m.Changes + 1, Hash: sha256.Sum256(raw), Author: "ada", At: time.Now(), Raw: raw}
		a.Changes = []doc.ChangeRow{change}
		appended, err := s.Append(context.Background(), id, a)
		if errors.Is(err, doc.ErrConflict) {
			continue // another writer was faster
		}
		if err != nil {
			return err
		}
		for _, e := range appended {
			if _, err := fmt.Printf("event %x %d %s %s\n", id[:], e.Seq, e.Hash, change.Hash); err != nil {
				return err
			}
		}
	}
}

func leaseForEver(s *Store) error {
	state, err := s.LoadLeases(context.Background())
	if err != nil {
		return err
	}
	for fence := state.Fence + 1; ; fence++ {
		held := lease.Lease{ID: lease.ID(fmt.Sprint(fence)), Resource: killResource, Holder: "ada", Fence: fence}
		err := s.SaveLeases(context.Background(), []doc.LeaseCommit{{
			Commit: lease.Commit{Fence: fence, Record: lease.Record{Resource: killResource, Leases: []lease.Lease{held}},
				Events: []lease.Event{{Kind: lease.Granted, Resource: killResource, Lease: held}}},
			Document: leaseDocument, Events: events(1),
		}})
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("lease %d\n", fence); err != nil {
			return err
		}
	}
}

// acknowledged is what processes said was on disk.
type acknowledged struct {
	events  map[crdt.DocumentID]map[doc.Seq]string // to hash
	changes map[crdt.DocumentID]map[string]bool    // by hash
	fence   lease.Fence
	lines   int
}

func (a *acknowledged) read(line string) error {
	a.lines++
	if _, err := fmt.Sscanf(line, "lease %d\n", &a.fence); err == nil {
		return nil
	}
	var id, hash, change []byte
	var seq doc.Seq
	if _, err := fmt.Sscanf(line, "event %x %d %x %x\n", &id, &seq, &hash, &change); err != nil {
		return fmt.Errorf("read %q: %w", line, err)
	}
	of := crdt.DocumentID(id)
	if a.events[of] == nil {
		a.events[of] = make(map[doc.Seq]string)
		a.changes[of] = make(map[string]bool)
	}
	a.events[of][seq] = string(hash)
	a.changes[of][string(change)] = true
	return nil
}

// A process that writes is killed at any moment, again and again: what it acknowledged is there, the logs have
// no gap and their chains hold, and lease state and events are of one transaction.
func TestKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acks := &acknowledged{events: make(map[crdt.DocumentID]map[doc.Seq]string), changes: make(map[crdt.DocumentID]map[string]bool)}
	for round := range 20 {
		writeAndKill(t, dir, 1+random.IntN(300), acks)
		checkAcknowledged(t, dir, acks)
		if t.Failed() {
			t.Fatalf("in round %d", round+1)
		}
	}
	t.Logf("%d acknowledgements", acks.lines)
}

// writeAndKill starts a process that writes, kills it when it acknowledged so many times, and takes in what it
// had said by then.
func writeAndKill(t *testing.T, dir string, killAfter int, acks *acknowledged) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), executable)
	cmd.Env = append(os.Environ(), writeUntilKilled+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var killed sync.Once
	lines := bufio.NewReader(stdout)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = acks.read(line)
		}
		if err != nil {
			t.Error(err)
			n = killAfter
		}
		if n >= killAfter {
			killed.Do(func() {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
}

func checkAcknowledged(t *testing.T, dir string, acks *acknowledged) {
	t.Helper()
	s := openStore(t, dir, Options{})
	defer s.Close()
	var integrity string
	if err := s.readers.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity: %s, %v", integrity, err)
	}
	for id, want := range acks.events {
		log := verify(t, s, id)
		for seq, hash := range want {
			if int(seq) > len(log) || string(log[seq-1].Hash[:]) != hash {
				t.Errorf("acknowledged event %s is not there", seq)
			}
		}
		changes, err := s.Changes(t.Context(), id, 0, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bool)
		for i, c := range changes {
			if c.Number != int64(i+1) || c.Hash != sha256.Sum256(c.Raw) {
				t.Errorf("change %d has number %d, or other bytes than were written", i+1, c.Number)
			}
			found[string(c.Hash[:])] = true
		}
		for hash := range acks.changes[id] {
			if !found[hash] {
				t.Errorf("acknowledged change %x is not there", hash)
			}
		}
	}
	state, err := s.LoadLeases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ledger lease.Fence
	if err := s.readers.QueryRowContext(t.Context(), `SELECT count(*) FROM ledger`).Scan(&ledger); err != nil {
		t.Fatal(err)
	}
	var held lease.Fence
	if len(state.Records) > 0 {
		held = state.Records[0].Leases[0].Fence
	}
	told := lease.Fence(len(verify(t, s, leaseDocument)))
	if state.Fence < acks.fence || state.Fence != held || state.Fence != ledger || state.Fence != told {
		t.Errorf("fence %d, acknowledged %d; the record has %d, the ledger %d, the log %d events", state.Fence, acks.fence, held, ledger, told)
	}
}
