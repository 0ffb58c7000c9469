// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// ZonedAnswer is a packet that would be the answer to a connection for which conntrack has had none. Conntrack looks for the
// connection in the zone that the packet is given.
type ZonedAnswer struct {
	Proto    uint8
	Src, Dst netip.AddrPort
	Zone     uint16 // in which the connection would be found
}

// maxZoned bounds how many are kept of a node.
const maxZoned = 4096

// UnansweredInZones are the first of those of a node's conntrack that are not found in the zone which packets are in without a
// rule.
func UnansweredInZones(node topo.NodeSpec) (list []ZonedAnswer, err error) {
	err = node.Do(func() error {
		read := 0
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
		err := req.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(m []byte) bool {
			read++
			if c, ok := readConnection(m); ok && !c.answered && c.zone != 0 {
				list = append(list, ZonedAnswer{c.proto, c.to, netip.AddrPortFrom(c.from, c.port), c.zone})
			}
			return len(list) < maxZoned && read <= maxConnections
		})
		if err == nil && read > maxConnections {
			return errors.New("it has more connections than are read")
		}
		return err
	})
	return list, err
}
