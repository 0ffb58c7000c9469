// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/vnetradar/radar/pkg/record"
)

// joinKey identifies the packet of a record by the true header, which captures and
// records both know. Fields that do not apply are -1.
type joinKey struct {
	src, dst     string
	proto        string
	sport, dport int
	icmpType     int
	id, seq      int // ICMP echo
	frag         int // bytes
	ipID         uint32
}

func keyOfPacket(pkt *packet) joinKey {
	k := joinKey{
		src: pkt.Src.String(), dst: pkt.Dst.String(), proto: protoName(pkt.Proto),
		sport: pkt.Sport, dport: pkt.Dport, icmpType: pkt.ICMPType, id: pkt.ICMPID, seq: pkt.ICMPSeq,
		frag: -1, ipID: pkt.id(),
	}
	if pkt.fragment() {
		k.frag = int(pkt.Frag&maskOffset) * 8
		k.forgetL4()
	}
	return k
}

// keyOfRecord of the n-th packet that the record stands for.
func keyOfRecord(r *record.Record, n int) joinKey {
	k := joinKey{
		src: canonical(r.Src), dst: canonical(r.Dst), proto: r.Proto,
		sport: orNone(r.Sport), dport: orNone(r.Dport), icmpType: orNone(r.ICMPType),
		id: orNone(r.ICMPID), seq: orNone(r.ICMPSeq), frag: orNone(r.FragOff),
		ipID: uint32(uint16(r.IPID + n)),
	}
	if r.IPVersion == 6 {
		k.ipID = uint32(max(orNone(r.FragID), 0))
	}
	if k.frag >= 0 {
		k.forgetL4()
	}
	return k
}

// forgetL4 clears what only the first fragment has.
func (k *joinKey) forgetL4() {
	k.sport, k.dport, k.icmpType, k.id, k.seq = -1, -1, -1, -1, -1
}

func orNone(p *int) int {
	if p == nil {
		return -1
	}
	return *p
}

func canonical(addr string) string {
	if a, err := netip.ParseAddr(addr); err == nil {
		return a.String()
	}
	return addr
}

// expectation is a packet that came into the domain, and what its record must say.
type expectation struct {
	path    *packetPath
	origin  *packet
	outcome outcome
	enters  int64 // Unix ns: first sighting in the domain
	first   bracket
	ttl     int // there
}

// claim is one packet of a record.
type claim struct {
	r *record.Record
	n int // which packet of the record
}

// pair is a packet and the record of it.
type pair struct {
	expectation
	claim
	alike bool // others have the same header
}

// match gives every packet its record.
func match(want []expectation, records []record.Record) (pairs []pair, missing []expectation, extra []claim) {
	wants := map[joinKey][]expectation{}
	for _, e := range want {
		k := keyOfPacket(e.origin)
		wants[k] = append(wants[k], e)
	}
	claims := map[joinKey][]claim{}
	for i := range records {
		for n := range max(records[i].Segs, 1) {
			k := keyOfRecord(&records[i], n)
			claims[k] = append(claims[k], claim{&records[i], n})
		}
	}
	for k, es := range wants {
		p, m, x := align(es, claims[k])
		pairs, missing, extra = append(pairs, p...), append(missing, m...), append(extra, x...)
		delete(claims, k)
	}
	for _, cs := range claims {
		extra = append(extra, cs...)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.enters, b.enters) })
	slices.SortFunc(missing, func(a, b expectation) int { return cmp.Compare(a.enters, b.enters) })
	slices.SortFunc(extra, func(a, b claim) int { return cmp.Compare(a.r.TNs, b.r.TNs) })
	return pairs, missing, extra
}

// align pairs packets and claims of one key: in order if there are as many packets
// as claims, else as captures allow.
func align(es []expectation, cs []claim) (pairs []pair, missing []expectation, extra []claim) {
	slices.SortStableFunc(es, func(a, b expectation) int { return cmp.Compare(a.enters, b.enters) })
	slices.SortStableFunc(cs, func(a, b claim) int { return cmp.Compare(a.r.TNs, b.r.TNs) })
	ordered, alike := len(es) == len(cs), len(es) > 1 || len(cs) > 1
	for len(es) > 0 && len(cs) > 0 {
		at := cs[0].r.TNs
		switch {
		case ordered || es[0].first.holds(at, clockError):
			pairs = append(pairs, pair{es[0], cs[0], alike})
			es, cs = es[1:], cs[1:]
		case at < es[0].first.from:
			extra = append(extra, cs[0])
			cs = cs[1:]
		default:
			missing = append(missing, es[0])
			es = es[1:]
		}
	}
	return pairs, append(missing, es...), append(extra, cs...)
}
