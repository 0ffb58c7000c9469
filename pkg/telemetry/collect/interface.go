// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/quote"
)

// mostPorts is how many ports an Interface tells from others: a filter has room for 4,096 steps.
const mostPorts = 1024

// lookEvery is how often an Interface that is down is asked whether it is still there.
const lookEvery = time.Second

// etherHeader is where a packet begins in a frame without a VLAN tag, or with one that the kernel has
// taken out.
const etherHeader = 14

// Interface receives datagrams as they are on the wire of an interface, whatever the stack
// would make of them, and whoever they are for.
type Interface struct {
	// Warn, if not nil, is told when the interface is down, and when it is up again. It is set
	// before the first Receive.
	Warn func(string)

	queue
	file   *os.File
	name   string
	index  int
	ports  []uint16
	down   bool
	counts struct{ parts, other, downs atomic.Uint64 }
	ether  bool // packets come with a frame's header
	buf    [etherHeader + 1<<16]byte
}

// OpenInterface opens an interface of this namespace, and makes it promiscuous. ports are those
// that reports come to.
func OpenInterface(name string, ports []uint16) (*Interface, error) {
	if len(ports) == 0 || len(ports) > mostPorts {
		return nil, fmt.Errorf("%d ports of reports: use 1 to %d with an interface", len(ports), mostPorts)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	device := link.Attrs()
	// Of others the kernel knows where the packet begins. Of Ethernet we must: behind a second tag
	// kernels differ in what they say of it.
	ether, kind, start := false, unix.SOCK_DGRAM, 0
	if device.EncapType == "ether" || device.EncapType == "loopback" {
		ether, kind, start = true, unix.SOCK_RAW, etherHeader
	}
	// No protocol: nothing comes before the filter is there.
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("interface %s: packet socket (it needs CAP_NET_RAW): %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err := bind(fd, device, toPorts(ports, uint32(start))); err != nil {
		return nil, errors.Join(fmt.Errorf("interface %s: %w", name, err), file.Close())
	}
	return &Interface{queue: queue{conn: file}, file: file, name: name, index: device.Index, ether: ether, ports: slices.Clone(ports)}, nil
}

func bind(fd int, device *netlink.LinkAttrs, accept []bpf.Instruction) error {
	if err := prepare(fd); err != nil {
		return err
	}
	program, err := bpf.Assemble(accept)
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filter[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return os.NewSyscallError("SO_ATTACH_FILTER", err)
	}
	if device.Flags&net.FlagLoopback != 0 { // what goes out there comes in again
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return os.NewSyscallError("PACKET_IGNORE_OUTGOING", err)
		}
	}
	all := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Index}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	promiscuous := unix.PacketMreq{Ifindex: int32(device.Index), Type: unix.PACKET_MR_PROMISC}
	return os.NewSyscallError("PACKET_MR_PROMISC", unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &promiscuous))
}

// toPorts is a filter that takes UDP to these ports, of a datagram in fragments the first one, and
// whatever it cannot tell: under VLAN tags that the kernel has left, and behind extension headers.
// start is where a packet's IP header is.
func toPorts(ports []uint16, start uint32) []bpf.Instruction {
	take, leave := bpf.RetConstant{Val: 1 << 18}, bpf.RetConstant{}
	is := func(value uint32, then, otherwise uint8) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: then, SkipFalse: otherwise}
	}
	program := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtProto},
		is(unix.ETH_P_IP, 6, 0),
		is(unix.ETH_P_IPV6, 13, 0),
		is(unix.ETH_P_8021Q, 3, 0),
		is(unix.ETH_P_8021AD, 2, 0),
		is(0x9100, 1, 0),
		leave,
		take,
		bpf.LoadAbsolute{Off: start + 9, Size: 1}, // 8: IPv4
		is(record.ProtoUDP, 0, 5),
		bpf.LoadAbsolute{Off: start + 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 3},
		bpf.LoadMemShift{Off: start},
		bpf.LoadIndirect{Off: start + 2, Size: 2},
		bpf.Jump{Skip: 17},
		leave,
		bpf.LoadAbsolute{Off: start + 6, Size: 1}, // 16: IPv6
		is(record.ProtoUDP, 13, 0),
		is(44, 5, 0),
		is(0, 3, 0),
		is(43, 2, 0),
		is(60, 1, 0),
		leave,
		take,
		bpf.LoadAbsolute{Off: start + ipv6Header, Size: 1}, // 24: behind it a fragment's header
		is(record.ProtoUDP, 0, 4),
		bpf.LoadAbsolute{Off: start + ipv6Header + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0xfff8, SkipTrue: 2},
		bpf.LoadAbsolute{Off: start + ipv6Header + 10, Size: 2},
		bpf.Jump{Skip: 2},
		leave,
		bpf.LoadAbsolute{Off: start + ipv6Header + 2, Size: 2}, // 31: behind it UDP's
	}
	for _, port := range ports { // 32
		program = append(program, is(uint32(port), 0, 1), take)
	}
	return append(program, leave)
}

// String names it.
func (i *Interface) String() string { return "interface " + i.name }

func (i *Interface) about() *InterfaceInfo {
	return &InterfaceInfo{Device: i.name, Parts: i.counts.parts.Load(), Other: i.counts.other.Load(), Downs: i.counts.downs.Load()}
}

// Receive returns the next packet that may hold a report; see Input. When the interface goes down,
// it waits until that is up again; when it goes away, that is an error.
func (i *Interface) Receive() (Packet, error) {
	for {
		p, err := i.next()
		switch {
		case errors.Is(err, unix.ENETDOWN), errors.Is(err, os.ErrDeadlineExceeded):
			if err = i.look(); err == nil {
				continue
			}
		case err != nil:
			err = fmt.Errorf("receive reports at interface %s: %w", i.name, err)
		}
		if err != nil && i.closed.Load() {
			err = net.ErrClosed
		}
		if err != nil {
			return Packet{}, err
		}
		port, _, err := p.UDP()
		if errors.Is(err, ErrPart) { // it cannot be read, as in a capture file
			i.counts.parts.Add(1)
			return p, nil
		}
		if err != nil || !slices.Contains(i.ports, port) {
			i.counts.other.Add(1)
			continue
		}
		return p, nil
	}
}

// next reads one packet.
func (i *Interface) next() (p Packet, err error) {
	raw, err := i.file.SyscallConn()
	if err != nil {
		return p, err
	}
	buf := i.buf[:]
	if !i.ether {
		buf = buf[etherHeader:]
	}
	var n, oobn int
	var from unix.Sockaddr
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, oobn, _, from, failed = unix.Recvmsg(int(fd), buf, i.oob[:], 0)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err = errors.Join(err, failed); err != nil {
		return p, err
	}
	if p.At, err = i.queue.about(oobn); err != nil {
		return p, err
	}
	n = min(n, len(buf))
	if i.ether {
		p.IP = quote.BehindLink(buf[:n], etherHeader-2)
	} else if link, ok := from.(*unix.SockaddrLinklayer); ok {
		// The type where a frame has it.
		binary.NativeEndian.PutUint16(i.buf[etherHeader-2:], link.Protocol)
		p.IP = quote.BehindLink(i.buf[:etherHeader+n], etherHeader-2)
	}
	return p, nil
}

// look is called when the kernel has said that the interface went down, and then until it is up: is it down, or has
// it gone?
func (i *Interface) look() error {
	raw, err := i.file.SyscallConn()
	if err != nil {
		return err
	}
	var at unix.Sockaddr
	var up bool
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if at, failed = unix.Getsockname(int(fd)); failed == nil {
			up, failed = isUp(int(fd), i.index)
		}
	}); err != nil {
		return err
	}
	// The kernel takes the index from the socket when the interface goes.
	link, ok := at.(*unix.SockaddrLinklayer)
	if ok && link.Ifindex != i.index || errors.Is(failed, unix.ENODEV) {
		return fmt.Errorf("interface %s has gone: begin again when it is back", i.name)
	}
	if failed != nil {
		return fmt.Errorf("look whether interface %s is up: %w", i.name, failed)
	}
	if !i.down {
		i.down = true
		i.counts.downs.Add(1)
		i.warn("is down: nothing comes until it is up")
	}
	if up {
		// The kernel reports the next change to down.
		i.down = false
		i.warn("is up again")
		return i.file.SetReadDeadline(time.Time{})
	}
	// Nothing says when an interface that is down goes away. A packet says neither that it is up: it may have
	// waited in the socket, and have got its time as it was read.
	return i.file.SetReadDeadline(time.Now().Add(lookEvery))
}

// isUp asks the kernel, in the socket's namespace, whether an interface is up. It is ENODEV if there is none with this
// index.
func isUp(fd, index int) (bool, error) {
	request, err := unix.NewIfreq("")
	if err != nil {
		return false, err
	}
	request.SetUint32(uint32(index))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, request); err != nil {
		return false, os.NewSyscallError("SIOCGIFNAME", err)
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request)
	if errors.Is(err, unix.ENODEV) { // it has got another name meanwhile; the next look will tell
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("SIOCGIFFLAGS", err)
	}
	return request.Uint16()&unix.IFF_UP != 0, nil
}

func (i *Interface) warn(text string) {
	if i.Warn != nil {
		i.Warn("interface " + i.name + " " + text)
	}
}
