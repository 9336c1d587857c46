package engine

import (
	"fmt"
	"os"
	"syscall"
)

// dataReserve is what a worker's Go runtime and thread stacks take beside the documents, in bytes.
const dataReserve = 256 << 20

// limitMemory bounds the process's writable private memory. An allocation beyond it ends the process.
func limitMemory(limit int64) error {
	if limit <= 0 {
		return nil
	}
	n := uint64(limit + dataReserve)
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	return nil
}

// residentMemory is what the process has in memory, in bytes; 0 if that cannot be found out.
func residentMemory() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
