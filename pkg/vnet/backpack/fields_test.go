// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"encoding/json"
	"strings"
	"testing"

	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// Fields that depend on the protocol: what is not known must be absent.
func TestFields(t *testing.T) {
	base := rt.Packet{
		Src: [4]byte{10, 0, 1, 1}, Dst: [4]byte{10, 0, 4, 2}, Sport: 7, Dport: 9, TTL: 64, Len: 84,
	}
	for _, tc := range []struct {
		name   string
		packet func(p *rt.Packet)
		has    []string
		lacks  []string
	}{
		{"tcp", func(p *rt.Packet) { p.Proto = 6 },
			[]string{`"proto":"tcp"`, `"sport":7`, `"dport":9`}, []string{"icmp", "frag_off"}},
		{"udp to port 0", func(p *rt.Packet) { p.Proto, p.Dport = 17, 0 },
			[]string{`"proto":"udp"`, `"sport":7`, `"dport":0`}, []string{"icmp"}},
		{"echo", func(p *rt.Packet) { p.Proto, p.ICMPType = 1, 8 },
			[]string{`"proto":"icmp"`, `"icmp_type":8`, `"icmp_id":7`, `"icmp_seq":9`}, []string{"port", "frag"}},
		{"echo reply", func(p *rt.Packet) { p.Proto = 1 },
			[]string{`"icmp_type":0`, `"icmp_id":7`, `"icmp_seq":9`}, []string{"port"}},
		{"unreachable", func(p *rt.Packet) { p.Proto, p.ICMPType = 1, 3 },
			[]string{`"icmp_type":3`}, []string{"icmp_id", "icmp_seq", "port"}},
		{"ospf", func(p *rt.Packet) { p.Proto = 89 },
			[]string{`"proto":"ospf"`}, []string{"port", "icmp"}},
		{"no name", func(p *rt.Packet) { p.Proto = 253 },
			[]string{`"proto":"253"`}, []string{"port", "icmp"}},
		{"first fragment", func(p *rt.Packet) { p.Proto, p.Frag = 17, 0x2000 },
			[]string{`"sport":7`, `"frag_off":0`}, nil},
		{"later fragment", func(p *rt.Packet) { p.Proto, p.Frag, p.Flags = 17, 0x20b9, 1 },
			[]string{`"proto":"udp"`, `"frag_off":1480`}, []string{"port"}},
		{"last fragment of an echo", func(p *rt.Packet) { p.Proto, p.Frag, p.Flags = 1, 185, 1 },
			[]string{`"proto":"icmp"`, `"frag_off":1480`}, []string{"icmp_"}},
		{"don't fragment", func(p *rt.Packet) { p.Proto, p.Frag = 17, 0x4000 },
			nil, []string{"frag_off"}},
		{"echo of IPv6", func(p *rt.Packet) { p.V6, p.Proto, p.ICMPType = udp6.V6, 58, 128 },
			[]string{`"ip_version":6`, `"flow_label":660020`, `"proto":"icmpv6"`, `"icmp_type":128`, `"icmp_id":7`, `"icmp_seq":9`},
			[]string{"port", "frag"}},
		{"reply of IPv6", func(p *rt.Packet) { p.V6, p.Proto, p.ICMPType = udp6.V6, 58, 129 },
			[]string{`"icmp_type":129`, `"icmp_id":7`}, nil},
		{"packet too big", func(p *rt.Packet) { p.V6, p.Proto, p.ICMPType = udp6.V6, 58, 2 },
			[]string{`"icmp_type":2`}, []string{"icmp_id", "port"}},
		{"first fragment of IPv6", func(p *rt.Packet) {
			p.V6, p.Proto, p.Frag = &rt.V6{FragID: 0xdeadbeef}, 17, 1
		}, []string{`"sport":7`, `"frag_off":0`, `"frag_id":3735928559`}, nil},
		{"later fragment of IPv6", func(p *rt.Packet) {
			p.V6, p.Proto, p.Frag, p.Flags = &rt.V6{FragID: 0}, 17, 1448|1, 1
		}, []string{`"frag_off":1448`, `"frag_id":0`}, []string{"port"}},
		{"atomic fragment", func(p *rt.Packet) { p.V6, p.Proto = &rt.V6{FragID: 5}, 17 },
			[]string{`"frag_id":5`}, []string{"frag_off"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := base
			tc.packet(&p)
			b := newBench(t, 128, p)
			b.See(b.pos, rt.Egress, rt.First|rt.Source, h1e0, b.t0)
			r := b.one()
			r.Hops = nil
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range tc.has {
				if !strings.Contains(string(text), s) {
					t.Errorf("no %s in %s", s, text)
				}
			}
			for _, s := range tc.lacks {
				if strings.Contains(string(text), s) {
					t.Errorf("%s in %s", s, text)
				}
			}
		})
	}
}
