// SPDX-License-Identifier: Apache-2.0

package words

// Reasons says in words what the kernel's drop reasons mean to whoever runs the
// network. Names are those of enum skb_drop_reason since Linux 5.17; a reason that is
// not here is shown by its name alone.
var Reasons = map[string]string{
	// Queues and devices.
	"QDISC_DROP":      "the queue was full, or its queueing discipline refused the packet",
	"QDISC_OVERLIMIT": "the queue's limit was reached",
	"QDISC_CONGESTED": "the queueing discipline dropped it to signal congestion",
	"QUEUE_PURGE":     "the queue that it was in was emptied: a socket or an interface was closed",
	"CPU_BACKLOG":     "the CPU's backlog was full (sysctl net.core.netdev_max_backlog)",
	"FULL_RING":       "the ring of the receiving device was full",
	"DEV_READY":       "the device was not ready: is it up?",
	"NOMEM":           "the kernel had no memory for it",

	// Rules and programs.
	"NETFILTER_DROP":    "a firewall rule (nftables, iptables) dropped it",
	"XFRM_POLICY":       "an IPsec policy refused it",
	"SOCKET_FILTER":     "the receiving socket's filter refused it",
	"BPF_CGROUP_EGRESS": "a BPF program of the sender's cgroup refused it",
	"SECURITY_HOOK":     "a security module refused it",
	"TC_INGRESS":        "a TC program or filter of someone else dropped it as it came in",
	"TC_EGRESS":         "a TC program or filter of someone else dropped it as it went out",
	"XDP":               "an XDP program dropped it",

	// Routing and neighbours.
	"IP_INNOROUTES":            "there was no route to its destination, or the source is not allowed",
	"IP_OUTNOROUTES":           "there was no route to its destination",
	"IP_RPFILTER":              "the way back to its source leads elsewhere (sysctl rp_filter)",
	"IP_INHDR":                 "its header was refused: its TTL was used up, or a field is wrong",
	"IP_INADDRERRORS":          "its address cannot be used here",
	"IP_LOCAL_SOURCE":          "its source is an address of this very node",
	"IP_INVALID_SOURCE":        "its source address is not valid",
	"IP_INVALID_DEST":          "its destination address is not valid",
	"IP_LOCALNET":              "addresses of 127.0.0.0/8 may not come from the network",
	"IP_NOPROTO":               "nothing handles its protocol here",
	"OTHERHOST":                "its MAC address is another host's",
	"UNICAST_IN_L2_MULTICAST":  "it was sent to one address in a frame for many",
	"NEIGH_CREATEFAIL":         "no neighbour entry could be made for the next hop",
	"NEIGH_FAILED":             "the next hop does not answer ARP",
	"NEIGH_QUEUEFULL":          "too many packets were waiting for the next hop's ARP answer",
	"NEIGH_DEAD":               "the next hop's neighbour entry was removed",
	"BRIDGE_INGRESS_STP_STATE": "the bridge port does not forward (spanning tree)",
	"PKT_TOO_BIG":              "it was larger than the next link's MTU",
	"PKT_TOO_SMALL":            "it was shorter than its headers say",
	"FRAG_REASM_TIMEOUT":       "not all of its fragments arrived in time",
	"DUP_FRAG":                 "the fragment had arrived already",

	// Checksums.
	"IP_CSUM":   "its IP checksum was wrong",
	"TCP_CSUM":  "its TCP checksum was wrong",
	"UDP_CSUM":  "its UDP checksum was wrong",
	"ICMP_CSUM": "its ICMP checksum was wrong",

	// The receiver.
	"NO_SOCKET":                "no process listens on that port",
	"SOCKET_RCVBUFF":           "the receiving socket's buffer was full",
	"SOCKET_BACKLOG":           "the receiving socket's backlog was full",
	"PROTO_MEM":                "the protocol's memory limit was reached (sysctl udp_mem, tcp_mem)",
	"TCP_LISTEN_OVERFLOW":      "the listening socket's queue of new connections was full",
	"TCP_OLD_DATA":             "TCP had this data already",
	"TCP_OVERWINDOW":           "it is beyond the receiver's window",
	"TCP_CLOSE":                "the connection is closed",
	"TCP_RESET":                "the connection was reset",
	"TCP_INVALID_SEQUENCE":     "its TCP sequence number does not fit the connection",
	"TCP_RFC7323_PAWS":         "its TCP timestamp is too old",
	"NOT_SPECIFIED":            "the kernel does not say why",
	"UNHANDLED_PROTO":          "nothing handles its protocol here",
	"VXLAN_VNI_NOT_FOUND":      "no tunnel has its VXLAN number",
	"IP_TUNNEL_ECN":            "the ECN bits of its tunnel do not fit",
	"RECURSION_LIMIT":          "it went through too many devices inside one another: is there a loop?",
	"SOCKET_CLOSE":             "the receiving socket was closed",
	"TCP_ZEROWINDOW":           "the receiver's window was closed",
	"TCP_INVALID_SYN":          "it is no valid start of a connection",
	"TCP_FLAGS":                "its TCP flags are not valid",
	"TCP_MD5FAILURE":           "its TCP MD5 signature is wrong",
	"TCP_AOFAILURE":            "its TCP authentication is wrong",
	"TCP_INVALID_ACK_SEQUENCE": "it acknowledges what was never sent",
}
