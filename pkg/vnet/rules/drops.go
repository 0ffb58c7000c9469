// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Hook is the function by which netfilter's hooks free what they drop, whoever decided it: rules, conntrack, NAT.
const Hook = "nf_hook_slow"

// Dropping reports whether a node has rules now that drop packets, as rows of losses show them: with Hook for a
// function. From Linux 6.7 nf_tables frees packets in a function of its own, so its rules are none of these.
func Dropping(node topo.NodeSpec) (found bool, err error) {
	err = node.Do(func() error {
		found, err = xtDropping()
		if !found && kernel.Older(kernel.Release(), 6, 7) {
			found = nftDropping()
		}
		return err
	})
	return found, err
}

// xtDropping reports whether a legacy table of the thread's namespace has a rule, or a policy, that drops.
func xtDropping() (found bool, err error) {
	for f, table := range xtTables {
		entries, failed := f.entries(table)
		if failed != nil {
			err = failed
			continue
		}
		found = found || f.dropping(entries)
	}
	if modules, failed := os.ReadFile("/proc/modules"); failed == nil && bytes.Contains(modules, []byte("ebtable_")) {
		found = true // only its tool knows, and it makes empty tables
	}
	return found, err
}

// Verdicts of netfilter. The standard target of xtables has them as their negative, less one.
const (
	nfDrop  = 0
	nfQueue = 3
)

// dropping reports whether one of a table's entries drops.
func (f *xtFamily) dropping(entries []byte) bool {
	for len(entries) >= f.entry {
		next := int(binary.NativeEndian.Uint16(entries[f.toNext:]))
		if next < f.entry || next > len(entries) {
			return false
		}
		if f.drops(entries[:next]) {
			return true
		}
		entries = entries[next:]
	}
	return false
}

// nftDropping reports whether nf_tables of the thread's namespace have a rule or a policy that drops.
func nftDropping() bool {
	for _, get := range []int{unix.NFT_MSG_GETRULE, unix.NFT_MSG_GETCHAIN} {
		for _, m := range nftDump(get) {
			if len(m) >= nl.SizeofNfgenmsg && nftDrops(get, m[nl.SizeofNfgenmsg:]) {
				return true
			}
		}
	}
	return false
}

// nftDrops reads the attributes of a rule or of a chain.
func nftDrops(get int, attrs []byte) bool {
	for kind, value := range host.Attributes(attrs) {
		switch {
		case get == unix.NFT_MSG_GETCHAIN && kind == unix.NFTA_CHAIN_POLICY:
			if len(value) == 4 && binary.BigEndian.Uint32(value) == nfDrop {
				return true
			}
		case get == unix.NFT_MSG_GETRULE && kind == unix.NFTA_RULE_EXPRESSIONS:
			for _, expr := range host.Attributes(value) {
				if nftExpressionDrops(expr) {
					return true
				}
			}
		}
	}
	return false
}

// nftExpressionDrops reports whether an expression may: a verdict, one that a map gives, a refusal, a queue without a
// reader.
func nftExpressionDrops(expr []byte) bool {
	name, data := "", []byte(nil)
	for kind, value := range host.Attributes(expr) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			name = unix.ByteSliceToString(value)
		case unix.NFTA_EXPR_DATA:
			data = value
		}
	}
	switch name {
	case "reject", "queue", "synproxy":
		return true
	case "lookup":
		for kind, value := range host.Attributes(data) {
			if kind == unix.NFTA_LOOKUP_DREG && word(value) == unix.NFT_REG_VERDICT {
				return true
			}
		}
	case "immediate":
		return nftVerdict(data) == nfDrop
	}
	return false
}

// nftVerdict is that of an immediate expression; -1: it has none.
func nftVerdict(data []byte) int {
	for kind, value := range host.Attributes(data) {
		if kind != unix.NFTA_IMMEDIATE_DATA {
			continue
		}
		for kind, value := range host.Attributes(value) {
			if kind != unix.NFTA_DATA_VERDICT {
				continue
			}
			for kind, value := range host.Attributes(value) {
				if kind == unix.NFTA_VERDICT_CODE {
					return int(int32(word(value)))
				}
			}
		}
	}
	return -1
}
