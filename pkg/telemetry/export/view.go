// SPDX-License-Identifier: Apache-2.0

package export

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/record"
)

// view is a packet as one node saw it come in, or as it made it.
type view struct {
	src, dst       netip.Addr
	proto          uint8
	ports          bool // sport and dport are known
	sport, dport   uint16
	ttl, dscp, ecn int
}

// viewAt is the packet as hop at of its way saw it. ok is false if the record has no header.
//
// Addresses and ports are what nodes before have made of them (NAT). Of TTL a record has what
// the source saw and what was sent last: the way between is made from them, one less for each
// node that forwarded, until the last is reached. DSCP and ECN change nowhere but before the
// last.
func viewAt(r *record.Record, way []int, at int) (v view, ok bool) {
	src, dst := r.Src, r.Dst
	sport, dport := r.Sport, r.Dport
	forwarded := 0
	for n := range min(at, len(way)) {
		h := &r.Hops[way[n]]
		if h.InPort != "" || n > 0 {
			forwarded++
		}
		if h.Src != "" {
			src = h.Src
		}
		if h.Dst != "" {
			dst = h.Dst
		}
		if h.Sport != nil {
			sport = h.Sport
		}
		if h.Dport != nil {
			dport = h.Dport
		}
	}
	var err1, err2 error
	v.src, err1 = netip.ParseAddr(src)
	v.dst, err2 = netip.ParseAddr(dst)
	v.proto, ok = record.ParseProto(r.Proto)
	if err1 != nil || err2 != nil || !ok || v.src.Is4() != (r.IPVersion == 4) || v.dst.Is4() != v.src.Is4() {
		return v, false
	}
	if sport != nil && dport != nil {
		v.ports, v.sport, v.dport = true, uint16(*sport), uint16(*dport)
	}
	v.ttl, v.dscp, v.ecn = r.TTL, r.DSCP, r.ECN
	if r.TTLSent != nil {
		v.ttl = max(r.TTL-forwarded, min(r.TTL, *r.TTLSent))
	}
	if at > 0 && at >= len(way)-1 {
		v.dscp, v.ecn = known(r.DSCPSent, r.DSCP), known(r.ECNSent, r.ECN)
	}
	return v, true
}

// known is what n points to, otherwise if that is not known.
func known(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

// translated says whether the way to hop at has changed what names the flow.
func (v *view) translated(r *record.Record) bool {
	return v.src.String() != r.Src || v.dst.String() != r.Dst ||
		v.ports && (r.Sport == nil || r.Dport == nil || int(v.sport) != *r.Sport || int(v.dport) != *r.Dport)
}
