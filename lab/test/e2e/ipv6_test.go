// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sixOf is the IPv6 twin of an IPv4 address of a scenario: 10.0.i.j is fd00:0:0:i::j.
func sixOf(a netip.Addr) netip.Addr {
	v4 := a.As4()
	return netip.AddrFrom16([16]byte{0: 0xfd, 7: v4[2], 15: v4[3]})
}

// addIPv6 gives every address and route of the lab its twin. Scenarios have IPv6
// switched off, as Kathará has, so that no discovery is between their packets.
func (n *network) addIPv6(t *testing.T) {
	t.Helper()
	for _, name := range n.nodes() {
		var script strings.Builder
		set := func(key, value string) { fmt.Fprintf(&script, "sysctl -qw net.ipv6.%s=%s\n", key, value) }
		for _, conf := range []string{"all", "default"} {
			set("conf."+conf+".accept_dad", "0")
			set("conf."+conf+".router_solicitations", "0")
			set("conf."+conf+".disable_ipv6", "0")
			set("conf."+conf+".forwarding", "1")
		}
		set("icmp.ratelimit", "0")
		for _, m := range n.topo.Nodes {
			for _, p := range m.Ports {
				if m.Name == name { // or it asks for its neighbours just when the captures end
					set("neigh."+p.Name+".delay_first_probe_time", "600")
				}
				for _, a := range p.Addrs {
					if m.Name == name {
						fmt.Fprintf(&script, "ip -6 address add %s/64 dev %s nodad\n", sixOf(a.Addr()), p.Name)
					}
				}
			}
		}
		var routes []struct {
			To  string `json:"dst"`
			Via string `json:"gateway"`
		}
		if err := json.Unmarshal([]byte(n.run(t, name, "ip", "-json", "-4", "route", "show")), &routes); err != nil {
			t.Fatalf("ip route in %s: %v", name, err)
		}
		for _, r := range routes {
			if r.Via == "" {
				continue // of the link itself
			}
			to := r.To
			if p, err := netip.ParsePrefix(to); err == nil {
				to = sixOf(p.Addr()).String() + "/64"
			}
			fmt.Fprintf(&script, "ip -6 route add %s via %s\n", to, sixOf(netip.MustParseAddr(r.Via)))
		}
		n.run(t, name, "sh", "-ec", script.String())
	}
	n.discover(t)
}

// addr6 is the IPv6 twin of a node's first address.
func (n *network) addr6(t *testing.T, node string) netip.Addr { return sixOf(n.addr(t, node)) }

// rawFlow6 is rawFlow of IPv6 UDP: any traffic class, any flow label.
func (n *network) sendRaw6(t *testing.T, f rawFlow) *sentLog {
	t.Helper()
	src, dst := n.addr6(t, f.from), n.addr6(t, f.to)
	fd := n.openRaw(t, f.from, unix.AF_INET6, unix.IPPROTO_RAW)
	defer unix.Close(fd)
	if f.ttls == nil {
		f.ttls = mixedTTLs
	}
	rnd := rand.New(rand.NewPCG(uint64(f.sport), 6))
	sent := &sentLog{node: f.from}
	next := time.Now()
	for seq := range f.count {
		b := f.packet6(rnd, src, dst, seq)
		waitUntil(next)
		next = next.Add(f.gap)
		sent.add(time.Now(), b)
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet6{Addr: dst.As16()}); err != nil {
			t.Fatalf("send from %s: %v", f.from, err)
		}
	}
	if err := sent.finish(); err != nil {
		t.Fatalf("keep what was sent: %v", err)
	}
	return sent
}

// packet6 is packet number seq of the flow, complete with checksum.
func (f *rawFlow) packet6(rnd *rand.Rand, src, dst netip.Addr, seq int) []byte {
	b := binary.BigEndian.AppendUint32(nil, 6<<28|rnd.Uint32()&0xfffffff) // class and label
	b = append(b, 0, 0, unix.IPPROTO_UDP, f.ttls[seq%len(f.ttls)])
	b = append(b, src.AsSlice()...)
	b = append(b, dst.AsSlice()...)
	body := payload(rnd, seq, f.sizes[seq%len(f.sizes)]-48)
	udp := binary.BigEndian.AppendUint16(nil, uint16(f.sport))
	udp = binary.BigEndian.AppendUint16(udp, uint16(f.dport))
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(body)))
	udp = append(append(udp, 0, 0), body...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(udp)))
	sum := uint32(unix.IPPROTO_UDP) + uint32(len(udp))
	for _, part := range [][]byte{b[8:40], udp} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i]) << 8
			if i+1 < len(part) {
				sum += uint32(part[i+1])
			}
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum = ^sum & 0xffff; sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], uint16(sum))
	return append(b, udp...)
}

// sixTraffic sends IPv6 of every kind from one host to another.
func (n *network) sixTraffic(t *testing.T, from, to string) []*sentLog {
	t.Helper()
	const gap = 300 * time.Microsecond
	ping := func(count, size string) {
		n.run(t, from, "ping", "-6", "-q", "-n", "-i", "0.002", "-c", count, "-s", size, n.addr6(t, to).String())
	}
	ping("100", "56")
	ping("10", "3000") // in fragments
	sizes := []int{56, 64, 300, 1000, 1500}
	sent := []*sentLog{
		n.sendRaw6(t, rawFlow{from: from, to: to, sport: 6600, dport: portProbe, count: 400, gap: gap, sizes: sizes}),
		n.sendRaw6(t, rawFlow{from: from, to: to, sport: 6601, dport: portClosed, count: 20, gap: gap, sizes: sizes[:3], ttls: []uint8{64, 80}}),
	}
	plain := udpFlow{from: from, to: to, six: true, dport: portPlain, gap: gap, connected: true}
	plain.sport, plain.count, plain.sizes = 6602, 100, []int{18, 200, 1452}
	n.sendUDP(t, plain)
	plain.sport, plain.count, plain.sizes, plain.gap = 6603, 10, []int{3000, 1453, 8000}, time.Millisecond
	n.sendUDP(t, plain)
	plain.sport, plain.count, plain.sizes, plain.gap = 6604, 10, []int{6 * trainSize, 2*trainSize + 100}, 3*time.Millisecond
	plain.dport, plain.train = portTrain, trainSize
	n.sendUDP(t, plain)
	n.iperfTo(t, from, to, n.addr6(t, to), "-n", "1M")
	return sent
}
