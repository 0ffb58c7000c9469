// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TCPSocket is what the kernel says of a socket of TCP: TCP_INFO.
type TCPSocket struct {
	At time.Time
	netlink.TCPInfo
}

// TCPSocketOf looks for a socket of a node with one of these pairs of ends, first local, then remote; nil: there is none,
// or the node cannot be entered, or does not answer.
func (l *Links) TCPSocketOf(node string, any [][2]netip.AddrPort) *TCPSocket {
	if len(any) == 0 {
		return nil
	}
	found, _ := AskNode(l, node, func(n topo.NodeSpec) (*TCPSocket, error) {
		c, err := l.nodes.inspect.connection(n, any)
		if c == nil {
			return nil, err
		}
		return &TCPSocket{At: time.Now(), TCPInfo: c.TCPInfo}, nil
	})
	return found
}
