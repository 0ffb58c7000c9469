// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"errors"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/lab"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Where a topology comes from, as Topology.Source says.
const (
	FromFile   = "file"
	FromLab    = "lab"
	FromDomain = "domain"
)

// LabTopology is that of one of radar's labs: of one that runs, by its name or folder, or else of a folder's
// lab.conf, with the names that its namespaces will have. devices are the machines that are to speak INT; none: those with two links or more.
func LabTopology(nameOrDir string, devices []string) (control.Topology, error) {
	l, err := lab.Find(nameOrDir)
	if err == nil {
		return fromLinks(FromLab, machines(l), l.Links, devices)
	}
	if !errors.Is(err, lab.ErrNotRunning) {
		return control.Topology{}, err
	}
	scenario, openErr := lab.OpenDir(nameOrDir)
	if openErr != nil {
		return control.Topology{}, err
	}
	t, err := scenario.Topology(nil)
	if err != nil {
		return control.Topology{}, err
	}
	var specs [][2]string
	for _, m := range t.Machines {
		specs = append(specs, [2]string{m.Name, "netns:" + t.Name + "-" + m.Name})
	}
	return fromLinks(FromLab, specs, t.Links, devices)
}

// machines are the names and specs of a lab's.
func machines(l *lab.Lab) (specs [][2]string) {
	for _, m := range l.Machines {
		specs = append(specs, [2]string{m.Name, "netns:" + m.NetNS})
	}
	return specs
}

func fromLinks(source string, specs [][2]string, links []lab.Link, devices []string) (control.Topology, error) {
	var ends [][]string
	for _, l := range links {
		var of []string
		for _, m := range l.Members {
			of = append(of, m.Machine+"/"+m.Interface)
		}
		ends = append(ends, of)
	}
	return build(source, specs, ends, devices)
}

// DomainTopology is that of a domain of radar's own. devices are the nodes that are to speak INT; none: those
// with two links or more.
func DomainTopology(name string, devices []string) (control.Topology, error) {
	d, err := domain.Load(name)
	if err != nil {
		return control.Topology{}, err
	}
	var specs [][2]string
	for _, n := range d.Nodes {
		if !n.Removed && !n.Auto {
			specs = append(specs, [2]string{n.Name, n.Spec})
		}
	}
	end := func(p *domain.Port) string { return d.NodeByID(p.Node).Name + "/" + p.Name }
	var links [][]string
	segments, order := make(map[string][]string), []string{}
	for i := range d.Ports {
		p := &d.Ports[i]
		n := d.NodeByID(p.Node)
		switch {
		case p.Removed || n == nil || n.Removed || n.Auto:
		case p.Link != "":
			if segments[p.Link] == nil {
				order = append(order, p.Link)
			}
			segments[p.Link] = append(segments[p.Link], end(p))
		case p.Peer > int(p.ID):
			if q := d.PortByID(uint16(p.Peer)); q != nil && !q.Removed {
				links = append(links, []string{end(p), end(q)})
			}
		}
	}
	for _, link := range order {
		links = append(links, segments[link])
	}
	return build(FromDomain, specs, links, devices)
}

// build makes a topology of nodes (name and spec) and the ends of links.
func build(source string, specs [][2]string, links [][]string, devices []string) (control.Topology, error) {
	count := make(map[string]int)
	for _, ends := range links {
		for _, end := range ends {
			name, _, _ := strings.Cut(end, "/")
			count[name]++
		}
	}
	t := control.Topology{Source: source}
	var names []string
	for _, s := range specs {
		names = append(names, s[0])
		n := control.TopologyNode{Device: control.Device{Name: s[0], Spec: s[1]}}
		if len(devices) == 0 && count[s[0]] > 1 || slices.Contains(devices, s[0]) {
			n.Driver = "ebpf"
		}
		t.Nodes = append(t.Nodes, n)
	}
	for _, name := range devices {
		if !slices.Contains(names, name) {
			return t, fault.Usage.Errorf("‹device› %s: there is no such node: there is %s", name, strings.Join(names, ", "))
		}
	}
	// An end alone leads to something that is not known: whoever is there, hosts may be.
	loose := make(map[string][]string)
	for _, ends := range links {
		if len(ends) > 1 {
			t.Links = append(t.Links, ends)
		} else if len(ends) == 1 {
			name, port, _ := strings.Cut(ends[0], "/")
			loose[name] = append(loose[name], port)
		}
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		for _, port := range loose[n.Name] {
			if n.IsDevice() {
				if n.Ports == nil {
					n.Ports = make(map[string]control.Role)
				}
				n.Ports[port] = control.Edge
			}
		}
	}
	return t, t.Check()
}
