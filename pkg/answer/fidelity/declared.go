// SPDX-License-Identifier: Apache-2.0

// Package fidelity holds what a lab declares of its links, by the queueing disciplines of its ports, against what
// packets met there (docs/verdicts.md).
package fidelity

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Port is what the queueing disciplines of a port declare.
type Port struct {
	Name   string // NODE/PORT
	Node   string
	Port   string
	Kinds  string // of the disciplines, from the root on: "htb, netem"
	Header int    // bytes before the IP header, which rates count
	Edge   bool   // what waits here comes after the last stamp
	Shares string // why not: several classes or emulators, whose packets cannot be told apart; "": there is one

	Netem *Netem
	Rate  float64 // bits a second, of tbf or htb; 0: none
	Burst float64 // bytes that pass at once; 0: none is declared
	Root  string  // kind of the root discipline

	// Of the queue in which packets wait, if there is one: its kind, and what it holds at most.
	Holds        string
	LimitPackets uint32
	LimitBytes   uint32
}

// Netem is what an emulator declares. Shares are of packets.
type Netem struct {
	DelayNs, JitterNs        float64
	Loss, Duplicate, Reorder float64
	Gap                      uint32  // every so many are reordered; 0: by chance
	Rate                     float64 // bits a second; 0: no limit
	Limit                    uint32  // packets
	Bursts                   bool    // losses depend on each other
}

// Declared reads what the ports of a domain that is attached declare now: those of which any does. What could not
// be read is told.
func Declared(d *domain.Domain) (ports []Port, failed []error) {
	for i := range d.Nodes {
		node := &d.Nodes[i]
		if node.Removed {
			continue
		}
		list, err := declaredBy(d, node)
		if err != nil {
			failed = append(failed, fmt.Errorf("node %s: %w", node.Name, err))
		}
		ports = append(ports, list...)
	}
	slices.SortFunc(ports, func(x, y Port) int { return strings.Compare(x.Name, y.Name) })
	return ports, failed
}

// declaredBy are those ports of a node that declare what is judged.
func declaredBy(d *domain.Domain, node *domain.Node) (list []Port, err error) {
	all, err := readPorts(topo.SpecOf(*node), portsOf(d, node))
	for _, p := range all {
		if p.Netem != nil || p.Rate > 0 || p.Shares != "" {
			list = append(list, p)
		}
	}
	return list, err
}

// OfNode is what the ports of a node declare now, by their names; nil: it is not there, cannot be entered, or does not
// answer.
func OfNode(l *placenow.Links, d *domain.Domain, name string) map[string]Port {
	i := slices.IndexFunc(d.Nodes, func(n domain.Node) bool { return n.Name == name && !n.Removed })
	if i < 0 {
		return nil
	}
	wanted := portsOf(d, &d.Nodes[i]) // nobody else has them: the node may still be asked when the question is over
	list, ok := placenow.AskNode(l, name, func(node topo.NodeSpec) ([]Port, error) { return readPorts(node, wanted) })
	if !ok {
		return nil
	}
	ports := make(map[string]Port)
	for _, p := range list {
		ports[p.Port] = p
	}
	return ports
}

// wantedPort is a port that is to be read.
type wantedPort struct {
	Port
	ifindex int
}

// portsOf are the ports of a node, of which nothing was read yet.
func portsOf(d *domain.Domain, node *domain.Node) (list []wantedPort) {
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Node != node.ID || p.Removed {
			continue
		}
		one := Port{Name: node.Name + "/" + p.Name, Node: node.Name, Port: p.Name, Header: 14, Edge: p.Role == domain.Edge}
		if p.L3 {
			one.Header = 0
		}
		list = append(list, wantedPort{one, p.Ifindex})
	}
	return list
}

// readPorts reads, in the node's namespace, those ports that have a discipline.
func readPorts(node topo.NodeSpec, wanted []wantedPort) (list []Port, err error) {
	err = node.Do(func() error {
		qdiscs, err := host.RetryDump(dumpQdiscs)
		if err != nil {
			return fmt.Errorf("list queueing disciplines: %w", err)
		}
		for _, w := range wanted {
			one := w.Port
			if err := one.read(qdiscs, w.ifindex); err != nil {
				return err
			}
			if one.Root != "" {
				list = append(list, one)
			}
		}
		return nil
	})
	return list, err
}

// read takes what the disciplines of an interface declare.
func (p *Port) read(qdiscs []qdisc, ifindex int) error {
	var kinds []string
	emulators, classes, fifos := 0, 0, 0
	for _, q := range qdiscs {
		if q.ifindex != ifindex {
			continue
		}
		if q.parent == netlink.HANDLE_ROOT {
			p.Root = q.kind
		}
		if q.isFifo() {
			fifos++
			p.Holds, p.LimitPackets, p.LimitBytes = q.limits()
			continue
		}
		switch q.kind {
		case "netem":
			p.Netem = parseNetem(q.options)
			emulators++
		case "tbf":
			t := parseTBF(q.options)
			p.Rate, p.Burst = t.rate, t.burst
			if fifos == 0 {
				p.Holds, p.LimitBytes = q.kind, t.limit
			}
		case "htb":
			rate, burst, n, err := htbRate(ifindex)
			if err != nil {
				return fmt.Errorf("list classes: %w", err)
			}
			p.Rate, p.Burst, classes = rate, burst, n
		default:
			continue
		}
		kinds = append(kinds, q.kind)
	}
	p.Kinds = strings.Join(kinds, ", ")
	if fifos > 1 { // which of them a packet was in is not known
		p.Holds, p.LimitPackets, p.LimitBytes = "", 0, 0
	}
	switch {
	case emulators > 1:
		p.Netem, p.Shares = nil, fmt.Sprintf("%d emulators (netem), and which packet met which is not known", emulators)
	case classes > 1 && p.Rate == 0:
		p.Netem, p.Shares = nil, fmt.Sprintf("%d classes (htb), and which packet was in which is not known", classes)
	case classes > 1 && emulators > 0:
		p.Netem, p.Shares = nil, fmt.Sprintf("an emulator (netem) in one of %d classes (htb), and which packet was in it is not known", classes)
	}
	return nil
}

// htbRate is what all classes of an interface together may send, and how many classes have none below. burst is what the
// only class of all packets sends at once.
func htbRate(ifindex int) (rate, burst float64, leaves int, err error) {
	list, err := host.RetryDump(func() ([]netlink.Class, error) {
		return netlink.ClassList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}, 0)
	})
	if err != nil {
		return 0, 0, 0, err
	}
	rate, leaves = htbRateOf(list)
	for _, c := range list {
		if class, is := c.(*netlink.HtbClass); is && leaves == 1 && float64(class.Ceil)*8 == rate {
			burst = float64(class.Ceil) * float64(class.Cbuffer) * tick / 1e9
		}
	}
	return rate, burst, leaves, nil
}

// htbRateOf is htbRate of classes: the least ceiling of those that all packets pass, if each leaf may send as much
// alone; else what leaves may send depends on which of them have packets, and is 0, not known.
func htbRateOf(list []netlink.Class) (rate float64, leaves int) {
	classes, parents := make(map[uint32]*netlink.HtbClass), make(map[uint32]bool)
	for _, c := range list {
		if class, is := c.(*netlink.HtbClass); is {
			classes[class.Handle], parents[class.Parent] = class, true
		}
	}
	least, above := uint64(math.MaxUint64), make(map[uint32]int) // leaves, by class
	for handle := range classes {
		if parents[handle] {
			continue
		}
		leaves++
		class := classes[handle]
		for range classes { // a tree that changes while it is read may have circles
			if class == nil {
				break
			}
			least = min(least, class.Ceil)
			above[class.Handle]++
			class = classes[class.Parent]
		}
	}
	common := uint64(math.MaxUint64)
	for handle, n := range above {
		if n == leaves {
			common = min(common, classes[handle].Ceil)
		}
	}
	if leaves == 0 || least < common {
		return 0, leaves
	}
	return float64(common) * 8, leaves
}

// qdisc is one discipline, with its options as the kernel writes them.
type qdisc struct {
	ifindex int
	parent  uint32
	kind    string
	options []byte
}

// dumpQdiscs lists those of the thread's namespace. netlink's own list lacks netem's models of loss.
func dumpQdiscs() (list []qdisc, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL})
	messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	for _, m := range messages {
		msg := nl.DeserializeTcMsg(m)
		attrs, err := nl.ParseRouteAttr(m[msg.Len():])
		if err != nil {
			return nil, err
		}
		q := qdisc{ifindex: int(msg.Ifindex), parent: msg.Parent}
		for _, a := range attrs {
			switch a.Attr.Type {
			case nl.TCA_KIND:
				q.kind = string(a.Value[:len(a.Value)-1])
			case nl.TCA_OPTIONS:
				q.options = a.Value
			}
		}
		list = append(list, q)
	}
	return list, err
}

// Attributes of netem's options, and of its models of loss (linux/pkt_sched.h).
const (
	netemCorr      = 1
	netemReorder   = 3
	netemLoss      = 5
	netemRate      = 6
	netemRate64    = 8
	netemLatency64 = 10
	netemJitter64  = 11

	netemLossGI = 1
	netemLossGE = 2
	nested      = 0x7fff // without the flag that an attribute has others in it
)

// tick is how long one of the scheduler's is, ns.
const tick = 64

func word(b []byte, i int) uint32 {
	if len(b) < 4*i+4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b[4*i:])
}

func share(v uint32) float64 { return float64(v) / math.MaxUint32 }

// parseNetem reads netem's options: a fixed part, then attributes.
func parseNetem(b []byte) *Netem {
	if len(b) < nl.SizeofTcNetemQopt {
		return &Netem{}
	}
	n := &Netem{
		DelayNs: float64(word(b, 0)) * tick, Limit: word(b, 1), Loss: share(word(b, 2)), Gap: word(b, 3),
		Duplicate: share(word(b, 4)), JitterNs: float64(word(b, 5)) * tick,
	}
	attrs, err := nl.ParseRouteAttr(b[nl.SizeofTcNetemQopt:])
	if err != nil {
		return n
	}
	wide := func(v []byte) float64 {
		if len(v) < 8 {
			return 0
		}
		return float64(binary.NativeEndian.Uint64(v))
	}
	for _, a := range attrs {
		switch v := a.Value; a.Attr.Type & nested {
		case netemCorr:
			n.Bursts = word(v, 1) > 0
		case netemReorder:
			n.Reorder = share(word(v, 0))
		case netemRate:
			n.Rate = max(n.Rate, float64(word(v, 0))*8)
		case netemRate64:
			n.Rate = wide(v) * 8
		case netemLatency64:
			n.DelayNs = wide(v)
		case netemJitter64:
			n.JitterNs = wide(v)
		case netemLoss:
			n.Loss, n.Bursts = lossModel(v), true
		}
	}
	return n
}

// lossModel is the share of packets that a model of loss loses in the long run.
func lossModel(b []byte) float64 {
	attrs, err := nl.ParseRouteAttr(b)
	if err != nil || len(attrs) == 0 {
		return 0
	}
	of := func(i int) float64 { return share(word(attrs[0].Value, i)) }
	switch attrs[0].Attr.Type & nested {
	case netemLossGE: // p, r, h, k1: Gilbert and Elliot
		p, r, h, k1 := of(0), of(1), of(2), of(3)
		if p+r == 0 {
			return k1
		}
		return (p*(1-h) + r*k1) / (p + r)
	case netemLossGI: // p13, p31, p32, p14, p23: four states, of which two lose
		p13, p31, p32, p14, p23 := of(0), of(1), of(2), of(3), of(4)
		at := [4]float64{1}
		for range 10000 {
			at = [4]float64{
				at[0]*(1-p13-p14) + at[2]*p31 + at[3],
				at[1]*(1-p23) + at[2]*p32,
				at[0]*p13 + at[1]*p23 + at[2]*(1-p31-p32),
				at[0] * p14,
			}
		}
		return at[2] + at[3]
	}
	return 0
}

// Attributes of tbf's options.
const (
	tbfParms  = 1
	tbfRate64 = 4
)

// tbf is what a token bucket declares.
type tbf struct {
	rate, burst float64 // bits a second, bytes
	limit       uint32  // bytes that may wait
}

// parseTBF reads tbf's options. The fixed part has two rates of three words each, whose last is in bytes a second, then the
// limit, and how long the bucket takes to be filled.
func parseTBF(b []byte) (t tbf) {
	attrs, err := nl.ParseRouteAttr(b)
	if err != nil {
		return t
	}
	var ticks float64
	for _, a := range attrs {
		switch a.Attr.Type & nested {
		case tbfParms:
			t.rate = max(t.rate, float64(word(a.Value, 2))*8)
			t.limit, ticks = word(a.Value, 6), float64(word(a.Value, 7))
		case tbfRate64:
			if len(a.Value) >= 8 {
				t.rate = float64(binary.NativeEndian.Uint64(a.Value)) * 8
			}
		}
	}
	t.burst = t.rate / 8 * ticks * tick / 1e9
	return t
}

// isFifo reports whether the discipline is a plain queue with a limit.
func (q *qdisc) isFifo() bool {
	return q.kind == "pfifo" || q.kind == "bfifo" || q.kind == "pfifo_head_drop"
}

// limits is what a plain queue holds. Its options are that number alone.
func (q *qdisc) limits() (kind string, packets, bytes uint32) {
	if q.kind == "bfifo" {
		return q.kind, 0, word(q.options, 0)
	}
	return q.kind, word(q.options, 0), 0
}
