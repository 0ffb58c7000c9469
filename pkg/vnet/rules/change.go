// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Kind is what rules do to packets, of what radar knows packets by on links: sets of the following.
type Kind uint8

// The kinds.
const (
	// SetsNumber: IPv4's ID, or the flow label. On a link between nodes radar's number is there.
	SetsNumber Kind = 1 << iota
	// SetsContent: TCP's options, sequence numbers, payload.
	SetsContent
	// SetsMSS: TCP's MSS alone, which is content of a SYN that has another option before it.
	SetsMSS
	// SetsAddresses: addresses or ports.
	SetsAddresses
	// TakesItself: packets for others are for the node itself then.
	TakesItself
)

func (k Kind) String() string {
	var names []string
	for i, name := range []string{"sets IP ID or flow label", "changes TCP options or payload", "sets TCP's MSS", "translates addresses", "delivers to the node itself"} {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ChangingRule is a rule that changes packets so.
type ChangingRule struct {
	What string // "nft", "iptables", "ip6tables"
	Text string
	Kind Kind

	bridge bool // see isBridges
	where  string
	handle uint64 // of nf_tables
}

func (r *ChangingRule) String() string { return r.What + " " + r.Text }

// FindChanging looks in a node for rules that make one of these changes to packets. A namespace that is gone
// has none.
func FindChanging(ctx context.Context, node topo.NodeSpec, want Kind) []ChangingRule {
	found, _ := findChanging(node, want, nil)
	if slices.ContainsFunc(found, func(r ChangingRule) bool { return r.handle != 0 }) {
		nameRules(ctx, node, found)
	}
	return found
}

// nameRules puts the text of rules of nf_tables in place of their handles, which only a tool knows.
func nameRules(ctx context.Context, node topo.NodeSpec, found []ChangingRule) {
	_ = node.Do(func() error {
		text, _ := output(ctx, "nft", "-a", "list", "ruleset")
		lines := nftLines(text)
		for i := range found {
			r := &found[i]
			if body := lines[nftKey{r.where, r.handle}]; body != "" {
				r.Text = r.where + ": " + body
			}
		}
		return nil
	})
}

// findChanging is FindChanging without a tool. addrs are those to which a DNAT makes packets the node's own. The second
// result is of tables that are there and cannot be read.
func findChanging(node topo.NodeSpec, want Kind, addrs []netip.Addr) (found []ChangingRule, unread error) {
	own := func(low, high netip.Addr) bool {
		return slices.ContainsFunc(addrs, func(a netip.Addr) bool {
			return a.BitLen() == low.BitLen() && low.Compare(a) <= 0 && a.Compare(high) <= 0
		})
	}
	// The error says that the namespace is gone.
	_ = node.Do(func() error {
		for _, m := range nftDump(unix.NFT_MSG_GETRULE) {
			r := readRule(m)
			if kind := r.changes(own); kind&want != 0 {
				found = append(found, ChangingRule{What: "nft", Text: fmt.Sprintf("%s: handle %d", r.where(), r.handle), Kind: kind,
					bridge: r.isBridges(), where: r.where(), handle: r.handle})
			}
		}
		if want == SetsNumber {
			return nil // no target of xtables does
		}
		for f, table := range xtTables {
			entries, err := f.entries(table)
			if err != nil {
				unread = fmt.Errorf("read table %s of %s: %w", table, f.tool, err)
				continue
			}
			f.extensions(entries, func(rule int, x xtExtension) {
				if kind := xtChanges(&x, f.domain == unix.AF_INET6, own); kind&want != 0 {
					found = append(found, ChangingRule{What: f.tool, Text: fmt.Sprintf("-t %s: rule %d of all, %s", table, rule+1, x.name), Kind: kind})
				}
			})
		}
		return nil
	})
	return found, unread
}

// isBridges reports whether the rule is one of bridges, or of single interfaces: it sees what is not routed.
func (r *nftRule) isBridges() bool { return r.family == "bridge" || r.family == "netdev" }

// ToItself says what delivers packets for others to a node itself: a route of type local to more than one address
// (TPROXY, AnyIP), a rule that redirects, or one that translates destinations to an address of the node. "": nothing
// that is known.
func ToItself(node topo.NodeSpec) (what string) {
	if node.HasWideRoutes() {
		return "a route of type local to many addresses"
	}
	addrs, err := node.Locals()
	if err != nil {
		return "" // its namespace is gone: then it delivers nothing
	}
	found, unread := findChanging(node, TakesItself, addrs)
	if len(found) > 0 || unread != nil { // a table that cannot be read may have such a rule
		return "rules that redirect packets to the node itself"
	}
	return ""
}

// Hiding says which rules of a node keep radar from knowing packets that have its bits in the header there: they set what holds
// the number, or change both the content and the addresses. "": there are none.
func Hiding(node topo.NodeSpec) (what string) {
	found, _ := findChanging(node, SetsNumber|SetsContent|SetsAddresses, nil)
	kinds := Kind(0)
	for _, r := range found {
		kinds |= r.Kind
	}
	switch {
	case kinds&SetsNumber != 0:
		return "rules that set the IP ID or the flow label"
	case kinds&SetsContent != 0 && kinds&SetsAddresses != 0:
		return "rules that change content, and rules that translate addresses"
	}
	return ""
}

// OnBridges are the rules that make one of these changes to what bridges of a namespace pass on. Rules for routed packets
// count where bridges may ask them (br_netfilter).
func OnBridges(ctx context.Context, node topo.NodeSpec, want Kind) []ChangingRule {
	return slices.DeleteFunc(FindChanging(ctx, node, want), func(r ChangingRule) bool { return !r.bridge && !bridgesAsk(node) })
}

// bridgesAsk reports whether bridges of a namespace may ask rules for routed packets.
func bridgesAsk(node topo.NodeSpec) (may bool) {
	_ = node.Do(func() error {
		_, err := os.Stat("/proc/sys/net/bridge")
		may = err == nil
		return nil
	})
	return may
}

// Bytes of headers that a rule may write.
const (
	label6First, idFirst, idEnd = 2, 4, 6 // of the network header: IPv6's label to 4, IPv4's ID
	addrsFirst                  = 8       // of IPv6; of IPv4 TTL, protocol and checksum are there
	addrs4First                 = 12
	portsEnd                    = 4 // of the transport header
)

// nftWrites are expressions that write one register, and the attribute that names it.
var nftWrites = map[string]uint16{
	"payload": unix.NFTA_PAYLOAD_DREG, "lookup": unix.NFTA_LOOKUP_DREG, "meta": unix.NFTA_META_DREG, "ct": unix.NFTA_CT_DREG,
	"bitwise": unix.NFTA_BITWISE_DREG, "byteorder": nftaByteorderDreg, "exthdr": unix.NFTA_EXTHDR_DREG, "fib": unix.NFTA_FIB_DREG,
}

// natIPs is NF_NAT_RANGE_MAP_IPS: the range has addresses.
const natIPs = 1

// ownRange reports whether a range of addresses has one of the node's.
type ownRange func(low, high netip.Addr) bool

// changes says what a rule does to packets.
func (r *nftRule) changes(own ownRange) (k Kind) {
	known := make(constants)
	for _, expr := range r.exprs {
		name, a := nftExpr(expr)
		switch name {
		case "payload":
			if a[unix.NFTA_PAYLOAD_SREG] != nil {
				k |= payloadKind(word(a[unix.NFTA_PAYLOAD_BASE]), word(a[unix.NFTA_PAYLOAD_OFFSET]), word(a[unix.NFTA_PAYLOAD_LEN]))
			}
		case "exthdr":
			k |= exthdrKind(a)
		case "synproxy":
			k |= SetsContent
		case "redir":
			k |= SetsAddresses | TakesItself
		case "masq":
			k |= SetsAddresses
		case "nat":
			k |= SetsAddresses
			if word(a[unix.NFTA_NAT_TYPE]) == unix.NFT_NAT_DNAT && natTakes(a, known, own) {
				k |= TakesItself
			}
		case "target":
			x := targetOf(a)
			k |= xtChanges(&x, r.family == "ip6", own)
		}
		known.add(name, a)
	}
	return k
}

// targetOf is the target of xtables that an expression has.
func targetOf(a map[uint16][]byte) xtExtension {
	return xtExtension{true, unix.ByteSliceToString(a[unix.NFTA_TARGET_NAME]), byte(word(a[unix.NFTA_TARGET_REV])), a[unix.NFTA_TARGET_INFO]}
}

// constants are those in the registers of a rule.
type constants map[uint32][]byte

// add takes the next expression of the rule.
func (k constants) add(name string, a map[uint16][]byte) {
	if name == "immediate" {
		k[word(a[unix.NFTA_IMMEDIATE_DREG])] = nftData(a[unix.NFTA_IMMEDIATE_DATA])
		return
	}
	if _, reads := nftReads[name]; reads || name == "target" || name == "match" {
		return
	}
	if dreg, one := nftWrites[name]; one {
		delete(k, word(a[dreg]))
	} else {
		clear(k)
	}
}

// natTakes reports whether an expression that translates destinations may translate them to an address of the node. What
// comes out of a map may be any address.
func natTakes(a map[uint16][]byte, known constants, own ownRange) bool {
	low := a[unix.NFTA_NAT_REG_ADDR_MIN]
	if low == nil {
		return false // only ports
	}
	high := cmp.Or(word(a[unix.NFTA_NAT_REG_ADDR_MAX]), word(low))
	from, ok := netip.AddrFromSlice(known[word(low)])
	to, too := netip.AddrFromSlice(known[high])
	return !ok || !too || own(from, to)
}

// payloadKind is what it means to write so many bytes at off.
func payloadKind(base, off, n uint32) (k Kind) {
	end := off + n
	overlaps := func(from, to uint32) bool { return off < to && from < end }
	switch base {
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		if overlaps(label6First, idEnd) {
			k |= SetsNumber
		}
		if end > addrs4First || (overlaps(addrsFirst, addrs4First) && n > 2) { // two bytes: the TTL
			k |= SetsAddresses
		}
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		if off < portsEnd {
			k |= SetsAddresses
		}
		if end > portsEnd {
			k |= SetsContent
		}
	case unix.NFT_PAYLOAD_LL_HEADER:
	default: // what is inside
		k |= SetsContent
	}
	return k
}

// tcpMSS is the number of TCP's option for the maximum segment size.
const tcpMSS = 2

// exthdrKind is what an expression for header extensions changes: it writes a TCP option, or, with neither register,
// takes one out.
func exthdrKind(a map[uint16][]byte) Kind {
	if word(a[unix.NFTA_EXTHDR_OP]) != unix.NFT_EXTHDR_OP_TCPOPT || a[unix.NFTA_EXTHDR_DREG] != nil {
		return 0
	}
	if kind := a[unix.NFTA_EXTHDR_TYPE]; a[nftaExthdrSreg] != nil && len(kind) == 1 && kind[0] == tcpMSS {
		return SetsMSS
	}
	return SetsContent
}

// xtChanges says what a target of xtables does to packets.
func xtChanges(x *xtExtension, v6 bool, own ownRange) Kind {
	if !x.target {
		return 0
	}
	switch x.name {
	case "REDIRECT":
		return SetsAddresses | TakesItself
	case "SNAT", "MASQUERADE", "SNPT", "DNPT":
		return SetsAddresses
	case "TCPOPTSTRIP", "SYNPROXY":
		return SetsContent
	case "TCPMSS":
		return SetsMSS
	case "DNAT", "NETMAP":
		if low, high, ok := natRange(x, v6); !ok || (low.IsValid() && own(low, high)) {
			return SetsAddresses | TakesItself
		}
		return SetsAddresses
	}
	return 0
}

// natRange reads the addresses of a target that translates: nf_nat_ipv4_multi_range_compat (a length, flags, two
// addresses), or, from revision 1 on and for IPv6, nf_nat_range (flags, two addresses of 16 bytes). ok is false for what cannot
// be read; the addresses are not valid if it has none.
func natRange(x *xtExtension, v6 bool) (low, high netip.Addr, ok bool) {
	b, size, step := x.info, 4, 16
	if !v6 && x.revision == 0 {
		step = 4
		b = b[min(4, len(b)):]
	}
	if v6 {
		size = 16
	}
	if len(b) < 4+2*step {
		return low, high, false
	}
	if binary.NativeEndian.Uint32(b)&natIPs == 0 {
		return low, high, true
	}
	low, _ = netip.AddrFromSlice(b[4 : 4+size])
	high, _ = netip.AddrFromSlice(b[4+step : 4+step+size])
	return low, high, true
}
