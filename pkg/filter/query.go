// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Spec is a filter as the user gives it. An empty field matches everything; several
// values in one field are separated by commas, and one of them must match. All
// fields must match.
type Spec struct {
	Src, Dst     string // addresses or prefixes: as sent, or as changed by a node
	Proto        string // names or numbers
	Sport, Dport string // ports or ranges 1000-2000: as sent, or as changed
	Node         string // names of nodes that it visited, or was lost at
	State        string // delivered, lost, left, in_flight, expired, ignored

	AnyOf []Spec // one of these must match, too
}

// AsksFlow reports whether some of what it asks is the same for all packets of a flow.
func (s *Spec) AsksFlow() bool {
	return s.Src+s.Dst+s.Proto+s.Sport+s.Dport != "" || len(s.AnyOf) > 0
}

// OnlyFlow reports whether all that it asks is the same for all packets of a flow.
func (s *Spec) OnlyFlow() bool {
	return s.Node == "" && s.State == "" && !slices.ContainsFunc(s.AnyOf, func(one Spec) bool { return !one.OnlyFlow() })
}

// Filter decides about packets. It is safe for concurrent use.
type Filter struct {
	src, dst     []netip.Prefix
	protos       []uint8
	sport, dport []portRange
	nodes        []string
	states       []record.State
	anyOf        []*Filter
}

type portRange struct {
	from, to uint16 // both inclusive
}

var states = []record.State{
	record.Delivered, record.Lost, record.Left, record.InFlight, record.Expired, record.Ignored,
}

// Parse checks a Spec. Its error names the field and says what it takes.
func Parse(s Spec) (*Filter, error) {
	var f Filter
	var err error
	if f.src, err = parseList("src", s.Src, parsePrefix); err != nil {
		return nil, err
	}
	if f.dst, err = parseList("dst", s.Dst, parsePrefix); err != nil {
		return nil, err
	}
	if f.protos, err = parseList("proto", s.Proto, parseProto); err != nil {
		return nil, err
	}
	if f.sport, err = parseList("sport", s.Sport, parsePorts); err != nil {
		return nil, err
	}
	if f.dport, err = parseList("dport", s.Dport, parsePorts); err != nil {
		return nil, err
	}
	if f.nodes, err = parseList("node", s.Node, parseNode); err != nil {
		return nil, err
	}
	if f.states, err = parseList("state", s.State, parseState); err != nil {
		return nil, err
	}
	for _, one := range s.AnyOf {
		also, err := Parse(one)
		if err != nil {
			return nil, err
		}
		f.anyOf = append(f.anyOf, also)
	}
	return &f, nil
}

func parseList[T any](field, text string, parse func(string) (T, error)) ([]T, error) {
	if text == "" {
		return nil, nil
	}
	var list []T
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", field, part, err)
		}
		list = append(list, v)
	}
	return list, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") { // as in [2001:db8::1]:80
		s = s[1 : len(s)-1]
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("use an address (10.0.0.1, 2001:db8::1) or a prefix (10.0.0.0/8, 2001:db8::/32)")
	}
	return p, nil
}

func parseProto(s string) (uint8, error) {
	proto, ok := record.ParseProto(strings.ToLower(s))
	if !ok {
		return 0, fmt.Errorf("use a protocol's name (tcp, udp, icmp, icmpv6) or its number (0 to 255)")
	}
	return proto, nil
}

func parsePorts(s string) (portRange, error) {
	first, last, isRange := strings.Cut(s, "-")
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := from, error(nil)
	if isRange {
		to, err2 = strconv.ParseUint(last, 10, 16)
	}
	if err1 != nil || err2 != nil || to < from {
		return portRange{}, fmt.Errorf("use a port (0 to 65535) or a range (1000-2000)")
	}
	return portRange{uint16(from), uint16(to)}, nil
}

func parseNode(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("use the name of a node")
	}
	return s, nil
}

func parseState(s string) (record.State, error) {
	st := record.State(strings.ReplaceAll(strings.ToLower(s), "-", "_"))
	if !slices.Contains(states, st) {
		return "", fmt.Errorf("use delivered, lost, left, in_flight, expired or ignored")
	}
	return st, nil
}

// Nodes are the names of which a packet must have one; nil: any will do.
func (f *Filter) Nodes() []string {
	if f == nil {
		return nil
	}
	return f.nodes
}

// States are the states of which a packet must have one; nil: any will do.
func (f *Filter) States() []record.State {
	if f == nil {
		return nil
	}
	return f.states
}

// Match reports whether p passes; of has the names of its nodes. A filter that is nil lets
// everything pass.
func (f *Filter) Match(p *packet.Packet, of packet.Names) bool {
	return f == nil || (f.states == nil || slices.Contains(f.states, p.State)) && f.matchOwn(p) && f.matchNode(p, of) &&
		f.matchAnyOf(func(one *Filter) bool { return one.Match(p, of) })
}

// MatchFlow reports whether p passes as far as addresses, protocol and ports are asked for:
// the answer is the same for all of a flow.
func (f *Filter) MatchFlow(p *packet.Packet) bool {
	return f == nil || f.matchOwn(p) && f.matchAnyOf(func(one *Filter) bool { return one.MatchFlow(p) })
}

func (f *Filter) matchAnyOf(match func(*Filter) bool) bool {
	return f.anyOf == nil || slices.ContainsFunc(f.anyOf, match)
}

// matchOwn is MatchFlow without anyOf.
func (f *Filter) matchOwn(p *packet.Packet) bool {
	return (f.protos == nil || slices.Contains(f.protos, p.Proto)) &&
		(f.src == nil || anyTuple(p, func(t *packet.Tuple) bool { return inPrefixes(f.src, t.Src, p.IPv6) })) &&
		(f.dst == nil || anyTuple(p, func(t *packet.Tuple) bool { return inPrefixes(f.dst, t.Dst, p.IPv6) })) &&
		(f.sport == nil || p.HasPorts() && anyTuple(p, func(t *packet.Tuple) bool { return inPorts(f.sport, t.SrcPort) })) &&
		(f.dport == nil || p.HasPorts() && anyTuple(p, func(t *packet.Tuple) bool { return inPorts(f.dport, t.DstPort) }))
}

// anyTuple reports whether is holds for what the packet was sent with, as far as that is known, or
// for what it was changed into.
func anyTuple(p *packet.Packet, is func(*packet.Tuple) bool) bool {
	if p.HasTuple && is(&p.Tuple) {
		return true
	}
	for i := range p.Hops {
		if h := &p.Hops[i]; h.Changed && is(&h.Tuple) {
			return true
		}
	}
	return false
}

func inPrefixes(want []netip.Prefix, a packet.Addr, ipv6 bool) bool {
	addr := netip.AddrFrom16(a)
	if !ipv6 {
		addr = addr.Unmap()
	}
	return slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func inPorts(want []portRange, port uint16) bool {
	return slices.ContainsFunc(want, func(r portRange) bool { return r.from <= port && port <= r.to })
}

func (f *Filter) matchNode(p *packet.Packet, of packet.Names) bool {
	if f.nodes == nil {
		return true
	}
	for i := range p.Hops {
		if slices.Contains(f.nodes, of.NodeName(p.Hops[i].Node)) {
			return true
		}
	}
	return (p.Lost || p.Missing) && slices.Contains(f.nodes, of.NodeName(p.Loss.Node))
}
