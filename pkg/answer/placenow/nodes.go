// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"context"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Queue is the root queueing discipline of a place's port now.
type Queue struct {
	topo.Qdisc
	// OverBurst says whether frames that were lost there were longer than its burst.
	OverBurst OverBurst `json:"over_burst,omitempty"`
}

// OverBurst is whether frames were longer than a burst; "": none can have been.
type OverBurst string

// Whether they were.
const (
	OverBurstYes   OverBurst = "yes"   // on average
	OverBurstMaybe OverBurst = "maybe" // the port's MTU lets such frames pass
)

// Netfilter is what a node says of packets that netfilter's hooks free themselves. Rules of nf_tables are none of
// these from Linux 6.7 on.
type Netfilter struct {
	Rules bool `json:"rules"` // there are rules now, or policies, that drop
	// ConntrackDrops are packets that conntrack has dropped since attach. ConntrackNotInserted are those among them whose
	// connection it could not note, because one with the same addresses and ports was there.
	ConntrackDrops       uint64 `json:"conntrack_drops,omitempty"`
	ConntrackNotInserted uint64 `json:"conntrack_insert_failed,omitempty"`
	// ConntrackUnknown: conntrack has dropped packets in this node, and nobody knows whether any of them since attach.
	ConntrackUnknown bool `json:"conntrack_unknown,omitempty"`
	// NoFreePort is what NAT has no port for now, which is why conntrack could not note connections. NATRules are, without
	// that, the rules that can have had none then.
	NoFreePort []rules.NoFreePort `json:"no_free_port,omitempty"`
	NATRules   []rules.NATRule    `json:"nat_rules,omitempty"`
}

// Nodes asks the nodes of an attached domain, each once. A nil one knows nothing.
type Nodes struct {
	of      *domain.Domain
	asker   *asker
	kernel  kernel
	inspect inspector
	before  *domain.Counted // nil: not read yet
	queues  map[string]map[string]topo.Qdisc
	filters map[string]*Netfilter
	counts  map[string]*kernelCounts
}

// kernelCounts is what a kernel counts itself in a node.
type kernelCounts struct {
	counters    map[string]uint64 // nil: it cannot be asked
	sinceAttach bool              // else since the node began
}

// kernel is how a node is asked.
type kernel struct {
	interfaces func(topo.NodeSpec) (map[int]topo.Interface, error)
	qdiscs     func(topo.NodeSpec) (map[string]topo.Qdisc, error)
	counters   func(topo.NodeSpec) (map[string]uint64, error)
	dropping   func(topo.NodeSpec) (bool, error)
	natPorts   func(topo.NodeSpec) (rules.NATPorts, error)
}

func newNodes(ctx context.Context, d *domain.Domain) *Nodes {
	return &Nodes{of: d, asker: newAsker(ctx), inspect: theInspector,
		kernel: kernel{topo.NodeSpec.Interfaces, topo.NodeSpec.Qdiscs, topo.NodeSpec.Counters, rules.Dropping, rules.PortsOfNAT},
		queues: make(map[string]map[string]topo.Qdisc), filters: make(map[string]*Netfilter),
		counts: make(map[string]*kernelCounts)}
}

// node is the one of that name that is there.
func (n *Nodes) node(name string) *domain.Node {
	i := slices.IndexFunc(n.of.Nodes, func(node domain.Node) bool { return node.Name == name && !node.Removed })
	if i < 0 {
		return nil
	}
	return &n.of.Nodes[i]
}

// count asks nodes for their counters.
func (n *Nodes) count(names ...string) {
	var nodes []*domain.Node
	for _, name := range names {
		if n.counts[name] != nil {
			continue
		}
		n.counts[name] = &kernelCounts{}
		if node := n.node(name); node != nil {
			nodes = append(nodes, node)
		}
	}
	if n.before == nil {
		// The agent says what it cannot read or write; without that a node counts since it began.
		n.before, _ = domain.LoadCounted(n.of)
	}
	for i, now := range askAll(n.asker, nodes, n.kernel.counters) {
		if now.ok {
			since, known := n.before.Since(nodes[i], now.is)
			n.counts[nodes[i].Name] = &kernelCounts{since, known}
		}
	}
}

// netfilter is what a node says of drops of its hooks; nil: these are others, or it cannot be asked.
func (n *Nodes) netfilter(name, reason, function string) *Netfilter {
	if n == nil || function != rules.Hook || reason != "" && reason != "NETFILTER_DROP" && reason != "NOT_SPECIFIED" {
		return nil
	}
	if known, is := n.filters[name]; is {
		return known
	}
	n.filters[name] = nil
	n.count(name)
	counts := n.counts[name]
	if counts.counters == nil {
		return nil
	}
	drops, notInserted := counts.counters[topo.ConntrackDrop], counts.counters[topo.ConntrackInsertFailed]
	dropping := askAll(n.asker, []*domain.Node{n.node(name)}, n.kernel.dropping)[0]
	f := &Netfilter{Rules: dropping.is || !dropping.ok}
	if counts.sinceAttach { // what was dropped before is no cause of what is asked
		f.ConntrackDrops, f.ConntrackNotInserted = drops, notInserted
	} else {
		f.ConntrackUnknown = drops > 0 || notInserted > 0
	}
	if notInserted > 0 {
		nat := askAll(n.asker, []*domain.Node{n.node(name)}, n.kernel.natPorts)[0]
		f.NoFreePort = nat.is.NoFree[:min(len(nat.is.NoFree), maxRules)]
		if len(f.NoFreePort) == 0 {
			f.NATRules = nat.is.Ranges[:min(len(nat.is.Ranges), maxRules)]
		}
	}
	n.filters[name] = f
	return f
}

// ethernet is the length of a frame's header.
const ethernet = 14

// queue is the discipline at a port of that MTU where packets of so many IP bytes, 0: not known, were lost on average;
// nil: another one was there then, or it cannot be asked.
func (n *Nodes) queue(p *aggregate.LossPlace, mtu int, bytes uint64) *Queue {
	if n == nil || p.Qdisc == "" {
		return nil
	}
	list, known := n.queues[p.Node]
	if !known {
		if node := n.node(p.Node); node != nil {
			list = askAll(n.asker, []*domain.Node{node}, n.kernel.qdiscs)[0].is
		}
		n.queues[p.Node] = list
	}
	q, is := list[p.Port]
	if !is || q.Kind != p.Qdisc {
		return nil
	}
	now := &Queue{Qdisc: q}
	switch {
	case q.BurstBytes == 0:
	case bytes+ethernet > q.BurstBytes && bytes > 0:
		now.OverBurst = OverBurstYes
	case mtu == 0 || uint64(mtu)+ethernet > q.BurstBytes:
		now.OverBurst = OverBurstMaybe
	}
	return now
}
