// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// VM is a virtual machine, or another process, that has interfaces of attached nodes
// open: taps. What the kernel sends out by one may come back by another.
type VM struct {
	Name  string
	Ports []string     // NODE/PORT
	Addrs []netip.Addr // what is sent to these ends there
}

// ParseVM reads "NAME=NODE/PORT,...[,ADDRESS,...]". What it refuses is fault.Usage.
func ParseVM(arg string) (VM, error) {
	name, rest, ok := strings.Cut(arg, "=")
	if !ok {
		return VM{}, fault.Usage.Errorf("virtual machine %q: write NAME=NODE/PORT,NODE/PORT with the addresses that it owns behind", arg)
	}
	if err := CheckNodeName(name); err != nil {
		return VM{}, err
	}
	vm := VM{Name: name}
	for _, word := range strings.Split(rest, ",") {
		if strings.Contains(word, "/") {
			if !slices.Contains(vm.Ports, word) {
				vm.Ports = append(vm.Ports, word)
			}
			continue
		}
		addr, err := netip.ParseAddr(word)
		if err != nil || addr.Zone() != "" {
			return VM{}, fault.Usage.Errorf("virtual machine %s: %q is neither NODE/PORT nor an address", name, word)
		}
		vm.Addrs = append(vm.Addrs, addr.Unmap())
	}
	if len(vm.Ports) == 0 {
		return VM{}, fault.Usage.Errorf("virtual machine %s: name its ports, NODE/PORT", name)
	}
	return vm, nil
}

// CheckVM says, as fault.Usage, why vm cannot be behind its ports.
func (t *Topology) CheckVM(vm *VM) error {
	if slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.Name == vm.Name }) {
		return fault.Usage.Errorf("virtual machine %s: a node has that name, give it another one", vm.Name)
	}
	for _, name := range vm.Ports {
		node, port, _ := strings.Cut(name, "/")
		p, err := t.find(node, port)
		if err != nil {
			return fault.Usage.Errorf("virtual machine %s: %v", vm.Name, err)
		}
		switch {
		case p.Place != "":
			return fault.Usage.Errorf("virtual machine %s: radar found %s itself, at a bridge between nodes; attach its namespace (netns:host is this machine's own) to follow packets through it", vm.Name, name)
		case p.Peer != nil || p.Link != "":
			return fault.Usage.Errorf("virtual machine %s: the other end of %s is attached or on a bridge, no process has it", vm.Name, name)
		}
	}
	return nil
}

// Domain is the description of vm.
func (vm *VM) Domain() domain.VM {
	return domain.VM{Name: vm.Name, Ports: vm.Ports, Addrs: vm.Addrs}
}
