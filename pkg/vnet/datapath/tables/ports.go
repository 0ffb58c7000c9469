// SPDX-License-Identifier: Apache-2.0

// Package tables says what the programs read about ports, nodes and addresses: entries and keys of maps, as
// bpf/backpack/abi.h has them. It touches no map; package datapath writes what is made here.
package tables

import (
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Port is the entry of port p: what the programs know of a port of node n, but for what is at its other end.
func Port(n *domain.Node, p *domain.Port, flags bpfobj.TcRdrPortFlag) bpfobj.TcRdrPort {
	return bpfobj.TcRdrPort{
		Node: n.ID, Flags: uint16(flags | NodeFlags(n)), Ifindex: uint32(p.Ifindex), NetnsInum: n.Inum, Behind: p.VM,
	}
}

// NodeFlags are those that all ports of a node have, at any time.
func NodeFlags(n *domain.Node) (flags bpfobj.TcRdrPortFlag) {
	switch {
	case n.Apart != "":
		flags = flagsApart
	case n.Header != "":
		flags = bpfobj.TcRdrPortFlagRDR_PF_HEADER
	}
	if n.Late {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_LATE
	}
	return flags
}

// flagsApart are those of the ports of a node that carries nothing.
const flagsApart = bpfobj.TcRdrPortFlagRDR_PF_APART | bpfobj.TcRdrPortFlagRDR_PF_HEADER

// FlagsStopped are those of a node that must not use the mark, before it is settled what it
// carries instead.
const FlagsStopped = flagsApart | bpfobj.TcRdrPortFlagRDR_PF_LATE

// NodeFlagBits are the flags that NodeFlags may set.
const NodeFlagBits = bpfobj.TcRdrPortFlagRDR_PF_HEADER | bpfobj.TcRdrPortFlagRDR_PF_LATE | bpfobj.TcRdrPortFlagRDR_PF_APART

// Flags is what a port's programs do when all is attached.
func Flags(p *domain.Port) bpfobj.TcRdrPortFlag {
	flags := bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT
	switch {
	case p.Open:
		flags = 0
	case p.Place == domain.BridgePort: // what the bridge sends there met a source before
		flags = bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN
	case p.VM != 0: // it sees true bits, and may be the source of what comes from there
		flags |= bpfobj.TcRdrPortFlagRDR_PF_INTERNAL | bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN
	case p.Place == domain.Bridge, p.Role == domain.Internal:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_INTERNAL
	case p.Forced && p.Link != "":
		// What comes from the link met a source before. What is marked comes too, the
		// user's word only restores what is sent; of flooded copies it may be the last.
	default:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN
	}
	if merge.HasQueue(p) {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_QUEUE
	}
	if p.Tunnel && p.Role == domain.Internal {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_TUNNEL
	}
	if p.True && p.Role == domain.Internal {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_TRUE
	}
	return flags | RestoreFlags(p)
}

// RestoreFlags is what a port's programs do before that and after: restore, and source nothing.
func RestoreFlags(p *domain.Port) (flags bpfobj.TcRdrPortFlag) {
	if p.L3 {
		flags |= bpfobj.TcRdrPortFlagRDR_PF_L3
	}
	if p.VM != 0 { // its keys are all that what is in there can be found by
		flags |= bpfobj.TcRdrPortFlagRDR_PF_TRUE
	}
	switch p.Place {
	case domain.BridgePort:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_BRIDGE_PORT
	case domain.Bridge:
		flags |= bpfobj.TcRdrPortFlagRDR_PF_BRIDGE
	}
	return flags
}

// FlagsWithoutPeer is flags_without_peer() of bpf/backpack/change.h: a port whose other end has moved away.
func FlagsWithoutPeer(flags uint16) uint16 {
	const (
		internal = uint16(bpfobj.TcRdrPortFlagRDR_PF_INTERNAL)
		closing  = uint16(bpfobj.TcRdrPortFlagRDR_PF_BRIDGE_PORT | bpfobj.TcRdrPortFlagRDR_PF_BRIDGE)
	)
	if flags&internal == 0 || flags&closing != 0 {
		return flags
	}
	flags &^= internal | uint16(bpfobj.TcRdrPortFlagRDR_PF_TUNNEL)
	if flags&uint16(bpfobj.TcRdrPortFlagRDR_PF_SOURCE_OUT) != 0 {
		flags |= uint16(bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN)
	}
	return flags
}

// FlagsOutside is flags_outside() of bpf/backpack/change.h: a port that has moved away itself.
func FlagsOutside(flags uint16) uint16 {
	return flags&uint16(bpfobj.TcRdrPortFlagRDR_PF_L3) | uint16(bpfobj.TcRdrPortFlagRDR_PF_BRIDGE)
}

// FlagsGuarded is what set_apart() makes of the flags of a port whose node carries the header.
func FlagsGuarded(flags uint16) uint16 {
	if flags&uint16(bpfobj.TcRdrPortFlagRDR_PF_BRIDGE_PORT|bpfobj.TcRdrPortFlagRDR_PF_BRIDGE) != 0 {
		return flags
	}
	return flags | uint16(flagsApart)
}
