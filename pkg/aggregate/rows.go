// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// HopNames are Names that call a node otherwise where a packet came in or left by one of some
// ports: what is behind these is not the node. Losses and what is inside a node are the node's.
type HopNames interface {
	packet.Names
	// HopNode is a node's name in a hop by these ports; either may be packet.NoPort.
	HopNode(node, in, out uint16) string
}

func hopNode(names packet.Names, node, in, out uint16) string {
	if n, ok := names.(HopNames); ok {
		return n.HopNode(node, in, out)
	}
	return names.NodeName(node)
}

// By is what latencies and throughput are grouped by.
type By string

// The groups. Node: ingress to egress in one node. Queue: egress to leaving the queue
// of a port. Link: from there, or from egress where that was not seen, to ingress of the
// next node. Path and end-to-end: first to last
// stamp of packets that were delivered or left. Flow: the same of one flow.
const (
	ByNode     By = "node"
	ByQueue    By = "queue" // latency only
	ByLink     By = "link"
	ByPath     By = "path"
	ByEndToEnd By = "end-to-end"
	ByFlow     By = "flow"
	ByPort     By = "port" // throughput only
)

// All is the name of the row over all: of all pairs of nodes in ByEndToEnd, of all
// packets in throughput.
const All = "all"

// LatencyRow is the times of one node, queue, link, path, pair of nodes or flow.
type LatencyRow struct {
	By   By     `json:"by"`
	Name string `json:"name"` // "r1", "r1/eth1", "r1/eth1 > r2/eth0", "h1 > r1 > h2", "h1 > h2"
	Quantiles
	JitterNs  *int64    `json:"jitter_ns,omitempty"` // of a flow
	Hops      []PathHop `json:"hops,omitempty"`      // of a path: it is known by its ports
	Truncated bool      `json:"truncated,omitempty"` // of a path: hops may be missing
	Flow      *Flow     `json:"flow,omitempty"`
}

// PathHop is one node of a path.
type PathHop struct {
	Node   string `json:"node"`
	NodeID int    `json:"node_id,omitempty"` // of one of them, if several had the name
	InPort string `json:"in_port,omitempty"`
	Port   string `json:"port,omitempty"`
	// Where copies parted: as in a record's hop.
	Prev *int `json:"prev,omitempty"`
	Copy bool `json:"copy,omitempty"`
	Gap  bool `json:"gap,omitempty"` // hops before it may be missing
}

// PathRow is one path and what took it. Lost and expired packets count on the path
// up to where they were seen last.
type PathRow struct {
	Path      string     `json:"path"` // "h1 > r1 > h2"
	Hops      []PathHop  `json:"hops"`
	Packets   uint64     `json:"packets"`
	Bytes     uint64     `json:"bytes"`
	Flows     uint64     `json:"flows"`
	FlowsMore bool       `json:"flows_more,omitempty"` // there may be more: the table was full
	Delivered uint64     `json:"delivered"`
	Left      uint64     `json:"left"`
	Lost      uint64     `json:"lost"`
	Expired   uint64     `json:"expired"`
	Ignored   uint64     `json:"ignored,omitempty"`
	Truncated bool       `json:"truncated,omitempty"` // hops may be missing
	Latency   *Quantiles `json:"latency,omitempty"`   // of those delivered and left

	Ends []Ends `json:"-"` // by hop, where copies parted; see EndsAt
}

// Totals returns the counts of everything added. What is in the ring without an end
// is not in it: see Collector.Totals.
func (a *Aggregates) Totals() Totals {
	t := a.totals
	t.Unmeasured, t.UnmeasuredBytes = a.unmeasured()
	return t
}

// Latency returns the groups that have times, those with most packets first.
func (a *Aggregates) Latency(by By, names packet.Names) []LatencyRow {
	if by == ByFlow {
		return LatencyOfFlows(a.Flows(names, nil))
	}
	var rows []LatencyRow
	for _, timed := range a.timed(by, names) {
		rows = append(rows, timed.LatencyRow)
	}
	return rows
}

// timedRow is a row with the times that it is of.
type timedRow struct {
	LatencyRow
	times *latency
}

// timed are the rows of Latency of groups other than flows.
func (a *Aggregates) timed(by By, names packet.Names) []timedRow {
	var rows []timedRow
	switch by {
	case ByPath:
		rows = a.pathLatency(names)
	default:
		for name, l := range a.latencies(by, names) {
			if q, ok := l.quantiles(); ok {
				rows = append(rows, timedRow{LatencyRow{By: by, Name: name, Quantiles: q}, l})
			}
		}
	}
	slices.SortFunc(rows, func(a, b timedRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name),
			slices.CompareFunc(a.Hops, b.Hops, compareHops))
	})
	if q, ok := a.all.quantiles(); ok && by == ByEndToEnd {
		rows = slices.Insert(rows, 0, timedRow{LatencyRow{By: by, Name: All, Quantiles: q}, a.all})
	}
	return rows
}

// latencies are the times of nodes, queues, links or pairs by name.
func (a *Aggregates) latencies(by By, names packet.Names) map[string]*latency {
	m := make(map[string]*latency)
	add := func(name string, l *latency) {
		if m[name] == nil {
			m[name] = new(latency)
		}
		m[name].merge(l)
	}
	switch by {
	case ByNode:
		for node, n := range a.nodes {
			add(names.NodeName(node), &n.times)
		}
	case ByQueue:
		for port, p := range a.ports {
			add(endName(port, names), &p.queue)
		}
	case ByLink:
		for k, l := range a.links {
			add(linkName(k, names), &l.times)
		}
	case ByEndToEnd:
		ends := a.endNames(names)
		for k, l := range a.pairs {
			add(ends.name(k, names), l)
		}
	}
	return m
}

// endNames are what the ends of pairs of nodes are called, where not like the nodes.
type endNames map[nodePair]*[2][]string

// endNames finds them in the paths between these nodes: pairs do not know the ports.
func (a *Aggregates) endNames(names packet.Names) endNames {
	if _, ok := names.(HopNames); !ok {
		return nil
	}
	ends := make(endNames)
	for key := range a.paths {
		hops := keyHops(key)
		for i, h := range hops {
			if !isEnd(hops, i) {
				continue
			}
			first, pair := hops[0], nodePair{hops[0].node, h.node}
			if ends[pair] == nil {
				ends[pair] = new([2][]string)
			}
			ends[pair][0] = append(ends[pair][0], hopNode(names, first.node, first.in, first.out))
			ends[pair][1] = append(ends[pair][1], hopNode(names, h.node, h.in, h.out))
		}
	}
	return ends
}

// name is a pair's. An end that has several names has all of them.
func (e endNames) name(k nodePair, names packet.Names) string {
	of := e[k]
	if of == nil {
		return names.NodeName(k.From) + " > " + names.NodeName(k.To)
	}
	var text [2]string
	for i, list := range of {
		slices.Sort(list)
		text[i] = strings.Join(slices.Compact(list), " or ")
	}
	return text[0] + " > " + text[1]
}

func (a *Aggregates) pathLatency(names packet.Names) []timedRow {
	var rows []timedRow
	ways, _ := a.waysByName(names)
	for _, w := range ways {
		if q, ok := w.times.quantiles(); ok {
			row := LatencyRow{By: ByPath, Name: w.row.Path, Quantiles: q, Hops: w.row.Hops, Truncated: w.row.Truncated}
			rows = append(rows, timedRow{row, w.times})
		}
	}
	return rows
}

func linkName(k ports, names packet.Names) string {
	return endName(k.From, names) + " > " + endName(k.To, names)
}

func endName(port uint16, names packet.Names) string {
	return hopNode(names, names.PortNode(port), port, packet.NoPort) + "/" + names.PortName(port)
}

func pathHops(key string, names packet.Names) []PathHop {
	hops := []PathHop{}
	for i, h := range keyHops(key) {
		hop := PathHop{
			Node: hopNode(names, h.node, h.in, h.out), NodeID: nodeID(h.node),
			InPort: names.PortName(h.in), Port: names.PortName(h.out), Copy: h.copied, Gap: h.gap,
		}
		if h.prev != i-1 {
			hop.Prev = &h.prev
		}
		hops = append(hops, hop)
	}
	return hops
}

// Loop returns the nodes of the circle that packets of this path went round in, as indices of
// hops, see record.Record.
func (r *PathRow) Loop() (first, again int, ok bool) {
	return record.FindLoop(len(r.Hops), func(i int) (record.LoopHop, bool) {
		h := &r.Hops[i]
		return record.LoopHop{Node: h.Node, In: h.InPort, Out: h.Port}, h.InPort != "" && h.Port != "" && !h.Copy && r.PrevOf(i) == i-1
	})
}

// EndsAt returns how many packets left the domain at hop i or were not seen again behind
// it. Of a packet with copies each branch counts at its own end.
func (r *PathRow) EndsAt(i int) (left, expired uint64) {
	switch {
	case r.Ends != nil:
		return r.Ends[i].Left, r.Ends[i].Expired
	case i == len(r.Hops)-1:
		return r.Left, r.Expired
	}
	return 0, 0
}

// PrevOf is record.Record's.
func (r *PathRow) PrevOf(i int) int { return prevOf(r.Hops, i) }

func prevOf(hops []PathHop, i int) int {
	if p := hops[i].Prev; p != nil && *p >= -1 && *p < i {
		return *p
	}
	return i - 1
}

// PathText is the path in one line; with ports, those at both ends of each link:
// "h1:e0 > e0:r1:e1 > e0:h2".
func PathText(hops []PathHop, withPorts bool) string {
	steps := make([]record.Step, len(hops))
	for i, h := range hops {
		s := record.Step{Text: h.Node, Prev: prevOf(hops, i), Same: -1}
		for j := 0; !withPorts && h.Copy && j < i; j++ {
			if f := hops[j]; !f.Copy && f.Node == h.Node && f.InPort == h.InPort && prevOf(hops, j) == s.Prev {
				s.Same = j
				break
			}
		}
		if withPorts && h.InPort != "" {
			s.Text = h.InPort + ":" + s.Text
		}
		if withPorts && h.Port != "" {
			s.Text += ":" + h.Port
		}
		if h.Gap {
			s.Arrow = record.GapArrow
		}
		steps[i] = s
	}
	return record.PathText(steps)
}

// TruncatedText marks a path of which hops may be missing, unless it says where.
func TruncatedText(path string, hops []PathHop, truncated bool) string {
	if truncated && !slices.ContainsFunc(hops, func(h PathHop) bool { return h.Gap }) {
		path += record.IncompleteMark
	}
	return path
}

// way is all paths with the same names.
type way struct {
	row   PathRow
	times *latency
	sums  meter
}

// waysByName joins paths whose names are the same. of finds the way of a path by
// its id.
func (a *Aggregates) waysByName(names packet.Names) (ways []*way, of []*way) {
	of = make([]*way, len(a.paths))
	byName := make(map[string]*way)
	for key, p := range a.paths {
		hops := pathHops(key, names)
		name := key[:1] // truncated paths are kept apart
		for i, h := range hops {
			name += h.InPort + "\x00" + h.Node + "\x00" + h.Port + "\x00"
			if h.Gap {
				name += "..."
			}
			if h.Prev != nil || h.Copy {
				name += strconv.Itoa(prevOf(hops, i)) + strconv.FormatBool(h.Copy)
			}
		}
		w := byName[name]
		if w == nil {
			w = &way{times: new(latency)}
			w.row = PathRow{Path: PathText(hops, false), Hops: hops, Truncated: key[0]&keyTruncated != 0}
			byName[name] = w
			ways = append(ways, w)
		}
		for i, h := range hops {
			w.row.Hops[i].NodeID = max(w.row.Hops[i].NodeID, h.NodeID)
		}
		if p.ends != nil && w.row.Ends == nil {
			w.row.Ends = make([]Ends, len(hops))
		}
		for i, end := range p.ends {
			w.row.Ends[i].Left += end.Left
			w.row.Ends[i].Expired += end.Expired
		}
		w.row.Delivered += p.delivered
		w.row.Left += p.left
		w.row.Lost += p.lost
		w.row.Expired += p.expired
		w.row.Ignored += p.ignored
		w.row.FlowsMore = w.row.FlowsMore || p.overFlows > 0
		w.times.merge(p.latency)
		w.sums.merge(&p.sums)
		of[p.id] = w
	}
	return ways, of
}

// Paths returns all paths, those with most packets first.
func (a *Aggregates) Paths(names packet.Names) []PathRow {
	ways, of := a.waysByName(names)
	a.countWays(of)
	rows := make([]PathRow, 0, len(ways))
	for _, w := range ways {
		rows = append(rows, w.pathRow())
	}
	slices.SortFunc(rows, func(a, b PathRow) int { return comparePaths(&a, &b) })
	return rows
}

// pathRow completes the row.
func (w *way) pathRow() PathRow {
	w.row.Packets, w.row.Bytes = w.sums.packets, w.sums.bytes
	if q, ok := w.times.quantiles(); ok {
		w.row.Latency = &q
	}
	return w.row
}

// countWays counts the flows on each way. Later fragments do not count: their flow
// is that of their datagram, which they do not show.
func (a *Aggregates) countWays(of []*way) {
	var seen []*way
	for _, f := range a.flows {
		seen = seen[:0]
		for _, use := range f.paths {
			if w := of[use.id]; f.key.kind != fragmentFlow && !slices.Contains(seen, w) {
				w.row.Flows++
				seen = append(seen, w)
			}
		}
	}
}

func compareHops(a, b PathHop) int {
	return cmp.Or(cmp.Compare(a.InPort, b.InPort), cmp.Compare(a.Port, b.Port))
}

// nodeID is 0 for a node that is not known, as in records.
func nodeID(node uint16) int {
	if node == packet.NoNode {
		return 0
	}
	return int(node)
}
