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
		m := testMeta()
		if seed == 0 {
			m.WallOffset = time.Now().Add(24 * time.Hour).UnixNano() // of an hour to come, five segments stay five
		}
		w, err := Create(dir, m, quiet)
		if err != nil {
			t.Fatal(err)
		}
		of := &testScope{offset: m.WallOffset}
		var want []*Packet
		for g, i := newGenerator(seed), 0; i < 8_000; i++ {
			p := g.packet()
			if err := w.Add(p, of); err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
			if i%2000 == 1999 {
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

// TestSinceUntil: a span of time has its packets and no others, whatever row groups they are in.
func TestSinceUntil(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, quiet)
	for i := range uint64(100) {
		if err := w.Add(simple(i), &testScope{offset: base}); err != nil {
			t.Fatal(err)
		}
		if i%30 == 29 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	at := func(pos int64) time.Time { return time.Unix(0, base+1e12+pos*1000) }
	for _, span := range [][2]int64{{0, 100}, {5, 6}, {29, 31}, {30, 60}, {50, 50}, {99, 200}, {-5, 3}} {
		var got []int64
		if err := d.Read(context.Background(), at(span[0]), at(span[1]), func(p *Packet) error { got = append(got, int64(p.Pos)); return nil }); err != nil {
			t.Fatal(err)
		}
		var want []int64
		for i := max(0, span[0]); i < min(100, span[1]); i++ {
			want = append(want, i)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v", span, got)
		}
	}
	if first, last := d.Span(); !first.Equal(at(0)) || !last.Equal(at(99)) {
		t.Errorf("from %v to %v", first, last)
	}
	stop := fmt.Errorf("stop")
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(*Packet) error { return stop }); err != stop {
		t.Errorf("the error of a reader: %v", err)
	}
}

// TestScopes: packets that came with several scopes, and recordings of several domains in one directory,
// have the names that they came with, and their times.
func TestScopes(t *testing.T) {
	dir := t.TempDir()
	names := make(map[uint64]string)
	say := func(of packet.Scope, p *Packet) string {
		text := fmt.Sprint(p.UnixNs(of))
		for _, h := range p.Hops {
			for _, port := range []uint16{h.In, h.Out} {
				text += fmt.Sprint(" ", of.PortName(port), " of ", of.NodeName(of.PortNode(port)))
			}
			text += " at " + of.NodeName(h.Node)
		}
		if p.Lost || p.Missing || p.LocalDrop {
			text += " lost at " + of.NodeName(p.Loss.Node)
		}
		return text
	}
	pos := uint64(0)
	for recording := range 3 {
		m := testMeta()
		m.Domain, m.WallOffset = fmt.Sprint("d", recording), base+int64(recording)
		w, err := Create(dir, m, quiet)
		if err != nil {
			t.Fatal(err)
		}
		g := newGenerator(uint64(recording))
		scopes := []packet.Scope{&testScope{offset: base + int64(recording), prefix: fmt.Sprint("a", recording)}, &testScope{offset: base + 7, prefix: fmt.Sprint("b", recording)}}
		for range 300 {
			p, of := g.packet(), scopes[g.IntN(2)]
			p.Nodes = nil
			p.Pos, pos = pos, pos+1
			names[p.Pos] = say(of, p)
			if err := w.Add(p, of); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := 0
	if err := d.Read(context.Background(), time.Time{}, time.Time{}, func(p *Packet) error {
		if got := say(d.Scope(), p); got != names[p.Pos] {
			t.Errorf("packet %d: %s, want %s", p.Pos, got, names[p.Pos])
		}
		n++
		return nil
	}); err != nil || n != len(names) || len(d.Damage()) > 0 {
		t.Errorf("%d packets of %d, %v, %v", n, len(names), err, d.Damage())
	}
	if len(d.Meta()) != 3 {
		t.Errorf("%d descriptions", len(d.Meta()))
	}
}
