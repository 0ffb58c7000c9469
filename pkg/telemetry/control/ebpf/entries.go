// SPDX-License-Identifier: Apache-2.0

package ebpf

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// compile makes the node's watchlist of a State's entries.
func compile(want *control.State) (list []node.Entry, err error) {
	for i := range want.Entries {
		from := &want.Entries[i]
		mode, err := node.ParseMode(string(from.Mode))
		if err != nil {
			return nil, err
		}
		e := node.Entry{
			Expr: expression(&from.Slice), Mode: mode, Instructions: from.Instructions, Domain: want.DomainID,
			Hops: from.Hops, Sample: max(from.Sample, 1),
		}
		if e.Hops == 0 {
			e.Hops = control.DefaultHops // modes without a stack have the field, too
		}
		if e.Expr != "" {
			x, err := filter.Compile(e.Expr)
			if err != nil {
				return nil, fault.Usage.Errorf("intent %s: %w", from.Intent, err)
			}
			e.Expr, e.Program = x.String(), x.Instructions()
		}
		list = append(list, e)
	}
	return list, nil
}

// expression is a slice in tcpdump's language.
func expression(s *control.Slice) string {
	if s.Expr != "" {
		return strings.TrimSpace(s.Expr)
	}
	var all []string
	add := func(list []string, term func(string) string) {
		var terms []string
		for _, v := range list {
			terms = append(terms, term(v))
		}
		switch len(terms) {
		case 0:
		case 1:
			all = append(all, terms[0])
		default:
			all = append(all, "("+strings.Join(terms, " or ")+")")
		}
	}
	network := func(direction string) func(string) string {
		return func(v string) string {
			if strings.Contains(v, "/") {
				return direction + " net " + v
			}
			return direction + " host " + v
		}
	}
	ports := func(direction string) func(string) string {
		return func(v string) string {
			if strings.Contains(v, "-") {
				return direction + " portrange " + v
			}
			return direction + " port " + v
		}
	}
	if s.Proto != "" {
		all = append(all, s.Proto)
	}
	add(s.Src, network("src"))
	add(s.Sport, ports("src"))
	add(s.Dst, network("dst"))
	add(s.Dport, ports("dst"))
	if s.DSCP != nil {
		// Of IPv6 it lies across two bytes of the traffic class.
		all = append(all, fmt.Sprintf("((ip and ip[1] & 0xfc = %d) or (ip6 and ip6[0:2] & 0x0fc0 = %d))", uint16(*s.DSCP)<<2, uint16(*s.DSCP)<<6))
	}
	return strings.Join(all, " and ")
}
