// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/vnet/topo"
	"github.com/vnetradar/radar/pkg/words"
)

// Dropper is a rule, or a chain's policy, that can drop packets.
type Dropper struct {
	Family, Table, Chain string
	Hook                 string // "": the chain is called by others
	BeforeConntrack      bool   // conntrack has not seen the packet then
	Handle               uint64 // of a rule of nf_tables; 0: it is the policy
	// Legacy is a rule of legacy iptables, "iptables filter FORWARD: rule 3", and Packets its counter.
	Legacy  string
	Packets uint64
}

// String is "ip f FORWARD (hook forward): policy", "inet f fw (hook input): rule of handle 4", "iptables filter FORWARD: rule 3
// (7 packets)".
func (d Dropper) String() string {
	if d.Legacy != "" {
		return fmt.Sprintf("%s (%s)", d.Legacy, words.Plural(int(d.Packets), "packet"))
	}
	text := fmt.Sprintf("%s %s %s", d.Family, d.Table, d.Chain)
	if d.Hook != "" {
		text += " (hook " + d.Hook + ")"
	}
	if d.Handle == 0 {
		return text + ": policy"
	}
	return fmt.Sprintf("%s: rule of handle %d", text, d.Handle)
}

// DropperList are those of a node.
type DropperList struct {
	List []Dropper
	Cut  bool // there are more of them
	// Legacy are the tools whose legacy tables have rules, or policies, that can drop: iptables, ip6tables. Only ebtables' own
	// tool knows that of its tables: it is there where the machine has them.
	Legacy []string
}

// maxDroppers bounds how many are listed for a node.
const maxDroppers = 64

// hooks are those of IP and of bridges, as netfilter numbers them.
var hooks = []string{"prerouting", "input", "forward", "output", "postrouting", "ingress"}

// add adds what is wanted, up to the bound.
func (l *DropperList) add(d Dropper, keep func(Dropper) bool) {
	switch {
	case !keep(d):
	case len(l.List) == maxDroppers:
		l.Cut = true
	default:
		l.List = append(l.List, d)
	}
}

// HookDroppers are what can have dropped packets that Hook freed in a node, of what keep keeps: rules of legacy tables that
// packets came to, or, if packets came to none (counters can be set to zero), all of them; before Linux 6.7 those of nf_tables,
// too.
func HookDroppers(node topo.NodeSpec, keep func(Dropper) bool) (found DropperList, err error) {
	if kernel.Older(kernel.Release(), 6, 7) {
		if found, err = Droppers(node, keep); err != nil {
			return found, err
		}
	}
	found.Legacy = nil
	var came, none DropperList // by whether packets came to them
	err = node.Do(func() error {
		for f, table := range xtTables {
			info, entries, failed := f.read(table)
			if failed != nil { // what cannot be read can drop
				found.Legacy = append(found.Legacy, f.tool)
				continue
			}
			f.rules(table, info, entries, func(r xtRule) {
				if !f.drops(r.entry) {
					return
				}
				to := &none
				if r.packets > 0 {
					to = &came
				}
				to.add(Dropper{Family: xtFamilyOf[f.tool], Table: table, Chain: r.chain, Hook: r.hook, BeforeConntrack: table == "raw", Legacy: r.String(), Packets: r.packets}, keep)
			})
		}
		found.Legacy = append(found.Legacy, legacyEbtables()...)
		return nil
	})
	if len(came.List) == 0 {
		came = none
	}
	found.List, found.Cut = append(found.List, came.List...), found.Cut || came.Cut
	return found, err
}

// xtFamilyOf are the families of nf_tables that have the packets of tools for legacy tables.
var xtFamilyOf = map[string]string{"iptables": "ip", "ip6tables": "ip6"}

// Droppers are what can drop packets in a node now: of nf_tables what keep keeps, at most 64.
func Droppers(node topo.NodeSpec, keep func(Dropper) bool) (found DropperList, err error) {
	add := func(d Dropper) { found.add(d, keep) }
	err = node.Do(func() error {
		chains := make(map[[3]string]Dropper)
		for _, m := range nftDump(unix.NFT_MSG_GETCHAIN) {
			d, drops := dropperOf(m, unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME, unix.NFT_MSG_GETCHAIN)
			chains[[3]string{d.Family, d.Table, d.Chain}] = d
			if drops {
				add(d)
			}
		}
		for _, m := range nftDump(unix.NFT_MSG_GETRULE) {
			d, drops := dropperOf(m, unix.NFTA_RULE_TABLE, unix.NFTA_RULE_CHAIN, unix.NFT_MSG_GETRULE)
			if drops {
				of := chains[[3]string{d.Family, d.Table, d.Chain}]
				d.Hook, d.BeforeConntrack = of.Hook, of.BeforeConntrack
				add(d)
			}
		}
		found.Legacy = legacyDroppers()
		return nil
	})
	return found, err
}

// legacyDroppers are the tools whose legacy tables, in the thread's namespace, can drop.
func legacyDroppers() (tools []string) {
	for f, table := range xtTables {
		if slices.Contains(tools, f.tool) {
			continue
		}
		if entries, err := f.entries(table); err != nil || f.dropping(entries) { // what cannot be read can drop
			tools = append(tools, f.tool)
		}
	}
	return append(tools, legacyEbtables()...)
}

// legacyEbtables is ebtables, if the machine has its tables.
func legacyEbtables() []string {
	if modules, err := os.ReadFile("/proc/modules"); err == nil && bytes.Contains(modules, []byte("ebtable_")) {
		return []string{"ebtables"}
	}
	return nil
}

// dropperOf reads a message about a chain or a rule, which have other numbers for the same attributes.
func dropperOf(m []byte, table, chain uint16, get int) (d Dropper, drops bool) {
	if len(m) < nl.SizeofNfgenmsg {
		return d, false
	}
	d.Family = nftFamilies[m[0]]
	for kind, value := range host.Attributes(m[nl.SizeofNfgenmsg:]) {
		switch {
		case kind == table:
			d.Table = unix.ByteSliceToString(value)
		case kind == chain:
			d.Chain = unix.ByteSliceToString(value)
		case get == unix.NFT_MSG_GETRULE && kind == unix.NFTA_RULE_HANDLE && len(value) == 8:
			d.Handle = binary.BigEndian.Uint64(value)
		case get == unix.NFT_MSG_GETCHAIN && kind == unix.NFTA_CHAIN_HOOK:
			var priority int32
			d.Hook, priority = hookOf(m[0], value)
			d.BeforeConntrack = d.Hook == "ingress" || (d.Hook == "prerouting" || d.Hook == "output") && priority < ofConntrack
		}
	}
	return d, nftDrops(get, m[nl.SizeofNfgenmsg:])
}

// ofConntrack is the priority of conntrack at its hooks: chains with a lower one come before.
const ofConntrack = -200

// hookOf is the name of a base chain's hook, and its priority there.
func hookOf(family byte, attrs []byte) (name string, priority int32) {
	for kind, value := range host.Attributes(attrs) {
		if len(value) != 4 {
			continue
		}
		n := binary.BigEndian.Uint32(value)
		switch {
		case kind == unix.NFTA_HOOK_PRIORITY:
			priority = int32(n)
		case kind != unix.NFTA_HOOK_HOOKNUM:
		case family == unix.NFPROTO_NETDEV:
			name = []string{"ingress", "egress"}[min(n, 1)]
		case int(n) < len(hooks):
			name = hooks[n]
		}
	}
	return name, priority
}
