// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/loader"
)

// hooks are those of this kernel.
func hooks(t *testing.T) []string {
	t.Helper()
	need.AsRoot(t)
	list := []string{hook.ByClsact}
	if by, err := loader.ChooseHook(loader.HookAuto, hook.Probe(), kernel.Release()); err != nil {
		t.Fatal(err)
	} else if by == hook.ByTCX {
		list = append(list, hook.ByTCX)
	}
	return list
}

// TestCaptured compares all that a rig says of packets with captures at both ports: which packets
// there were, what was in them, in which order they came, and that no stamp is on the wrong side of
// the capture, which is nearer to the device.
func TestCaptured(t *testing.T) {
	for _, by := range hooks(t) {
		for _, ipv6 := range []bool{false, true} {
			for _, round := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, IPv6 %v, round %v", by, ipv6, round), func(t *testing.T) {
					const n, size = 300, 200
					w := newWorld(t).router()
					r := w.rig(Wish{IPv6: ipv6}, Config{Round: round, Hook: by})
					w.run(r, Trial{Size: size, PPS: 100, Packets: 3}) // neighbours are found
					blue, red := w.capture("blue", "e0"), w.capture("red", "e0")
					o := w.run(r, Trial{Size: size, PPS: 2000, Packets: n})
					stamps, err := r.progs.read(n)
					if err != nil {
						t.Fatal(err)
					}
					at := n
					if round {
						at = 2 * n
					}
					inBlue, inRed := blue.stop(r, r.trial, at), red.stop(r, r.trial, at)
					if s := &o.Streams[0]; s.Received != n || s.Lost() != 0 || s.Duplicated != 0 {
						t.Errorf("%+v", s)
					}
					out, came := legs(inBlue, r.cfg.FromMAC, n)
					arrived, returned := legs(inRed, w.router0(), n)
					isSame(t, r, size, out)
					isInOrder(t, &o.Streams[0], arrived)
					isOutside(t, stamps, out, arrived, pointSent, pointReceived)
					if round {
						isInOrder(t, &o.Streams[1], came)
						isOutside(t, stamps, returned, came, pointReturned, pointBack)
					}
				})
			}
		}
	}
}

// router0 is the MAC address from which the router sends to red.
func (w *world) router0() []byte { return w.port("dev", "e1").MAC }

// legs are the packets that come from a MAC address, and the others, by their numbers.
func legs(list []seen, from []byte, n int) (a, b map[uint32]seen) {
	a, b = make(map[uint32]seen, n), make(map[uint32]seen, n)
	for _, s := range list {
		if bytes.Equal(s.frame[6:12], from) {
			a[s.seq] = s
		} else {
			b[s.seq] = s
		}
	}
	return a, b
}

// isSame wants packets that left to be what the rig makes, with right checksums.
func isSame(t *testing.T, r *Rig, size int, list map[uint32]seen) {
	t.Helper()
	f, err := newFrame(&r.cfg.Addresses, size, r.run, r.trial)
	if err != nil {
		t.Fatal(err)
	}
	for seq, s := range list {
		if f.number(seq); !bytes.Equal(s.frame, f.bytes) {
			t.Fatalf("packet %d left as\n%x, want\n%x", seq, s.frame, f.bytes)
		}
		wantSums(t, s.frame, size, r.cfg.IPv6())
	}
}

// isInOrder wants all packets to have arrived, with right checksums, and as many to be reordered as in
// the capture.
func isInOrder(t *testing.T, s *Stream, list map[uint32]seen) {
	t.Helper()
	if s.Received != len(list) {
		t.Errorf("%s: %d came, %d in the capture", s.Direction, s.Received, len(list))
	}
	reordered := 0
	for seq, one := range list {
		for other, two := range list {
			if other > seq && two.at.Before(one.at) {
				reordered++
				break
			}
		}
	}
	if s.Reordered != reordered {
		t.Errorf("%s: %d are reordered, %d in the capture", s.Direction, s.Reordered, reordered)
	}
}

// isOutside wants stamps to be before a packet passes the first capture, and after it passes the
// second one: what is captured is what the device did, and radar's delay is at least that.
func isOutside(t *testing.T, stamps []bpfobj.DutStamps, out, came map[uint32]seen, from, to bpfobj.DutPoint) {
	t.Helper()
	compared := 0
	for seq, a := range out {
		b, ok := came[seq]
		if !ok {
			continue
		}
		compared++
		captured, delay := b.at.Sub(a.at), time.Duration(stamps[seq].AtNs[to]-stamps[seq].AtNs[from])
		if captured > delay+time.Microsecond { // the clocks are two: the wall clock may be slewed
			t.Errorf("packet %d took %v by its stamps, and %v by captures inside of them", seq, delay, captured)
		}
	}
	if compared != len(stamps) {
		t.Errorf("%d of %d packets are in both captures", compared, len(stamps))
	}
}

// TestLost: what a firewall counts is what is missing.
func TestLost(t *testing.T) {
	w := newWorld(t).router()
	w.Run("dev", "nft", `add table ip f; add chain ip f c { type filter hook forward priority 0; };
		add rule ip f c udp dport 9 numgen random mod 100 < 13 counter drop`)
	for _, round := range []bool{false, true} {
		r := w.rig(Wish{}, Config{Round: round})
		before := w.dropped()
		o := w.run(r, Trial{Size: 64, PPS: 5000, Packets: 1000})
		s := &o.Streams[0]
		if drops := w.dropped() - before; s.Lost() != drops || drops == 0 || s.Received != 1000-drops || len(s.Delays) != s.Received {
			t.Errorf("round %v: %d lost, %d received; the firewall has dropped %d", round, s.Lost(), s.Received, drops)
		}
		if round { // what comes back goes to another port
			if back, all := &o.Streams[1], &o.Streams[2]; back.Lost() != 0 || back.Sent != s.Received || all.Lost() != s.Lost() || all.Sent != 1000 {
				t.Errorf("%+v\n%+v", back, all)
			}
		}
	}
}

// dropped is what the firewall's rule has counted.
func (w *world) dropped() int {
	w.t.Helper()
	m := regexp.MustCompile(`counter packets (\d+)`).FindStringSubmatch(w.Run("dev", "nft", "list", "ruleset"))
	if m == nil {
		w.t.Fatal("no counter")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestDuplicated: a device that sends each packet twice.
func TestDuplicated(t *testing.T) {
	w := newWorld(t).bridge()
	w.Run("dev", "tc", "qdisc", "add", "dev", "e0", "clsact")
	w.Run("dev", "tc", "filter", "add", "dev", "e0", "ingress", "protocol", "all", "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "mirror", "dev", "e1")
	r := w.rig(Wish{}, Config{})
	w.run(r, Trial{Size: 64, PPS: 100, Packets: 3})
	red := w.capture("red", "e0")
	o := w.run(r, Trial{Size: 64, PPS: 2000, Packets: 200})
	if n := len(red.stop(r, r.trial, 400)); o.Streams[0].Duplicated != 200 || o.Streams[0].Received != 200 || n != 400 {
		t.Errorf("%+v; %d in the capture", o.Streams[0], n)
	}
}

// TestChangedPackets: packets are found behind a NAT of both addresses, and in a VLAN that a bridge puts
// them into.
func TestChangedPackets(t *testing.T) {
	t.Run("NAT", func(t *testing.T) {
		w := newWorld(t).router()
		w.Run("dev", "nft", `add table ip n; add chain ip n pre { type nat hook prerouting priority -100; };
			add chain ip n post { type nat hook postrouting priority 100; };
			add rule ip n pre ip daddr 10.0.9.9 udp dport 9 dnat to 10.0.2.1:5353;
			add rule ip n post oifname e1 masquerade random`)
		r := w.rig(Wish{To: netip.MustParseAddr("10.0.9.9")}, Config{Round: true})
		red := w.capture("red", "e0")
		o := w.run(r, Trial{Size: 128, PPS: 1000, Packets: 100})
		for _, s := range o.Streams {
			if s.Received != 100 {
				t.Errorf("%+v", s)
			}
		}
		p := gopacket.NewPacket(red.stop(r, r.trial, 200)[0].frame, layers.LayerTypeEthernet, gopacket.Default)
		ip, udp := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4), p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if ip.SrcIP.String() != "10.0.2.2" || ip.DstIP.String() != "10.0.2.1" || udp.DstPort != 5353 || udp.SrcPort == DefaultFromPort {
			t.Errorf("the packet was not translated: %v", p)
		}
	})
	t.Run("VLAN", func(t *testing.T) {
		w := newWorld(t).bridge()
		if out, err := w.Try("dev", "ip", "link", "add", "link", "e1", "name", "v10", "type", "vlan", "id", "10"); err != nil {
			need.Lack(t, need.Kernel, "VLAN interfaces (8021q): "+out)
		}
		w.Run("dev", "ip", "link", "set", "e1", "nomaster")
		w.Run("dev", "ip", "link", "set", "v10", "master", "br0", "up")
		r := w.rig(Wish{}, Config{Round: true})
		red := w.capture("red", "e0")
		o := w.run(r, Trial{Size: 128, PPS: 1000, Packets: 50})
		for _, s := range o.Streams {
			if s.Received != 50 {
				t.Errorf("%+v", s)
			}
		}
		if frame := red.stop(r, r.trial, 100)[0].frame; !bytes.Equal(frame[12:16], []byte{0x81, 0, 0, 10}) {
			t.Errorf("the frame has no tag: %x", frame)
		}
	})
}

// TestPassesOthers: packets of others go on while test packets end.
func TestPassesOthers(t *testing.T) {
	w := newWorld(t).router()
	r := w.rig(Wish{}, Config{})
	o := w.run(r, Trial{Size: 64, PPS: 100, Packets: 5})
	if o.Streams[0].Received != 5 {
		t.Errorf("%+v", o.Streams[0])
	}
	w.Run("blue", "ping", "-q", "-c", "3", "-i", "0.01", "-W", "60", "10.0.2.1")
	// Neither a datagram nor an answer to one came to red's node or to blue's.
	for _, node := range []string{"blue", "red"} {
		if out := w.Run(node, "cat", "/proc/net/snmp"); !strings.Contains(out, "\nUdp: 0 0 0 ") { // received, no port, errors
			t.Errorf("datagrams came to %s:\n%s", node, out)
		}
	}
}
