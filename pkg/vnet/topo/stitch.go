// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Stitched links: docs/design/0017-stitched-links.md. Two attached ports have their other
// ends in a namespace that is not attached, where tc redirects whatever comes in by one of
// them out by the other, and the other way round. containerlab joins interfaces so.

// seam is an interface in a namespace that is not attached, at the other end of an attached
// port, whose ingress redirects to another interface.
type seam struct {
	port PortRef // the attached port
	name string
	to   int    // number of the interface that it redirects to; 0: no filter there redirects
	why  string // what keeps it from being half of a link; "": nothing
}

// endIn is the interface in h that is at the other end of an attached port, nil if none is.
// The kernel must say so of both ends: one of them can have moved since it was looked at.
func (t *Topology) endIn(h *hidden, id int, probes []probe, ref PortRef) netlink.Link {
	w := probes[ref.Node].wires[ref.Port]
	l := h.links[w.ifindex]
	if !w.pair || w.nsid != id || l == nil {
		return nil
	}
	a := l.Attrs()
	if !pairKinds[l.Type()] || a.ParentIndex != t.Port(ref).Ifindex || a.NetNsID != ref.Node {
		return nil
	}
	return l
}

// seamsIn finds the interfaces of h, at other ends of attached ports, whose ingress redirects.
func (t *Topology) seamsIn(h *hidden, id int, probes []probe) (map[int]*seam, error) {
	ends := make(map[int]*seam)
	for i := range probes {
		for j := range probes[i].wires {
			ref := PortRef{i, j}
			if l := t.endIn(h, id, probes, ref); l != nil {
				ends[l.Attrs().Index] = &seam{port: ref, name: l.Attrs().Name}
			}
		}
	}
	if len(ends) == 0 {
		return nil, nil
	}
	err := host.InNetns(h.ns, func() error {
		hooks, err := filterHooks()
		if err != nil {
			return err
		}
		for index, s := range ends {
			if hooks[index].ingress {
				s.to, s.why = redirectAt(index)
			}
			if s.to == 0 && s.why == "" {
				delete(ends, index)
			}
		}
		if len(ends) == 0 {
			return nil
		}
		hooked := netdevHooks()
		for index, s := range ends {
			if s.why == "" {
				s.why = otherUser(h, index, hooks[index], hooked)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for stitched interfaces: %w", err)
	}
	return ends, nil
}

// stitch joins the attached ports at both ends of each stitched pair. It says of every other
// redirect why it is no link.
func (t *Topology) stitch(h *hidden, seams map[int]*seam) {
	for _, index := range sortedKeys(seams) {
		s := seams[index]
		why := s.why
		other := seams[s.to]
		switch {
		case why != "":
		case other == nil && h.links[s.to] == nil:
			why = "the interface that it redirects to is gone"
		case other == nil:
			why = fmt.Sprintf("%s does not redirect back to it, or is not at the other end of an attached port", h.links[s.to].Attrs().Name)
		case other == s:
			why = "it redirects to itself"
		case other.why != "":
			why = fmt.Sprintf("of %s, where it redirects to: %s", other.name, other.why)
		case other.to != index:
			why = other.name + " does not redirect back to it"
		}
		port := t.Port(s.port)
		if why == "" {
			peer := other.port
			port.Peer, port.Stitched = &peer, true
			continue
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s/%s: tc redirects what comes in at its other end %s, which is no link that radar can follow (%s): it is an edge",
			t.Nodes[s.port.Node].Name, port.Name, s.name, why))
	}
}

// filterHook says where filters can hang at an interface.
type filterHook struct{ ingress, egress bool }

// filterHooks asks for those of all interfaces of the thread's namespace.
func filterHooks() (map[int]filterHook, error) {
	msgs, err := host.RetryDump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	})
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	hooks := make(map[int]filterHook)
	for _, m := range msgs {
		if len(m) < nl.SizeofTcMsg {
			continue
		}
		index := int(nl.DeserializeTcMsg(m).Ifindex)
		for kind, value := range host.Attributes(m[nl.SizeofTcMsg:]) {
			if kind != nl.TCA_KIND {
				continue
			}
			switch unix.ByteSliceToString(value) {
			case "clsact":
				hooks[index] = filterHook{ingress: true, egress: true}
			case "ingress":
				hooks[index] = filterHook{ingress: true}
			}
		}
	}
	return hooks, nil
}

// filter is one filter as the kernel describes it.
type filter struct {
	kind     string
	protocol uint16
	options  []byte
}

// filtersAt lists the filters of an interface at one hook, of all chains.
func filtersAt(index int, parent uint32) ([]filter, error) {
	msgs, err := host.RetryDump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Parent: parent})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
	})
	if err != nil {
		return nil, err
	}
	var filters []filter
	for _, m := range msgs {
		if f, ok := readFilter(m); ok {
			filters = append(filters, f)
		}
	}
	return filters, nil
}

// readFilter reads a message about a filter. ok is false for what stands for no filter: the
// head of a list, and u32's tables.
func readFilter(m []byte) (f filter, ok bool) {
	if len(m) < nl.SizeofTcMsg {
		return f, false
	}
	msg := nl.DeserializeTcMsg(m)
	f.protocol = nl.Swap16(uint16(msg.Info))
	for kind, value := range host.Attributes(m[nl.SizeofTcMsg:]) {
		switch kind {
		case nl.TCA_KIND:
			f.kind = unix.ByteSliceToString(value)
		case nl.TCA_OPTIONS:
			f.options = value
		}
	}
	if f.kind == "u32" {
		for kind := range host.Attributes(f.options) {
			if kind == nl.TCA_U32_DIVISOR {
				return f, false
			}
		}
	}
	return f, msg.Handle != 0
}

// redirectAt is the interface that all that comes in is redirected to; 0 if no filter there
// redirects to any. why says that some packets may go elsewhere.
func redirectAt(index int) (to int, why string) {
	filters, err := filtersAt(index, netlink.HANDLE_MIN_INGRESS)
	if err != nil {
		return 0, fmt.Sprintf("its filters cannot be read: %v", err)
	}
	return redirectOf(filters)
}

func redirectOf(filters []filter) (to int, why string) {
	for _, f := range filters {
		all, acts := f.takes()
		list := actions(acts)
		for _, a := range list {
			if a.redirects == 0 {
				continue
			}
			to = a.redirects
			switch {
			case len(filters) > 1:
				why = "other filters are there, too"
			case f.protocol != unix.ETH_P_ALL || !all:
				why = "its filter does not take all packets"
			case len(list) > 1:
				why = "its filter does more than redirect"
			}
		}
	}
	return to, why
}

// Flags of filters, and of u32, that no package has.
const (
	clsSkipSoftware = 1 << 1 // TCA_CLS_FLAGS_SKIP_SW
	u32Terminal     = 1      // TC_U32_TERMINAL
	u32Flags        = 11     // TCA_U32_FLAGS
	u32SelHead      = 16     // bytes of struct tc_u32_sel before its keys
	u32KeyBytes     = 16     // of struct tc_u32_key, which begins with mask and value
)

// takes says whether the filter takes every packet of its protocol, and returns its actions.
// What it does not know counts as a condition.
func (f *filter) takes() (all bool, acts []byte) {
	all = true
	for kind, value := range host.Attributes(f.options) {
		switch {
		case f.kind == "matchall" && kind == nl.TCA_MATCHALL_ACT,
			f.kind == "u32" && kind == nl.TCA_U32_ACT,
			f.kind == "flower" && kind == nl.TCA_FLOWER_ACT:
			acts = value
		case f.kind == "matchall" && kind == nl.TCA_MATCHALL_FLAGS,
			f.kind == "u32" && kind == u32Flags,
			f.kind == "flower" && kind == nl.TCA_FLOWER_FLAGS:
			all = all && runsInSoftware(value)
		case f.kind == "matchall": // its counters, and a class that only queues have
		case f.kind == "u32" && kind == nl.TCA_U32_SEL:
			all = all && selectsAll(value)
		case f.kind == "u32" && (kind == nl.TCA_U32_CLASSID || kind == nl.TCA_U32_HASH || kind == nl.TCA_U32_PCNT):
		case f.kind == "u32" && kind > u32Flags: // padding
		case f.kind == "flower" && (kind == nl.TCA_FLOWER_CLASSID || kind == nl.TCA_FLOWER_IN_HW_COUNT):
		default:
			all = false
		}
	}
	return all, acts
}

func runsInSoftware(flags []byte) bool {
	return len(flags) == 4 && binary.NativeEndian.Uint32(flags)&clsSkipSoftware == 0
}

// selectsAll says whether u32's selector asks for nothing and ends the search.
func selectsAll(sel []byte) bool {
	if len(sel) < u32SelHead || sel[0]&u32Terminal == 0 {
		return false
	}
	for n := int(sel[2]); n > 0; n-- {
		at := u32SelHead + (n-1)*u32KeyBytes
		if len(sel) < at+u32KeyBytes || slices.ContainsFunc(sel[at:at+8], func(b byte) bool { return b != 0 }) {
			return false
		}
	}
	return true
}

// action is one of a filter's.
type action struct {
	redirects int // number of the interface to whose egress it hands the packet over; 0: none
}

// actions reads a filter's list of actions.
func actions(b []byte) (list []action) {
	for _, value := range host.Attributes(b) {
		var a action
		var kind string
		var options []byte
		for k, v := range host.Attributes(value) {
			switch k {
			case nl.TCA_ACT_KIND:
				kind = unix.ByteSliceToString(v)
			case nl.TCA_ACT_OPTIONS:
				options = v
			}
		}
		if kind == "mirred" {
			a.redirects = redirectTarget(options)
		}
		list = append(list, a)
	}
	return list
}

// redirectTarget reads mirred's parameters: struct tc_mirred. (Package nl has a wrong size for it.)
func redirectTarget(options []byte) int {
	const (
		size    = 28
		act     = 8
		eaction = 20
		ifindex = 24
	)
	for kind, value := range host.Attributes(options) {
		if kind != nl.TCA_MIRRED_PARMS || len(value) < size {
			continue
		}
		at := func(offset int) int { return int(int32(binary.NativeEndian.Uint32(value[offset:]))) }
		if at(eaction) == int(netlink.TCA_EGRESS_REDIR) && at(act) == int(netlink.TC_ACT_STOLEN) {
			return at(ifindex)
		}
	}
	return 0
}

// otherUser says what else at an interface sees packets, changes them or sends some of its
// own, "" if nothing does. It runs in the interface's namespace.
func otherUser(h *hidden, index int, hooks filterHook, hooked map[string]bool) string {
	l := h.links[index]
	a := l.Attrs()
	switch {
	case a.MasterIndex != 0:
		return a.Name + " is a member of a bridge or of another device"
	case hasXDP(l):
		return a.Name + " has an XDP program"
	case hooked[a.Name]:
		return "nftables has a chain at " + a.Name
	case hasTCX(index):
		return a.Name + " has TCX programs"
	}
	if hooks.egress {
		if filters, err := filtersAt(index, netlink.HANDLE_MIN_EGRESS); err != nil {
			return fmt.Sprintf("the filters at the egress of %s cannot be read: %v", a.Name, err)
		} else if len(filters) > 0 {
			return a.Name + " has filters at its egress"
		}
	}
	for _, up := range h.links {
		if u := up.Attrs(); u.ParentIndex == index && u.NetNsID < 0 && !pairKinds[up.Type()] {
			return u.Name + " stands on " + a.Name
		}
	}
	addrs, err := host.RetryDump(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Sprintf("the addresses of %s cannot be read: %v", a.Name, err)
	}
	for _, addr := range addrs {
		if !addr.IP.IsLinkLocalUnicast() {
			return fmt.Sprintf("%s has the address %s", a.Name, addr.IP)
		}
	}
	return ""
}

// hasTCX says whether TCX programs are attached to an interface of the thread's namespace.
// Kernels without TCX have none.
func hasTCX(index int) bool {
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		r, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
		if err == nil && len(r.Programs) > 0 {
			return true
		}
	}
	return false
}

// netdevHooks are the names of interfaces at which nftables has chains (family netdev). Where
// that cannot be asked there are none.
func netdevHooks() map[string]bool {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_NETDEV, Version: nl.NFNETLINK_V0})
	msgs, _ := host.RetryDump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_NETFILTER, 0) })
	hooked := make(map[string]bool)
	for _, m := range msgs {
		if len(m) < nl.SizeofNfgenmsg {
			continue
		}
		for kind, value := range host.Attributes(m[nl.SizeofNfgenmsg:]) {
			if kind != unix.NFTA_CHAIN_HOOK {
				continue
			}
			for k, v := range host.Attributes(value) {
				switch k {
				case unix.NFTA_HOOK_DEV:
					hooked[unix.ByteSliceToString(v)] = true
				case hookDevs:
					for _, name := range host.Attributes(v) {
						hooked[unix.ByteSliceToString(name)] = true
					}
				}
			}
		}
	}
	return hooked
}

// hookDevs is NFTA_HOOK_DEVS.
const hookDevs = 4
