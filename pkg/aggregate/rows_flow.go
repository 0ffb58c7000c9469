// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"math"
	"net"
	"slices"
	"strconv"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Flow names a flow: one direction, as the source saw it.
type Flow struct {
	IPVersion int    `json:"-"` // the form of the addresses says it
	Proto     string `json:"proto"`
	Src       string `json:"src"`
	Dst       string `json:"dst"`
	Sport     *int   `json:"sport,omitempty"`
	Dport     *int   `json:"dport,omitempty"`
	ICMPType  *int   `json:"icmp_type,omitempty"`
	ICMPID    *int   `json:"icmp_id,omitempty"` // of an echo
	// Fragments: later fragments, which show no ports. The first ones are in the
	// flow of their datagram.
	Fragments bool `json:"fragments,omitempty"`
}

// String is "10.0.1.1:4711 > 10.0.2.2:80 tcp".
func (f *Flow) String() string {
	text := endpoint(f.Src, f.Sport) + " > " + endpoint(f.Dst, f.Dport) + " " + f.Proto
	switch {
	case f.ICMPType == nil:
	case f.ICMPID != nil && (*f.ICMPType == 0 || *f.ICMPType == 129):
		text += " reply"
	case f.ICMPID != nil:
		text += " echo"
	default:
		text += " type " + strconv.Itoa(*f.ICMPType)
	}
	if f.ICMPID != nil {
		text += " id " + strconv.Itoa(*f.ICMPID)
	}
	if f.Fragments {
		text += " fragments"
	}
	return text
}

func endpoint(addr string, port *int) string {
	if port == nil {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(*port)) // an IPv6 address in brackets
}

// FlowRow is one flow and what became of its packets.
type FlowRow struct {
	Flow
	// The other tuple, where something on the way changed it, as last seen.
	NATSrc   string `json:"nat_src,omitempty"`
	NATDst   string `json:"nat_dst,omitempty"`
	NATSport *int   `json:"nat_sport,omitempty"`
	NATDport *int   `json:"nat_dport,omitempty"`

	Packets   uint64 `json:"packets"` // segments of trains counted each
	Bytes     uint64 `json:"bytes"`   // IP bytes
	Delivered uint64 `json:"delivered"`
	Left      uint64 `json:"left"`
	Lost      uint64 `json:"lost"`
	Expired   uint64 `json:"expired"`
	Ignored   uint64 `json:"ignored,omitempty"`
	// Unmeasured packets were counted only: what became of them, how long they took and by which path they went is not
	// known. The counts above, latency, jitter, order and paths are of the others.
	Unmeasured uint64 `json:"unmeasured,omitempty"`
	LocalDrops uint64 `json:"local_drops"` // of those delivered
	// Dropped are LocalDrops without what TCP itself has freed: see LossPlace.FreedByTCP.
	Dropped uint64 `json:"dropped"`

	FirstNs    int64   `json:"first_ns"`           // first stamp of the first packet, Unix ns
	LastNs     int64   `json:"last_ns"`            // last stamp of the last packet, Unix ns
	DurationNs int64   `json:"duration_ns"`        // completion time: the one less the other
	RateBps    *uint64 `json:"rate_bps,omitempty"` // bits/s of all its packets over that time; one packet has none

	Latency *Quantiles `json:"latency,omitempty"` // of those delivered and left
	// JitterNs is RFC 3550's, 6.4.1, as it stands after the last arrival.
	JitterNs *int64 `json:"jitter_ns,omitempty"`
	// Reordered packets arrived behind one that was sent later (RFC 4737, 3.3); the
	// ratio is to all that arrived.
	Reordered      uint64   `json:"reordered"`
	ReorderedRatio *float64 `json:"reordered_ratio,omitempty"`

	Paths     int        `json:"paths"`
	PathsMore bool       `json:"paths_more,omitempty"` // there may be more than those listed
	PathList  []FlowPath `json:"path_list"`
}

// FlowPath is how many packets of a flow took one path.
type FlowPath struct {
	Path    string `json:"path"`
	Packets uint64 `json:"packets"`
}

// Flows returns the flows that keep lets pass (nil: all), those with most packets
// first. keep sees a packet that has the flow's header and its NAT as a hop, valid
// during the call only.
func (a *Aggregates) Flows(names packet.Names, keep func(*packet.Packet) bool) []FlowRow {
	timed := a.timedFlows(names, keep)
	rows := make([]FlowRow, len(timed))
	for i := range timed {
		rows[i] = timed[i].FlowRow
	}
	return rows
}

// timedFlow is a row with the flow that it is of.
type timedFlow struct {
	FlowRow
	of *flow
}

func (a *Aggregates) timedFlows(names packet.Names, keep func(*packet.Packet) bool) []timedFlow {
	a.settleAll()
	_, ways := a.waysByName(names)
	freed := a.freedByFlow()
	rows := make([]timedFlow, 0, len(a.flows))
	add := func(f, of *flow, unmeasured uint64) {
		if keep == nil || keep(f.packet()) {
			row := f.row(ways, a.offset)
			row.Dropped = row.LocalDrops - min(row.LocalDrops, freed[of])
			row.Unmeasured = unmeasured
			rows = append(rows, timedFlow{row, of})
		}
	}
	for _, f := range a.flows {
		if a.sums[f.key] == nil {
			add(f, f, 0)
		}
	}
	a.summedFlows(func(measured, all *flow, unmeasured uint64) {
		if measured == nil {
			measured = all
		}
		add(all, measured, unmeasured)
	})
	slices.SortFunc(rows, func(a, b timedFlow) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), compareFlows(&a.Flow, &b.Flow))
	})
	return rows
}

func compareFlows(a, b *Flow) int { return cmp.Compare(a.String(), b.String()) }

// name is the flow as others see it.
func (k *FlowKey) name() Flow {
	f := Flow{IPVersion: 4, Proto: record.ProtoName(k.proto), Src: k.src.Text(k.ipv6), Dst: k.dst.Text(k.ipv6), Fragments: k.kind == fragmentFlow}
	if k.ipv6 {
		f.IPVersion = 6
	}
	switch k.kind {
	case portsFlow:
		f.Sport, f.Dport = number(k.sport), number(k.dport)
	case icmpFlow:
		f.ICMPType = number(uint16(k.icmp))
	case echoFlow:
		f.ICMPType, f.ICMPID = number(uint16(k.icmp)), number(k.sport)
	}
	return f
}

func number(n uint16) *int {
	v := int(n)
	return &v
}

// leastUndated is how long a flow lasts at least for its rate to be said where only the times are known at which reports
// came, ns: these come in batches.
const leastUndated = 1e9

func (f *flow) row(ways []*way, offset int64) FlowRow {
	o := &f.order
	row := FlowRow{
		Flow: f.key.name(), Packets: f.packets, Bytes: f.bytes, Delivered: f.delivered, Left: f.left,
		Lost: f.lost, Expired: f.expired, Ignored: f.ignored, LocalDrops: f.localDrops,
		FirstNs: int64(f.first) + offset, LastNs: int64(f.last) + offset, DurationNs: int64(f.last - f.first),
		Reordered: o.reordered, PathsMore: f.otherPaths > 0,
	}
	f.fillNAT(&row)
	if row.DurationNs > 0 && f.packets > 1 && (f.undated == 0 || row.DurationNs >= leastUndated) {
		rate := uint64(math.Round(float64(f.bytes) * 8e9 / float64(row.DurationNs)))
		row.RateBps = &rate
	}
	if q, ok := f.times.quantiles(); ok {
		row.Latency = &q
	}
	if o.steps > 0 {
		jitter := int64(math.Round(o.jitter))
		row.JitterNs = &jitter
	}
	if o.arrivals > 0 {
		ratio := float64(o.reordered) / float64(o.arrivals)
		row.ReorderedRatio = &ratio
	}
	var seen []*way
	for _, use := range f.paths {
		w := ways[use.id]
		i := slices.Index(seen, w)
		if i < 0 {
			i = len(seen)
			seen = append(seen, w)
			row.PathList = append(row.PathList, FlowPath{Path: w.row.Path})
		}
		row.PathList[i].Packets += use.packets
	}
	row.Paths = len(seen)
	slices.SortFunc(row.PathList, func(a, b FlowPath) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Path, b.Path))
	})
	return row
}

func (f *flow) fillNAT(row *FlowRow) {
	k, t := &f.key, &f.nat
	if *t == (packet.Tuple{}) {
		return
	}
	if t.Src != k.src {
		row.NATSrc = t.Src.Text(k.ipv6)
	}
	if t.Dst != k.dst {
		row.NATDst = t.Dst.Text(k.ipv6)
	}
	if k.kind != portsFlow {
		return
	}
	if t.SrcPort != k.sport {
		row.NATSport = number(t.SrcPort)
	}
	if t.DstPort != k.dport {
		row.NATDport = number(t.DstPort)
	}
}

// packet is a packet of the flow, with what all have in common.
func (f *flow) packet() *packet.Packet {
	p := f.key.Packet()
	if f.nat != (packet.Tuple{}) {
		p.Hops = []packet.Hop{{Changed: true, Tuple: f.nat}}
	}
	return p
}

// Packet is a packet of the flow, with what all have in common.
func (k *FlowKey) Packet() *packet.Packet {
	p := &packet.Packet{
		HasTuple: true, Tuple: packet.Tuple{Src: k.src, Dst: k.dst, SrcPort: k.sport, DstPort: k.dport},
		IPv6: k.ipv6, Proto: k.proto, ICMP: [2]uint8{k.icmp},
	}
	switch k.kind {
	case plainFlow:
		p.Cut = packet.CutAll
	case icmpFlow:
		p.Cut = packet.CutAfterType
	case fragmentFlow:
		p.Later = true
	}
	return p
}

// LatencyOfFlows turns flows into rows of latencies, in their order.
func LatencyOfFlows(flows []FlowRow) []LatencyRow {
	var rows []LatencyRow
	for i := range flows {
		f := &flows[i]
		if f.Latency != nil {
			rows = append(rows, LatencyRow{By: ByFlow, Name: f.String(), Quantiles: *f.Latency, JitterNs: f.JitterNs, Flow: &f.Flow})
		}
	}
	return rows
}
