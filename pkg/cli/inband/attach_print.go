// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/words"
)

// attachView is what "radar int attach" prints.
type attachView struct {
	Domain    string              `json:"domain"`
	New       bool                `json:"new"`
	Nodes     []nodeView          `json:"nodes"`
	Watchlist []entryView         `json:"watchlist"`
	Mark      string              `json:"mark"`
	Collector string              `json:"collector"`
	Report    string              `json:"report"`
	Via       string              `json:"via"`
	Agent     *background.Started `json:"agent,omitempty"`
	Warnings  []string            `json:"warnings,omitempty"`
	Notes     []string            `json:"notes,omitempty"`
}

type nodeView struct {
	Name  string     `json:"name"`
	ID    uint32     `json:"id"`
	Spec  string     `json:"spec"`
	Gone  bool       `json:"gone,omitempty"`
	Does  []string   `json:"does"` // in words
	Ports []portView `json:"ports"`
	// Watchlist is the node's own, in place of the domain's.
	Watchlist []entryView `json:"watchlist,omitempty"`
}

type portView struct {
	Name        string   `json:"name"`
	Ifindex     int      `json:"ifindex"` // its level-1 and level-2 number, too
	Role        string   `json:"role"`
	Foreign     string   `json:"foreign,omitempty"` // of edges
	MTU         int      `json:"mtu,omitempty"`     // that was chosen
	CongestedAt uint32   `json:"congested_at,omitempty"`
	Gone        bool     `json:"gone,omitempty"`
	Closed      string   `json:"closed,omitempty"`       // what is behind it, and no INT node
	OffloadsOff []string `json:"offloads_off,omitempty"` // NODE/PORT where they are
}

type entryView struct {
	Watch        string `json:"watch"`
	Mode         string `json:"mode"`
	Instructions string `json:"instructions"`
	Bitmap       uint16 `json:"bitmap"`
	Hops         uint8  `json:"hops"`
	Sample       uint32 `json:"sample"`
	DomainID     uint16 `json:"domain_id"`
}

// describe fills in what a domain is.
func (v *attachView) describe(d *node.Domain) {
	v.Nodes, v.Watchlist = nodeViews(d), entryViews(d.Options.Entries)
	v.Mark, v.Collector, v.Report, v.Via = d.Options.Mark.String(), d.Options.Collector, d.Options.Report, d.Via.Name
	v.Notes = kit.Rendered(d.Notes())
}

func entryViews(entries []node.Entry) (list []entryView) {
	for _, e := range entries {
		watch := e.Expr
		if watch == "" {
			watch = "all TCP and UDP"
		}
		list = append(list, entryView{watch, e.Mode.String(), node.InstructionText(e.Instructions), e.Instructions, e.Hops, max(e.Sample, 1), e.Domain})
	}
	return list
}

func nodeViews(d *node.Domain) []nodeView {
	list := make([]nodeView, 0, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		v := nodeView{Name: n.Name, ID: n.ID, Spec: n.Spec, Gone: n.IsGone(), Does: does(n), Watchlist: entryViews(n.Entries)}
		for _, p := range n.Ports {
			port := portView{Name: p.Name, Ifindex: p.Ifindex, Role: p.Flags.Words(), MTU: p.MTU, CongestedAt: p.CongestedAt, Gone: p.Gone, Closed: p.Closed}
			if p.Now()&(node.Source|node.Sink) != 0 {
				port.Foreign = "pass"
				if p.Flags&node.DropForeign != 0 {
					port.Foreign = "drop"
				}
			}
			for _, s := range p.Switched {
				name := s.Place.Name + "/" + s.Name
				if s.Place.Inum == n.Inum {
					name = n.Name + "/" + s.Name
				}
				port.OffloadsOff = append(port.OffloadsOff, name)
			}
			v.Ports = append(v.Ports, port)
		}
		list = append(list, v)
	}
	return list
}

// does says in words what a node does with packets.
func does(n *node.Node) (list []string) {
	ports := func(f node.Flags) string {
		var names []string
		for _, p := range n.Ports {
			if p.Now()&f != 0 {
				names = append(names, p.Name)
			}
		}
		return strings.Join(names, ", ")
	}
	inside := ports(node.Inside)
	if in := ports(node.Source); in != "" && inside != "" {
		list = append(list, fmt.Sprintf("gives INT to what comes in at %s and leaves by %s", in, inside))
	}
	if n.Source && inside != "" {
		list = append(list, "gives INT to what it sends itself by "+inside)
	}
	if inside != "" && strings.Contains(inside, ",") {
		list = append(list, "adds its metadata to what has INT and passes between "+inside)
	}
	if out := ports(node.Source | node.Sink); out != "" && inside != "" {
		list = append(list, "takes INT from what leaves by "+out)
	}
	if n.IsEnd() {
		list = append(list, "takes INT from what is for itself")
	}
	if len(list) == 0 {
		list = []string{"does nothing yet"}
	}
	return list
}

func printAttached(k *kit.Kit, v *attachView) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	for _, text := range v.Warnings {
		fmt.Fprintf(k.Stderr, "radar: warning: %s\n", text)
	}
	if err := printPorts(k, v.Nodes); err != nil {
		return err
	}
	fmt.Fprintln(k.Out)
	for _, n := range v.Nodes {
		fmt.Fprintf(k.Out, "%s %s\n", n.Name, strings.Join(n.Does, ", and "))
	}
	for _, e := range v.Watchlist {
		fmt.Fprintln(k.Out, e.line(v.Mark))
	}
	fmt.Fprintf(k.Out, "reports (%s) go to %s, from %s, by the agent, process %d\n", v.Report, v.Collector, v.Via, v.Agent.PID)
	for _, text := range v.Notes {
		k.Notef("%s", text)
	}
	return nil
}

// line says in words what packets get.
func (e *entryView) line(mark string) string {
	parts := []string{e.Watch}
	if e.Sample > 1 {
		parts = append(parts, fmt.Sprintf("one packet in %d", e.Sample))
	}
	switch e.Mode {
	case "none":
		return "watchlist: " + strings.Join(append(parts, "nothing gets INT"), ", ")
	case "xd":
		parts = append(parts, "reported by each node (INT-XD)")
	case "mx":
		parts = append(parts, "INT-MX marked by "+mark+", reported by each node")
	default:
		parts = append(parts, fmt.Sprintf("INT-%s marked by %s, at most %s", strings.ToUpper(e.Mode), mark, words.Plural(int(e.Hops), "hop")))
	}
	return "watchlist: " + strings.Join(append(parts, e.Instructions), ", ")
}

func printPorts(k *kit.Kit, nodes []nodeView) error {
	columns := []kit.Column{{Title: "NODE"}, {Title: "ID", Right: true}, {Title: "PORT"}, {Title: "NUMBER", Right: true}, {Title: "ROLE"}, {Title: "NOTE"}}
	t := kit.NewTable(columns...)
	for _, n := range nodes {
		for _, p := range n.Ports {
			t.Add(n.Name, strconv.FormatUint(uint64(n.ID), 10), p.Name, strconv.Itoa(p.Ifindex), p.Role, p.note(&n))
		}
	}
	return t.Flush(k.Out)
}

func (p *portView) note(n *nodeView) string {
	var notes []string
	switch {
	case n.Gone:
		notes = append(notes, "the node is gone")
	case p.Gone:
		notes = append(notes, "the interface is gone")
	}
	switch p.Closed {
	case "":
	case node.NotLooked:
		notes = append(notes, "takes INT off: its other end could not be looked at")
	default:
		notes = append(notes, "takes INT off: "+p.Closed+" is no INT node")
	}
	if p.Foreign == "drop" {
		notes = append(notes, "drops foreign INT")
	}
	if p.MTU > 0 {
		notes = append(notes, fmt.Sprintf("MTU %d", p.MTU))
	}
	if p.CongestedAt > 0 {
		notes = append(notes, fmt.Sprintf("congested at %d", p.CongestedAt))
	}
	if len(p.OffloadsOff) > 0 {
		off := slices.Clone(p.OffloadsOff)
		notes = append(notes, "offloads off at "+strings.Join(off, ", "))
	}
	return strings.Join(notes, ", ")
}
