// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// plainRoutes reports whether a node routes all packets to an address alike, by the tables that each node has. Where rules or
// VRFs choose the table, the route of packets that the node itself would send need not be that of those it forwards.
func (l *Links) plainRoutes(name string, dst netip.Addr) bool {
	key := name + " " + family(dst)
	if known, is := l.plain[key]; is {
		return known
	}
	if l.plain == nil {
		l.plain = make(map[string]bool)
	}
	l.plain[key] = false
	node := l.nodes.node(name)
	if node == nil {
		return false
	}
	l.lookAt(node.ID)
	for _, i := range l.interfaces[node.ID] {
		if i.Kind == "vrf" {
			return false
		}
	}
	chosen, ok := AskNode(l, name, func(n topo.NodeSpec) (bool, error) { return l.nodes.inspect.ruled(n, dst) })
	l.plain[key] = ok && !chosen
	return l.plain[key]
}

// ruled reports whether a node has rules for routes of a family beside those that the kernel makes.
func ruled(node topo.NodeSpec, dst netip.Addr) (found bool, err error) {
	of := unix.AF_INET
	if dst.Is6() {
		of = unix.AF_INET6
	}
	err = node.Do(func() error {
		msgs, err := host.RetryDump(func() ([][]byte, error) {
			req := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
			req.AddData(nl.NewIfInfomsg(of))
			return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWRULE)
		})
		if errors.Is(err, unix.EOPNOTSUPP) { // the kernel has one table
			return nil
		}
		if err != nil {
			return fmt.Errorf("node %s: list rules for routes: %w", node.Name, err)
		}
		for _, m := range msgs {
			found = found || !kernelsRule(m)
		}
		return nil
	})
	return found, err
}

// kernelsRules are those that each node has: the tables local, main and default, by the rule's priority.
var kernelsRules = map[uint32]uint32{0: unix.RT_TABLE_LOCAL, 32766: unix.RT_TABLE_MAIN, 32767: unix.RT_TABLE_DEFAULT}

// kernelsRule reads a message about a rule: struct fib_rule_hdr, and attributes.
func kernelsRule(m []byte) bool {
	const dstLen, srcLen, tos, action, flags = 1, 2, 3, 7, 8
	if len(m) < unix.SizeofRtMsg || m[dstLen] != 0 || m[srcLen] != 0 || m[tos] != 0 || m[action] != unix.FR_ACT_TO_TBL ||
		binary.NativeEndian.Uint32(m[flags:])&unix.FIB_RULE_INVERT != 0 {
		return false
	}
	var priority, table uint32
	for kind, value := range host.Attributes(m[unix.SizeofRtMsg:]) {
		switch {
		case kind == unix.FRA_PROTOCOL: // who made it
		case len(value) != 4:
			return false
		case kind == unix.FRA_PRIORITY:
			priority = binary.NativeEndian.Uint32(value)
		case kind == unix.FRA_TABLE:
			table = binary.NativeEndian.Uint32(value)
		case kind == unix.FRA_SUPPRESS_PREFIXLEN && binary.NativeEndian.Uint32(value) == ^uint32(0):
		default: // it is for some packets alone
			return false
		}
	}
	want, is := kernelsRules[priority]
	return is && table == want
}
