// SPDX-License-Identifier: Apache-2.0

package segments_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/store/recording"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// FuzzRead: whatever the bytes of a file are, reading it and making records of its packets ends, takes bounded
// memory, and never panics. The checksums of the input are made right first: what is behind them is met as well.
func FuzzRead(f *testing.F) {
	good, err := os.ReadFile(segments.File(f, f.TempDir(), 5, 8))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(4), []byte{0}, false)
	f.Add(uint32(100), []byte{255, 255, 255, 255, 15}, true)
	f.Add(uint32(len(good)-200), []byte{1, 2}, true)
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, fix bool) {
		bad := bytes.Clone(good)
		if n := int(at) % len(bad); len(patch) > 0 {
			copy(bad[n:], patch)
		}
		if fix {
			bad = segments.FixSums(bad)
		}
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := recording.Open(path)
		if err != nil {
			return
		}
		defer r.Dir.Close()
		if err := r.Read(context.Background(), time.Time{}, time.Time{}, func(p *segments.Packet) error {
			r.Record(p)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}
