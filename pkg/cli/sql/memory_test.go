// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemory: a query may take half of what its group has left, however little that is, and where that is too little for
// any it is said.
func TestMemory(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(mb uint64) {
		t.Helper()
		if got, err := queryMemory(root); err != nil || got != mb<<20 {
			t.Errorf("%d bytes, %v; want %d MB", got, err, mb)
		}
	}
	want(256) // nothing is known
	write("proc/meminfo", "MemTotal: 9999999 kB\nMemAvailable: 409600 kB\n")
	want(200)
	write("proc/self/cgroup", "0::/a/b\n")
	write("sys/fs/cgroup/a/b/memory.max", "max\n")
	write("sys/fs/cgroup/a/memory.max", "209715200\n")
	write("sys/fs/cgroup/a/memory.current", "104857600\n")
	want(50)
	write("sys/fs/cgroup/a/memory.current", "209715201\n")
	if _, err := queryMemory(root); err == nil || !strings.Contains(err.Error(), "--memory") {
		t.Errorf("nothing is left: %v", err)
	}
}
