// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
)

// SelectionHelp is part of the help of every command that selects packets.
const SelectionHelp = `END is an address, a prefix or a node, with or without a port: h1, 10.0.1.2, web:80. One END
means what it sends and gets, and, of a node, what passes it; END END what passes between the
two, in both directions. FLOW is END-END, or as tables show it: '10.0.1.2:4000 > 10.0.4.2:80 tcp'
(quoted, in that direction alone).

All filters must match; one that is given several times, or has several values
separated by commas, matches if one of them does. Addresses and ports match as
sent and as changed on the way (NAT).

EXPRESSION is a filter in tcpdump's language (pcap-filter(7)) and must match too.
It can ask for what records hold: addresses, protocol, ports, ICMP type and echo
numbers, TTL, TOS, IP ID, fragment offset and length, TCP flags, sequence and
acknowledgement number and window, but not the payload (docs/filters.md).
A node's name stands for its addresses (host h2). Quote what the shell would take for itself.`

// SelectFlags are the flags and arguments that select packets.
type SelectFlags struct {
	src, dst, proto, sport, dport, node, state []string

	ReadFlag
	Last         Count
	since, until string
	app          *Kit // which knows the domain's nodes
}

// Add makes them flags of cmd, with --read; lastHelp says what --last does there.
func (f *SelectFlags) Add(k *Kit, cmd *cobra.Command, lastHelp string) {
	f.AddLive(k, cmd, lastHelp)
	f.ReadFlag.Add(cmd)
}

// AddLive is Add without --read, for what only a domain that is attached can do.
func (f *SelectFlags) AddLive(k *Kit, cmd *cobra.Command, lastHelp string) {
	f.app = k
	flags := cmd.Flags()
	flags.StringSliceVar(&f.src, "src", nil, "source address or prefix, or a node: any address that it owns")
	flags.StringSliceVar(&f.dst, "dst", nil, "destination address or prefix, or a node")
	flags.StringSliceVar(&f.proto, "proto", nil, "protocol: tcp, udp, icmp, icmpv6, or a number")
	flags.StringSliceVar(&f.sport, "sport", nil, "source port, or a range such as 1000-2000")
	flags.StringSliceVar(&f.dport, "dport", nil, "destination port, or a range")
	flags.StringSliceVar(&f.node, "node", nil, "node that the packet visited")
	flags.StringSliceVar(&f.state, "state", nil, "delivered, lost, left, in_flight, expired or ignored")
	flags.Var(&f.Last, "last", lastHelp)
	flags.StringVar(&f.since, "since", "", "only packets sent since then: a duration (5m), a time of today (15:04:05) or a time of RFC 3339")
	flags.StringVar(&f.until, "until", "", "only packets sent before then: as --since")
	CompleteWith(cmd, "state", StateNames...)
	CompleteWith(cmd, "proto", "tcp", "udp", "icmp", "icmpv6")
	for _, flag := range []string{"node", "src", "dst"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, k.CompleteNodes)
	}
	cmd.ValidArgsFunction = f.completeEnds
}

// Selection checks flags and arguments; now is what --since 5m counts from, unless a recording is asked. It opens the
// recording.
func (f *SelectFlags) Selection(flags *pflag.FlagSet, args []string, now time.Time) (*answer.Selection, error) {
	if f.Given() {
		if err := f.Open(f.app); err != nil {
			return nil, err
		}
		now = f.app.Now()
	}
	list := func(values []string) string { return strings.Join(values, ",") }
	src, err := f.addresses("src", f.src)
	if err != nil {
		return nil, err
	}
	dst, err := f.addresses("dst", f.dst)
	if err != nil {
		return nil, err
	}
	anyOf, expression, err := f.app.positional(args)
	if err != nil {
		return nil, err
	}
	s, err := answer.Select(filter.Spec{
		Src: list(src), Dst: list(dst), Proto: list(f.proto),
		Sport: list(f.sport), Dport: list(f.dport), Node: list(f.node), State: list(f.state), AnyOf: anyOf,
	})
	if err != nil {
		return nil, fault.Usage.Errorf("--%w", err)
	}
	s.Last = int(f.Last)
	if expression != "" {
		if err := f.app.Narrow(s, expression); err != nil {
			return nil, err
		}
	}
	if flags.Changed("since") {
		if s.Since, err = answer.ParseTime(f.since, now); err != nil {
			return nil, fault.Usage.Errorf("--since %w", err)
		}
	}
	if flags.Changed("until") {
		if s.Until, err = answer.ParseTime(f.until, now); err != nil {
			return nil, fault.Usage.Errorf("--until %w", err)
		}
		if !s.Since.Before(s.Until) {
			return nil, fault.Usage.Errorf("--until %q lies before --since %q", f.until, f.since)
		}
	}
	return s, nil
}

// Of makes a Selection of values that a file has. Nodes stand for their addresses, as in flags. Its error begins
// with the name of the field.
func (f *SelectFlags) Of(spec filter.Spec, expression string) (*answer.Selection, error) {
	for name, field := range map[string]*string{"src": &spec.Src, "dst": &spec.Dst} {
		if *field == "" {
			continue
		}
		list, err := f.addresses(name, strings.Split(*field, ","))
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "--"))
		}
		*field = strings.Join(list, ",")
	}
	s, err := answer.Select(spec)
	if err == nil && expression != "" {
		if err = f.app.narrow(s, expression); err != nil {
			err = fmt.Errorf("filter: %w", err)
		}
	}
	return s, err
}

// Arguments makes a Selection of arguments alone.
func (k *Kit) Arguments(args []string) (*answer.Selection, error) {
	anyOf, expression, err := k.positional(args)
	if err != nil {
		return nil, err
	}
	s, err := answer.Select(filter.Spec{AnyOf: anyOf})
	if err == nil && expression != "" {
		err = k.Narrow(s, expression)
	}
	return s, err
}

// Narrow adds an expression that records must be able to answer.
func (k *Kit) Narrow(s *answer.Selection, text string) error {
	err := k.narrow(s, text)
	if err == nil || errors.Is(err, filter.ErrNotBuilt) {
		return err
	}
	return fault.Usage.Errorf("%w", err)
}

// narrow is Narrow with the error as it is. Names of nodes stand for their addresses.
func (k *Kit) narrow(s *answer.Selection, text string) error {
	var unknown *answer.NoSuchNode
	of := k.nodes()
	addressed, err := answer.WithAddresses(text, func(names []string) ([]string, error) {
		list, err := of(names)
		if no, is := errors.AsType[*answer.NoSuchNode](err); is && unknown == nil && no.Domain != "" {
			unknown = no
		}
		return list, err
	})
	if none, ok := errors.AsType[*answer.NoAddress](err); ok {
		return fmt.Errorf("filter expression %q: node %s owns no address: packets that passed it: --node %s", text, none.Node, none.Node)
	}
	if err != nil {
		return err
	}
	err = s.Narrow(addressed)
	if err != nil && unknown != nil && !errors.Is(err, filter.ErrNotBuilt) {
		err = fmt.Errorf("%w; no node of domain %s is called %q%s, its nodes are %s", err, unknown.Domain, unknown.Name, fault.Meant(unknown.Name, unknown.Nodes), strings.Join(unknown.Nodes, ", "))
	}
	return err
}

// addresses puts the addresses of nodes in the place of their names.
func (f *SelectFlags) addresses(flag string, values []string) ([]string, error) {
	return f.app.AddressesOf("--"+flag, values)
}

// AddressesOf puts the addresses of nodes in the place of their names; what is the flag, or argument, that names them.
func (k *Kit) AddressesOf(what string, values []string) ([]string, error) {
	list, err := k.addressesOf(values)
	if err != nil {
		return nil, refusedNode(what, err)
	}
	return list, nil
}

// addressesOf puts the addresses of nodes in the place of their names.
func (k *Kit) addressesOf(values []string) ([]string, error) { return k.nodes()(values) }

// nodes is addressesOf for one question that can have many names.
func (k *Kit) nodes() func(values []string) ([]string, error) {
	if k.recorded != nil {
		return k.recorded.AddressesOf
	}
	return answer.OwnersOf(k.Domain).AddressesOf
}

// refusedNode is err for the user, where it is about the node that a flag or an argument names.
func refusedNode(what string, err error) error {
	if none, ok := errors.AsType[*answer.NoAddress](err); ok {
		return fault.Usage.Errorf("%s %q: the node owns no address", what, none.Node)
	}
	no, ok := errors.AsType[*answer.NoSuchNode](err)
	switch {
	case !ok:
		return err
	case no.Domain == "":
		return fault.Usage.Errorf("%s %q: the nodes of reports are called int-ID, or as radar collect --node said", what, no.Name)
	}
	return fault.Usage.Errorf("%s %q: domain %s has no such node%s, its nodes are %s", what, no.Name, no.Domain, fault.Meant(no.Name, no.Nodes), strings.Join(no.Nodes, ", "))
}
