// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Listener is a socket that waits for packets to a port.
type Listener struct {
	Address netip.Addr // unspecified: any
	// Of TCP: connections that wait to be accepted, and how many may. More than that are refused room.
	Waiting, Backlog uint32
}

// Full reports whether a further connection finds no room.
func (l *Listener) Full() bool { return l.Backlog > 0 && l.Waiting > l.Backlog }

// Takes reports whether the socket receives what is sent to an address.
func (l *Listener) Takes(dst netip.Addr) bool {
	return l.Address == dst || l.Address.IsUnspecified() && (l.Address.Is6() || dst.Is4())
}

// maxListeners bounds how many sockets of one port are told.
const maxListeners = 64

// States of sockets that wait: of TCP, and of UDP, whose sockets are closed in TCP's words.
const (
	stateListen = 10
	stateClosed = 7
)

// Listeners are the node's sockets that wait for packets of a protocol, TCP's or UDP's, to a port: the kernel chooses
// them.
func Listeners(node topo.NodeSpec, proto uint8, port uint16) (list []Listener, err error) {
	err = node.Do(func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			req := nl.NewNetlinkRequest(sockDiagByFamily, unix.NLM_F_DUMP)
			state := uint32(1 << stateListen)
			if proto == unix.IPPROTO_UDP {
				state = 1 << stateClosed
			}
			req.AddData(diagRequest{family: family, proto: proto, states: state, local: port})
			msgs, err := req.Execute(unix.NETLINK_INET_DIAG, sockDiagByFamily)
			if err != nil {
				if family == unix.AF_INET6 {
					break // the kernel has none
				}
				return fmt.Errorf("node %s: list sockets: %w", node.Name, err)
			}
			for _, m := range msgs {
				if l, ok := listenerOf(m, port); ok && len(list) < maxListeners {
					list = append(list, l)
				}
			}
		}
		return nil
	})
	return list, err
}

// sockDiagByFamily is SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const sockDiagByFamily = 20

// diagRequest is struct inet_diag_req_v2. Ports that are 0 are any.
type diagRequest struct {
	family, proto uint8
	extensions    uint8 // a bit each
	states        uint32
	local, remote uint16
}

// diagSocket is the length of struct inet_diag_sockid.
const diagSocket = 48

// Len implements nl.NetlinkRequestData.
func (diagRequest) Len() int { return 8 + diagSocket }

// Serialize implements nl.NetlinkRequestData.
func (r diagRequest) Serialize() []byte {
	b := make([]byte, r.Len())
	b[0], b[1], b[2] = r.family, r.proto, r.extensions
	binary.NativeEndian.PutUint32(b[4:], r.states)
	binary.BigEndian.PutUint16(b[8:], r.local)
	binary.BigEndian.PutUint16(b[10:], r.remote)
	return b
}

// Connection is a socket of a connection of TCP, and what the kernel says of it: TCP_INFO.
type Connection struct {
	Local, Remote netip.AddrPort
	netlink.TCPInfo
}

// statesConnected are those of sockets that have a connection and still say how it is: not those that wait for one, or
// for their time after it.
const statesConnected = 1<<netlink.TCP_ESTABLISHED | 1<<netlink.TCP_SYN_SENT | 1<<netlink.TCP_FIN_WAIT1 | 1<<netlink.TCP_FIN_WAIT2 |
	1<<netlink.TCP_CLOSE_WAIT | 1<<netlink.TCP_LAST_ACK | 1<<netlink.TCP_CLOSING

// ConnectionOf is the node's socket with one of these pairs of ends, first local, then remote; nil: there is none. The
// kernel chooses sockets by their ports.
func ConnectionOf(node topo.NodeSpec, any [][2]netip.AddrPort) (found *Connection, err error) {
	type ports struct{ local, remote uint16 }
	var asked []ports
	err = node.Do(func() error {
		for _, ends := range any {
			p := ports{ends[0].Port(), ends[1].Port()}
			if slices.Contains(asked, p) {
				continue
			}
			asked = append(asked, p)
			for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} { // an IPv6 socket may speak IPv4
				req := nl.NewNetlinkRequest(sockDiagByFamily, unix.NLM_F_DUMP)
				req.AddData(diagRequest{family, unix.IPPROTO_TCP, 1 << (netlink.INET_DIAG_INFO - 1), statesConnected, p.local, p.remote})
				err := req.ExecuteIter(unix.NETLINK_INET_DIAG, sockDiagByFamily, func(m []byte) bool {
					c, ok := connectionOf(m)
					if ok && found == nil && slices.Contains(any, [2]netip.AddrPort{c.Local, c.Remote}) {
						found = &c
					}
					return true
				})
				switch {
				case found != nil:
					return nil
				case err != nil && family == unix.AF_INET:
					return fmt.Errorf("node %s: list sockets: %w", node.Name, err)
				}
			}
		}
		return nil
	})
	return found, err
}

// connectionOf reads struct inet_diag_msg with its attributes.
func connectionOf(m []byte) (c Connection, ok bool) {
	const fixed = 4 + diagSocket + 20
	if len(m) < fixed {
		return c, false
	}
	src, dst := m[8:24], m[24:40]
	if m[0] == unix.AF_INET {
		src, dst = src[:4], dst[:4]
	}
	local, _ := netip.AddrFromSlice(src)
	remote, _ := netip.AddrFromSlice(dst)
	c.Local = netip.AddrPortFrom(local.Unmap(), binary.BigEndian.Uint16(m[4:]))
	c.Remote = netip.AddrPortFrom(remote.Unmap(), binary.BigEndian.Uint16(m[6:]))
	attrs, err := nl.ParseRouteAttr(m[fixed:])
	if err != nil {
		return c, false
	}
	for _, a := range attrs {
		if a.Attr.Type == netlink.INET_DIAG_INFO {
			c.TCPInfo, ok = tcpInfo(a.Value)
		}
	}
	return c, ok
}

// tcpInfo reads struct tcp_info, of which older kernels have less. Two of its bytes are bit fields.
func tcpInfo(b []byte) (info netlink.TCPInfo, ok bool) {
	const fields = 8
	if len(b) < fields {
		return info, false
	}
	all := make([]byte, 0, binary.Size(info)+len(b))
	all = append(all, b[:6]...)
	all = append(all, b[6]&15, b[6]>>4, b[7]&1, b[7]>>1&3)
	all = append(all, b[fields:]...)
	_, err := binary.Decode(all[:max(len(all), binary.Size(info))], binary.NativeEndian, &info)
	return info, err == nil
}

// listenerOf reads struct inet_diag_msg.
func listenerOf(m []byte, port uint16) (l Listener, ok bool) {
	const rqueue = 4 + diagSocket + 4
	if len(m) < rqueue+8 || binary.BigEndian.Uint16(m[4:]) != port {
		return l, false
	}
	src := m[8:24]
	if m[0] == unix.AF_INET {
		src = src[:4]
	}
	l.Address, ok = netip.AddrFromSlice(src)
	l.Address = l.Address.Unmap()
	if m[1] == stateListen {
		l.Waiting, l.Backlog = binary.NativeEndian.Uint32(m[rqueue:]), binary.NativeEndian.Uint32(m[rqueue+4:])
	}
	return l, ok
}
