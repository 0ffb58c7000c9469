// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// UnansweredZone is the zone of a connection of a node's conntrack to which a packet from src to dst is the answer, and for
// which conntrack has had no answer. 0: it has none outside the zone that packets are in without a rule.
func UnansweredZone(node topo.NodeSpec, proto uint8, src, dst netip.AddrPort) (zone uint16, err error) {
	err = node.Do(func() error {
		read := 0
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
		err := req.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(m []byte) bool {
			read++
			c, ok := readConnection(m)
			if ok && !c.answered && c.zone != 0 && c.proto == proto && c.to == src && netip.AddrPortFrom(c.from, c.port) == dst {
				zone = c.zone
			}
			return zone == 0 && read <= maxConnections
		})
		if err == nil && read > maxConnections {
			return errors.New("it has more connections than are read")
		}
		return err
	})
	return zone, err
}
