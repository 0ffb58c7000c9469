// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"strings"
)

// Expression is the slice in tcpdump's language; "": all TCP and UDP.
func (s *Slice) Expression() string {
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
