// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// A switch in user space: it reads all that comes in at r's interfaces, by packet sockets, changes
// it, and sends it on, as a P4 switch does that inserts INT.

const (
	etherBytes  = 14
	ip4Bytes    = 20
	ip6Bytes    = 40
	switchPort  = 4714
	switchBytes = 48 // of payload, as sent
)

// startSwitch forwards between r's e0 and e1 until the test ends.
func (l *lab) startSwitch(change contentChange) {
	l.t.Helper()
	var ports [2]struct {
		fd       int
		mac, to  net.HardwareAddr
		ifindex  int
		neighbor string
	}
	ports[0].neighbor, ports[1].neighbor = "a", "b"
	stop := make(chan struct{})
	var wait sync.WaitGroup
	nstest.Cleanup(l.t, func() {
		close(stop)
		wait.Wait()
		for i := range ports {
			unix.Close(ports[i].fd)
		}
	})
	err := l.specs("r")[0].Do(func() error {
		for i, name := range []string{"e0", "e1"} {
			p := &ports[i]
			itf, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			p.mac, p.ifindex, p.to = itf.HardwareAddr, itf.Index, l.mac(p.neighbor, "e0")
			if p.fd, err = packetSocket(unix.ETH_P_ALL, unix.SOCK_RAW, itf.Index); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range ports {
		in, out := &ports[i], &ports[1-i]
		wait.Go(func() {
			b := make([]byte, 1<<16)
			for {
				select {
				case <-stop:
					return
				default:
				}
				n, from, err := unix.Recvfrom(in.fd, b, 0)
				if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
					continue
				}
				if err != nil {
					l.t.Errorf("switch: %v", err)
					return
				}
				if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING || !isProbe(b[:n]) {
					continue
				}
				f := forwardFrame(b[:n], out.mac, out.to, change)
				if err := unix.Sendto(out.fd, f, 0, &unix.SockaddrLinklayer{Ifindex: out.ifindex}); err != nil {
					l.t.Errorf("switch sends: %v", err)
				}
			}
		})
	}
}

// isProbe says whether a frame is one of the test's.
func isProbe(f []byte) bool {
	if len(f) < etherBytes+ip6Bytes {
		return false
	}
	kind := binary.BigEndian.Uint16(f[12:])
	if kind != unix.ETH_P_IP && kind != unix.ETH_P_IPV6 {
		return false
	}
	l4, proto := l4At(f[etherBytes:])
	return (proto == unix.IPPROTO_UDP || proto == unix.IPPROTO_TCP) && len(f) >= etherBytes+l4+4 &&
		binary.BigEndian.Uint16(f[etherBytes+l4+2:]) == switchPort
}

// forwardFrame is a frame as the switch sends it.
func forwardFrame(f []byte, from, to net.HardwareAddr, change contentChange) []byte {
	b := append([]byte(nil), f[etherBytes:]...)
	if b[0]>>4 == 6 {
		b[7]--
	} else {
		b[8]--
	}
	b = finish(change(b))
	return append(append(append([]byte(nil), to...), from...), append(f[12:etherBytes:etherBytes], b...)...)
}

// packetSocket opens one that gives up waiting after a moment, so that its reader can end.
func packetSocket(protocol uint16, kind, ifindex int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: ifindex})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// switchProbes are packets from a to b, by number: which ID, TTL and TOS each has, also TTLs that
// are those of GUIDs.
type switchProbes struct {
	tcp, ipv6 bool
	from, to  net.HardwareAddr
	// ids are the IDs of packets that b sends to a; their TTL is ttl and up to three less.
	ids []uint16
	ttl byte
}

// sender is the node that sends them, by its port e0.
func (p *switchProbes) sender() string {
	if p.ids != nil {
		return "b"
	}
	return "a"
}

var switchTTLs = []byte{64, 100, 40, 200, 70, 255}

func (p *switchProbes) packet(n int) []byte {
	var b []byte
	ttl, proto := switchTTLs[n%len(switchTTLs)], byte(unix.IPPROTO_UDP)
	if p.tcp {
		proto = unix.IPPROTO_TCP
	}
	if p.ipv6 {
		b = make([]byte, ip6Bytes)
		binary.BigEndian.PutUint32(b, 6<<28|uint32(n)*40503&0xfffff)
		b[6], b[7] = proto, ttl
		copy(b[8:], netip.MustParseAddr("2001:db8:1::1").AsSlice())
		copy(b[24:], netip.MustParseAddr("2001:db8:2::1").AsSlice())
	} else {
		b = make([]byte, ip4Bytes)
		b[0], b[1], b[6], b[8], b[9] = 0x45, byte(n%3)<<5, 0x40, ttl, proto
		binary.BigEndian.PutUint16(b[4:], uint16(n*40503+7))
		copy(b[12:], netip.MustParseAddr("10.0.1.1").AsSlice())
		copy(b[16:], netip.MustParseAddr("10.0.2.1").AsSlice())
		if p.ids != nil {
			b[1], b[8] = 0, p.ttl-byte(n%4)
			binary.BigEndian.PutUint16(b[4:], p.ids[n])
			copy(b[12:], netip.MustParseAddr("10.0.2.1").AsSlice())
			copy(b[16:], netip.MustParseAddr("10.0.1.1").AsSlice())
		}
	}
	l4 := make([]byte, l4Header(proto)+switchBytes)
	binary.BigEndian.PutUint16(l4, 33333)
	binary.BigEndian.PutUint16(l4[2:], switchPort)
	if p.tcp {
		binary.BigEndian.PutUint32(l4[4:], uint32(n*switchBytes))
		l4[12], l4[13] = 5<<4, 0x10
	} else {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	}
	// The number stands at the end, where the switch changes nothing.
	binary.BigEndian.PutUint32(l4[len(l4)-4:], uint32(n))
	for i := range 8 { // so that they differ early, too, and those of the other direction from all
		l4[l4Header(proto)+i] = byte(n>>(i%4*8)) + byte(len(p.ids))
	}
	return finish(append(b, l4...))
}

func (p *switchProbes) frame(n int) []byte {
	kind := uint16(unix.ETH_P_IP)
	if p.ipv6 {
		kind = unix.ETH_P_IPV6
	}
	f := append(append([]byte(nil), p.to...), p.from...)
	return append(binary.BigEndian.AppendUint16(f, kind), p.packet(n)...)
}

// receiver takes what b's own stack gets: packet sockets for one protocol come behind TC ingress.
type switchReceiver struct {
	t  *testing.T
	fd int
}

func (l *lab) openReceiver(node, port string, ipv6 bool) *switchReceiver {
	l.t.Helper()
	r := &switchReceiver{t: l.t}
	protocol := uint16(unix.ETH_P_IP)
	if ipv6 {
		protocol = unix.ETH_P_IPV6
	}
	err := l.specs(node)[0].Do(func() error {
		itf, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		r.fd, err = packetSocket(protocol, unix.SOCK_DGRAM, itf.Index)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { unix.Close(r.fd) })
	return r
}

// next is the next packet of the test.
func (r *switchReceiver) next() []byte {
	r.t.Helper()
	b := make([]byte, 1<<16)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, from, err := unix.Recvfrom(r.fd, b[etherBytes:], 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		to := from.(*unix.SockaddrLinklayer)
		binary.BigEndian.PutUint16(b[12:], to.Protocol<<8|to.Protocol>>8)
		if to.Pkttype == unix.PACKET_HOST && isProbe(b[:etherBytes+n]) {
			return append([]byte(nil), b[etherBytes:etherBytes+n]...)
		}
	}
	r.t.Fatalf("no packet within %v", patience)
	return nil
}

// compareProbes sends packets number [from, to) and compares each that arrives with what it must
// be: as sent, and changed by the switch.
func (l *lab) compareProbes(p *switchProbes, r *switchReceiver, from, to int, change contentChange) {
	l.t.Helper()
	var frames *nstest.Frames
	err := l.specs(p.sender())[0].Do(func() (err error) {
		frames, err = nstest.OpenFrames("e0")
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer frames.Close()
	wrong, text := 0, ""
	got := make(map[uint32]bool)
	const burst = 20 // what is under way at once
	for n := from; n < to; {
		sent := 0
		for ; sent < burst && n < to; sent++ {
			if err := frames.Send(p.frame(n)); err != nil {
				l.t.Fatal(err)
			}
			n++
		}
		for range sent {
			b := r.next()
			number := binary.BigEndian.Uint32(b[len(b)-4:])
			want := forwardFrame(p.frame(int(number)), p.from, p.to, change)[etherBytes:]
			if got[number] || string(b) != string(want) {
				wrong++
				if text == "" {
					text = fmt.Sprintf("packet %d:\n% x, want\n% x", number, b, want)
				}
			}
			got[number] = true
		}
	}
	if wrong > 0 || len(got) != to-from {
		l.t.Errorf("of %d packets %d came, %d of them wrong: the first one, %s", to-from, len(got), wrong, text)
	}
}

// newSwitchLab is a - r - b, where r's kernel forwards nothing.
func newSwitchLab(t *testing.T, carry string) *lab {
	t.Helper()
	l := newLab(t, program.HookAuto, "a", "r", "b")
	l.Chain()
	l.Address("a", "e0", "2001:db8:1::1/64")
	l.Address("r", "e0", "2001:db8:1::2/64")
	l.Address("r", "e1", "2001:db8:2::2/64")
	l.Address("b", "e0", "2001:db8:2::1/64")
	l.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
	l.Run("b", "nft", "add table inet t; add chain inet t o { type filter hook output priority 0; policy drop; }") // nothing comes back
	l.opts.Carry, l.opts.Timeout, l.opts.Lease = carry, nstest.Patience, 0
	return l
}

// TestSwitch: a process in an attached node reads what is on the wire, with our bits, changes the
// content, and sends it on. Every packet arrives with the ID, TTL, TOS, flow label that it would
// have without radar, in a node that is attached and in one that is not. Its story ends where it
// was changed, and goes on as another one.
func TestSwitch(t *testing.T) {
	sideBySide(t)
	for i, c := range []struct {
		name      string
		change    contentChange
		tcp, ipv6 bool
		bridged   bool // the frames are for b, and the kernel wants none
	}{
		{name: "insert", change: insertShim},
		{name: "insert into TCP", change: insertShim, tcp: true},
		{name: "payload", change: changePayload},
		{name: "ack", change: changeAck, tcp: true},
		{name: "address", change: translate},
		{name: "insert into IPv6", change: insertShim, ipv6: true},
		{name: "insert, bridged", change: insertShim, bridged: true},
		{name: "address, bridged", change: translate, bridged: true},
	} {
		for j, carry := range []string{program.CarryAuto, program.CarryHeader} {
			for k, nodes := range [][]string{chain, {"a", "r"}} {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, carry, len(nodes)), func(t *testing.T) {
					if j != i%2 || k != i/2%2 { // each change once, and all four ways
						need.Nightly(t)
					}
					const packets = 120
					l := newSwitchLab(t, carry)
					p := &switchProbes{tcp: c.tcp, ipv6: c.ipv6, from: l.mac("a", "e0"), to: l.mac("r", "e0")}
					if c.bridged {
						p.to = l.mac("b", "e0")
					}
					l.startSwitch(c.change)
					l.attach(nodes...)
					l.compareProbes(p, l.openReceiver("b", "e0", c.ipv6), 0, packets, c.change)
					n := named(t, l.open())
					if n["content_changed"] != packets || n["marked"] < 2*packets {
						t.Errorf("content_changed is %d of %d packets, marked %d: want a story in front of the switch, and one behind it: %v",
							n["content_changed"], packets, n["marked"], n)
					}
				})
			}
		}
	}
}

// TestSwitchComes: the process starts while packets are measured; before, the kernel routes.
func TestSwitchComes(t *testing.T) {
	sideBySide(t)
	for _, carry := range []string{program.CarryAuto, program.CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			l := newSwitchLab(t, carry)
			l.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=1")
			l.ping0()
			l.attach(chain...)
			p := &switchProbes{from: l.mac("a", "e0"), to: l.mac("r", "e0")}
			r := l.openReceiver("b", "e0", false)
			l.compareProbes(p, r, 0, 60, asIs)
			if n := named(t, l.open()); n["content_changed"] != 0 {
				t.Errorf("content_changed is %d without a switch", n["content_changed"])
			}
			l.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=0")
			l.startSwitch(insertShim)
			l.compareProbes(p, r, 60, 180, insertShim)
			if n := named(t, l.open()); n["content_changed"] != 120 {
				t.Errorf("content_changed is %d, want 120", n["content_changed"])
			}
		})
	}
}

// TestSwitchSpelled: packets that come by an edge, and whose own bits look like those of packets of
// the other direction which the process has forwarded, keep their own.
func TestSwitchSpelled(t *testing.T) {
	sideBySide(t)
	for _, carry := range []string{program.CarryAuto, program.CarryHeader} {
		t.Run(carry, func(t *testing.T) {
			const packets = 60
			l := newSwitchLab(t, carry)
			l.startSwitch(asIs)
			l.attach("a", "r")
			there := &switchProbes{from: l.mac("a", "e0"), to: l.mac("r", "e0")}
			l.compareProbes(there, l.openReceiver("b", "e0", false), 0, packets, asIs)
			h := l.open()
			layout, err := program.LayoutOf(h.Domain.Options)
			if err != nil {
				t.Fatal(err)
			}
			back := &switchProbes{from: l.mac("b", "e0"), to: l.mac("r", "e1"), ttl: byte(layout.BandTop[0])}
			if _, err := h.slots(); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(h.Domain.Options.Slots) {
				if _, ok := h.slot(i); ok {
					back.ids = append(back.ids, uint16(i))
				}
			}
			if len(back.ids) < packets || h.Domain.Options.Slots > 1<<16 {
				t.Fatalf("%d slots of %d are in use", len(back.ids), h.Domain.Options.Slots)
			}
			l.compareProbes(back, l.openReceiver("a", "e0", false), 0, packets, asIs)
			if n := named(t, h); n["content_changed"] != 0 || n["foreign"] < packets {
				t.Errorf("content_changed is %d, and no content was changed; foreign is %d of %d", n["content_changed"], n["foreign"], packets)
			}
		})
	}
}

func asIs(b []byte) []byte { return b }

// ping0 makes r know where b is, which answers nothing.
func (l *lab) ping0() {
	l.t.Helper()
	l.Run("r", "ip", "neigh", "replace", "10.0.2.1", "lladdr", l.mac("b", "e0").String(), "dev", "e1", "nud", "permanent")
}
