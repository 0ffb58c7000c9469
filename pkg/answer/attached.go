// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"

	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Attached are the names of the domains that are attached on this machine.
func Attached() ([]string, error) { return domain.List() }

// Network is what is known of the nodes and ports of a domain that is attached. The error is system.ErrNotAttached if it is
// not.
func Network(name string) (*system.Network, error) {
	d, err := domain.Load(name)
	if err != nil {
		return nil, err
	}
	return d.Network(), nil
}

// Node is a node of a domain, as attached now.
type Node struct {
	Name string `json:"name"`
	ID   uint16 `json:"id"`
	Spec string `json:"spec"`
	Auto bool   `json:"auto,omitempty"` // found by radar: where a bridge between nodes lies
	VM   bool   `json:"vm,omitempty"`   // a virtual machine; its ports are its ends of taps
	// Header says why the node carries the header while others carry the mark.
	Header string `json:"header,omitempty"`
	// Apart says why it can carry neither, so that stories end as packets enter it.
	Apart string `json:"apart,omitempty"`
	// Redirects: its rules can deliver packets for others to itself.
	Redirects bool `json:"redirects,omitempty"`
	// Switch is the process that was seen to forward packets there, by packet sockets.
	Switch string `json:"switch,omitempty"`
	Ports  []Port `json:"ports"`
}

// Port is a port of a node.
type Port struct {
	Name    string      `json:"name"`
	ID      uint16      `json:"id"`
	Kind    string      `json:"kind"`
	Queue   string      `json:"queue,omitempty"` // kind of its queueing discipline; absent: it queues nothing
	Ifindex int         `json:"ifindex"`
	Role    domain.Role `json:"role"`
	Forced  bool        `json:"forced,omitempty"` // role given by --role
	// State is whether it can send and receive now, MTU what it lets pass, bytes; absent where that cannot be read.
	State topo.State `json:"state,omitempty"`
	MTU   int        `json:"mtu,omitempty"`

	Peer   string `json:"peer,omitempty"`   // NODE/PORT at the other end
	Tunnel bool   `json:"tunnel,omitempty"` // its packets travel inside others
	// Stitched: Peer is reached by way of two interfaces that tc joins.
	Stitched bool `json:"stitched,omitempty"`
	// Lower is NODE/INTERFACE of another node on which it stands (macvlan, ipvlan, VLAN); "outside": of a namespace
	// that is not attached.
	Lower string `json:"lower,omitempty"`
	// Uppers are NODE/PORT of other nodes that stand on it.
	Uppers []string `json:"uppers,omitempty"`
	// Beside are NODE/PORT that stand on the same interface, and that it reaches without going out there.
	Beside  []string `json:"beside,omitempty"`
	Member  string   `json:"member,omitempty"`  // NODE/INTERFACE by which that bridge reaches it, where that has no program
	Link    string   `json:"link,omitempty"`    // NODE/BRIDGE that it hangs on, or a tunnel with more ends than two
	Place   string   `json:"place,omitempty"`   // in a node found by radar: bridge-port, bridge
	Network string   `json:"network,omitempty"` // of a bridge: what Docker calls it
}

// Nodes lists the nodes of a domain and their ports that are attached now, then virtual machines.
func Nodes(d *domain.Domain) []Node {
	views := []Node{}
	for _, n := range d.Nodes {
		if n.Removed {
			continue
		}
		view := Node{Name: n.Name, ID: n.ID, Spec: n.Spec, Auto: n.Auto, Header: n.Header, Apart: n.Apart, Redirects: n.Redirects, Switch: n.Switch, Ports: []Port{}}
		for _, p := range d.Ports {
			if p.Node != n.ID || p.Removed {
				continue
			}
			view.Ports = append(view.Ports, Port{
				Name: p.Name, ID: p.ID, Kind: p.Kind, Queue: p.Queue, Ifindex: p.Ifindex,
				Role: p.Role, Forced: p.Forced, Peer: cmp.Or(placenow.PeerName(d, p.Peer), machineEnd(d, &p)), Tunnel: p.Tunnel,
				Stitched: p.Stitched, Lower: p.Lower, Uppers: uppersOf(d, n.Name+"/"+p.Name), Beside: besideOf(d, &p), Member: memberOf(d, n.Name+"/"+p.Name), Link: p.Link, Place: string(p.Place), Network: p.Network,
			})
		}
		views = append(views, view)
	}
	for i := range d.VMs {
		if d.VMs[i].Removed {
			continue
		}
		views = append(views, machineView(d, &d.VMs[i]))
	}
	return views
}

// uppersOf are the ports of other nodes that stand on an interface, NODE/PORT each.
func uppersOf(d *domain.Domain, name string) (uppers []string) {
	for i := range d.Ports {
		if p := &d.Ports[i]; p.Lower == name && !p.Removed {
			uppers = append(uppers, placenow.PeerName(d, int(p.ID)))
		}
	}
	return uppers
}

// besideOf are the ports on the same interface of another namespace that a port reaches past it.
func besideOf(d *domain.Domain, p *domain.Port) (beside []string) {
	for _, id := range p.Beside {
		if name := placenow.PeerName(d, int(id)); name != "" {
			beside = append(beside, name)
		}
	}
	return beside
}

// memberOf is the bridge's member that leads to a port, both NODE/INTERFACE; "": there is none.
func memberOf(d *domain.Domain, port string) string {
	for i := range d.Members {
		if m := &d.Members[i]; m.To == port && !m.Removed {
			if node := d.NodeByID(m.Node); node != nil {
				return node.Name + "/" + m.Name
			}
		}
	}
	return ""
}

// AddStates adds to ports what the kernel says of them now. A node that cannot be entered, for lack of rights or
// because it is gone, has nothing of it.
func AddStates(list []Node, look func(node uint16) map[int]topo.Interface) {
	for i := range list {
		interfaces := look(list[i].ID)
		for j := range list[i].Ports {
			p := &list[i].Ports[j]
			p.State, p.MTU = interfaces[p.Ifindex].State, interfaces[p.Ifindex].MTU
		}
	}
}

// machineView shows a virtual machine as a node with its ends of taps.
func machineView(d *domain.Domain, vm *domain.VM) Node {
	view := Node{Name: vm.Name, ID: vm.ID, VM: true, Ports: []Port{}}
	for i := range d.Ports {
		if p := &d.Ports[i]; p.VM == vm.ID && !p.Removed {
			view.Ports = append(view.Ports, Port{Name: p.Name, Role: domain.Internal, Peer: placenow.PeerName(d, int(p.ID))})
		}
	}
	return view
}

// machineEnd is NODE/PORT of the end of a tap that a virtual machine has, "" if none has.
func machineEnd(d *domain.Domain, p *domain.Port) string {
	if vm := d.VMByID(p.VM); vm != nil {
		return vm.Name + "/" + p.Name
	}
	return ""
}
