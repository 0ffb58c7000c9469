// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// direction of a packet at a port, as the port's node sees it.
type direction string

const (
	in  direction = "in"
	out direction = "out"
)

// sighting is one packet at one port. A GSO skb gives one for each packet that it
// stands for, with whole checksums.
type sighting struct {
	node, port string
	dir        direction
	at         time.Time // the kernel's
	frame      []byte    // from the Ethernet header on; from IP on where l3
	l3         bool
	proto      uint16 // of l3 frames: EtherType
	train      int    // packets of the skb
	*decoded
}

func (s *sighting) where() string { return fmt.Sprintf("%s/%s %s", s.node, s.port, s.dir) }

// capture is a packet socket on one port. What it has seen waits in its buffer.
type capture struct {
	node, port string
	l3         bool
	fd         int
	seen       []*sighting
}

const (
	captureBuffer = 64 << 20
	vnetHeader    = 10      // struct virtio_net_hdr
	maxFrame      = 1 << 17 // of GSO
)

// listen opens a capture on every port of every node.
func (w *World) listen() []*capture {
	w.T.Helper()
	var list []*capture
	for _, node := range w.nodes {
		for _, l := range w.ports(node) {
			c := &capture{node: node, port: l.Attrs().Name, l3: len(l.Attrs().HardwareAddr) != 6}
			w.in(node, func() (err error) {
				c.fd, err = openCapture(l.Attrs().Index)
				return err
			})
			w.T.Cleanup(func() { unix.Close(c.fd) })
			list = append(list, c)
		}
	}
	return list
}

func openCapture(ifindex int) (int, error) {
	all := int(htons(unix.ETH_P_ALL))
	// Bound to nothing first, or packets of other ports slip in.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open packet socket: %w", err)
	}
	set := func(level, opt, value int) {
		if e := unix.SetsockoptInt(fd, level, opt, value); e != nil && err == nil {
			err = fmt.Errorf("set option %d of packet socket: %w", opt, e)
		}
	}
	set(unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer)
	set(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	set(unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)
	set(unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: ifindex})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// read takes what has been captured since the last call and says how much it was.
func (c *capture) read() (int, error) {
	buf, oob := make([]byte, maxFrame), make([]byte, 512)
	n := 0
	for ; ; n++ {
		size, oobn, flags, from, err := unix.Recvmsg(c.fd, buf, oob, 0)
		if errors.Is(err, unix.EAGAIN) {
			return n, c.lost()
		}
		if errors.Is(err, unix.ENETDOWN) {
			continue // the interface is gone; its packets are not
		}
		if err != nil {
			return n, fmt.Errorf("capture at %s/%s: %w (a GSO packet that this kernel cannot show?)", c.node, c.port, err)
		}
		if flags&unix.MSG_TRUNC != 0 || size < vnetHeader {
			return n, fmt.Errorf("capture at %s/%s: %d bytes do not fit", c.node, c.port, size)
		}
		if err := c.take(append([]byte(nil), buf[:size]...), oob[:oobn], from); err != nil {
			return n, err
		}
	}
}

// lost reports packets that did not fit into the buffer.
func (c *capture) lost() error {
	st, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return fmt.Errorf("statistics of the capture at %s/%s: %w", c.node, c.port, err)
	}
	if st.Drops > 0 {
		return fmt.Errorf("the capture at %s/%s lost %d packets", c.node, c.port, st.Drops)
	}
	return nil
}

// take notes one skb.
func (c *capture) take(b, oob []byte, from unix.Sockaddr) error {
	ll, ok := from.(*unix.SockaddrLinklayer)
	if !ok {
		return fmt.Errorf("capture at %s/%s: no address", c.node, c.port)
	}
	s := sighting{node: c.node, port: c.port, dir: in, l3: c.l3, proto: htons(ll.Protocol), train: 1}
	if ll.Pkttype == unix.PACKET_OUTGOING {
		s.dir = out
	}
	var aux *unix.TpacketAuxdata
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("capture at %s/%s: %w", c.node, c.port, err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS:
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			s.at = time.Unix(ts.Unix())
		case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA:
			aux = (*unix.TpacketAuxdata)(unsafe.Pointer(&m.Data[0]))
		}
	}
	vnet, frame := b[:vnetHeader], b[vnetHeader:]
	frame = completeSum(vnet, frame)
	for _, part := range segments(vnet, frame, c.l3) {
		one := s
		one.frame = part
		if aux != nil && aux.Status&unix.TP_STATUS_VLAN_VALID != 0 && !c.l3 {
			one.frame = insertVLAN(part, aux.Vlan_tci, aux.Vlan_tpid)
		}
		one.train = len(segments(vnet, frame, c.l3))
		one.decoded = decode(one.frame, one.l3, one.proto)
		c.seen = append(c.seen, &one)
	}
	return nil
}

// insertVLAN puts the tag where it is on a wire.
func insertVLAN(frame []byte, tci, tpid uint16) []byte {
	if tpid == 0 {
		tpid = unix.ETH_P_8021Q
	}
	b := append([]byte(nil), frame[:12]...)
	b = binary.BigEndian.AppendUint16(b, tpid)
	b = binary.BigEndian.AppendUint16(b, tci)
	return append(b, frame[12:]...)
}
