// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Other is what else at a TC hook may change packets.
type Other struct {
	Name   string // "program NAME", "filter KIND"
	Before bool   // ours is behind it, or stands with the filters, which all of TCX precedes
}

// Others are those at an interface of the calling thread's namespace: programs of TCX, and filters that are programs or
// have actions that rewrite. ours says whether a program or a filter of that name is not to be listed. What
// cannot be asked is left out.
func Others(ifindex int, d Direction, ours func(name string) bool) (list []Other) {
	// A kernel without TCX has none.
	there, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: TCX{Direction: d}.kind()})
	if err == nil {
		before := true
		for _, p := range there.Programs {
			switch name := programName(p.ID); {
			case name != "" && ours(name):
				before = false
			default:
				list = append(list, Other{fmt.Sprintf("program %q", name), before})
			}
		}
	}
	parent := Filter{Direction: d}.parent()
	msgs, _ := host.RetryDump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(ifindex), Parent: parent})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
	})
	for _, m := range msgs {
		if what := rewriter(m, ours); what != "" {
			list = append(list, Other{Name: what})
		}
	}
	return list
}

// rewriting are the actions that change what is behind the Ethernet header, or may.
var rewriting = []string{"bpf", "ct", "nat", "pedit"}

// actsAt is where filters have their actions.
var actsAt = map[string]uint16{
	"basic": 3, // TCA_BASIC_ACT, which package nl lacks
	"bpf":   nl.TCA_BPF_ACT, "flower": nl.TCA_FLOWER_ACT, "fw": nl.TCA_FW_ACT, "matchall": nl.TCA_MATCHALL_ACT, "u32": nl.TCA_U32_ACT,
}

// rewriter reads a message about a filter, and says what of it may change packets; "": nothing.
func rewriter(m []byte, ours func(name string) bool) string {
	if len(m) < nl.SizeofTcMsg || nl.DeserializeTcMsg(m).Handle == 0 {
		return ""
	}
	var kind string
	attrs := make(map[uint16][]byte)
	for k, value := range host.Attributes(m[nl.SizeofTcMsg:]) {
		switch k {
		case nl.TCA_KIND:
			kind = unix.ByteSliceToString(value)
		case nl.TCA_OPTIONS:
			for k, v := range host.Attributes(value) {
				attrs[k] = v
			}
		}
	}
	if kind == "bpf" {
		if name := unix.ByteSliceToString(attrs[nl.TCA_BPF_NAME]); !ours(name) {
			return fmt.Sprintf("filter bpf %q", name)
		}
		return ""
	}
	for _, action := range host.Attributes(attrs[actsAt[kind]]) {
		for k, v := range host.Attributes(action) {
			if name := unix.ByteSliceToString(v); k == nl.TCA_ACT_KIND && slices.Contains(rewriting, name) {
				return fmt.Sprintf("filter %s with action %s", kind, name)
			}
		}
	}
	return ""
}
