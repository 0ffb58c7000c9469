// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// Trains that begin and end as packets of their sender do, and reach over the slots of others between
// them.

const (
	overrunRounds = 10 // packets of the sender's own, each but the last followed by:
	overrunGap    = 3  // packets of its neighbour
	overrunBytes  = 400
)

// overrunLab is v and x, both before r, whose queue before b is slow: what v and x send waits there.
type overrunLab struct {
	*lab
	h      *Handle
	tcp    bool
	sx, sv *nstest.Frames
	udp    int      // x's socket, if its kernel makes the packets
	vnet   int      // x's packet socket for trains
	spoken [][]byte // what v has sent, as b must get it
}

func newOverrunLab(t *testing.T, tcp bool, nodes ...string) *overrunLab {
	t.Helper()
	l := &overrunLab{lab: newLab(t, program.HookAuto, "v", "x", "r", "b"), tcp: tcp}
	for i, node := range []string{"v", "x", "b"} {
		port := fmt.Sprintf("e%d", i)
		l.Veth(node, "e0", "r", port)
		l.Address(node, "e0", fmt.Sprintf("10.0.%d.1/24", i+1))
		l.Address("r", port, fmt.Sprintf("10.0.%d.2/24", i+1))
		l.Run(node, "ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.2", i+1))
	}
	l.Run("r", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	for _, node := range []string{"v", "x"} { // all know each other's address
		l.Run(node, "ping", "-c1", "-W60", "10.0.3.1")
	}
	l.Run("b", "nft", "add table inet t; add chain inet t o { type filter hook output priority 0; policy drop; }") // nothing comes back
	l.Run("r", "tc", "qdisc", "add", "dev", "e2", "root", "tbf", "rate", "8bit", "burst", "1600", "limit", "1000000")
	l.opts.Timeout, l.opts.Lease = nstest.Patience, 0
	l.attach(nodes...)
	l.h = l.open()
	for node, s := range map[string]**nstest.Frames{"v": &l.sv, "x": &l.sx} {
		if err := l.specs(node)[0].Do(func() (err error) {
			*s, err = nstest.OpenFrames("e0")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*s).Close() })
	}
	return l
}

// onOneCPU runs f on a thread that stays on one CPU: what it sends takes neighbouring slots. The thread
// ends with it.
func (l *overrunLab) onOneCPU(f func() error) {
	l.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		var all, one unix.CPUSet
		err := unix.SchedGetaffinity(0, &all)
		for cpu := 0; one.Count() == 0; cpu++ {
			if all.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		err = errors.Join(err, unix.SchedSetaffinity(0, &one))
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		l.t.Fatal(err)
	}
}

// packet is one of v's or x's to b. Its number says what place it has among both's: TCP's sequence
// numbers are as if all were of one stream.
func (l *overrunLab) packet(node byte, number int) []byte {
	proto := byte(unix.IPPROTO_UDP)
	if l.tcp {
		proto = unix.IPPROTO_TCP
	}
	b := make([]byte, ip4Bytes+l4Header(proto)+overrunBytes)
	b[0], b[6], b[8], b[9] = 0x45, 0x40, 64, proto
	binary.BigEndian.PutUint16(b[4:], uint16(number*40503+7))
	copy(b[12:], netip.AddrFrom4([4]byte{10, 0, node, 1}).AsSlice())
	copy(b[16:], netip.AddrFrom4([4]byte{10, 0, 3, 1}).AsSlice())
	l4 := b[ip4Bytes:]
	binary.BigEndian.PutUint16(l4, 33333)
	binary.BigEndian.PutUint16(l4[2:], switchPort)
	if l.tcp {
		binary.BigEndian.PutUint32(l4[4:], uint32(number*overrunBytes))
		l4[12], l4[13] = 5<<4, 0x10
	} else {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	}
	copy(l4[l4Header(proto):], overrunPayload(number))
	return finish(b)
}

func overrunPayload(number int) []byte {
	b := make([]byte, overrunBytes)
	binary.BigEndian.PutUint32(b, uint32(number))
	return b
}

func (l *overrunLab) frame(port, node string, ip []byte) []byte {
	l.t.Helper()
	return slices.Concat(l.mac("r", port), l.mac(node, "e0"), []byte{8, 0}, ip)
}

// fill sends what waits at r: packets of x's own, and between them v's.
func (l *overrunLab) fill() {
	l.t.Helper()
	fromV, fromX := l.frame("e0", "v", nil), l.frame("e1", "x", nil)
	l.onOneCPU(func() error {
		filler := l.packet(1, 0)
		binary.BigEndian.PutUint16(filler[ip4Bytes+2:], 9)
		for range 8 { // they use up the bucket
			if err := l.sv.Send(append(slices.Clone(fromV), finish(filler)...)); err != nil {
				return err
			}
		}
		number := 0
		for round := range overrunRounds {
			number++
			err := l.sendOwn(fromX, number)
			for range overrunGap {
				if round == overrunRounds-1 {
					break
				}
				number++
				p := l.packet(1, number)
				err = errors.Join(err, l.sv.Send(append(slices.Clone(fromV), p...)))
				p[8]--
				l.spoken = append(l.spoken, finish(p))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *overrunLab) sendOwn(header []byte, number int) error {
	if l.udp != 0 {
		_, err := unix.Write(l.udp, overrunPayload(number))
		return err
	}
	return l.sx.Send(append(slices.Clone(header), l.packet(2, number)...))
}

// slotsOf are the indexes of the packets of v (1) or x (2) that wait, in the order of their sending.
func (l *overrunLab) slotsOf(node byte) []uint16 {
	l.t.Helper()
	list := l.h.indexes(l.t, func(s *bpfobj.TcRdrSlot) bool {
		return s.Saddr == binary.NativeEndian.Uint32([]byte{10, 0, node, 1}) && s.Dport == binary.NativeEndian.Uint16([]byte{switchPort >> 8, switchPort & 0xff})
	})
	slices.SortFunc(list, func(a, b uint16) int { return int(int64(l.slot(a).Pos) - int64(l.slot(b).Pos)) })
	return list
}

func (l *overrunLab) raw(index uint16) []byte {
	size := uint64(l.h.Domain.Options.SlotBytes)
	return l.h.ring[uint64(index)*size:][:size]
}

func (l *overrunLab) slot(index uint16) *bpfobj.TcRdrSlot {
	return (*bpfobj.TcRdrSlot)(unsafe.Pointer(&l.raw(index)[0]))
}

// overrun is a train of n segments that begins as x's packet with that number, in that slot.
type overrun struct {
	number, n int
	slot      uint16
}

// overruns are those that end as another packet of x. Where another CPU has slots in between, the next
// ones begin.
func (l *overrunLab) overruns(own []uint16) (list []overrun) {
	l.t.Helper()
	first := 0
	for last := 1; last < len(own); last++ {
		n := 1 + (last-first)*(1+overrunGap)
		if l.slot(own[last]).Pos-l.slot(own[first]).Pos != uint64(n-1) {
			first = last
			continue
		}
		list = append(list, overrun{1 + first*(1+overrunGap), n, own[first]})
	}
	if len(list) == 0 {
		l.t.Fatalf("x's slots %v are no neighbours", own)
	}
	return list
}

// check fills the queue, lets x send its trains, and demands that nothing of v's has changed: neither
// backpacks, nor what b gets.
func (l *overrunLab) check(attack func(trains []overrun, band byte)) {
	l.t.Helper()
	l.fill()
	own, others := l.slotsOf(2), l.slotsOf(1)
	if len(own) != overrunRounds || len(others) != len(l.spoken) {
		l.t.Fatalf("x has slots %v, v %v: not all are measured", own, others)
	}
	before := make(map[uint16][]byte)
	for _, index := range others {
		before[index] = bytes.Clone(l.raw(index))
	}
	layout, err := program.LayoutOf(l.h.Domain.Options)
	if err != nil {
		l.t.Fatal(err)
	}
	count := named(l.t, l.h)
	attack(l.overruns(own), byte(layout.BandTop[0]))
	after := named(l.t, l.h)
	if after["foreign"]+after["not_here"] == count["foreign"]+count["not_here"] {
		l.t.Errorf("counters %v, before %v: the trains were not seen to be others", after, count)
	}
	changed := 0
	for index, raw := range before {
		if !bytes.Equal(l.raw(index), raw) {
			changed++
		}
	}
	if changed > 0 {
		l.t.Errorf("%d of %d backpacks of others were written", changed, len(others))
	}
	r := l.openReceiver("b", "e0", false)
	l.Run("r", "tc", "qdisc", "change", "dev", "e2", "root", "tbf", "rate", "1gbit", "burst", "100000", "limit", "1000000")
	wrong, ttls := 0, map[byte]int{}
	for _, want := range l.spoken {
		got := r.next()
		for got[14] != 1 { // x's
			got = r.next()
		}
		if !bytes.Equal(got, want) {
			wrong++
			ttls[got[8]]++
		}
	}
	if wrong > 0 {
		l.t.Errorf("%d of %d packets of others arrived changed: TTLs %v, want 63", wrong, len(l.spoken), ttls)
	}
}

// vnetTrain is the train as a packet socket with PACKET_VNET_HDR takes it.
func (l *overrunLab) vnetTrain(tr overrun, ttl byte) []byte {
	ip := append(l.packet(2, tr.number), make([]byte, (tr.n-1)*overrunBytes)...)
	_, proto := l4At(ip)
	gso, sum := byte(unix.VIRTIO_NET_HDR_GSO_TCPV4), 16
	if !l.tcp {
		gso, sum = unix.VIRTIO_NET_HDR_GSO_UDP_L4, 6
		binary.BigEndian.PutUint16(ip[ip4Bytes+4:], uint16(len(ip)-ip4Bytes))
	}
	binary.BigEndian.PutUint16(ip[4:], tr.slot)
	ip[8] = ttl
	finish(ip)
	// The sum over the pseudo header alone; the device does the rest.
	binary.BigEndian.PutUint16(ip[ip4Bytes+sum:], uint16(onesSum(uint32(proto)+uint32(len(ip)-ip4Bytes), ip[12:20])))
	hdr := make([]byte, 10)
	hdr[0], hdr[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, gso
	binary.NativeEndian.PutUint16(hdr[2:], uint16(etherBytes+ip4Bytes+l4Header(proto)))
	binary.NativeEndian.PutUint16(hdr[4:], overrunBytes)
	binary.NativeEndian.PutUint16(hdr[6:], etherBytes+ip4Bytes)
	binary.NativeEndian.PutUint16(hdr[8:], uint16(sum))
	return slices.Concat(hdr, l.frame("e1", "x", ip))
}

// finishSum sets the checksum of an IPv4 header.
func finishSum(ip []byte) {
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^uint16(onesSum(0, ip[:ip4Bytes])))
}

// openVnet opens x's packet socket for trains.
func (l *overrunLab) openVnet() {
	l.t.Helper()
	err := l.specs("x")[0].Do(func() (err error) {
		itf, err := net.InterfaceByName("e0")
		if err != nil {
			return err
		}
		l.vnet, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		l.t.Cleanup(func() { unix.Close(l.vnet) })
		return errors.Join(unix.SetsockoptInt(l.vnet, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.Bind(l.vnet, &unix.SockaddrLinklayer{Ifindex: itf.Index}))
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestOverrun: a process with CAP_NET_RAW, in an attached node or behind an edge, sends trains by a
// packet socket, whose first and last segments are packets of its own that wait.
func TestOverrun(t *testing.T) {
	sideBySide(t)
	for name, nodes := range overrunNodes {
		for _, tcp := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/tcp=%v", name, tcp), func(t *testing.T) {
				l := newOverrunLab(t, tcp, nodes...)
				l.openVnet()
				l.check(func(trains []overrun, band byte) {
					for _, tr := range trains {
						_, err := unix.Write(l.vnet, l.vnetTrain(tr, band))
						if errors.Is(err, unix.EINVAL) && !tcp {
							need.Lack(t, need.Kernel, "VIRTIO_NET_HDR_GSO_UDP_L4")
						}
						if err != nil {
							t.Fatal(err)
						}
					}
				})
			})
		}
	}
}

var overrunNodes = map[string][]string{"inside": {"v", "x", "r", "b"}, "outside": {"v", "r", "b"}}

// TestOverrunWithoutCapability: so does a process that has none, by UDP_SEGMENT. It chooses the TTL, and
// counts the ID up: that of a connected socket grows by one with each packet, wherever it is sent.
func TestOverrunWithoutCapability(t *testing.T) {
	sideBySide(t)
	for name, nodes := range overrunNodes {
		t.Run(name, func(t *testing.T) {
			l := newOverrunLab(t, false, nodes...)
			l.unreadSocket("x", 9, 1)
			l.openUDP()
			l.check(func(trains []overrun, band byte) {
				last := l.slotsOf(2)[overrunRounds-1]
				id := l.slot(last).FirstId
				next := id<<8 | id>>8
				tr := trains[len(trains)-1]
				train := append(overrunPayload(tr.number), make([]byte, (tr.n-1)*overrunBytes)...)
				l.onOneCPU(func() error {
					var none [2]unix.CapUserData
					if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
						return err
					}
					for next++; next != tr.slot; next++ {
						if err := unix.Sendto(l.udp, []byte{0}, 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
							return err
						}
					}
					if err := unix.SetsockoptInt(l.udp, unix.IPPROTO_IP, unix.IP_TTL, int(band)); err != nil {
						return err
					}
					if err := unix.SetsockoptInt(l.udp, unix.IPPROTO_UDP, unix.UDP_SEGMENT, overrunBytes); err != nil {
						return err
					}
					_, err := unix.Write(l.udp, train)
					return err
				})
			})
		})
	}
}

// TestOverrunDropped: x's rules drop its own train. It bears the mark of a packet of x that waits, and
// begins as that one does: no packet of others is lost.
func TestOverrunDropped(t *testing.T) {
	l := newOverrunLab(t, false, overrunNodes["inside"]...)
	if l.h.Domain.LossHook == "" {
		need.Lack(t, need.Kernel, "a hook for dropped packets")
	}
	l.openUDP()
	l.check(func(trains []overrun, _ byte) {
		l.Run("x", "nft", "add table inet t; add chain inet t o { type filter hook output priority 0; }; add rule inet t o udp length > 500 drop")
		layout, err := program.LayoutOf(l.h.Domain.Options)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range trains {
			train := append(overrunPayload(tr.number), make([]byte, (tr.n-1)*overrunBytes)...)
			err := errors.Join(unix.SetsockoptInt(l.udp, unix.SOL_SOCKET, unix.SO_MARK, (int(tr.slot)+1)<<layout.MarkShift),
				unix.SetsockoptInt(l.udp, unix.IPPROTO_UDP, unix.UDP_SEGMENT, overrunBytes))
			if _, sent := unix.Write(l.udp, train); err != nil || sent != nil && !errors.Is(sent, unix.EPERM) {
				t.Fatal(err, sent)
			}
		}
	})
}

// TestOverrunShort: x's header says that its train is one packet, which it is not. A queue cuts it into
// more, and their IDs count up into the slots of others, who have sent the like.
func TestOverrunShort(t *testing.T) {
	l := newOverrunLab(t, true, overrunNodes["inside"]...)
	for _, node := range []string{"v", "x"} {
		l.Run(node, "tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "8bit", "burst", "1600", "limit", "1000000")
	}
	l.fill() // and wait before r
	train := l.vnetTrain(overrun{number: 1, n: 1 + overrunGap, slot: 7}, 64)
	binary.BigEndian.PutUint16(train[10+etherBytes+2:], ip4Bytes+20+overrunBytes)
	finishSum(train[10+etherBytes:])
	before := named(t, l.h)
	from := l.frame("e0", "v", nil)
	l.openVnet()
	l.onOneCPU(func() error {
		_, err := unix.Write(l.vnet, train)
		for k := range overrunGap {
			p := l.packet(1, 2+k)
			err = errors.Join(err, l.sv.Send(append(slices.Clone(from), p...)))
		}
		return err
	})
	waiting := l.slotsOf(1)
	was := make(map[uint16][]byte)
	for _, index := range waiting {
		was[index] = bytes.Clone(l.raw(index))
	}
	if len(waiting) != len(l.spoken)+overrunGap {
		t.Fatalf("%d packets of v are measured", len(waiting))
	}
	l.Run("x", "tc", "qdisc", "change", "dev", "e0", "root", "tbf", "rate", "1gbit", "burst", "100000", "limit", "1000000")
	l.Run("x", "ping", "-c1", "-W60", "10.0.2.2") // behind the train
	for index, raw := range was {
		if !bytes.Equal(l.raw(index), raw) {
			t.Errorf("slot %d of another host was written", index)
		}
	}
	if after := named(t, l.h); after["not_measured_malformed"] == before["not_measured_malformed"] {
		t.Errorf("counters %v, before %v", after, before)
	}
}

// openUDP opens x's own connected socket.
func (l *overrunLab) openUDP() {
	l.t.Helper()
	err := l.specs("x")[0].Do(func() (err error) {
		l.udp, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		l.t.Cleanup(func() { unix.Close(l.udp) })
		return errors.Join(unix.SetsockoptInt(l.udp, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO),
			unix.Bind(l.udp, &unix.SockaddrInet4{Port: 33333}),
			unix.Connect(l.udp, &unix.SockaddrInet4{Port: switchPort, Addr: [4]byte{10, 0, 3, 1}}))
	})
	if err != nil {
		l.t.Fatal(err)
	}
}
