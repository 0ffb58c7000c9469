// SPDX-License-Identifier: Apache-2.0

// Package query decides which records a user asked for.
package query

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// Spec is a filter as the user gives it. An empty field matches everything; several
// values in one field are separated by commas, and one of them must match. All
// fields must match.
type Spec struct {
	Src, Dst     string // addresses or prefixes: as sent, or as changed on the way
	Proto        string // names or numbers
	Sport, Dport string // ports or ranges 1000-2000: as sent, or as changed
	Node         string // names of nodes that it visited, or was lost at
	State        string // delivered, lost, left, in_flight, expired, ignored
}

// Filter decides about records. It is safe for concurrent use.
type Filter struct {
	src, dst     []netip.Prefix
	protos       []string
	sport, dport []portRange
	nodes        []string
	states       []record.State
}

type portRange struct {
	from, to int // both inclusive
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

func parseProto(s string) (string, error) {
	proto, ok := record.ParseProto(strings.ToLower(s))
	if !ok {
		return "", fmt.Errorf("use a protocol's name (tcp, udp, icmp, icmpv6) or its number (0 to 255)")
	}
	return record.ProtoName(proto), nil
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
	return portRange{int(from), int(to)}, nil
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

// Nodes are the names of which a record must have one; nil: any will do.
func (f *Filter) Nodes() []string {
	if f == nil {
		return nil
	}
	return f.nodes
}

// States are the states of which a record must have one; nil: any will do.
func (f *Filter) States() []record.State {
	if f == nil {
		return nil
	}
	return f.states
}

// Match says whether r passes. A filter that is nil lets everything pass.
func (f *Filter) Match(r *record.Record) bool {
	return f == nil || (f.states == nil || slices.Contains(f.states, r.State)) && f.MatchFlow(r) && f.matchNode(r)
}

// MatchFlow says whether r passes as far as addresses, protocol and ports are asked for:
// the answer is the same for all of a flow.
func (f *Filter) MatchFlow(r *record.Record) bool {
	return f == nil || (f.protos == nil || slices.Contains(f.protos, r.Proto)) &&
		matchAddr(f.src, r.Src, r.Hops, func(h *record.Hop) string { return h.Src }) &&
		matchAddr(f.dst, r.Dst, r.Hops, func(h *record.Hop) string { return h.Dst }) &&
		matchPort(f.sport, r.Sport, r.Hops, func(h *record.Hop) *int { return h.Sport }) &&
		matchPort(f.dport, r.Dport, r.Hops, func(h *record.Hop) *int { return h.Dport })
}

func matchAddr(want []netip.Prefix, sent string, hops []record.Hop, of func(*record.Hop) string) bool {
	if want == nil || inPrefixes(want, sent) {
		return true
	}
	for i := range hops {
		if inPrefixes(want, of(&hops[i])) {
			return true
		}
	}
	return false
}

func inPrefixes(want []netip.Prefix, addr string) bool {
	a, err := netip.ParseAddr(addr)
	if err != nil { // not known, or not changed
		return false
	}
	return slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Contains(a) })
}

func matchPort(want []portRange, sent *int, hops []record.Hop, of func(*record.Hop) *int) bool {
	if want == nil || inPorts(want, sent) {
		return true
	}
	for i := range hops {
		if inPorts(want, of(&hops[i])) {
			return true
		}
	}
	return false
}

func inPorts(want []portRange, port *int) bool {
	return port != nil && slices.ContainsFunc(want, func(r portRange) bool {
		return r.from <= *port && *port <= r.to
	})
}

func (f *Filter) matchNode(r *record.Record) bool {
	if f.nodes == nil {
		return true
	}
	for i := range r.Hops {
		if slices.Contains(f.nodes, r.Hops[i].Node) {
			return true
		}
	}
	return r.Loss != nil && slices.Contains(f.nodes, r.Loss.Node)
}
