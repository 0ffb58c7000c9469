// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// NATRule is a rule that translates sources, with the ports that it may give them.
type NATRule struct {
	Rule string `json:"rule"`
	Low  uint16 `json:"low_port"`
	High uint16 `json:"high_port"`
}

// NoFreePort is a rule all of whose ports are in use at an address for connections to one address and port: it has none for
// another connection there.
type NoFreePort struct {
	NATRule
	Proto string         `json:"proto"`
	To    netip.AddrPort `json:"to"`
	From  netip.Addr     `json:"from"` // the address that sources get
	Used  int            `json:"used"`
}

// NATPorts are what NAT of a node has no port for now, and its rules that have a range of ports of their own.
type NATPorts struct {
	NoFree []NoFreePort
	Ranges []NATRule
}

// Bounds of what is read and reported.
const (
	maxNATRules    = 16
	maxConnections = 1 << 18
)

// The ports that NAT gives to a source that has one of these, where the rule does not say which.
const lowestPort, highestPort = 1024, 65535

// allTried is the largest range in which the kernel tries each port. In a larger one it tries some, and finds one until nearly the
// whole range is in use.
const allTried = 128

// usedUp reports whether so many of the rule's ports leave none that the kernel finds.
func (r *NATRule) usedUp(used int) bool {
	size := int(r.High) - int(r.Low) + 1
	return used >= size || size > allTried && used*8 >= size*7
}

// PortsOfNAT asks a node which of its rules have no port left. If its connections cannot be read, or are too many, it has
// the ranges alone.
func PortsOfNAT(node topo.NodeSpec) (ports NATPorts, err error) {
	err = node.Do(func() error {
		list, err := natRules()
		if err != nil || len(list) == 0 {
			return err
		}
		for _, r := range list {
			if r.Low != lowestPort || r.High != highestPort {
				ports.Ranges = append(ports.Ranges, r)
			}
		}
		ports.NoFree, _ = noFreePorts(list)
		return nil
	})
	return ports, err
}

// natRules are the first rules of the thread's namespace that translate sources.
func natRules() (list []NATRule, err error) {
	for _, m := range nftDump(unix.NFT_MSG_GETRULE) {
		r := readRule(m)
		if low, high, is := r.sourcePorts(); is {
			list = append(list, NATRule{fmt.Sprintf("%s: rule of handle %d", r.where(), r.handle), low, high})
		}
	}
	for f, table := range xtTables {
		if table != "nat" {
			continue
		}
		info, entries, failed := f.read(table)
		if failed != nil {
			err = fmt.Errorf("read table %s of %s: %w", table, f.tool, failed)
			continue
		}
		f.rules(table, info, entries, func(r xtRule) {
			f.extensions(r.entry, func(_ int, x xtExtension) {
				if low, high, is := xtSourcePorts(&x, f.domain == unix.AF_INET6); is {
					list = append(list, NATRule{r.String(), low, high})
				}
			})
		})
	}
	return list[:min(len(list), maxNATRules)], err
}

// sourcePorts are the ports that a rule gives to sources; ok is false if it does not translate them, or to what comes out of
// a map.
func (r *nftRule) sourcePorts() (low, high uint16, ok bool) {
	known := make(constants)
	for _, expr := range r.exprs {
		name, a := nftExpr(expr)
		switch {
		case name == "masq":
			return known.ports(a[unix.NFTA_MASQ_REG_PROTO_MIN], a[unix.NFTA_MASQ_REG_PROTO_MAX])
		case name == "nat" && word(a[unix.NFTA_NAT_TYPE]) == unix.NFT_NAT_SNAT:
			return known.ports(a[unix.NFTA_NAT_REG_PROTO_MIN], a[unix.NFTA_NAT_REG_PROTO_MAX])
		case name == "target":
			x := targetOf(a)
			if low, high, ok = xtSourcePorts(&x, r.family == "ip6"); ok {
				return low, high, true
			}
		}
		known.add(name, a)
	}
	return 0, 0, false
}

// ports are those in two registers; without registers NAT chooses them.
func (k constants) ports(low, high []byte) (from, to uint16, ok bool) {
	if low == nil {
		return lowestPort, highestPort, true
	}
	a, b := k[word(low)], k[cmp.Or(word(high), word(low))]
	if len(a) < 2 || len(b) < 2 {
		return 0, 0, false
	}
	from, to = binary.BigEndian.Uint16(a), binary.BigEndian.Uint16(b)
	return from, to, from <= to
}

// natPorts is NF_NAT_RANGE_PROTO_SPECIFIED: the range has ports.
const natPorts = 2

// xtSourcePorts are the ports that a target gives to sources (see natRange).
func xtSourcePorts(x *xtExtension, v6 bool) (low, high uint16, ok bool) {
	if !x.target || x.name != "SNAT" && x.name != "MASQUERADE" {
		return 0, 0, false
	}
	b, at := x.info, 4+2*16
	if !v6 && x.revision == 0 {
		b, at = b[min(4, len(b)):], 4+2*4
	}
	if len(b) < at+4 {
		return 0, 0, false
	}
	if binary.NativeEndian.Uint32(b)&natPorts == 0 {
		return lowestPort, highestPort, true
	}
	low, high = binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
	return low, high, low <= high
}

// connection is one that conntrack has, by the packets that come back: no other may have the same.
type connection struct {
	proto  byte
	zone   uint16         // in which the packets that come back are looked for
	to     netip.AddrPort // where they come from
	from   netip.Addr     // and what for
	port   uint16
	source bool // its source is translated
	// answered: a packet came back.
	answered bool
}

// withPorts are the protocols whose ports NAT chooses.
var withPorts = map[byte]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_SCTP: "sctp", unix.IPPROTO_DCCP: "dccp"}

// noFreePorts are what these rules have no port for, by the connections of the thread's namespace. They are not looked at if
// there are more than are read.
func noFreePorts(rules []NATRule) (list []NoFreePort, err error) {
	type group struct {
		connection // with neither port nor source
		rule       int
	}
	type count struct {
		used       int
		translated bool
	}
	counts := make(map[group]count)
	read := 0
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	err = req.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(m []byte) bool {
		read++
		c, ok := readConnection(m)
		for i := range rules {
			if !ok || withPorts[c.proto] == "" || c.port < rules[i].Low || c.port > rules[i].High {
				continue
			}
			of := group{connection{proto: c.proto, zone: c.zone, to: c.to, from: c.from}, i}
			n := counts[of]
			counts[of] = count{n.used + 1, n.translated || c.source}
		}
		return read <= maxConnections
	})
	if err != nil {
		return nil, err
	}
	if read > maxConnections {
		return nil, fmt.Errorf("it has more than %d connections", maxConnections)
	}
	for of, n := range counts {
		if r := rules[of.rule]; n.translated && r.usedUp(n.used) {
			list = append(list, NoFreePort{r, withPorts[of.proto], of.to, of.from, n.used})
		}
	}
	slices.SortFunc(list, func(a, b NoFreePort) int {
		return cmp.Or(b.Used-a.Used, a.To.Compare(b.To), a.From.Compare(b.From), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Rule, b.Rule))
	})
	return list, nil
}

// Attributes of connections that pkg unix does not name, and the status of one that was answered, or whose source is translated.
const (
	ctTupleReply, ctStatus, ctZone = 2, 3, 18
	ctTupleIP, ctTupleProto        = 1, 2
	ctTupleZone                    = 3
	ctSource4, ctTarget4           = 1, 2
	ctSource6, ctTarget6           = 3, 4
	ctProto, ctSourcePort          = 1, 2
	ctTargetPort                   = 3
	ctSeenReply                    = 1 << 1
	ctSourceTranslated             = 1 << 4
)

// readConnection reads a message about one.
func readConnection(m []byte) (c connection, ok bool) {
	if len(m) < nl.SizeofNfgenmsg {
		return c, false
	}
	var source, target netip.Addr
	var sport uint16
	for kind, value := range host.Attributes(m[nl.SizeofNfgenmsg:]) {
		switch kind {
		case ctStatus:
			c.source, c.answered = word(value)&ctSourceTranslated != 0, word(value)&ctSeenReply != 0
		case ctZone:
			c.zone = short(value)
		case ctTupleReply:
			for kind, value := range host.Attributes(value) {
				if kind == ctTupleZone { // the other direction has another one, or none
					c.zone = short(value)
					continue
				}
				for inner, value := range host.Attributes(value) {
					switch {
					case kind == ctTupleIP && (inner == ctSource4 || inner == ctSource6):
						source, _ = netip.AddrFromSlice(value)
					case kind == ctTupleIP && (inner == ctTarget4 || inner == ctTarget6):
						target, _ = netip.AddrFromSlice(value)
					case kind == ctTupleProto && inner == ctProto && len(value) == 1:
						c.proto = value[0]
					case kind == ctTupleProto && inner == ctSourcePort:
						sport = short(value)
					case kind == ctTupleProto && inner == ctTargetPort:
						c.port = short(value)
					}
				}
			}
		}
	}
	c.to, c.from = netip.AddrPortFrom(source, sport), target
	return c, source.IsValid() && target.IsValid()
}

// short reads a number of two bytes as netfilter writes it; 0 if there is none.
func short(attr []byte) uint16 {
	if len(attr) != 2 {
		return 0
	}
	return binary.BigEndian.Uint16(attr)
}
