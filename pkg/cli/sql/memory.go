// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// leastMemory is what a query gets where nothing is known.
const leastMemory = 512 << 20

// freeMemory is what the machine has free, or the control group of this process has left if that is less.
func freeMemory() uint64 {
	free := uint64(0)
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			n, _ := strconv.ParseUint(fields[1], 10, 64)
			free = n << 10
		}
	}
	group, _ := os.ReadFile("/proc/self/cgroup")
	_, path, _ := strings.Cut(strings.TrimSpace(string(group)), "::")
	for dir := filepath.Join("/sys/fs/cgroup", path); strings.HasPrefix(dir, "/sys/fs/cgroup"); dir = filepath.Dir(dir) {
		limit, known := numberIn(filepath.Join(dir, "memory.max"))
		used, _ := numberIn(filepath.Join(dir, "memory.current"))
		if known {
			free = min(free, limit-min(limit, used))
		}
	}
	return max(free, leastMemory)
}

func numberIn(path string) (n uint64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
