//go:build !linux

package engine

// limitMemory and residentMemory know no way here: a worker has no memory limit of its own.
func limitMemory(int64) error { return nil }

func residentMemory() int64 { return 0 }
