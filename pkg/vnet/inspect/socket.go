// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"fmt"
	"net/netip"

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
			req.AddData(diagRequest{family, proto, state, port})
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

// diagRequest is struct inet_diag_req_v2.
type diagRequest struct {
	family, proto uint8
	states        uint32
	port          uint16
}

// diagSocket is the length of struct inet_diag_sockid.
const diagSocket = 48

// Len implements nl.NetlinkRequestData.
func (diagRequest) Len() int { return 8 + diagSocket }

// Serialize implements nl.NetlinkRequestData.
func (r diagRequest) Serialize() []byte {
	b := make([]byte, r.Len())
	b[0], b[1] = r.family, r.proto
	binary.NativeEndian.PutUint32(b[4:], r.states)
	binary.BigEndian.PutUint16(b[8:], r.port)
	return b
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
