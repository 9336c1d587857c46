package syncbench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Used is what a process and its children have used.
type Used struct {
	CPU time.Duration
	RSS int64 // bytes
}

// clockTick is Linux's USER_HZ: /proc counts CPU time in hundredths of a second everywhere that Go runs.
const clockTick = time.Second / 100

// Usage reads what a process and its living descendants have used, from /proc: see proc(5). A PID of 0 has used
// nothing.
func Usage(pid int) (Used, error) {
	var total Used
	if pid == 0 {
		return total, nil
	}
	children := map[int][]int{}
	own := map[int]Used{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return total, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		// The second field, in brackets, may hold anything.
		head, rest, ok := strings.Cut(string(data), " (")
		fields := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
		id, err := strconv.Atoi(head)
		if !ok || err != nil || len(fields) < 22 {
			continue
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i-3], 10, 64); return n }
		parent := int(number(4))
		children[parent] = append(children[parent], id)
		own[id] = Used{time.Duration(number(14)+number(15)) * clockTick, number(24) * int64(os.Getpagesize())}
	}
	if _, ok := own[pid]; !ok {
		return total, fmt.Errorf("read usage: there is no process %d", pid)
	}
	for pids := []int{pid}; len(pids) > 0; pids = pids[1:] {
		total.CPU += own[pids[0]].CPU
		total.RSS += own[pids[0]].RSS
		pids = append(pids, children[pids[0]]...)
	}
	return total, nil
}
