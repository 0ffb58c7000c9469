// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/query"
)

// selectionHelp is part of the help of every command that selects packets.
const selectionHelp = `All filters must match; one that is given several times, or has several values
separated by commas, matches if one of them does. Addresses and ports match as
sent and as changed on the way (NAT).

EXPRESSION is a filter in tcpdump's language (pcap-filter(7)) and must match too.
It can ask for what records hold: addresses, protocol, ports, ICMP type and echo
numbers, TTL, TOS, IP ID, fragment offset and length, but not TCP flags or payload
(docs/filters.md). Quote what the shell would take for itself.`

// selectFlags are the flags and arguments that select packets.
type selectFlags struct {
	src, dst, proto, sport, dport, node, state []string

	last         count
	since, until string
	app          *app // which knows the domain's nodes; nil: names are no addresses
}

// add makes them flags of cmd; lastHelp says what --last does there.
func (f *selectFlags) add(a *app, cmd *cobra.Command, lastHelp string) {
	f.app = a
	flags := cmd.Flags()
	flags.StringSliceVar(&f.src, "src", nil, "source address or prefix, or a node: any address that it owns")
	flags.StringSliceVar(&f.dst, "dst", nil, "destination address or prefix, or a node")
	flags.StringSliceVar(&f.proto, "proto", nil, "protocol: tcp, udp, icmp, icmpv6, or a number")
	flags.StringSliceVar(&f.sport, "sport", nil, "source port, or a range such as 1000-2000")
	flags.StringSliceVar(&f.dport, "dport", nil, "destination port, or a range")
	flags.StringSliceVar(&f.node, "node", nil, "node that the packet visited")
	flags.StringSliceVar(&f.state, "state", nil, "delivered, lost, left, in_flight, expired or ignored")
	flags.Var(&f.last, "last", lastHelp)
	flags.StringVar(&f.since, "since", "", "only packets sent since then: a duration (5m), a time of today (15:04:05) or a time of RFC 3339")
	flags.StringVar(&f.until, "until", "", "only packets sent before then: as --since")
	completeWith(cmd, "state", stateNames...)
	completeWith(cmd, "proto", "tcp", "udp", "icmp", "icmpv6")
	for _, flag := range []string{"node", "src", "dst"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, a.completeNodes)
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// selection is what packets a command is asked for.
type selection struct {
	filter   *query.Filter
	anyState *query.Filter // the same without --state
	expr     *filter.Expr  // nil: none

	since     time.Time // sent then or later; zero: ever
	until     time.Time // sent before; zero: ever
	filtered  bool      // not everything since then is asked for
	flowsOnly bool      // whether a packet is asked for is the same for all of its flow
	ofFlow    bool      // some of what is asked is
}

// selection checks flags and arguments; now is what --since 5m counts from.
func (f *selectFlags) selection(flags *pflag.FlagSet, args []string, now time.Time) (s selection, err error) {
	list := func(values []string) string { return strings.Join(values, ",") }
	src, err := f.addresses("src", f.src)
	if err != nil {
		return s, err
	}
	dst, err := f.addresses("dst", f.dst)
	if err != nil {
		return s, err
	}
	spec := query.Spec{
		Src: list(src), Dst: list(dst), Proto: list(f.proto),
		Sport: list(f.sport), Dport: list(f.dport), Node: list(f.node), State: list(f.state),
	}
	if s.filter, err = query.Parse(spec); err != nil {
		return s, usagef("--%w", err)
	}
	spec.State = ""
	if s.anyState, err = query.Parse(spec); err != nil {
		return s, usagef("--%w", err)
	}
	s.flowsOnly = len(f.node)+len(f.state) == 0
	s.ofFlow = len(f.src)+len(f.dst)+len(f.proto)+len(f.sport)+len(f.dport) > 0
	s.filtered = s.ofFlow || len(args) > 0 || !s.flowsOnly
	if len(args) > 0 {
		if s.expr, err = recordFilter(strings.Join(args, " ")); err != nil {
			return s, err
		}
		s.flowsOnly = s.flowsOnly && s.expr.OnlyFlow()
		s.ofFlow = s.ofFlow || s.expr.OnlyFlow()
	}
	if flags.Changed("since") {
		if s.since, err = parseTime("since", f.since, now); err != nil {
			return s, withCode(exitUsage, err)
		}
	}
	if flags.Changed("until") {
		if s.until, err = parseTime("until", f.until, now); err != nil {
			return s, withCode(exitUsage, err)
		}
		if !s.since.Before(s.until) {
			return s, usagef("--until %q lies before --since %q", f.until, f.since)
		}
	}
	return s, nil
}

// addresses puts the addresses of nodes in the place of their names.
func (f *selectFlags) addresses(flag string, values []string) ([]string, error) {
	var list []string
	for _, value := range values {
		name := strings.TrimSpace(value)
		if f.app == nil || name == "" || strings.ContainsAny(name, "/:[") || isAddress(name) {
			list = append(list, value)
			continue
		}
		addrs, err := f.app.addressesOf(flag, name)
		if err != nil {
			return nil, err
		}
		list = append(list, addrs...)
	}
	return list, nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// addressesOf are the addresses that a node of the domain owns, but for those that others have, too.
func (a *app) addressesOf(flag, name string) (list []string, err error) {
	err = a.withHandle(func(h *datapath.Handle) error {
		owned, err := h.Addresses()
		if err != nil {
			return err
		}
		known := false
		for _, n := range domainNodes(h.Domain) {
			if n.name != name {
				continue
			}
			known = true
			for _, addr := range owned[n.id] {
				if !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
					list = append(list, addr.String())
				}
			}
		}
		switch {
		case !known:
			return noSuchNode(flag, name, h.Domain)
		case len(list) == 0:
			return usagef("--%s %q: the node owns no address", flag, name)
		}
		return nil
	})
	if errors.Is(err, domain.ErrNotAttached) {
		return []string{name}, nil // it is refused as no address, or the command for the domain
	}
	return list, err
}

type namedNode struct {
	id   uint16
	name string
}

// domainNodes are the nodes and virtual machines of a domain, with those that are gone.
func domainNodes(d *domain.Domain) (list []namedNode) {
	for _, n := range d.Nodes {
		list = append(list, namedNode{n.ID, n.Name})
	}
	for _, vm := range d.VMs {
		list = append(list, namedNode{vm.ID, vm.Name})
	}
	return list
}

// noSuchNode is the error about a name that the domain does not have.
func noSuchNode(flag, name string, d *domain.Domain) error {
	var names []string
	for _, n := range domainNodes(d) {
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return usagef("--%s %q: domain %s has no such node%s, its nodes are %s", flag, name, d.Name, meant(name, names), strings.Join(names, ", "))
}

// meant is " (did you mean ...?)".
func meant(word string, words []string) string {
	if near := nearest(word, words); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// check refuses names of nodes that the domain does not have.
func (s *selection) check(d *domain.Domain, reports *collect.Info) error {
	for _, name := range s.filter.Nodes() {
		known := slices.ContainsFunc(domainNodes(d), func(n namedNode) bool { return n.name == name })
		if !known && !isReported(reports, name) {
			return noSuchNode("node", name, d)
		}
	}
	return nil
}

// packets is what a reader of the ring is asked for.
func (s *selection) packets() backpack.Select {
	p := backpack.Select{States: s.filter.States()}
	if s.ofFlow {
		p.Flow = s.keepFlow
	}
	if s.filtered || !s.since.IsZero() || !s.until.IsZero() {
		p.Match = s.match
	}
	return p
}

// keepFlow says whether packets of the packet's flow can be asked for.
func (s *selection) keepFlow(p *packet.Packet) bool {
	return s.filter.MatchFlow(p) && (s.expr == nil || !s.expr.OnlyFlow() || s.expr.Match(p))
}

// match says whether the packet is asked for.
func (s *selection) match(p *packet.Packet, of packet.Scope) bool {
	return s.inTime(p, of) && s.keep(p, of)
}

// inTime says whether the packet was sent when it is asked for.
func (s *selection) inTime(p *packet.Packet, of packet.Scope) bool {
	return (s.since.IsZero() || p.UnixNs(of) >= s.since.UnixNano()) && (s.until.IsZero() || p.UnixNs(of) < s.until.UnixNano())
}

// matchAnyState is match, whatever became of the packet.
func (s *selection) matchAnyState(p *packet.Packet, of packet.Scope) bool {
	return s.inTime(p, of) && s.anyState.Match(p, of) && (s.expr == nil || s.expr.Match(p))
}

// keep is match at any time.
func (s *selection) keep(p *packet.Packet, of packet.Names) bool {
	return s.filter.Match(p, of) && (s.expr == nil || s.expr.Match(p))
}
