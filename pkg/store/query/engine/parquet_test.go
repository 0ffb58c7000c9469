// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nosql

package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/store/query"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// TestParquet: an answer is written into the one file that was named, and no other.
func TestParquet(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	keep(t, dir, segments.Options{}, several(3)...)
	f, err := os.Create(filepath.Join(out, "a.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	db, _ := opened(t, dir, query.Options{Out: fmt.Sprintf("/proc/self/fd/%d", f.Fd())})
	if err := db.Parquet(t.Context(), "SELECT id, t FROM packets"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil || !strings.HasPrefix(string(text), "PAR1") || !strings.HasSuffix(string(text), "PAR1") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	for _, text := range []string{"SELECT 1) TO '" + out + "/b' (FORMAT csv); --", "COPY (SELECT 1) TO '" + out + "/c'", "SELECT * FROM read_text('/etc/passwd')", "EXPLAIN SELECT 1"} {
		if err := db.Parquet(t.Context(), text); err == nil {
			t.Errorf("%s is written", text)
		}
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 1 {
		t.Errorf("written: %v, %v", left, err)
	}
}

// TestParquetOfOthers: pyarrow reads what an answer says of its moments: they are UTC, as those of recordings.
func TestParquetOfOthers(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("needs Python: make test runs it")
	}
	python, dir, out := servers.Python(t, "records"), t.TempDir(), filepath.Join(t.TempDir(), "a.parquet")
	keep(t, dir, segments.Options{}, several(3)...)
	db, _ := opened(t, dir, query.Options{Out: out})
	if err := db.Parquet(t.Context(), "SELECT id, t, date_trunc('minute', t) AS minute, [t] AS list, TIME '10:00:00' AS day FROM packets ORDER BY t"); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(python, "-c", `
import sys, pyarrow, pyarrow.parquet
table = pyarrow.parquet.read_table(sys.argv[1])
print(*[str(f.type) for f in table.schema], table.column("t").cast(pyarrow.int64()).to_pylist(), sep="; ")`, out).CombinedOutput()
	var times []string
	for _, p := range several(3) {
		times = append(times, fmt.Sprint(int64(p.T0)+names{}.WallOffset()))
	}
	want := "string; timestamp[ns, tz=UTC]; timestamp[us, tz=UTC]; list<element: timestamp[ns, tz=UTC]>; time64[us]; [" + strings.Join(times, ", ") + "]\n"
	if err != nil || string(said) != want {
		t.Errorf("pyarrow reads %s, %v, want %s", said, err, want)
	}
}
