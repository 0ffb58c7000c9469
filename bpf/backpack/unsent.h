/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that a node frees before they are sent: no port has seen them. */
#ifndef BACKPACK_UNSENT_H
#define BACKPACK_UNSENT_H

#include "skb.h"

/*
 * Whether a socket of the namespace with that number sends the skb. An skb that has crossed a link may
 * still be its sender's. The kernel answers (ICMP, TCP's resets) by sockets that serve all namespaces,
 * and are in one only while they send: then the route is of the namespace. It does not cross links.
 */
static __always_inline bool is_sent_in(const struct sock *sk, const struct dst_entry *route,
				       __u32 inum)
{
	if (BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) == inum)
		return true;
	return BPF_CORE_READ_BITFIELD_PROBED(sk, sk_kern_sock) &&
	       BPF_CORE_READ(route, dev, nd_net.net, ns.inum) == inum;
}

/* The port by which an skb that a socket of its node sends is to leave, RDR_NO_PORT if it is
 * none of ours. Before the node's rules for what it sends, the skb has a route and no device. */
static __always_inline __u32 port_to_leave_by(struct sk_buff *skb, const struct sock *sk)
{
	struct dst_entry *route = (void *)(skb->_skb_refdst & ~7UL); /* see read_home() */
	struct net_device *dev = skb->dev;
	const struct rdr_port *port;
	struct rdr_dev key = {};
	__u32 *no;

	if (!dev)
		dev = BPF_CORE_READ(route, dev);
	key.netns_inum = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	key.ifindex = BPF_CORE_READ(dev, ifindex);
	no = bpf_map_lookup_elem(&devs, &key);
	if (!no)
		return RDR_NO_PORT;
	port = bpf_map_lookup_elem(&ports, no);
	if (!port || !is_sent_in(sk, route, port->netns_inum))
		return RDR_NO_PORT;
	return *no;
}

static __always_inline bool has_ports(__u32 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

/* Reads the skb's flow; false if it is not IP. */
static __always_inline bool read_flow(struct sk_buff *skb, struct rdr_unsent_key *k)
{
	unsigned char *at = skb->head + skb->network_header;
	struct ip6_header ip6;
	struct iphdr ip;
	__u32 l4 = sizeof(ip6);
	__be16 ports[2];

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_probe_read_kernel(&ip, sizeof(ip), at) || ip.version != 4)
			return false;
		k->saddr[0] = ip.saddr;
		k->daddr[0] = ip.daddr;
		k->proto = ip.protocol;
		l4 = ip.ihl * 4;
		if (ip.frag_off & bpf_htons(IP_OFFSET))
			return true;
	} else {
		if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
		    bpf_probe_read_kernel(&ip6, sizeof(ip6), at))
			return false;
		__builtin_memcpy(k->saddr, &ip6.saddr, sizeof(k->saddr));
		__builtin_memcpy(k->daddr, &ip6.daddr, sizeof(k->daddr));
		k->proto = ip6.start.next;
		k->v6 = 1;
	}
	if (has_ports(k->proto) && !bpf_probe_read_kernel(ports, sizeof(ports), at + l4))
		k->dport = ports[1];
	return true;
}

/*
 * Counts an skb that was freed and is no packet of ours, if a node was about to send it. A packet
 * that a node receives has come by an interface (skb_iif), and one that it forwards has no socket.
 */
static __attribute__((noinline)) int lose_unsent(struct sk_buff *skb, __u64 where)
{
	struct rdr_unsent_key key = { .where = where };
	struct rdr_unsent first = {}, *known;
	struct sock *sk = skb->sk;
	struct skb_shared_info *shared;
	__u64 n, now;

	if (!sk || skb->skb_iif)
		return 0;
	key.port = port_to_leave_by(skb, sk);
	if (key.port == RDR_NO_PORT || !read_flow(skb, &key))
		return 0;
	shared = (void *)(skb->head + skb->end);
	n = BPF_CORE_READ(shared, gso_segs);
	if (!n)
		n = 1;
	count(RDR_C_UNSENT, n);
	now = bpf_ktime_get_ns();
	known = bpf_map_lookup_elem(&unsent, &key);
	if (!known) {
		bpf_map_update_elem(&unsent, &key, &first, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&unsent, &key);
	}
	if (!known) {
		count(RDR_C_UNSENT_FULL, n);
		return 0;
	}
	__sync_fetch_and_add(&known->packets, n);
	WRITE_ONCE(known->last_ns, now);
	return 0;
}

#endif
