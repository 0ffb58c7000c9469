// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/fault"
)

func testAddresses(ipv6 bool) *Addresses {
	a := BenchmarkAddresses(ipv6)
	a.FromMAC, a.ToMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	return &a
}

// TestFrames: frames of all sizes have that size, and whatever their number is, right checksums.
func TestFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, ipv6 := range []bool{false, true} {
		for _, size := range []int{LeastSize(ipv6), LeastSize(ipv6) + 1, 128, 517, 1518, 9018} {
			f, err := newFrame(testAddresses(ipv6), size, rng.Uint32(), rng.Uint32())
			if err != nil {
				t.Fatal(err)
			}
			if len(f.bytes) != size-fcsLen {
				t.Errorf("size %d: %d bytes", size, len(f.bytes))
			}
			for range 3000 {
				f.number(rng.Uint32() >> rng.IntN(32))
				wantSums(t, f.bytes, size, ipv6)
			}
		}
	}
}

// wantSums wants a frame that gopacket finds nothing wrong with.
func wantSums(t *testing.T, frame []byte, size int, ipv6 bool) {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	if fail := p.ErrorLayer(); fail != nil {
		t.Fatalf("size %d: %v", size, fail.Error())
	}
	udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok {
		t.Fatalf("size %d: no UDP: %v", size, p)
	}
	if err := udp.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
		t.Fatal(err)
	}
	if err, bad := p.VerifyChecksums(); err != nil || len(bad) > 0 {
		t.Fatalf("size %d: %v, %+v\n%x", size, err, bad, frame)
	}
	if udp.Checksum == 0 || len(udp.Payload) != payloadOf(size, ipv6) || len(udp.Payload) < markLen {
		t.Fatalf("size %d: %+v", size, udp)
	}
}

// TestZeroChecksum: a checksum that comes to 0 is sent as all ones, since 0 means that there is none.
func TestZeroChecksum(t *testing.T) {
	f, err := newFrame(testAddresses(false), 64, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for seq := range uint32(1 << 16) {
		f.number(seq)
		if f.bytes[f.checkAt] == 0xff && f.bytes[f.checkAt+1] == 0xff {
			found++
			wantSums(t, f.bytes, 64, false)
		}
		if f.bytes[f.checkAt] == 0 && f.bytes[f.checkAt+1] == 0 {
			t.Fatalf("packet %d has no checksum", seq)
		}
	}
	if found == 0 {
		t.Error("no number has such a checksum: the test shows nothing")
	}
}

func TestSizesRefused(t *testing.T) {
	p := &Port{Name: "a/eth0", MTU: 1400}
	for _, c := range []struct {
		size int
		ipv6 bool
		ok   bool
	}{{63, false, false}, {64, false, true}, {81, true, false}, {82, true, true}, {1418, false, true}, {1419, false, false}, {0, false, false}, {-1, false, false}} {
		err := checkSize(c.size, c.ipv6, p)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, fault.Usage) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if got := defaultSizes(true, p); got[0] != 82 || got[len(got)-1] != 1280 {
		t.Errorf("sizes for IPv6 and an MTU of 1400: %v", got)
	}
}

func TestParseRate(t *testing.T) {
	for text, pps := range map[string]float64{
		"100pps": 100, "1kpps": 1e3, "1.5Mpps": 1.5e6, " 20KPPS ": 2e4, "0.5pps": 0.5,
		"10Mbit": 1e7 / 512, "10mbit/s": 1e7 / 512, "1Gbits": 1e9 / 512, "512bit": 1,
	} {
		r, err := ParseRate(text)
		if err != nil || r.PPS(64) != pps {
			t.Errorf("%q: %v packets a second, %v; want %v", text, r.PPS(64), err, pps)
		}
	}
	for _, text := range []string{"", "0pps", "-1pps", "0bit", "10", "pps", "10xpps", "NaNpps", "Infpps", "10Mbyte", "2Gpps", "10 pps"} {
		if r, err := ParseRate(text); !errors.Is(err, fault.Usage) {
			t.Errorf("%q is %+v, %v", text, r, err)
		}
	}
}

func TestVersion(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")
	with := func(addrs ...netip.Addr) *Port { return &Port{Addrs: addrs} }
	for _, c := range []struct {
		name    string
		in, out *Port
		w       Wish
		ipv6    bool
		fails   bool
	}{
		{"no addresses", with(), with(), Wish{}, false, false},
		{"both have both", with(four, six), with(six, four), Wish{}, false, false},
		{"IPv6 only", with(six), with(six), Wish{}, true, false},
		{"one has IPv6 only", with(six), with(four), Wish{}, false, false},
		{"asked for", with(four), with(four), Wish{IPv6: true}, true, false},
		{"to IPv6", with(four), with(four), Wish{To: six}, true, false},
		{"two versions", with(), with(), Wish{From: four, To: six}, false, true},
		{"IPv6 to IPv4", with(), with(), Wish{IPv6: true, To: four}, false, true},
	} {
		ipv6, err := c.w.version(c.in, c.out)
		if ipv6 != c.ipv6 || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", c.name, ipv6, err)
		}
	}
}
