// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

func v6(text string) [16]byte { return netip.MustParseAddr(text).As16() }

// udp6 is a packet whose flow label's low bits alone are in the FUID.
var udp6 = rt.Packet{
	Proto: 17, Sport: 4000, Dport: 53, TTL: 64, TOS: 0xb9, Len: 106,
	V6: &rt.V6{Src: v6("2001:db8:1::1"), Dst: v6("2001:db8:4::2"), Label: 0xa1234},
}

func TestIPv6(t *testing.T) {
	b := newBench(t, 256, udp6)
	b.route(6, 0)
	r := b.one()
	if r.IPVersion != 6 || r.Src != "2001:db8:1::1" || r.Dst != "2001:db8:4::2" || *r.Sport != 4000 || *r.Dport != 53 {
		t.Errorf("version %d, %s:%d > %s:%d", r.IPVersion, r.Src, *r.Sport, r.Dst, *r.Dport)
	}
	if *r.FlowLabel != 0xa1234 || r.TTL != 64 || r.DSCP != 46 || r.ECN != 1 || r.State != record.Delivered || len(r.Hops) != 4 {
		t.Errorf("flow label %#x, hop limit %d, dscp %d, ecn %d, %s over %d hops",
			*r.FlowLabel, r.TTL, r.DSCP, r.ECN, r.State, len(r.Hops))
	}
	text, err := json.Marshal(r.JSON())
	if err != nil {
		t.Fatal(err)
	}
	for _, lacks := range []string{"ip_id", "frag"} {
		if strings.Contains(string(text), lacks) {
			t.Errorf("%s in %s", lacks, text)
		}
	}
}

// The log of an IPv6 packet ends four cells earlier, where its addresses stand.
func TestIPv6Full(t *testing.T) {
	for _, bytes := range []int{192, 256, 512} {
		b := newBench(t, bytes, udp6)
		room := 5 + 8*(bytes/64-2) - 4 - 4 // the last four are for the end
		for i := range room {
			b.See(b.pos, rt.Egress, rt.First, h1e0, b.t0+uint64(i))
		}
		if r := b.one(); r.Truncated || r.Src != "2001:db8:1::1" {
			t.Errorf("%d bytes: with %d events: %+v", bytes, room, r)
		}
		b.See(b.pos, rt.Ingress, rt.First, h2e0, b.t0+1e6)
		b.See(b.pos, rt.Deliver, rt.First, h2e0, b.t0+1e6)
		if r := b.one(); !r.Truncated || r.State != record.Delivered || r.Dst != "2001:db8:4::2" {
			t.Errorf("%d bytes: with one event more: %s, truncated %v, to %s", bytes, r.State, r.Truncated, r.Dst)
		}
	}
}

func TestAddressChangeIPv6(t *testing.T) {
	b := newBench(t, 256, udp6)
	b.route(2, 0)
	nat := v6("2001:db8:ffff::9")
	b.Translate6(b.pos, rt.First, r1e1, nat, udp6.V6.Dst, 61000, 53, b.t0+1700)
	b.See(b.pos, rt.Egress, rt.First, r1e1, b.t0+1800)
	b.Drop(b.pos, rt.First, r1e1, 64, fnQueue, "tbf", false, b.t0+1900)
	r := b.one()
	h := r.Hops[1]
	if h.Src != "2001:db8:ffff::9" || h.Dst != "" || h.Sport == nil || *h.Sport != 61000 || h.Dport != nil {
		t.Errorf("changes of hop %s: %+v", h.Node, h)
	}
	if r.State != record.Lost || r.Loss.At != record.AtQueue {
		t.Errorf("%s, %+v", r.State, r.Loss)
	}
}

// Every segment of an IPv6 train has the head's flow label, and no ID.
func TestTrainIPv6(t *testing.T) {
	p := udp6
	p.Segs = 3
	b := newBench(t, 256, p)
	b.See(b.pos, rt.Egress, rt.First|rt.Source, h1e0, b.t0)
	b.SetCut(b.pos, rt.Cut)
	for k := range uint64(3) {
		b.See(b.pos+k, rt.Deliver, rt.First|rt.Part, h2e0, b.t0+1000+k)
	}
	recs := b.all()
	if len(recs) != 3 {
		t.Fatalf("%d records, want one for each segment", len(recs))
	}
	for i, r := range recs {
		if r.IPVersion != 6 || *r.FlowLabel != 0xa1234 || r.Dst != "2001:db8:4::2" || len(r.Hops) != 2 {
			t.Errorf("segment %d: %+v", i, r)
		}
	}
	b.SetPos(b.pos, b.pos+64) // the head is overwritten
	for _, r := range b.all() {
		if r.GUID == "0x5" {
			continue
		}
		if r.IPVersion != 6 || r.Src != "" || r.FlowLabel != nil {
			t.Errorf("segment without its head: version %d, source %q, label %v", r.IPVersion, r.Src, r.FlowLabel)
		}
	}
}

// Two packets of either version with the same 16 bytes of address are two.
func TestMappedAddress(t *testing.T) {
	a := packet.AddrFrom4([4]byte{192, 0, 2, 7})
	if a.Text(false) != "192.0.2.7" || a.Text(true) != "::ffff:192.0.2.7" {
		t.Errorf("%s and %s", a.Text(false), a.Text(true))
	}
}
