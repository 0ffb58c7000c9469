// SPDX-License-Identifier: Apache-2.0

package words

import "github.com/vnetradar/radar/pkg/record"

// shortWords say in two or three words what Reasons say in a sentence: for a column of a
// table. A reason that is not here has none.
var shortWords = map[string]string{
	"QDISC_DROP":      "queue full",
	"QDISC_OVERLIMIT": "queue full",
	"QDISC_CONGESTED": "queue long (AQM)",
	"QUEUE_PURGE":     "socket or port closed",
	"CPU_BACKLOG":     "CPU's backlog full",
	"FULL_RING":       "receiving device full",
	"DEV_READY":       "port is down",
	"NOMEM":           "no memory",

	"NETFILTER_DROP":    "firewall rule",
	"XFRM_POLICY":       "IPsec policy",
	"BPF_CGROUP_EGRESS": "cgroup's BPF program",
	"SECURITY_HOOK":     "security module",
	"SOCKET_FILTER":     "socket's filter",
	"TC_INGRESS":        "TC filter",
	"TC_EGRESS":         "TC filter",
	"XDP":               "XDP program",

	"IP_INNOROUTES":     "no route",
	"IP_OUTNOROUTES":    "no route",
	"IP_RPFILTER":       "wrong way back (rp_filter)",
	"IP_INHDR":          "TTL used up, or bad header",
	"IP_INADDRERRORS":   "bad address",
	"IP_LOCAL_SOURCE":   "source is the node itself",
	"IP_INVALID_SOURCE": "bad source address",
	"IP_INVALID_DEST":   "bad destination address",
	"IP_NOPROTO":        "unknown protocol",
	"OTHERHOST":         "another host's MAC address",
	"NEIGH_CREATEFAIL":  "too many neighbours",
	"NEIGH_FAILED":      "no ARP answer",
	"NEIGH_QUEUEFULL":   "no ARP answer yet",
	"NEIGH_DEAD":        "neighbour removed",
	"PKT_TOO_BIG":       "too big (MTU)",
	"PKT_TOO_SMALL":     "too short",

	"BRIDGE_INGRESS_STP_STATE": "bridge port blocked (STP)",
	"FRAG_REASM_TIMEOUT":       "fragments missing",

	"IP_CSUM":   "bad checksum",
	"TCP_CSUM":  "bad checksum",
	"UDP_CSUM":  "bad checksum",
	"ICMP_CSUM": "bad checksum",

	"NO_SOCKET":      "nobody listens",
	"SOCKET_RCVBUFF": "socket full",
	"SOCKET_BACKLOG": "socket full",
	"PROTO_MEM":      "socket memory used up",

	record.NotSeen: "not seen again",
}

// functionWords are the same of functions, where the kernel gives no reason.
var functionWords = map[string]string{
	"arp_error_report":   "no ARP answer",
	"ndisc_error_report": "no neighbour's answer",
	"nf_hook_slow":       "firewall rule",
	"ip_rcv_finish":      "no route",
	"ip_error":           "no route",
	"netem_enqueue":      "link loses (netem)",
}

// Why is why packets were dropped in plain words, "" if there are none for it.
func Why(reason, function string) string {
	words := shortWords[reason]
	if function == "ndisc_error_report" || words == "" {
		if of := functionWords[function]; of != "" {
			return of
		}
	}
	return words
}
