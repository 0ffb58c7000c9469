// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Users of the mark outside of netfilter: routing, IPsec, IPVS, settings. What follows reads
// the thread's namespace, or a message about it.

// ruleConflicts finds `ip [-6] rule ... fwmark M[/MASK]`, and those for multicast routes.
func ruleConflicts() (found []Conflict) {
	req := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	// If the list still changes, take what is there.
	msgs, _ := host.RetryDump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWRULE) })
	// The kernel lists families in the order in which they were loaded.
	slices.SortStableFunc(msgs, func(a, b []byte) int { return int(a[0]) - int(b[0]) })
	for _, m := range msgs {
		if c := ruleConflict(m); c.Mask != 0 {
			found = append(found, c)
		}
	}
	return found
}

// ruleKinds are the families of rules.
var ruleKinds = map[byte]string{
	unix.AF_INET: "ip rule", unix.AF_INET6: "ip -6 rule",
	128: "ip mrule", 129: "ip -6 mrule", // RTNL_FAMILY_IPMR, RTNL_FAMILY_IP6MR
}

// ruleActions are what a rule does, if it does not look up a table.
var ruleActions = map[byte]string{
	unix.FR_ACT_GOTO: "goto", unix.FR_ACT_NOP: "nop", unix.FR_ACT_BLACKHOLE: "blackhole",
	unix.FR_ACT_UNREACHABLE: "unreachable", unix.FR_ACT_PROHIBIT: "prohibit",
}

// ruleConflict reads a message about a rule; without a mark Mask is 0.
func ruleConflict(msg []byte) (c Conflict) {
	if len(msg) < unix.SizeofRtMsg {
		return c
	}
	table := uint32(msg[4])
	var mark, priority uint32
	for kind, value := range host.Attributes(msg[unix.SizeofRtMsg:]) {
		if len(value) != 4 {
			continue
		}
		v := binary.NativeEndian.Uint32(value)
		switch kind {
		case unix.FRA_FWMARK:
			mark = v
		case unix.FRA_FWMASK:
			c.Mask = v
		case unix.FRA_PRIORITY:
			priority = v
		case unix.FRA_TABLE:
			table = v
		}
	}
	action := fmt.Sprintf("lookup %d", table)
	if name := ruleActions[msg[7]]; name != "" {
		action = name
	}
	c.What, c.Text = ruleKinds[msg[0]], fmt.Sprintf("%d: fwmark %#x/%#x %s", priority, mark, c.Mask, action)
	if c.What == "" {
		c.What = fmt.Sprintf("rule of family %d", msg[0])
	}
	return c
}

// xfrmConflicts finds policies and states of IPsec that a mark chooses, or that set one.
func xfrmConflicts() (found []Conflict) {
	for _, get := range []uint16{nl.XFRM_MSG_GETPOLICY, nl.XFRM_MSG_GETSA} {
		req := nl.NewNetlinkRequest(int(get), unix.NLM_F_DUMP)
		msgs, _ := host.RetryDump(func() ([][]byte, error) { return req.Execute(unix.NETLINK_XFRM, 0) })
		for _, m := range msgs {
			kind := uint16(nl.XFRM_MSG_NEWPOLICY)
			if get == nl.XFRM_MSG_GETSA {
				kind = nl.XFRM_MSG_NEWSA
			}
			if c := xfrmConflict(kind, m); c.Mask != 0 {
				found = append(found, c)
			}
		}
	}
	return found
}

// Attributes of IPsec's messages that pkg nl does not name.
const (
	xfrmaMark        = 21
	xfrmaSetMark     = 29
	xfrmaSetMarkMask = 30
)

// xfrmConflict reads a message about a policy or a state; without a mark Mask is 0.
func xfrmConflict(kind uint16, msg []byte) (c Conflict) {
	size, what := nl.SizeofXfrmUserpolicyInfo, "xfrm policy"
	switch kind {
	case nl.XFRM_MSG_NEWPOLICY, nl.XFRM_MSG_UPDPOLICY:
	case nl.XFRM_MSG_NEWSA, nl.XFRM_MSG_UPDSA:
		size, what = nl.SizeofXfrmUsersaInfo, "xfrm state"
	default:
		return c
	}
	if len(msg) < size {
		return c
	}
	var text []string
	set, setMask := uint32(0), AllMarks
	for kind, value := range host.Attributes(msg[size:]) {
		switch {
		case kind == xfrmaMark && len(value) == 8:
			mark, mask := binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:])
			c.Mask |= mask
			text = append(text, fmt.Sprintf("mark %#x/%#x", mark, mask))
		case kind == xfrmaSetMark && len(value) == 4:
			set = binary.NativeEndian.Uint32(value)
			text = append(text, fmt.Sprintf("output-mark %#x", set))
		case kind == xfrmaSetMarkMask && len(value) == 4:
			setMask = binary.NativeEndian.Uint32(value)
		}
	}
	if set != 0 {
		c.Mask |= setMask | set
	}
	c.What, c.Text = what, strings.Join(text, " ")
	return c
}

// sysctlConflicts finds settings by which the kernel copies a packet's mark to
// a reply or to a socket.
func sysctlConflicts() (found []Conflict) {
	for _, name := range []string{"ipv4/fwmark_reflect", "ipv4/tcp_fwmark_accept", "ipv6/fwmark_reflect"} {
		b, err := os.ReadFile("/proc/sys/net/" + name)
		if value := strings.TrimSpace(string(b)); err == nil && value != "0" {
			found = append(found, Conflict{What: "sysctl", Mask: AllMarks,
				Text: fmt.Sprintf("net.%s = %s", strings.ReplaceAll(name, "/", "."), value)})
		}
	}
	return found
}

// ipvsConflicts finds services of IPVS that a mark chooses.
func ipvsConflicts() []Conflict {
	services, _ := os.ReadFile("/proc/thread-self/net/ip_vs")
	return parseIPVS(services)
}

func parseIPVS(services []byte) (found []Conflict) {
	for line := range bytes.Lines(services) {
		if words := strings.Fields(string(line)); len(words) > 1 && words[0] == "FWM" {
			found = append(found, Conflict{What: "ipvs", Text: "service of fwmark 0x" + words[1], Mask: AllMarks})
		}
	}
	return found
}
