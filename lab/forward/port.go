// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes in bytes. A frame is kept with its virtio_net header in front: flags
// and type of offload (1 each), then length of the headers, size of a segment,
// start of what the checksum covers and its place behind that (2 each).
const (
	vnetLen    = 10
	vnetHdrLen = 2 // offset of the length of the headers
	vnetStart  = 6 // offset of where the checksum starts
	maxFrame   = 128 << 10
	vlanLen    = 4
	vlanAt     = 12 // where the tag stands in a frame
	rcvBuf     = 16 << 20
)

// port is one of the two interfaces: a packet socket, or the other side of a tap.
type port struct {
	name    string
	ifindex int // of a packet socket's interface
	fd      int
	isTap   bool
	missed  uint64 // frames for which the socket had no room, so far
	oob     []byte
}

// errSkip says that one frame could not be read and is gone; errIdle that there
// is none.
var (
	errSkip = errors.New("frame cannot be read")
	errIdle = errors.New("no frame")
)

// openPort opens a packet socket on an interface of the calling thread's network
// namespace.
func openPort(name string) (*port, error) {
	// Protocol 0: nothing arrives before everything is set.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket (needs CAP_NET_RAW): %w", err)
	}
	p := &port{name: name, fd: fd, oob: make([]byte, 128)}
	if err := p.setUp(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	return p, nil
}

func (p *port) setUp() error {
	index, err := p.index()
	if err != nil {
		return err
	}
	p.ifindex = index
	for _, o := range []struct {
		what         string
		level, optID int
	}{
		{"leave its own frames out", unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING},
		{"keep offloads", unix.SOL_PACKET, unix.PACKET_VNET_HDR},
		{"see VLAN tags", unix.SOL_PACKET, unix.PACKET_AUXDATA},
		{"take times", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS},
	} {
		if err := unix.SetsockoptInt(p.fd, o.level, o.optID, 1); err != nil {
			return fmt.Errorf("%s: %w", o.what, err)
		}
	}
	// Beyond the system's limit, where that is allowed.
	for _, o := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, o[0], rcvBuf) == nil {
			continue
		}
		if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, o[1], rcvBuf); err != nil {
			return fmt.Errorf("set size of buffers: %w", err)
		}
	}
	mreq := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(p.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq); err != nil {
		return fmt.Errorf("make promiscuous: %w", err)
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	if err := unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// index asks in the namespace of the socket, whatever thread this is.
func (p *port) index() (int, error) {
	ifr, err := unix.NewIfreq(p.name)
	if err != nil {
		return 0, fmt.Errorf("not the name of an interface: %w", err)
	}
	if err := unix.IoctlIfreq(p.fd, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, fmt.Errorf("find it: %w", err)
	}
	return int(ifr.Uint32()), nil
}

// openTap makes a tap, which goes when the port is closed, and brings it up.
func openTap(name string) (*port, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	p := &port{name: name, fd: fd, isTap: true}
	if err := p.setUpTap(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("tap %s: %w", name, err)
	}
	return p, nil
}

func (p *port) setUpTap() error {
	ifr, err := unix.NewIfreq(p.name)
	if err != nil {
		return fmt.Errorf("not a name for an interface: %w", err)
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(p.fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	// Trains of UDP since Linux 6.2.
	if unix.IoctlSetInt(p.fd, unix.TUNSETOFFLOAD, tcp|unix.TUN_F_USO4|unix.TUN_F_USO6) != nil {
		if err := unix.IoctlSetInt(p.fd, unix.TUNSETOFFLOAD, tcp); err != nil {
			return fmt.Errorf("keep offloads: %w", err)
		}
	}
	sock, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	defer unix.Close(sock)
	if err := unix.IoctlIfreq(sock, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("read its flags: %w", err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	return nil
}

// receive reads one frame with its virtio_net header into buf, which must have
// room for maxFrame bytes and a VLAN tag. at is when it arrived.
func (p *port) receive(buf []byte) (n int, at time.Time, err error) {
	if p.isTap {
		n, err = unix.Read(p.fd, buf[:maxFrame])
		return n, time.Now(), readError(err)
	}
	n, oobn, flags, _, err := unix.Recvmsg(p.fd, buf[:maxFrame], p.oob, unix.MSG_DONTWAIT)
	now := time.Now()
	if err != nil {
		return 0, now, receiveError(err)
	}
	if flags&unix.MSG_TRUNC != 0 || n < vnetLen+vlanAt {
		return 0, now, errSkip
	}
	n, age := p.ancillary(buf, n, p.oob[:oobn], now)
	return n, now.Add(-age), nil
}

func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return errIdle
	}
	return fmt.Errorf("read frame: %w", err)
}

// receiveError tells what ends the forwarder from what does not.
func receiveError(err error) error {
	switch {
	case errors.Is(err, unix.EINVAL): // an offload that virtio_net has no word for
		return errSkip
	case errors.Is(err, unix.ENETDOWN): // said once, also of one that goes; it may come up again
		return errIdle
	}
	return readError(err)
}

// ancillary puts the VLAN tag back, which the kernel hands over beside the frame,
// and finds how long ago the frame arrived. It returns the new length.
func (p *port) ancillary(buf []byte, n int, oob []byte, now time.Time) (int, time.Duration) {
	var age time.Duration
	for len(oob) >= unix.CmsgLen(0) {
		hdr, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		oob = rest
		switch {
		case hdr.Level == unix.SOL_SOCKET && hdr.Type == unix.SO_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			ts := (*unix.Timespec)(unsafe.Pointer(&data[0]))
			// The clock may have been set meanwhile.
			age = min(max(now.Sub(time.Unix(ts.Unix())), 0), time.Second)
		case hdr.Level == unix.SOL_PACKET && hdr.Type == unix.PACKET_AUXDATA && len(data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 {
				n = insertTag(buf, n, aux.Vlan_tpid, aux.Vlan_tci)
			}
		}
	}
	return n, age
}

// insertTag puts a VLAN tag into the frame of n bytes in buf, and moves what the
// virtio_net header says about places behind it.
func insertTag(buf []byte, n int, tpid, tci uint16) int {
	if tpid == 0 {
		tpid = unix.ETH_P_8021Q
	}
	at := vnetLen + vlanAt
	copy(buf[at+vlanLen:n+vlanLen], buf[at:n])
	binary.BigEndian.PutUint16(buf[at:], tpid)
	binary.BigEndian.PutUint16(buf[at+2:], tci)
	for _, field := range []int{vnetHdrLen, vnetStart} {
		if v := binary.NativeEndian.Uint16(buf[field:]); v != 0 {
			binary.NativeEndian.PutUint16(buf[field:], v+vlanLen)
		}
	}
	return n + vlanLen
}

// send hands a frame with its virtio_net header to the kernel.
func (p *port) send(b []byte) error {
	_, err := unix.Write(p.fd, b)
	return err
}

// overruns counts the frames for which the socket had no room. A tap counts
// them itself, as dropped on transmission.
func (p *port) overruns() uint64 {
	if p.isTap {
		return 0
	}
	// Reading sets the kernel's count back.
	if s, err := unix.GetsockoptTpacketStats(p.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		p.missed += uint64(s.Drops)
	}
	return p.missed
}

func (p *port) close() error { return unix.Close(p.fd) }
