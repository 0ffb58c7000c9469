// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector/docker"
)

// networkRE is what a network may be called in tables. The engine takes any text for a name, also
// one that reads like a path or a port: such a network is shown as its bridge.
var networkRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// idDigits is how much of a network's id is in the name of its bridge, behind a prefix of the
// driver: "br-" of Docker's own one, "kt-" of Kathará's.
const idDigits = 12

// defaultBridge is the bridge of the network that every engine has. The network is called
// "bridge", which says less.
const defaultBridge = "docker0"

// NameNetworks sets the name that the Docker engine here has for the network of each bridge in d
// that has none yet, and returns these names by port. The engine is asked only where there is such
// a bridge, and not for long. If none answers, bridges keep the names of their interfaces: they are
// a help, and nobody needs an engine.
func NameNetworks(ctx context.Context, d *domain.Domain) map[uint16]string {
	var bridges []*domain.Port
	for i := range d.Ports {
		if p := &d.Ports[i]; !p.Removed && p.Place == domain.Bridge && p.Network == "" && p.Name != defaultBridge {
			bridges = append(bridges, p)
		}
	}
	if len(bridges) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	e, err := docker.Connect(ctx)
	if err != nil {
		return nil
	}
	defer e.Close()
	networks, err := e.Networks(ctx)
	if err != nil {
		return nil
	}
	names := make(map[uint16]string)
	for _, p := range bridges {
		if name := networkOf(p.Name, networks); name != "" && !isTaken(d, p, name) {
			p.Network, names[p.ID] = name, name
		}
	}
	return names
}

// networkOf is the name of the network that a bridge is, "" if it is none, or has no name that can
// be shown. A Kathará lab's network has the name that the lab's files give it.
func networkOf(bridge string, networks []docker.Network) string {
	for i := range networks {
		n := &networks[i]
		id := n.ID[:min(len(n.ID), idDigits)]
		if n.Bridge != bridge && (n.Bridge != "" || len(id) < idDigits || !strings.HasSuffix(bridge, "-"+id)) {
			continue
		}
		name := n.Name
		if n.Labels[labelApp] == katharaApp && n.Labels[labelMachine] != "" {
			name = n.Labels[labelMachine]
		}
		if networkRE.MatchString(name) {
			return name
		}
		return ""
	}
	return ""
}

// isTaken reports whether another port of p's node is called so: two networks of one name, or an
// interface, would look the same.
func isTaken(d *domain.Domain, p *domain.Port, name string) bool {
	return slices.ContainsFunc(d.Ports, func(o domain.Port) bool {
		return o.Node == p.Node && o.ID != p.ID && !o.Removed && (o.Name == name || o.Network == name)
	})
}
