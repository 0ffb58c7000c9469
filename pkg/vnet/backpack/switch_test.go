// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"slices"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// TestNotForwarded: a process forwards a node's packets. If the kernel drops a packet at the port
// where it came in, that is the kernel's copy: the process did not forward the packet. A packet
// that is dropped elsewhere has the kernel's reason.
func TestNotForwarded(t *testing.T) {
	const process = "simple_switch"
	for _, c := range []struct {
		name  string
		steps int // of h1 > r1 > r2 > h2
		port  uint16
		known bool // which process it is
		want  bool
	}{
		{"as it came in", 2, r1e0, true, true},
		{"the process is not known", 2, r1e0, false, false},
		{"leaving", 3, r1e1, true, false},
		{"by another device", 2, r1e1, true, false},
		{"at the next node", 4, r2e0, true, false},
		{"delivered", 6, h2e0, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.route(c.steps, 0)
			b.Drop(b.pos, rt.First, c.port, 12, fnIP, "noqueue", c.steps == 6, b.t0+9000)
			b.dom = testDomain(64)
			for i := range b.dom.Nodes {
				if n := &b.dom.Nodes[i]; c.known && (n.Name == "r1" || n.Name == "h2") {
					n.Switch = process
				}
			}
			r := b.one()
			l := r.Loss
			if c.steps == 6 {
				l = r.LocalDrop
			}
			if l == nil {
				t.Fatalf("%s, without a loss", r.State)
			}
			if got := l.Reason == record.NotForwarded && l.Function == process; got != c.want {
				t.Errorf("loss %+v: not forwarded: %v, want %v", l, got, c.want)
			}
		})
	}
}

// TestForwarders: a packet goes on though the kernel has dropped its copy: something there has
// sent another one.
func TestForwarders(t *testing.T) {
	for _, c := range []struct {
		name string
		port uint16 // at which the copy is dropped
		then []uint16
		want []uint16
	}{
		{"goes on", r1e0, []uint16{r1e1}, []uint16{2}},
		{"ends", r1e0, nil, nil},
		{"a copy at another device", r1e1, []uint16{r1e1}, nil},
		{"is seen elsewhere", r1e0, []uint16{r2e1}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 256, udp)
			b.route(2, 0)
			b.Drop(b.pos, rt.First, c.port, 12, fnIP, "noqueue", false, b.t0+1200)
			for _, port := range c.then {
				b.See(b.pos, rt.Egress, rt.First, port, b.t0+1500)
			}
			dec := backpack.NewDecoder(testDomain(64), names{})
			for range 2 {
				if _, _, err := backpack.Scan(b, dec, backpack.ScanOptions{Now: func() uint64 { return b.now }}); err != nil {
					t.Fatal(err)
				}
			}
			if got := dec.TakeForwarders(); !slices.Equal(got, c.want) {
				t.Errorf("forwarders %v, want %v", got, c.want)
			}
			if got := dec.TakeForwarders(); len(got) > 0 {
				t.Errorf("the same once more: %v", got)
			}
		})
	}
}
