// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Encapsulation is something in a node that puts packets into others without a device
// of its own, so that no program sees them before that.
type Encapsulation struct {
	Node, What string
}

// FindEncapsulations looks for them in the nodes that wanted says: policies of IPsec,
// routes with an encapsulation (MPLS, seg6, BPF) and IPVS' tunnels. Like rules.Find
// it is best effort: what cannot be read is left out, and so are programs.
func (t *Topology) FindEncapsulations(ctx context.Context, wanted func(node string) bool) []Encapsulation {
	var found []Encapsulation
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if ctx.Err() != nil || n.Auto || !wanted(n.Name) {
			continue
		}
		for _, what := range n.NodeSpec.Encapsulations() {
			found = append(found, Encapsulation{Node: n.Name, What: what})
		}
	}
	return found
}

// Encapsulations are those of one node: none if its namespace is gone.
func (s NodeSpec) Encapsulations() (found []string) {
	// The error says that it is.
	_ = s.Do(func() error {
		for _, find := range []func() string{ipsecPolicy, encapRoute, ipvsTunnel} {
			if what := find(); what != "" {
				found = append(found, what)
			}
		}
		return nil
	})
	return found
}

// ipsecPolicy names a policy of this namespace by which packets leave in others.
func ipsecPolicy() string {
	list, _ := host.RetryDump(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(netlink.FAMILY_ALL) })
	for _, p := range list {
		if p.Dir != netlink.XFRM_DIR_IN && len(p.Tmpls) > 0 {
			return fmt.Sprintf("an IPsec policy (%v > %v)", p.Src, p.Dst)
		}
	}
	return ""
}

// encapRoute names a route of this namespace that puts packets into others.
func encapRoute() string {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		var found *netlink.Route
		_, _ = host.RetryDump(func() (struct{}, error) {
			found = nil
			return struct{}{}, netlink.RouteListFilteredIter(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE,
				func(r netlink.Route) bool {
					if encapsulates(&r) {
						found = &r
					}
					return found == nil
				})
		})
		if found != nil {
			return fmt.Sprintf("a route with an encapsulation (%v)", found.Dst)
		}
	}
	return ""
}

func encapsulates(r *netlink.Route) bool {
	return byItself(r.Encap) || slices.ContainsFunc(r.MultiPath, func(hop *netlink.NexthopInfo) bool { return byItself(hop.Encap) })
}

// byItself says whether an encapsulation is one that needs no tunnel device.
func byItself(e netlink.Encap) bool {
	if e == nil {
		return false
	}
	switch e.Type() {
	case nl.LWTUNNEL_ENCAP_MPLS, nl.LWTUNNEL_ENCAP_SEG6, nl.LWTUNNEL_ENCAP_BPF:
		return true
	}
	return false
}

// ipvsTunnel says whether IPVS has servers in this namespace that it reaches by tunnels.
func ipvsTunnel() string {
	b, err := os.ReadFile("/proc/thread-self/net/ip_vs")
	if err == nil && bytes.Contains(b, []byte(" Tunnel ")) {
		return "IPVS with tunnels"
	}
	return ""
}
