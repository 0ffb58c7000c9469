// SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// TestMarkUTC: only the marks of moments change, and what is no file of Parquet does not change at all.
func TestMarkUTC(t *testing.T) {
	var w thriftWriter
	w.open()
	w.i32(1, 1)
	w.list(2, thriftStruct, 2)
	for _, logical := range []int16{8, 7} { // a moment, a time of day
		w.open()
		w.text(4, "t")
		w.begin(10)
		w.begin(logical)
		w.bool(1, false)
		w.begin(2)
		w.begin(3)
		for range 5 {
			w.end()
		}
	}
	w.i64(3, 0)
	w.end()
	whole := append([]byte(magic), w.b...)
	whole = append(binary.LittleEndian.AppendUint32(whole, uint32(len(w.b))), magic...)
	for _, c := range []struct {
		name    string
		file    []byte
		ok      bool
		changes int
	}{
		{"whole", whole, true, 1},
		{"too short", whole[:11], false, 0},
		{"no end", whole[:len(whole)-1], false, 0},
		{"length of another file", append(whole[:4:4], whole[len(whole)-8:]...), false, 0},
		{"no schema", append(append(whole[:4:4], 0), 1, 0, 0, 0, 'P', 'A', 'R', '1'), false, 0},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "a"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(c.file); err != nil {
			t.Fatal(err)
		}
		err = MarkUTC(f, int64(len(c.file)))
		got, readErr := os.ReadFile(f.Name())
		if (err == nil) != c.ok || readErr != nil || len(got) != len(c.file) {
			t.Errorf("%s: %v, %v, %d bytes of %d", c.name, err, readErr, len(got), len(c.file))
			continue
		}
		changes := 0
		for i := range got {
			if got[i] != c.file[i] {
				changes++
			}
		}
		if changes != c.changes {
			t.Errorf("%s: %d bytes changed, want %d", c.name, changes, c.changes)
		}
	}
}
