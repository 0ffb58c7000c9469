// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// TestRowsBounded: of more values than there is room for, those reported last are written, by key.
func TestRowsBounded(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	s, err := Create("test", MinKeep, collect.Info{})
	if err != nil {
		t.Fatal(err)
	}
	engine := metrics.New(metrics.DefaultConfig())
	c := collect.New(&collect.Translator{}, engine, s, nil)
	const keep, all = 1 << 15, 1000
	c.KeepRows = keep
	for i := range all { // the first flows by key are the newest
		r := metrics.Report{At: noon.Add(-time.Duration(i) * time.Second).UnixNano(), HasFlow: true, Hops: []metrics.Hop{{Has: metrics.HasNode | metrics.HasLatency, Node: 1}}}
		r.Flow = metrics.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Proto: 17, HasPorts: true, SrcPort: uint16(i / 2), DstPort: uint16(i % 2)}
		engine.Add(&r, nil)
	}
	size := func() int64 {
		about, err := os.Stat(filepath.Join(Dir("test"), rowsFile))
		if err != nil {
			t.Fatal(err)
		}
		return about.Size()
	}
	if err := c.SaveRows(noon.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	info, err := c.Save()
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := LoadRows("test")
	if err != nil || size() > keep || size() < keep-1000 || len(rows)+int(info.LeftOut) != all {
		t.Errorf("%v, %d bytes, %d of %d values, %d left out", err, size(), len(rows), all, info.LeftOut)
	}
	for i := range rows {
		if *rows[i].Sport != uint16(i/2) || *rows[i].Dport != uint16(i%2) {
			t.Fatalf("value %d is %+v", i, rows[i])
		}
	}
	if !slices.IsSortedFunc(rows, func(a, b metrics.RowJSON) int { return int(b.TNs - a.TNs) }) {
		t.Error("not the newest")
	}
	c.KeepRows = 1 << 20
	if err := c.SaveRows(noon.Add(-time.Hour)); err != nil || s.Info().LeftOut != 0 || size() <= keep {
		t.Errorf("%v, with room for all: %d left out, %d bytes", err, s.Info().LeftOut, size())
	}
}
