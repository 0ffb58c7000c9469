// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// unknownMemory is what counts as free where nothing is known.
	unknownMemory = 512 << 20
	// leastMemory is what DuckDB needs for a small query.
	leastMemory = 32 << 20
)

// queryMemory is what a query may take by default: half of what is free.
func queryMemory(root string) (uint64, error) {
	free := freeMemory(root)
	if free/2 < leastMemory {
		return 0, fmt.Errorf("%d MB of memory are free, and a query takes half of that: it needs %d MB. --memory says what it may take", free>>20, leastMemory>>20)
	}
	return free / 2, nil
}

// freeMemory is what the machine has free, or the control group of this process has left if that is less. Files are below
// root.
func freeMemory(root string) uint64 {
	free := uint64(math.MaxUint64)
	text, _ := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			if n, err := strconv.ParseUint(fields[1], 10, 53); err == nil {
				free = n << 10
			}
		}
	}
	group, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	_, path, _ := strings.Cut(strings.TrimSpace(string(group)), "::")
	top := filepath.Join(root, "sys/fs/cgroup")
	for dir := filepath.Join(top, path); strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		limit, known := numberIn(filepath.Join(dir, "memory.max"))
		used, _ := numberIn(filepath.Join(dir, "memory.current"))
		if known {
			free = min(free, limit-min(limit, used))
		}
	}
	if free == math.MaxUint64 {
		return unknownMemory
	}
	return free
}

func numberIn(path string) (n uint64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
