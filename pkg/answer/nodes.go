// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// NoSuchNode is the error about a name that no node has.
type NoSuchNode struct {
	Name   string
	Domain string   // that was asked; "": there are reports alone
	Nodes  []string // that the domain has, or had
}

// Error says so in a few words.
func (e *NoSuchNode) Error() string {
	if e.Domain == "" {
		return fmt.Sprintf("no report can name node %q", e.Name)
	}
	return fmt.Sprintf("domain %s has no node %q", e.Domain, e.Name)
}

// NoAddress is the error about a node that owns no address by which it could be asked for.
type NoAddress struct{ Node string }

// Error says so in a few words.
func (e *NoAddress) Error() string { return fmt.Sprintf("node %q owns no address", e.Node) }

// NodeAddresses are the addresses that a node of a domain owns, but for those that others have, too. The
// error is domain.ErrNotAttached, *NoSuchNode or *NoAddress, or says why they cannot be read.
func NodeAddresses(domainName, node string) (list []netip.Addr, err error) {
	err = withHandle(domainName, func(h *datapath.Handle) error {
		owned, err := h.Addresses()
		if err != nil {
			return err
		}
		known := false
		for _, n := range namedNodes(h.Domain) {
			if n.name != node {
				continue
			}
			known = true
			for _, addr := range owned[n.id] {
				if !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
					list = append(list, addr)
				}
			}
		}
		switch {
		case !known:
			return noSuchNode(node, h.Domain)
		case len(list) == 0:
			return &NoAddress{node}
		}
		return nil
	})
	return list, err
}

func withHandle(domainName string, do func(*datapath.Handle) error) error {
	h, err := datapath.Open(domainName)
	if err != nil {
		return err
	}
	defer h.Close()
	return do(h)
}

type namedNode struct {
	id   uint16
	name string
}

// namedNodes are the nodes and virtual machines of a domain, with those that are gone.
func namedNodes(d *domain.Domain) (list []namedNode) {
	for _, n := range d.Nodes {
		list = append(list, namedNode{n.ID, n.Name})
	}
	for _, vm := range d.VMs {
		list = append(list, namedNode{vm.ID, vm.Name})
	}
	return list
}

func hasNode(d *domain.Domain, name string) bool {
	return slices.ContainsFunc(namedNodes(d), func(n namedNode) bool { return n.name == name })
}

func noSuchNode(name string, d *domain.Domain) error {
	e := &NoSuchNode{Name: name, Domain: d.Name}
	for _, n := range namedNodes(d) {
		if !slices.Contains(e.Nodes, n.name) {
			e.Nodes = append(e.Nodes, n.name)
		}
	}
	return e
}
