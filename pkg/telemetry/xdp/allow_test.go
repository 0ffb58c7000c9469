// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
)

// TestAllow: reports of sources that are not heard are refused and counted, at XDP and by the socket,
// and have no template.
func TestAllow(t *testing.T) {
	oneCPU(t)
	c := shares()
	o := testOptions(c, 16)
	to6 := netip.MustParseAddrPort("[fd00::2]:32766")
	o.Addresses = append(o.Addresses, to6.Addr())
	for _, s := range []string{"10.0.0.0/30", "192.0.2.7/32", "fd00:1::/32"} {
		o.Allow = append(o.Allow, netip.MustParsePrefix(s))
	}
	path, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { path.Close() })
	h := newHearing(t, c, 0)
	h.Use(path)
	h.Allow = o.Allow
	next := packets(t, generate.Description{Hops: 1, Latency: generate.Range{Min: 1000, Max: 1000}})
	want := collect.FastInfo{}
	datagrams, refused := uint64(0), uint64(0)
	for _, from := range []struct {
		addr    string
		allowed bool
	}{
		{"10.0.0.1", true}, {"10.0.0.3", true}, {"10.0.0.4", false}, {"11.0.0.1", false}, {"192.0.2.7", true}, {"192.0.2.6", false},
		{"fd00:1::9", true}, {"fd00:2::9", false}, {"::ffff", false},
	} {
		for n := range 4 { // the fourth fits a template
			_, payload, err := collect.Packet{IP: next()}.UDP()
			if err != nil {
				t.Fatal(err)
			}
			src, dst := netip.AddrPortFrom(netip.MustParseAddr(from.addr), 4000), to
			if src.Addr().Is6() {
				dst = to6
			}
			ip, err := collect.AppendUDP(nil, src, dst, payload)
			if err != nil {
				t.Fatal(err)
			}
			was := len(path.flows)
			if verdict := path.run(t, h, ip); verdict != xdpDrop {
				t.Errorf("%s: verdict %d", from.addr, verdict)
			}
			if !from.allowed && len(path.flows) != was {
				t.Errorf("%s: a template", from.addr)
			}
			if n == 0 {
				if err := h.Add(collect.Packet{At: time.Now(), IP: ip}); err != nil {
					t.Error(err)
				}
				if from.allowed {
					datagrams++
				} else {
					refused++
				}
			}
			if from.allowed {
				datagrams++
			} else {
				want.Refused++
			}
		}
	}
	if err := path.Sweep(h.Collector); err != nil {
		t.Fatal(err)
	}
	info := h.Info()
	if x := info.XDP; x.Refused != want.Refused || x.FastPath == 0 || x.SlowPath+x.FastPath+x.Refused != 4*9 || info.Refused != want.Refused+refused || info.Counts.Packets != datagrams {
		t.Errorf("%+v, %d refused of all, %d datagrams; want %d, %d, %d", x, info.Refused, info.Counts.Packets, want.Refused, want.Refused+refused, datagrams)
	}
}
