// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Hops are there also where no packet of a file has any time at one, as of reports that say none.
func TestHopsWithoutTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := Create(dir, Meta{Host: "h"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &packet.Registry{}
	none := packet.Hop{Node: g.Node("int-3"), In: packet.NoPort, Out: packet.NoPort, InNs: packet.NoTime, OutNs: packet.NoTime, DequeueNs: packet.NoTime}
	p := &Packet{ID: "1-i0", Source: record.INT, Packet: packet.Packet{
		T0: 1e18, State: record.Left, Segs: 1, LatencyNs: packet.NoTime, Apart: true, Hops: []packet.Hop{none, none}}}
	if err := w.Add(p, g); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := 0
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(p *Packet) error {
		if n++; len(p.Hops) != 2 || d.Scope().NodeName(p.Hops[1].Node) != "int-3" {
			t.Errorf("%+v", p)
		}
		return nil
	}); err != nil || n != 1 || len(d.Damage()) > 0 {
		t.Errorf("%d packets, %v, damage %v", n, err, d.Damage())
	}
}
