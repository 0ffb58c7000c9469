// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBoundedLog: the agent's log stays below its bound, keeps whole lines, the newest of them,
// and says that others are gone.
func TestBoundedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := BoundLog(Visible(file))
	line := strings.Repeat("x", 100)
	const lines = 3 * mostLog / 100
	for i := range lines {
		fmt.Fprintf(w, "%s %d\n", line, i)
		if info, err := file.Stat(); err != nil || info.Size() > mostLog {
			t.Fatalf("%d bytes after %d lines, %v", info.Size(), i, err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if !strings.Contains(got[0], "older messages were removed") || len(got) < mostLog/2/200 {
		t.Errorf("%d lines, the first is %q", len(got), got[0])
	}
	for i, text := range got[1:] {
		if want := fmt.Sprintf("%s %d", line, lines-len(got)+1+i); text != want {
			t.Fatalf("line %d is %q, want %q", i, text, want)
		}
	}
}
