// SPDX-License-Identifier: Apache-2.0

package export

import (
	"slices"

	"github.com/vnetradar/radar/pkg/intwire"
)

// same are reasons of the kernel (enum skb_drop_reason) for which switch-p4-16 has a number of
// the same meaning. Others have numbers of their own, see intwire's profile "radar".
var same = map[string]uint8{
	// Queues.
	"QDISC_DROP": 71, "QDISC_OVERLIMIT": 71, "CPU_BACKLOG": 71, "FULL_RING": 71, "CAKE_FLOOD": 71,
	"FQ_BAND_LIMIT": 71, "FQ_FLOW_LIMIT": 71, "FQ_HORIZON_LIMIT": 71,
	"QDISC_CONGESTED": 73, "DUALPI2_STEP_DROP": 73,
	// Rules.
	"NETFILTER_DROP": 80, "TC_INGRESS": 80, "TC_EGRESS": 92, "BPF_CGROUP_EGRESS": 92,
	// Routes and neighbours.
	"IP_INNOROUTES": missIPv4, "IP_OUTNOROUTES": missIPv4, "IP_RPFILTER": 82,
	"NEIGH_CREATEFAIL": 93, "NEIGH_FAILED": 93, "NEIGH_QUEUEFULL": 93, "NEIGH_DEAD": 93,
	// Links and headers.
	"DEV_READY": 60, "PKT_TOO_BIG": 70, "BRIDGE_INGRESS_STP_STATE": 57, "OTHERHOST": 54, "UNICAST_IN_L2_MULTICAST": 18,
	"IP_CSUM": 45,
}

// No route: of IPv4, of IPv6.
const (
	missIPv4 = 51
	missIPv6 = 52
)

var reportProfile = intwire.ProfileByName("radar")

// DropReason is the number in a report (TR 1.0, 2.0, "Drop Reason": 8 bits without a standard
// meaning) for a reason of the kernel, as record.Loss has it. ok is false if there is none:
// then it is 0, UNKNOWN.
func DropReason(kernel string, ipVersion int) (number uint8, ok bool) {
	number, ok = same[kernel]
	if number == missIPv4 && ipVersion == 6 {
		number = missIPv6
	}
	if ok || kernel == "" {
		return number, ok
	}
	i := slices.Index(reportProfile.Reasons[intwire.FirstRadarReason:], kernel)
	if i < 0 {
		return 0, false
	}
	return uint8(intwire.FirstRadarReason + i), true
}

// Reason is one line of the table of DropReason.
type Reason struct {
	Kernel string
	Number uint8  // of IPv4
	Name   string // of the number
	Same   bool   // of another table: Name is not the kernel's
}

// Reasons is the table of DropReason, by numbers and names.
func Reasons() []Reason {
	var list []Reason
	kernels := make(map[uint8][]string)
	for name, number := range same {
		kernels[number] = append(kernels[number], name)
	}
	for i, name := range reportProfile.Reasons {
		number := uint8(i)
		slices.Sort(kernels[number])
		for _, kernel := range kernels[number] {
			list = append(list, Reason{kernel, number, name, true})
		}
		if i >= intwire.FirstRadarReason && name != "" {
			list = append(list, Reason{name, number, name, false})
		}
	}
	return list
}
