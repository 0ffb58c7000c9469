// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
	"github.com/vnetradar/radar/pkg/words"
)

// shortWords say in two or three words what Reasons say in a sentence: for a column of a
// table. A reason that is not here has none.
var shortWords = map[string]string{
	"QDISC_DROP":        "queue full",
	"QDISC_OVERLIMIT":   "queue full",
	"QDISC_CONGESTED":   "queue long (AQM)",
	"CAKE_FLOOD":        "queue long (AQM)",
	"DUALPI2_STEP_DROP": "queue long (AQM)",
	"FQ_BAND_LIMIT":     "queue full",
	"FQ_FLOW_LIMIT":     "flow's queue full",
	"FQ_HORIZON_LIMIT":  "to be sent too late (fq)",
	"QUEUE_PURGE":       "socket or port closed",
	"CPU_BACKLOG":       "CPU's backlog full",
	"FULL_RING":         "receiving device full",
	"DEV_READY":         "port is down",
	"DEV_HDR":           "bad device header",
	"NOMEM":             "no memory",
	"PFMEMALLOC":        "no memory",
	"SKB_GSO_SEG":       "segmentation failed",
	"HDR_TRUNC":         "header cut off",
	"SKB_UCOPY_FAULT":   "sender's memory not readable",
	"TAP_FILTER":        "tap's filter",
	"TAP_TXFILTER":      "tap's filter",
	"PACKET_SOCK_ERROR": "packet socket failed",
	"UNIX_DISCONNECT":   "socket closed",
	"UNIX_SKIP_OOB":     "old urgent data",
	"PSP_INPUT":         "PSP encryption",
	"PSP_OUTPUT":        "PSP encryption",

	"NETFILTER_DROP":     "firewall rule",
	"XFRM_POLICY":        "IPsec policy",
	"BPF_CGROUP_EGRESS":  "cgroup's BPF program",
	"SECURITY_HOOK":      "security module",
	"SOCKET_FILTER":      "socket's filter",
	"TC_INGRESS":         "TC filter",
	"TC_EGRESS":          "TC filter",
	"TC_COOKIE_ERROR":    "TC filter failed",
	"TC_CHAIN_NOTFOUND":  "TC chain missing",
	"TC_RECLASSIFY_LOOP": "TC filters in a circle",
	"XDP":                "XDP program",

	"IP_INNOROUTES":           "no route",
	"IP_OUTNOROUTES":          "no route",
	"IP_RPFILTER":             "wrong way back (rp_filter)",
	"IP_INHDR":                "TTL used up, or bad header",
	"IP_INADDRERRORS":         "bad address",
	"IP_LOCAL_SOURCE":         "source is the node itself",
	"IP_INVALID_SOURCE":       "bad source address",
	"IP_INVALID_DEST":         "bad destination address",
	"IP_LOCALNET":             "127.0.0.0/8 from outside",
	"IP_NOPROTO":              "unknown protocol",
	"UNHANDLED_PROTO":         "unknown protocol",
	"INVALID_PROTO":           "unknown protocol",
	"IPV6DISABLED":            "IPv6 is off here",
	"IPV6_BAD_EXTHDR":         "bad IPv6 header",
	"IPV6_NDISC_FRAG":         "bad neighbour discovery",
	"IPV6_NDISC_HOP_LIMIT":    "bad neighbour discovery",
	"IPV6_NDISC_BAD_CODE":     "bad neighbour discovery",
	"IPV6_NDISC_BAD_OPTIONS":  "bad neighbour discovery",
	"IPV6_NDISC_NS_OTHERHOST": "asks for another host",
	"OTHERHOST":               "another host's MAC address",
	"UNICAST_IN_L2_MULTICAST": "broadcast frame, one receiver",
	"NEIGH_CREATEFAIL":        "too many neighbours",
	"NEIGH_FAILED":            "no ARP answer",
	"NEIGH_QUEUEFULL":         "no ARP answer yet",
	"NEIGH_DEAD":              "neighbour removed",
	"NEIGH_HH_FILLFAIL":       "no MAC header made",
	"PKT_TOO_BIG":             "too big (MTU)",
	"PKT_TOO_SMALL":           "too short",
	"RECURSION_LIMIT":         "loop of devices",

	"BRIDGE_INGRESS_STP_STATE": "bridge port blocked (STP)",
	"NO_TX_TARGET":             "no port to send by",
	"MAC_INVALID_SOURCE":       "bad source MAC address",
	"LOCAL_MAC":                "node's own source MAC address",
	"MAC_IEEE_MAC_CONTROL":     "pause frame",
	"ARP_PVLAN_DISABLE":        "ARP from its own port (no proxy)",
	"VXLAN_INVALID_HDR":        "bad VXLAN header",
	"VXLAN_VNI_NOT_FOUND":      "unknown VXLAN number",
	"VXLAN_ENTRY_EXISTS":       "MAC address is elsewhere (VXLAN)",
	"IP_TUNNEL_ECN":            "tunnel's ECN bits do not fit",
	"TUNNEL_TXINFO":            "tunnel without a target",

	"FRAG_REASM_TIMEOUT": "fragments missing",
	"FRAG_TOO_FAR":       "fragments too far apart",
	"DUP_FRAG":           "fragment came twice",

	"SKB_CSUM":  "bad checksum",
	"IP_CSUM":   "bad checksum",
	"TCP_CSUM":  "bad checksum",
	"UDP_CSUM":  "bad checksum",
	"ICMP_CSUM": "bad checksum",

	"NO_SOCKET":      "nobody listens",
	"SOCKET_RCVBUFF": "socket full",
	"SOCKET_BACKLOG": "socket full",
	"SOCKET_CLOSE":   "socket closed",
	"PROTO_MEM":      "socket memory used up",

	"TCP_LISTEN_OVERFLOW":      "too many new connections",
	"TCP_FLAGS":                "unexpected TCP flags",
	"TCP_INVALID_SYN":          "unexpected TCP flags",
	"TCP_ABORT_ON_DATA":        "data after close",
	"TCP_CLOSE":                "connection closed",
	"TCP_RESET":                "connection reset",
	"TCP_ZEROWINDOW":           "receiver's window closed",
	"TCP_OVERWINDOW":           "beyond the receiver's window",
	"TCP_OLD_DATA":             "TCP had it already",
	"TCP_OLD_SEQUENCE":         "TCP had it already",
	"TCP_OFOMERGE":             "TCP had it already",
	"TCP_OLD_ACK":              "old TCP acknowledgement",
	"TCP_TOO_OLD_ACK":          "old TCP acknowledgement",
	"TCP_ACK_UNSENT_DATA":      "acknowledges what was not sent",
	"TCP_INVALID_ACK_SEQUENCE": "acknowledges what was not sent",
	"TCP_INVALID_SEQUENCE":     "bad TCP sequence number",
	"TCP_INVALID_END_SEQUENCE": "bad TCP sequence number",
	"TCP_RFC7323_PAWS":         "bad TCP timestamp",
	"TCP_RFC7323_PAWS_ACK":     "bad TCP timestamp",
	"TCP_RFC7323_TW_PAWS":      "bad TCP timestamp",
	"TCP_RFC7323_TSECR":        "bad TCP timestamp",
	"TCP_OFO_QUEUE_PRUNE":      "socket full",
	"TCP_OFO_DROP":             "socket full",
	"TCP_FASTOPEN":             "no room for TCP Fast Open",
	"TCP_MINTTL":               "TTL too low (TCP)",
	"TCP_AUTH_HDR":             "bad TCP signature",
	"TCP_MD5NOTFOUND":          "no TCP signature",
	"TCP_MD5UNEXPECTED":        "unexpected TCP signature",
	"TCP_MD5FAILURE":           "bad TCP signature",
	"TCP_AONOTFOUND":           "no TCP signature",
	"TCP_AOUNEXPECTED":         "unexpected TCP signature",
	"TCP_AOKEYNOTFOUND":        "unknown TCP key",
	"TCP_AOFAILURE":            "bad TCP signature",

	"CAN_RX_INVALID_FRAME":   "bad CAN frame",
	"CANFD_RX_INVALID_FRAME": "bad CAN frame",
	"CANXL_RX_INVALID_FRAME": "bad CAN frame",

	"OVS_DROP_EXPLICIT":    "Open vSwitch rule",
	"OVS_DROP_LAST_ACTION": "Open vSwitch rule",
	"OVS_DROP_METER":       "Open vSwitch meter",

	record.NotSeen: "not seen again",
}

// functionWords are the same of functions, where the kernel gives no reason.
var functionWords = map[string]string{
	"arp_error_report":    "no ARP answer",
	"ndisc_error_report":  "no neighbour's answer",
	"neigh_invalidate":    "no neighbour's answer",
	"nf_hook_slow":        ruleOrConntrack,
	"ip_rcv_finish":       "no route",
	"ip_error":            "no route",
	"udp_destruct_common": "socket closed",
	"netem_enqueue":       "link loses (netem)",
	// What lay in a queue is freed as the lock is given back with which it was changed.
	"__rtnl_unlock":    emptied,
	"rtnl_unlock":      emptied,
	"netdev_run_todo":  emptied,
	"pfifo_fast_reset": emptied,
	"qdisc_reset":      emptied,
}

const (
	emptied         = "queue emptied: replaced, removed, or its port set down"
	ruleOrConntrack = "firewall rule, or conntrack"
)

// forwarding are the functions that lower the TTL. Others refuse a header before that.
var forwarding = []string{"ip_forward", "ip6_forward"}

// Why is why packets were dropped in plain words, "" if there are none for it.
func Why(reason, function string) string {
	words := shortWords[reason]
	switch {
	case reason == "QUEUE_PURGE" && strings.HasPrefix(function, "neigh_"):
		return "no ARP answer" // packets that waited for it
	case reason == "QUEUE_PURGE" && functionWords[function] == emptied:
		return emptied
	case reason == "PKT_TOO_BIG" && function == "skb_tunnel_check_pmtu":
		return "too large for the tunnel; the device answered \"too big\""
	case reason == "IP_INHDR" && slices.Contains(forwarding, function):
		return "TTL used up"
	case reason == "IP_INHDR" && function != "":
		return "bad header"
	case reason == "NETFILTER_DROP" && (function == "" || function == rules.Hook):
		return ruleOrConntrack
	}
	if function == "ndisc_error_report" || words == "" {
		if of := functionWords[function]; of != "" {
			return of
		}
	}
	return words
}

// forwards are the functions that hand a packet to the other end of a link. They refuse it without a reason.
var forwards = []string{"__dev_forward_skb2", "__dev_forward_skb", "dev_forward_skb"}

// LossWhy is why packets were lost at a place in plain words, with what is known now of the link there; "" if
// there are none for it.
func (s *Names) LossWhy(p *aggregate.LossPlace, now *placenow.Place) string {
	why, link := Why(p.Reason, p.Function), s.LinkWhy(p, now)
	switch {
	case noQueue(p), refusedByPeer(p):
		why = ""
	case why == ruleOrConntrack && now.Netfilter != nil:
		why = netfilterWhy(p.Node, now.Netfilter)
	case p.Reason == "QDISC_DROP" && p.Qdisc != "":
		why = queueWhy(p.Qdisc, now.Queue)
	}
	said, all := s.causes(now)
	switch {
	case said != "" && all:
		why = said
	case said != "" && why != "":
		why += "; " + said
	case said != "":
		why = said
	}
	if why != "" && link != "" {
		why += "; "
	}
	return why + link
}

// LinkWhy is what the link at a place of losses has to do with them, as far as it is known; "" if nothing.
func (s *Names) LinkWhy(p *aggregate.LossPlace, now *placenow.Place) string {
	states := s.NotUp(p.Node+"/"+p.Port, now)
	switch {
	case refusedByPeer(p) && states != "":
		return s.refused(now) + "; " + states
	case refusedByPeer(p):
		return s.refused(now)
	case noQueue(p) && states == "":
		return "port was down, or without carrier"
	}
	return states
}

// Reason says in a sentence what the reason of losses at a place means; "" if there is none for it.
func (s *Names) Reason(p *aggregate.LossPlace, now *placenow.Place) string {
	switch {
	case refusedByPeer(p):
		return s.refused(now)
	case noQueue(p):
		return "the port could not send: it was down, or without carrier"
	}
	switch why := s.LossWhy(p, &placenow.Place{Queue: now.Queue, Netfilter: now.Netfilter}); {
	case Why(p.Reason, p.Function) == ruleOrConntrack:
		return "netfilter dropped it: " + why
	case Why(p.Reason, p.Function) == emptied, p.Reason == "QDISC_DROP" && now.Queue != nil && now.Queue.OverBurst != "":
		return why
	}
	return Reasons[p.Reason]
}

// netfilterWhy is what can have dropped packets, as far as the node tells: its own rules, NAT, or conntrack.
func netfilterWhy(node string, now *placenow.Netfilter) string {
	var counted []string
	if n := now.ConntrackNotInserted; n > 0 && len(now.NoFreePort) == 0 {
		text := words.Decimal(n) + " not inserted: addresses and ports in use"
		if len(now.NATRules) > 0 {
			text += ", as where NAT has no free port: " + natRules(now.NATRules)
		}
		counted = append(counted, text)
	}
	if n := now.ConntrackDrops - min(now.ConntrackNotInserted, now.ConntrackDrops); n > 0 {
		counted = append(counted, words.Decimal(n)+" dropped")
	}
	var may []string
	if now.Rules {
		may = append(may, "firewall rule")
	}
	if len(now.NoFreePort) > 0 {
		may = append(may, noFreePort(node, now.NoFreePort))
	}
	switch {
	case len(counted) > 0:
		may = append(may, "conntrack ("+strings.Join(counted, ", ")+")")
	case now.ConntrackUnknown && len(now.NoFreePort) == 0 && now.Rules:
		may = append(may, "conntrack (its drops since attach are not known)")
	case now.ConntrackUnknown && len(now.NoFreePort) == 0:
		return "netfilter: no rule of now says why, and conntrack's drops since attach are not known"
	}
	if len(may) > 0 {
		return strings.Join(may, ", or ")
	}
	return "netfilter: no rule of now, nor conntrack's counters, say why"
}

// noFreePort is "NAT of r has no free port for tcp to 10.2.0.1:80 (all 4 of 10.2.0.254, 50000-50003, are in use: ip n post:
// rule of handle 2)".
func noFreePort(node string, list []rules.NoFreePort) string {
	var texts []string
	for i := range list {
		n := &list[i]
		all := "all"
		if n.Used <= int(n.High)-int(n.Low) {
			all = "nearly all,"
		}
		texts = append(texts, fmt.Sprintf("%s to %s (%s %d of %s, %d-%d, are in use: %s)", n.Proto, n.To, all, n.Used, n.From, n.Low, n.High, n.Rule))
	}
	return fmt.Sprintf("NAT of %s has no free port for %s", node, strings.Join(texts, ", nor for "))
}

// natRules has the ports of rules that can have had none left.
func natRules(list []rules.NATRule) string {
	var texts []string
	for _, r := range list {
		texts = append(texts, fmt.Sprintf("%s has %d-%d", r.Rule, r.Low, r.High))
	}
	return strings.Join(texts, ", ")
}

// fifos are the disciplines that refuse a packet only if there is no room for it.
var fifos = []string{"pfifo", "bfifo", "pfifo_fast", "mq", "sfq", "fq", "fq_codel", "codel"}

// queueWhy is why a discipline has refused packets, with what is known of it now; nil: nothing.
func queueWhy(kind string, now *placenow.Queue) string {
	switch {
	case kind == "tbf" && now == nil:
		return "queue full, or larger than its burst"
	case kind == "tbf" && now.OverBurst == placenow.OverBurstYes:
		return fmt.Sprintf("larger than the queue's burst (%d bytes)", now.BurstBytes)
	case kind == "tbf" && now.OverBurst == placenow.OverBurstMaybe:
		return fmt.Sprintf("queue full, or larger than its burst (%d bytes)", now.BurstBytes)
	case kind == "netem":
		return "link loses, or queue full (netem)"
	case kind != "tbf" && !slices.Contains(fifos, kind):
		return "queue full, or refused by " + kind
	}
	return "queue full"
}

// noQueue reports whether a port without a queue has refused packets as a full queue does: the kernel puts a queue
// there that takes nothing while the port is down or has no carrier. A drop inside a node is none: a device that
// packets are redirected to, such as an IFB, has a queue that radar does not know.
func noQueue(p *aggregate.LossPlace) bool {
	return p.Reason == "QDISC_DROP" && p.Qdisc == "" && p.At == record.AtEgress
}

func refusedByPeer(p *aggregate.LossPlace) bool {
	return (p.Reason == "" || p.Reason == "NOT_SPECIFIED") && slices.Contains(forwards, p.Function)
}

// refused is "refused by db/eth0 (larger than its MTU of 1400, or it is down)".
func (s *Names) refused(now *placenow.Place) string {
	by, mtu := "the other end of the link", ""
	if now.Peer != "" {
		by = s.End(now.Peer)
	}
	if now.PeerMTU > 0 {
		mtu = fmt.Sprintf(" of %d", now.PeerMTU)
	}
	return fmt.Sprintf("refused by %s (larger than its MTU%s, or it is down)", by, mtu)
}

// maxNotUp is how many ports a sentence names.
const maxNotUp = 3

// NotUp says which ports are not up now: "no carrier now: h2/eth0 is down"; own, NODE/PORT, is the one that is
// spoken of. "" if all are.
func (s *Names) NotUp(own string, now *placenow.Place) string {
	list := now.NotUp
	var texts []string
	prefix := ""
	for i, p := range list {
		isOwn := i == 0 && (p.Port == own || s.End(p.Port) == own)
		switch {
		case isOwn && p.State == topo.Down:
			texts = append(texts, "port is down now")
		case isOwn && len(list) > 1 && list[1].Port == now.Peer:
			prefix = "no carrier now: "
		case isOwn:
			texts = append(texts, "no carrier now")
		case len(texts) == maxNotUp:
			texts = append(texts, fmt.Sprintf("%d more", len(list)-i))
			return prefix + strings.Join(texts, ", ")
		case p.State == topo.Down:
			texts = append(texts, s.End(p.Port)+" is down"+nowUnless(prefix))
		default:
			texts = append(texts, s.End(p.Port)+" has no carrier"+nowUnless(prefix))
		}
	}
	return prefix + strings.Join(texts, ", ")
}

// nowUnless is " now", unless that was said before.
func nowUnless(said string) string {
	if said != "" {
		return ""
	}
	return " now"
}
