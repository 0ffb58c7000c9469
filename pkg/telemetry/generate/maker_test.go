// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/intwire"
)

// usual is a description of a few reports of everything.
func usual(v Version) Description {
	return Description{
		Version: v, Instructions: v.Instructions(), DSCP: 0x17, Flows: 3, Hops: 4, FirstNode: 1, HwID: 1, Payload: 32, Group: 1,
		Start: time.Unix(1_700_000_000, 0), Interval: time.Millisecond, Latency: Range{1000, 9000}, Queue: Range{10, 20}, QueueStep: 3, Seed: 7,
	}
}

// take returns copies of the first n datagrams of a description.
func take(t testing.TB, d Description, n int) (list [][]byte) {
	t.Helper()
	m, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		g, err := m.Next()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, bytes.Clone(g.Payload))
	}
	return list
}

// udp puts the header of UDP before a payload.
func udp(payload []byte) []byte {
	n := 8 + len(payload)
	return append([]byte{0, 1, 0x7f, 0xfe, byte(n >> 8), byte(n), 0, 0}, payload...)
}

func TestAllInstructions(t *testing.T) {
	if v10, v20 := V10.Instructions(), V20.Instructions(); v10 != 0xff01 || v20 != 0xff81 {
		t.Errorf("0x%04x of 1.0, 0x%04x of 2.0", v10, v20)
	}
}

// The same seed makes the same bytes, another one others.
func TestSameBytes(t *testing.T) {
	for _, v := range []Version{V20, V10} {
		d := usual(v)
		d.Drops = 0.2
		first, again := take(t, d, 500), take(t, d, 500)
		d.Seed++
		other := take(t, d, 500)
		differ := 0
		for i := range first {
			if !bytes.Equal(first[i], again[i]) {
				t.Fatalf("datagram %d: %x\nthen %x", i, first[i], again[i])
			}
			if !bytes.Equal(first[i], other[i]) {
				differ++
			}
		}
		if differ < 400 {
			t.Errorf("%d of 500 datagrams differ with another seed", differ)
		}
	}
}

// What is described comes, and radar's own decoder finds no anomaly. (The independent one:
// lab/test/e2e.)
func TestDecodes(t *testing.T) {
	var d intwire.Decoder
	var m intwire.Message
	for _, v := range []Version{V20, V10} {
		for _, mode := range []Mode{MD, XD} {
			for _, transport := range []Transport{UDP, TCP, Mixed} {
				for _, change := range []func(*Description){
					func(*Description) {},
					func(d *Description) { d.IPv6 = true },
					func(d *Description) { d.VLAN = 7 },
					func(d *Description) { d.QuoteIP = true },
					func(d *Description) { d.QuoteIP, d.IPv6 = true, true },
					func(d *Description) { d.Drops = 0.5 },
					func(d *Description) { d.Group = 1 + 4*int(V10-d.Version) },
				} {
					what := usual(v)
					what.Mode, what.Transport = mode, transport
					change(&what)
					for i, b := range take(t, what, 40) {
						d.Decode(&m, intwire.StartUDP, udp(b))
						if len(m.Anomalies) > 0 || m.Profile == nil {
							t.Fatalf("%+v: datagram %d: %s\n%x", what, i, m.AppendJSON(nil), b)
						}
					}
				}
			}
		}
	}
}

// Constant: all hops of all packets have the values of the first one.
func TestConstant(t *testing.T) {
	d := usual(V20)
	d.Constant, d.Flows = true, 1
	var dec intwire.Decoder
	var m intwire.Message
	var first []intwire.Hop
	for i, b := range take(t, d, 50) {
		dec.Decode(&m, intwire.StartUDP, udp(b))
		hops := slices.Clone(m.Embedded[0].Hops)
		if i == 0 {
			first = hops
		}
		if !slices.EqualFunc(hops, first, func(a, b intwire.Hop) bool { return a.Values == b.Values }) {
			t.Fatalf("packet %d: %+v, the first: %+v", i, hops, first)
		}
	}
	if latency, _ := first[0].Get(intwire.HopLatency); latency != 1000 {
		t.Errorf("latency %d, want the least", latency)
	}
}

// Drops come as often as described, gaps too, queues step.
func TestShares(t *testing.T) {
	d := usual(V20)
	d.Drops, d.GapEvery, d.FirstSequence = 0.25, 10, 1<<22-50
	var dec intwire.Decoder
	var m intwire.Message
	drops, gaps := 0, 0
	last := make(map[uint32]uint32)
	const n = 4000
	for _, b := range take(t, d, n) {
		dec.Decode(&m, intwire.StartUDP, udp(b))
		if m.Reports[0].D {
			drops++
			if r, _ := m.Reports[0].Values.Get(intwire.DropReason); r != dropReason {
				t.Errorf("reason %d", r)
			}
		}
		if before, ok := last[m.Group.NodeID]; ok && m.Group.Sequence != (before+1)&(1<<22-1) {
			gaps++
			if m.Group.Sequence != (before+2)&(1<<22-1) {
				t.Errorf("%d behind %d", m.Group.Sequence, before)
			}
		}
		last[m.Group.NodeID] = m.Group.Sequence
	}
	if drops < n/4-120 || drops > n/4+120 {
		t.Errorf("%d drops of %d", drops, n)
	}
	if gaps < n/10-4 || gaps > n/10 {
		t.Errorf("%d gaps in %d datagrams", gaps, n)
	}
}

// What cannot be is refused with a word that says what.
func TestRefuses(t *testing.T) {
	for i, change := range []func(*Description){
		func(d *Description) { d.Version = 2 },
		func(d *Description) { d.Instructions = 0x0040 },
		func(d *Description) { d.Instructions = 0 },
		func(d *Description) { d.DSCP = 64 },
		func(d *Description) { d.Flows = 0 },
		func(d *Description) { d.Flows = MaxFlows + 1 },
		func(d *Description) { d.Hops = 0 },
		func(d *Description) { d.Hops = MaxHops + 1 },
		func(d *Description) { d.FirstNode = 1<<32 - 1 },
		func(d *Description) { d.HwID = 64 },
		func(d *Description) { d.VLAN = 4095 },
		func(d *Description) { d.VLAN, d.QuoteIP = 1, true },
		func(d *Description) { d.Payload = 1401 },
		func(d *Description) { d.Group = 0 },
		func(d *Description) { d.Group, d.Version, d.Instructions = 2, V10, 0x8000 },
		func(d *Description) { d.Interval = -1 },
		func(d *Description) { d.Latency = Range{2, 1} },
		func(d *Description) { d.Latency = Range{0, 1<<32 - 1} },
		func(d *Description) { d.Queue = Range{0, 1 << 24} },
		func(d *Description) { d.Drops = 1.1 },
		func(d *Description) { d.GapEvery = -1 },
		func(d *Description) { d.FirstSequence = 1 << 22 },
		func(d *Description) { d.Group, d.Payload = 255, 900 },
		func(d *Description) { d.Group, d.Payload = 2, 1000 },
	} {
		d := usual(V20)
		change(&d)
		if _, err := New(d); !errors.Is(err, fault.Usage) {
			t.Errorf("%d: %v", i, err)
		}
	}
	d := usual(V20)
	d.Hops = 20
	if _, err := New(d); !errors.Is(err, intwire.ErrLength) {
		t.Errorf("20 hops of 13 words: %v", err)
	}
	d.Hops = 19
	if _, err := New(d); err != nil {
		t.Errorf("19 hops of 13 words: %v", err)
	}
}

// What the first nodes have written into a packet, checksum complements included, does not depend
// on those that come after them.
func TestComplementsAreIncremental(t *testing.T) {
	for _, v := range []Version{V20, V10} {
		for _, transport := range []Transport{UDP, TCP} {
			d := usual(v)
			d.Transport, d.Hops = transport, 8
			m, err := New(d)
			if err != nil {
				t.Fatal(err)
			}
			m.cross(&m.batch[0], 3)
			block := 4 * intwire.Words(d.Version.format(), d.Instructions, 0)
			var before []byte
			for stack := 1; stack <= d.Hops; stack++ {
				b, err := m.quote(nil, &m.batch[0], stack, stack)
				if err != nil {
					t.Fatal(err)
				}
				hops := b[len(b)-d.Payload-stack*block : len(b)-d.Payload]
				if !bytes.Equal(before, hops[block:]) {
					t.Errorf("version %d, transport %d: node %d has changed what was there:\n%x\n%x", v, transport, stack, before, hops[block:])
				}
				before = bytes.Clone(hops)
			}
		}
	}
}

// Making reports takes no memory.
func TestNoAllocation(t *testing.T) {
	for _, v := range []Version{V20, V10} {
		for _, mode := range []Mode{MD, XD} {
			d := usual(v)
			d.Mode, d.Drops = mode, 0.1
			m, err := New(d)
			if err != nil {
				t.Fatal(err)
			}
			next := func() {
				if _, err := m.Next(); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				next()
			}
			if n := testing.AllocsPerRun(1000, next); n != 0 {
				t.Errorf("version %d, mode %d: %v allocations for a report", v, mode, n)
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		hops int
		mode Mode
	}{{"MD/hops=5", 5, MD}, {"MD/hops=19", 19, MD}, {"XD/hops=5", 5, XD}} {
		for i, v := range []Version{V20, V10} {
			b.Run(fmt.Sprintf("%s/version=%d.0", c.name, 2-i), func(b *testing.B) {
				d := usual(v)
				d.Hops, d.Mode = c.hops, c.mode
				m, err := New(d)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.Next(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reports/s")
			})
		}
	}
}
