// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

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

// Owners knows the addresses of a domain's nodes. They are read once, when it is asked for the first: an expression that
// somebody else wrote can have hundreds of names. It is for one question, since nodes come and go.
type Owners struct {
	read func() (*owned, error)
}

// owned has what each name stands for.
type owned struct {
	domain    *domain.Domain
	addresses map[string][]netip.Addr // of every node that is known
}

// OwnersOf knows those of a domain.
func OwnersOf(domainName string) *Owners {
	return &Owners{sync.OnceValues(func() (o *owned, err error) {
		err = withHandle(domainName, func(h *datapath.Handle) error {
			by, err := h.Addresses()
			o = newOwned(h.Domain, by)
			return err
		})
		return o, err
	})}
}

func newOwned(d *domain.Domain, by map[uint16][]netip.Addr) *owned {
	o := &owned{d, make(map[string][]netip.Addr)}
	for _, n := range namedNodes(d) {
		list := slices.DeleteFunc(slices.Clone(by[n.id]), func(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() })
		o.addresses[n.name] = append(o.addresses[n.name], list...)
	}
	return o
}

// Addresses are those that a node owns, but for those that others have, too. The error is domain.ErrNotAttached,
// *NoSuchNode or *NoAddress, or says why they cannot be read.
func (n *Owners) Addresses(node string) ([]netip.Addr, error) {
	o, err := n.read()
	if err != nil {
		return nil, err
	}
	list, known := o.addresses[node]
	switch {
	case !known:
		return nil, noSuchNode(node, o.domain)
	case len(list) == 0:
		return nil, &NoAddress{node}
	}
	return list, nil
}

// AddressesOf puts the addresses of nodes in the place of their names. Errors are those of Addresses.
func (n *Owners) AddressesOf(values []string) ([]string, error) {
	return addressesOf(values, n.Addresses)
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
