// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"context"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// LabelHash is something that treats packets by a hash of the IPv6 flow label which
// they have on the wire inside the domain. With a label that differs from packet to
// packet it would take the packets of one flow for many flows.
//
// Linux hashes a packet by skb_get_hash: once, over addresses and flow label if there
// is a label (FLOW_DISSECTOR_F_STOP_AT_FLOW_LABEL), and keeps the result with it.
type LabelHash struct {
	Node, Port string // Port is "" if it is the node's routing
	What       string // "fq_codel", "receive packet steering (RPS)", ...
}

func (h LabelHash) String() string {
	if h.Port == "" {
		return h.What + " at " + h.Node
	}
	return h.What + " at " + h.Node + "/" + h.Port
}

// flowQueues are queueing disciplines that tell flows apart by skb_get_hash or by the
// same dissection. A port's queue comes behind the program that writes the label.
var flowQueues = map[string]bool{
	"fq": true, "fq_codel": true, "fq_pie": true, "sfq": true, "sfb": true, "cake": true, "hhf": true, "choke": true,
}

// flowTunnels choose the outer packet's source port, or the hash that queues below
// look at, by the packet inside.
var flowTunnels = map[string]bool{"vxlan": true, "geneve": true, "bareudp": true, "wireguard": true}

// FindLabelHashes looks at the ports between which packets have a rewritten flow
// label, and at the routing of nodes in which packets keep it: those that carry the
// header. Like rules.Find it is best effort: what cannot be read, tc
// filters and what programs do are left out. The order is that of the nodes.
func (t *Topology) FindLabelHashes(ctx context.Context, carriesHeader func(node string) bool) []LabelHash {
	var found []LabelHash
	for i := range t.Nodes {
		n := &t.Nodes[i]
		ports := t.wirePorts(i)
		if ctx.Err() != nil || len(ports) == 0 {
			continue
		}
		// The error says that the namespace is gone.
		_ = n.Do(func() error {
			for _, h := range hashesOf(ports) {
				h.Node = n.Name
				found = append(found, h)
			}
			if !n.Auto && carriesHeader(n.Name) && multipathByLabel() {
				found = append(found, LabelHash{Node: n.Name, What: "IPv6 multipath routing"})
			}
			return nil
		})
	}
	return found
}

// wirePorts are the interfaces of a node that IPv6 packets pass with wire bits: internal
// ports, and of a bridge link all that belongs to the bridge. Not a tunnel inside the
// domain: the programs leave IPv6 true on its link. By interface number; names that are
// not known are "".
func (t *Topology) wirePorts(node int) map[int]Port {
	ports := make(map[int]Port)
	for _, p := range t.Nodes[node].Ports {
		if tunnel := p.Tunnel != nil && p.Tunnel.Inside; !tunnel && !p.Stitched && p.Role == domain.Internal || p.Place == domain.Bridge {
			ports[p.Ifindex] = p
		}
	}
	for _, b := range t.Bridges {
		for _, m := range b.Inside {
			if b.Node == node {
				ports[m.Ifindex] = Port{Ifindex: m.Ifindex}
			}
		}
	}
	return ports
}

// hashesOf looks at interfaces of the thread's namespace.
func hashesOf(ports map[int]Port) (found []LabelHash) {
	queues := make(map[int][]string)
	if list, err := host.RetryDump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(nil) }); err == nil {
		for _, q := range list {
			if flowQueues[q.Type()] {
				index := q.Attrs().LinkIndex
				queues[index] = append(queues[index], q.Type())
			}
		}
	}
	sys, err := mountSysfs()
	if err == nil {
		defer unix.Close(sys)
	}
	for _, index := range sortedKeys(ports) {
		p := ports[index]
		if p.Name == "" {
			l, err := netlink.LinkByIndex(index)
			if err != nil {
				continue
			}
			p.Name, p.Kind = l.Attrs().Name, l.Type()
		}
		add := func(what string) { found = append(found, LabelHash{Port: p.Name, What: what}) }
		if len(queues[index]) > 0 {
			add(queues[index][0])
		}
		if flowTunnels[p.Kind] {
			add(p.Kind)
		}
		if err == nil {
			steering(os.DirFS(fmt.Sprintf("/proc/self/fd/%d/class/net", sys)), p, add)
		}
	}
	return found
}

// steering looks at an interface's directory in sysfs: for transmit queues that
// netdev_pick_tx chooses from, and for CPUs that RPS chooses from. A tap chooses its
// queues by ports, not by the label.
func steering(sys fs.FS, p Port, add func(what string)) {
	tx, _ := fs.Glob(sys, p.Name+"/queues/tx-*") // the pattern is well formed
	if len(tx) > 1 && p.Kind != "tun" {
		add(fmt.Sprintf("choice of %d transmit queues", len(tx)))
	}
	rx, _ := fs.Glob(sys, p.Name+"/queues/rx-*/rps_cpus")
	for _, file := range rx {
		if mask, err := fs.ReadFile(sys, file); err == nil && cpusIn(string(mask)) > 1 {
			add("receive packet steering (RPS)")
			return
		}
	}
}

// cpusIn counts the CPUs in a mask such as "00000000,00000003".
func cpusIn(mask string) (n int) {
	for word := range strings.SplitSeq(strings.TrimSpace(mask), ",") {
		v, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return 0
		}
		n += bits.OnesCount64(v)
	}
	return n
}

// mountSysfs returns a file descriptor of a sysfs that shows the thread's network
// namespace, mounted nowhere (Linux 5.2). /sys shows that in which it was mounted.
func mountSysfs() (int, error) {
	config, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(config)
	if err := unix.FsconfigCreate(config); err != nil {
		return -1, err
	}
	return unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
}

// Values of net.ipv6.fib_multipath_hash_policy, and a bit of fib_multipath_hash_fields.
const (
	hashPorts       = "1"
	hashFields      = "3"
	hashFieldsLabel = 0x0008
)

// multipathByLabel says whether the thread's namespace has IPv6 multipath routes and
// chooses among their next hops by the flow label.
func multipathByLabel() bool {
	switch sysctl("net/ipv6/fib_multipath_hash_policy") {
	case "", hashPorts:
		return false
	case hashFields:
		fields, err := strconv.ParseUint(sysctl("net/ipv6/fib_multipath_hash_fields"), 0, 32)
		if err != nil || fields&hashFieldsLabel == 0 {
			return false
		}
	}
	found := false
	all := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	_, _ = host.RetryDump(func() (struct{}, error) {
		return struct{}{}, netlink.RouteListFilteredIter(netlink.FAMILY_V6, all, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			found = found || len(r.MultiPath) > 1
			return !found
		})
	})
	return found
}

// sysctl reads a setting of the thread's namespace, "" if it cannot.
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
