// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/collect"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/query"
	"github.com/vnetradar/radar/pkg/record"
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

	last  count
	since string
}

// add makes them flags of cmd; lastHelp says what --last does there.
func (f *selectFlags) add(a *app, cmd *cobra.Command, lastHelp string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.src, "src", nil, "source address or prefix")
	flags.StringSliceVar(&f.dst, "dst", nil, "destination address or prefix")
	flags.StringSliceVar(&f.proto, "proto", nil, "protocol: tcp, udp, icmp, icmpv6, or a number")
	flags.StringSliceVar(&f.sport, "sport", nil, "source port, or a range such as 1000-2000")
	flags.StringSliceVar(&f.dport, "dport", nil, "destination port, or a range")
	flags.StringSliceVar(&f.node, "node", nil, "node that the packet visited")
	flags.StringSliceVar(&f.state, "state", nil, "delivered, lost, left, in_flight, expired or ignored")
	flags.Var(&f.last, "last", lastHelp)
	flags.StringVar(&f.since, "since", "", "only packets sent since then: a duration (5m), a time of today (15:04:05) or a time of RFC 3339")
	completeWith(cmd, "state", stateNames...)
	completeWith(cmd, "proto", "tcp", "udp", "icmp", "icmpv6")
	_ = cmd.RegisterFlagCompletionFunc("node", a.completeNodes)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

// selection is what packets a command is asked for.
type selection struct {
	filter   *query.Filter
	anyState *query.Filter // the same without --state
	expr     *filter.Expr  // nil: none

	since     time.Time // sent then or later; zero: ever
	filtered  bool      // not everything since then is asked for
	flowsOnly bool      // whether a packet is asked for is the same for all of its flow
	ofFlow    bool      // some of what is asked is
}

// selection checks flags and arguments; now is what --since 5m counts from.
func (f *selectFlags) selection(flags *pflag.FlagSet, args []string, now time.Time) (s selection, err error) {
	list := func(values []string) string { return strings.Join(values, ",") }
	spec := query.Spec{
		Src: list(f.src), Dst: list(f.dst), Proto: list(f.proto),
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
		if s.since, err = parseSince(f.since, now); err != nil {
			return s, withCode(exitUsage, err)
		}
	}
	return s, nil
}

// check refuses names of nodes that the domain does not have.
func (s *selection) check(d *domain.Domain, reports *collect.Info) error {
	var names []string
	for _, n := range d.Nodes {
		if !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	for _, vm := range d.VMs {
		names = append(names, vm.Name)
	}
	for _, name := range s.filter.Nodes() {
		if !slices.Contains(names, name) && !isReported(reports, name) {
			return usagef("--node %q: domain %s has no such node, its nodes are %s", name, d.Name, strings.Join(names, ", "))
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
	if s.filtered || !s.since.IsZero() {
		p.Match = s.match
	}
	return p
}

// keepFlow says whether packets of the record's flow can be asked for.
func (s *selection) keepFlow(r *record.Record) bool {
	return s.filter.MatchFlow(r) && (s.expr == nil || !s.expr.OnlyFlow() || s.expr.MatchRecord(r))
}

// match says whether the record is asked for.
func (s *selection) match(r *record.Record) bool {
	return (s.since.IsZero() || r.TNs >= s.since.UnixNano()) && s.keep(r)
}

// matchAnyState is match, whatever became of the packet.
func (s *selection) matchAnyState(r *record.Record) bool {
	return (s.since.IsZero() || r.TNs >= s.since.UnixNano()) && s.anyState.Match(r) && (s.expr == nil || s.expr.MatchRecord(r))
}

// keep is match at any time.
func (s *selection) keep(r *record.Record) bool {
	return s.filter.Match(r) && (s.expr == nil || s.expr.MatchRecord(r))
}
