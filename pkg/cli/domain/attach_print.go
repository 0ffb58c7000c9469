// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/words"
)

// attachView is the JSON form of what "radar attach" prints.
type attachView struct {
	Domain    string         `json:"domain"`
	DryRun    bool           `json:"dry_run,omitempty"`
	New       bool           `json:"new"` // the domain was created
	Slots     uint32         `json:"slots,omitempty"`
	Hook      string         `json:"hook,omitempty"`
	Carry     string         `json:"carry,omitempty"`
	IPv6      string         `json:"ipv6,omitempty"` // label, key, off
	IPv6Held  bool           `json:"ipv6_held,omitempty"`
	Watch     string         `json:"watch,omitempty"` // filter expression of what is measured
	Nodes     []answer.Node  `json:"nodes,omitempty"`
	Memory    *status.Memory `json:"memory,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
	Notes     []string       `json:"notes,omitempty"`
	Conflicts []conflictView `json:"conflicts,omitempty"`
	Readers   []readerView   `json:"readers,omitempty"`
	// Containers says what becomes of containers that start, if the command said so.
	Containers string              `json:"containers,omitempty"`
	Agent      *background.Started `json:"agent,omitempty"`
	Recorder   *recorderView       `json:"recorder,omitempty"`
	ran        bool                // an agent worked
	lease      time.Duration       // 0: never ends
}

type conflictView struct {
	Node string `json:"node"`
	What string `json:"what"`
	Rule string `json:"rule"`
	Mask string `json:"mask"`
}

// readerView is a process that reads all that comes in at several interfaces of a node.
type readerView struct {
	Node    string `json:"node"`
	PID     int    `json:"pid"`
	Process string `json:"process"`
	Ports   int    `json:"ports,omitempty"` // how many; absent: all
}

func newAttachView(r *datapath.AttachResult, dryRun bool) *attachView {
	d := r.Domain
	v := &attachView{
		Domain: d.Name, DryRun: dryRun, New: r.New,
		Slots: d.Options.Slots, Hook: d.Options.Hook,
		Carry: status.CarriedIn(d.Options.MarkMask),
		IPv6:  d.Options.IPv6, IPv6Held: r.IPv6Held,
		Watch: d.Options.Watch,
		Nodes: status.Nodes(d, kit.Face), Memory: status.MemoryOf(r.Memory),
		Warnings: kit.Rendered(r.Warnings), Notes: kit.Rendered(r.Notes), lease: d.Options.Lease,
	}
	for _, c := range r.Conflicts {
		v.Conflicts = append(v.Conflicts, conflictView{
			Node: c.Node, What: c.What, Rule: c.Text, Mask: fmt.Sprintf("0x%08x", c.Mask),
		})
	}
	for _, r := range r.Readers {
		v.Readers = append(v.Readers, readerView{Node: r.Node, PID: r.PID, Process: r.Name, Ports: max(r.Ports, 0)})
	}
	return v
}

// follows adds what the request says of containers that start.
func (v *attachView) follows(req *datapath.AttachRequest, d *domain.Domain) {
	if req.WatchContainers != nil {
		v.Containers = followText(d.Selectors, *req.WatchContainers)
	}
}

// followText says which containers join the domain when they start.
func followText(selectors []string, follow bool) string {
	if !follow {
		return "not followed any more: those that start do not join"
	}
	return "followed: " + strings.Join(selector.OfContainers(selectors), " ")
}

// printAttached prints what was attached, or would be.
func printAttached(k *kit.Kit, v *attachView) error {
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	w := k.Out
	if v.Memory != nil {
		verb := ":"
		if v.DryRun {
			verb = " (dry run):"
		}
		fmt.Fprintf(w, "domain %s%s %s, %d slots, %s\n", v.Domain, verb, countText(v.Nodes), v.Slots, v.Memory.Memory)
		if err := printNodes(k, v.Nodes, false); err != nil {
			return err
		}
	}
	if v.Containers != "" {
		fmt.Fprintf(w, "containers: %s\n", v.Containers)
	}
	for _, text := range k.Shown.Texts(v.Warnings) {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	for _, text := range k.Shown.Texts(v.Notes) {
		fmt.Fprintf(w, "note: %s\n", text)
	}
	printHeaderNodes(w, v.Nodes)
	printReaders(w, v.Readers)
	for _, c := range v.Conflicts {
		fmt.Fprintf(w, "warning: node %s: %s uses mark bits %s that radar uses: %s (detach and attach with --carry auto, or mark=0xMASK)\n", c.Node, c.What, c.Mask, c.Rule)
	}
	if v.IPv6Held {
		fmt.Fprintf(w, "note: IPv6 is %s; it is when one has, or the first IPv6 packet has come\n", heldText)
	}
	if v.New && v.Slots == program.DefaultOptions().Slots && v.Slots < program.MostDefaultSlots {
		fmt.Fprintf(w, "note: a ring of %d slots takes a tenth of this machine's memory at most (--slots chooses another)\n", v.Slots)
	}
	if v.Memory != nil && !v.DryRun {
		fmt.Fprintln(w, "note: tcpdump on links inside the domain shows rewritten header bits (IP ID or flow label, TTL); programs and everything outside see the true ones")
	}
	if v.Recorder != nil {
		fmt.Fprintf(w, "recorder: process %d keeps all packets in %s\n", v.Recorder.PID, v.Recorder.Dir)
	}
	if v.Agent == nil {
		if v.Memory == nil {
			_, err := fmt.Fprintf(w, "domain %s: this process is its agent now, Ctrl-C detaches (-d starts one in the background)\n", v.Domain)
			return err
		}
		return nil
	}
	if v.Agent.Log == "" {
		_, err := fmt.Fprintf(w, "agent: process %d goes on\n", v.Agent.PID)
		return err
	}
	_, err := fmt.Fprintf(w, "agent: process %d, log %s\n", v.Agent.PID, v.Agent.Log)
	return err
}

// printHeaderNodes names the nodes that carry the header while others carry the mark.
func printHeaderNodes(w io.Writer, list []answer.Node) {
	for _, n := range list {
		switch {
		case n.Apart != "":
			why := "it carries no mark"
			if n.Header != "" {
				why = fmt.Sprintf("it uses the mark (%s)", n.Header)
			}
			fmt.Fprintf(w, "note: in node %s stories end where packets enter, as left, and begin anew where they leave: %s, and has %s\n", n.Name, why, n.Apart)
		case n.Header != "":
			fmt.Fprintf(w, "note: node %s carries the header, so rules in it see rewritten TTL, DSCP and IP ID (%s)\n", n.Name, n.Header)
		}
	}
}

// printReaders names processes that may be switches: nobody can tell them from a tcpdump before
// they send.
func printReaders(w io.Writer, list []readerView) {
	for _, r := range list {
		what := "all interfaces"
		if r.Ports > 0 {
			what = words.Plural(r.Ports, "interface")
		}
		fmt.Fprintf(w, "note: in node %s %s (process %d) reads %s. If it forwards packets: one whose content it changes leaves with its true header, and its story ends there; what it puts into other packets (a tunnel, a report) has rewritten header bits: then leave the node out, and name it by --vm\n",
			r.Node, r.Process, r.PID, what)
	}
}

// printSwitches names the processes that were seen to forward packets.
func printSwitches(w io.Writer, list []answer.Node) {
	for _, n := range list {
		if n.Switch != "" {
			fmt.Fprintf(w, "note: in node %s %s forwards packets: those that it does not are lost as %s, and where it changes the content a new story begins\n", n.Name, n.Switch, record.NotForwarded)
		}
	}
}

// countText counts the nodes that the user named and their ports, and names those that
// radar found.
func countText(list []answer.Node) string {
	named, ports, machines := 0, 0, 0
	var found []string
	for _, n := range list {
		if n.VM {
			machines++
			continue
		}
		if n.Auto {
			found = append(found, fmt.Sprintf("%s of %s found", words.Plural(len(n.Ports), "port"), n.Name))
			continue
		}
		named++
		ports += len(n.Ports)
	}
	if machines > 0 {
		found = append(found, words.Plural(machines, "virtual machine"))
	}
	return strings.Join(append([]string{words.Plural(named, "node"), words.Plural(ports, "port")}, found...), ", ")
}

// printNodes prints one line a port, and one for a node without any. What hangs on a
// bridge has the bridge for its peer.
func printNodes(k *kit.Kit, list []answer.Node, states bool) error {
	columns := []kit.Column{{Title: "NODE"}, {Title: "PORT"}}
	if states {
		columns = append(columns, kit.Column{Title: "STATE"})
	}
	columns = append(columns, kit.Column{Title: "ROLE"}, kit.Column{Title: "PEER"})
	wide := k.Output == kit.FormatWide
	if wide {
		columns = append(columns, kit.Column{Title: "KIND"}, kit.Column{Title: "IFINDEX", Right: true}, kit.Column{Title: "SPEC"})
	}
	t := kit.NewTable(columns...)
	for _, n := range list {
		if len(n.Ports) == 0 {
			t.Add(n.Name)
		}
		for _, p := range n.Ports {
			role := string(p.Role)
			if p.Forced {
				role += " (forced)"
			}
			if p.Place != "" {
				role += " (found)"
			}
			cells := []string{k.Shown.Node(n.Name, p.Name), k.Shown.Port(n.Name, p.Name)}
			if states {
				cells = append(cells, words.State(p.State))
			}
			cells = append(cells, role, cmp.Or(p.Peer, k.Shown.End(p.Link), k.Shown.End(p.Lower)))
			if wide {
				cells = append(cells, p.Kind, fmt.Sprint(p.Ifindex), n.Spec)
			}
			t.Add(cells...)
		}
	}
	return t.Flush(k.Out)
}
