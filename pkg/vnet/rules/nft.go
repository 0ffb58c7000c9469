// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// nftUse is a rule of nf_tables that touches the mark.
type nftUse struct {
	nftRule
	mask uint32
	xt   bool // by an extension of xtables, as iptables-nft and ebtables-nft make
}

func (u *nftUse) conflict() Conflict {
	return Conflict{What: "nft", Text: fmt.Sprintf("%s: handle %d", u.where(), u.handle), Mask: u.mask}
}

// nftDump asks the kernel for all of a kind that nf_tables of the thread's namespace have: NFT_MSG_GETRULE,
// NFT_MSG_GETCHAIN. Each message begins with struct nfgenmsg.
func nftDump(get int) [][]byte {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|get, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	// If the dump was interrupted, take what is there. Any other error: there are no nf_tables.
	msgs, _ := host.RetryDump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_NETFILTER, 0) })
	return msgs
}

// nftUses asks the kernel for the rules of the thread's namespace that touch the mark.
// It needs no tool.
func nftUses() []nftUse {
	var uses []nftUse
	for _, m := range nftDump(unix.NFT_MSG_GETRULE) {
		if u := nftUseOf(m); u.mask != 0 {
			uses = append(uses, u)
		}
	}
	return uses
}

// nftConflicts are nftUses with the rules' text, where a tool has it.
func nftConflicts(ctx context.Context) []Conflict {
	uses := nftUses()
	if len(uses) == 0 {
		return nil
	}
	text, _ := output(ctx, "nft", "-a", "list", "ruleset")
	lines := nftLines(text)
	var found []Conflict
	var xt []nftUse
	for _, u := range uses {
		if u.xt {
			xt = append(xt, u)
			continue
		}
		c := u.conflict()
		if body := lines[nftKey{u.where(), u.handle}]; body != "" {
			c.Text = u.where() + ": " + body
		}
		found = append(found, c)
	}
	return append(found, nftExtensions(ctx, xt)...)
}

// nftExtensions names rules that use extensions of xtables, whose text the tool knows that
// made them. Rules that no tool prints are named by their handle.
func nftExtensions(ctx context.Context, uses []nftUse) (found []Conflict) {
	named := make(map[string]uint32) // bits, by family and table
	for _, tool := range []struct{ name, family string }{
		{"iptables", "ip"}, {"ip6tables", "ip6"}, {"ebtables", "bridge"},
	} {
		wanted := false
		for _, u := range uses {
			wanted = wanted || u.family == tool.family
		}
		if !wanted {
			continue
		}
		out, _ := output(ctx, tool.name+"-nft-save")
		for _, c := range parseTables(tool.name, string(out)) {
			found = append(found, c.Conflict)
			named[tool.family+" "+c.table] |= c.Mask
		}
	}
	for _, u := range uses {
		if u.mask&^named[u.family+" "+u.table] != 0 {
			found = append(found, u.conflict())
		}
	}
	return found
}

// nftFamilies are the names of nf_tables' families.
var nftFamilies = map[byte]string{
	unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_INET: "inet",
	unix.NFPROTO_ARP: "arp", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_NETDEV: "netdev",
}

// nftRule is a rule of nf_tables.
type nftRule struct {
	family, table, chain string
	handle               uint64
	exprs                [][]byte
}

func (r *nftRule) where() string { return fmt.Sprintf("%s %s %s", r.family, r.table, r.chain) }

// readRule reads a message about a rule.
func readRule(msg []byte) (r nftRule) {
	if len(msg) < nl.SizeofNfgenmsg {
		return r
	}
	r.family = nftFamilies[msg[0]]
	for kind, value := range host.Attributes(msg[nl.SizeofNfgenmsg:]) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			r.table = unix.ByteSliceToString(value)
		case unix.NFTA_RULE_CHAIN:
			r.chain = unix.ByteSliceToString(value)
		case unix.NFTA_RULE_HANDLE:
			if len(value) == 8 {
				r.handle = binary.BigEndian.Uint64(value)
			}
		case unix.NFTA_RULE_EXPRESSIONS:
			for _, expr := range host.Attributes(value) {
				r.exprs = append(r.exprs, expr)
			}
		}
	}
	return r
}

// nftUseOf reads a message about a rule; the mask is 0 if the rule does not touch the mark.
func nftUseOf(msg []byte) nftUse {
	u := nftUse{nftRule: readRule(msg)}
	var regs nftRegs
	for _, expr := range u.exprs {
		regs.add(expr)
	}
	u.mask, u.xt = regs.touched, regs.xt
	return u
}

// nftExpr reads an expression of a rule: its name, and its attributes.
func nftExpr(expr []byte) (name string, attrs map[uint16][]byte) {
	attrs = make(map[uint16][]byte)
	for kind, value := range host.Attributes(expr) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			name = unix.ByteSliceToString(value)
		case unix.NFTA_EXPR_DATA:
			for k, v := range host.Attributes(value) {
				attrs[k] = v
			}
		}
	}
	return name, attrs
}

// nftRegs follows the mark through the registers of a rule.
type nftRegs struct {
	regs    [20]nftReg // of 32 bits each
	touched uint32     // bits of the mark that the rule reads or writes so far
	xt      bool
}

// nftReg is what a register holds of the mark.
type nftReg struct {
	bits uint32 // the bits of the mark that it depends on
	xor  uint32
	same bool // it is (mark & bits) ^ xor
}

// Attributes of expressions that pkg unix does not name.
const (
	nftaBitwiseSreg2  = 8
	nftaFibFlags      = 3
	nftFibMark        = 1 << 2 // of NFTA_FIB_FLAGS
	nftaPayloadSreg   = 5
	nftaSocketDreg    = 2
	nftaExthdrSreg    = 7
	nftaByteorderSreg = 1
	nftaByteorderDreg = 2
	nftaTproxyAddr    = 2
	nftaTproxyPort    = 3
)

// nftReads are expressions that read registers and write none: which attributes name them.
var nftReads = map[string][]uint16{
	"counter": nil, "limit": nil, "log": nil, "quota": nil, "last": nil, "connlimit": nil, "notrack": nil,
	"reject": nil, "flow_offload": nil, "synproxy": nil,
	"cmp": {unix.NFTA_CMP_SREG}, "range": {unix.NFTA_RANGE_SREG},
	"nat":    {unix.NFTA_NAT_REG_ADDR_MIN, unix.NFTA_NAT_REG_ADDR_MAX, unix.NFTA_NAT_REG_PROTO_MIN, unix.NFTA_NAT_REG_PROTO_MAX},
	"masq":   {unix.NFTA_MASQ_REG_PROTO_MIN, unix.NFTA_MASQ_REG_PROTO_MAX},
	"redir":  {unix.NFTA_REDIR_REG_PROTO_MIN, unix.NFTA_REDIR_REG_PROTO_MAX},
	"tproxy": {nftaTproxyAddr, nftaTproxyPort},
	"queue":  {unix.NFTA_QUEUE_SREG_QNUM},
}

// add takes the next expression of the rule.
func (r *nftRegs) add(expr []byte) {
	name, a := nftExpr(expr)
	if reads, known := nftReads[name]; known {
		for _, kind := range reads {
			r.read(a[kind])
		}
		return
	}
	switch name {
	case "immediate":
		r.forget(a[unix.NFTA_IMMEDIATE_DREG])
	case "payload":
		r.read(a[nftaPayloadSreg])
		r.forget(a[unix.NFTA_PAYLOAD_DREG])
	case "exthdr":
		r.read(a[nftaExthdrSreg])
		r.forget(a[unix.NFTA_EXTHDR_DREG])
	case "ct":
		r.read(a[unix.NFTA_CT_SREG])
		r.forget(a[unix.NFTA_CT_DREG])
	case "socket":
		r.forget(a[nftaSocketDreg])
	case "fib":
		if word(a[nftaFibFlags])&nftFibMark != 0 {
			r.touched = AllMarks
		}
		r.forget(a[unix.NFTA_FIB_DREG])
	case "meta":
		r.meta(a)
	case "bitwise":
		r.bitwise(a)
	case "byteorder":
		r.move(a[nftaByteorderSreg], a[nftaByteorderDreg], nil)
	case "match", "target":
		bits := xtBits(name == "target", unix.ByteSliceToString(a[unix.NFTA_MATCH_NAME]), byte(word(a[unix.NFTA_MATCH_REV])), a[unix.NFTA_MATCH_INFO])
		r.touched |= bits
		r.xt = r.xt || bits != 0
	default: // it may read any register: sets, maps, hashes, what comes with a later kernel
		for i := range r.regs {
			r.touched |= r.regs[i].bits
		}
	}
}

func (r *nftRegs) meta(a map[uint16][]byte) {
	mark := word(a[unix.NFTA_META_KEY]) == unix.NFT_META_MARK
	if sreg := a[unix.NFTA_META_SREG]; sreg != nil {
		switch from := r.reg(sreg); {
		case !mark:
			r.read(sreg)
		case from != nil && from.same:
			r.touched |= ^from.bits | from.xor // the others keep their values
		default:
			r.read(sreg)
			r.touched = AllMarks
		}
		return
	}
	if to := r.reg(a[unix.NFTA_META_DREG]); to != nil {
		*to = nftReg{}
		if mark {
			*to = nftReg{bits: AllMarks, same: true}
		}
	}
}

// bitwise follows an operation: (value & mask) ^ xor, or another, of which nothing is known.
func (r *nftRegs) bitwise(a map[uint16][]byte) {
	mask, xor := nftData(a[unix.NFTA_BITWISE_MASK]), nftData(a[unix.NFTA_BITWISE_XOR])
	r.read(a[nftaBitwiseSreg2])
	if len(mask) != 4 || len(xor) != 4 {
		r.move(a[unix.NFTA_BITWISE_SREG], a[unix.NFTA_BITWISE_DREG], nil)
		return
	}
	r.move(a[unix.NFTA_BITWISE_SREG], a[unix.NFTA_BITWISE_DREG], func(v nftReg) nftReg {
		and := binary.NativeEndian.Uint32(mask)
		return nftReg{bits: v.bits & and, xor: v.xor&and ^ binary.NativeEndian.Uint32(xor), same: v.same}
	})
}

// move writes what f makes of one register to another; without f, something that depends
// on the same bits.
func (r *nftRegs) move(sreg, dreg []byte, f func(nftReg) nftReg) {
	from, to := r.reg(sreg), r.reg(dreg)
	if from == nil || to == nil {
		return
	}
	if f != nil && from.same {
		*to = f(*from)
		return
	}
	*to = nftReg{bits: from.bits}
}

// read notes that a rule depends on what register has.
func (r *nftRegs) read(register []byte) {
	if from := r.reg(register); from != nil {
		r.touched |= from.bits
	}
}

// forget notes that something that is not the mark's is written to a register.
func (r *nftRegs) forget(register []byte) {
	if to := r.reg(register); to != nil {
		*to = nftReg{}
	}
}

// reg returns the register of an attribute; nil if there is none, or for a verdict's.
func (r *nftRegs) reg(attr []byte) *nftReg {
	n := int(word(attr))
	switch {
	case n >= unix.NFT_REG_1 && n <= unix.NFT_REG_4: // four of 32 bits each
		return &r.regs[(n-unix.NFT_REG_1)*4]
	case n >= unix.NFT_REG32_00 && n < unix.NFT_REG32_00+len(r.regs):
		return &r.regs[n-unix.NFT_REG32_00]
	}
	return nil
}

// nftData takes a value out of its attribute.
func nftData(attr []byte) []byte {
	for kind, value := range host.Attributes(attr) {
		if kind == unix.NFTA_DATA_VALUE {
			return value
		}
	}
	return nil
}

// word reads a number as nf_tables writes it; 0 if there is none.
func word(attr []byte) uint32 {
	if len(attr) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(attr)
}

// nftKey is a rule: "family table chain" and its handle.
type nftKey struct {
	where  string
	handle uint64
}

// nftLines returns the text of each rule in `nft -a list ruleset`.
func nftLines(text []byte) map[nftKey]string {
	lines := make(map[nftKey]string)
	var table, chain string
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		body, comment, _ := strings.Cut(strings.TrimSpace(sc.Text()), " # handle ")
		words := strings.Fields(body)
		if len(words) == 4 && words[0] == "table" {
			table = words[1] + " " + words[2]
		}
		if len(words) == 3 && words[0] == "chain" {
			chain = words[1]
		}
		var handle uint64
		if _, err := fmt.Sscan(comment, &handle); err == nil {
			lines[nftKey{table + " " + chain, handle}] = body
		}
	}
	return lines
}
