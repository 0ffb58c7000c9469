// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vnetradar/radar/pkg/packet"
)

func testMeta() Meta {
	return Meta{
		Radar: "0.1", Kernel: "6.12", Host: "host", Domain: "default", Epoch: 0xabc, Slots: 1024, Layout: 5, WallOffset: base,
		Created: time.Unix(1_700_000_000, 0).UTC(), Description: json.RawMessage(`{"nodes":[]}`),
	}
}

// quiet are options with which a segment ends only by Flush and Close.
var quiet = Options{MaxAge: time.Hour}

// same compares packets, functions by their names.
var same = cmp.Options{
	cmp.Comparer(func(a, b *packet.Function) bool { return a.Name() == b.Name() }),
	cmpopts.EquateEmpty(),
}

// readAll reads a recording. It fails if anything is damaged.
func readAll(t testing.TB, dir string) (all []*Packet) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	last := uint64(0)
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(p *Packet) error {
		if p.T0 < last {
			return fmt.Errorf("a packet of %d comes behind one of %d", p.T0, last)
		}
		last = p.T0
		all = append(all, clone(p))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if d := d.Damage(); len(d) > 0 {
		t.Fatalf("damage: %v", d)
	}
	return all
}

func clone(p *Packet) *Packet {
	c := *p
	c.Hops, c.Drops = slices.Clone(p.Hops), slices.Clone(p.Drops)
	return &c
}

// show is a packet as text.
func show(p *Packet) string {
	c := clone(p)
	names := c.Loss.Function.Name()
	c.Loss.Function = nil
	for i := range c.Drops {
		names += " " + c.Drops[i].Function.Name()
		c.Drops[i].Function = nil
	}
	return fmt.Sprintln(*c, names)
}

// byTime puts packets in the order in which Read gives them.
func byTime(all []*Packet) []*Packet {
	slices.SortStableFunc(all, func(a, b *Packet) int {
		if a.T0 != b.T0 {
			return compare(int64(a.T0), int64(b.T0))
		}
		return compare(int64(a.Pos), int64(b.Pos))
	})
	return all
}

func create(t testing.TB, dir string, o Options) *Writer {
	t.Helper()
	w, err := Create(dir, testMeta(), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRoundTrip: packets of all forms come back as they were added, from one segment and from many, and
// when these have become one.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(2) {
		dir := t.TempDir()
		w := create(t, dir, quiet)
		of := &testScope{offset: base}
		var want []*Packet
		for g, i := newGenerator(seed), 0; i < 8_000; i++ {
			p := g.packet()
			if err := w.Add(p, of); err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
			if g.one(1000) {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Kept != uint64(len(want)) || len(s.NotKept) != 0 {
			t.Errorf("stats: %+v", s)
		}
		compareAll(t, readAll(t, dir), byTime(want))
	}
}

func compareAll(t *testing.T, got, want []*Packet) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i := range got {
		// cmp takes a hundred times as long as the comparison of texts.
		if show(want[i]) == show(got[i]) && i%64 != 0 {
			continue
		}
		if diff := cmp.Diff(want[i], got[i], same); diff != "" {
			t.Fatalf("packet %d: %s", i, diff)
		}
	}
}
