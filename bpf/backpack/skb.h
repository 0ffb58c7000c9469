/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading the kernel's own skb, for programs that are not TC programs. */
#ifndef BACKPACK_SKB_H
#define BACKPACK_SKB_H

#include "identity.h"
#include "ipv6.h"
#include "lib/kernel.h"
#include "maps.h"

/* The part of a packet that can be read: from the IP header to the end of the linear part. */
struct reach {
	unsigned char *ip;
	__u32 linear;
	__u32 skb_len;
	__u32 gso_size;
};

static __always_inline bool read_ipv4(const struct reach *r, struct packet *p)
{
	struct iphdr ip;
	__u32 hdr;

	if (r->linear < sizeof(ip) || bpf_probe_read_kernel(&ip, sizeof(ip), r->ip))
		return false;
	hdr = ip.ihl * 4;
	if (ip.version != 4 || hdr < sizeof(ip))
		return false;
	p->len = bpf_ntohs(ip.tot_len);
	if (!p->len && r->gso_size)
		p->len = r->skb_len;
	p->l4 = hdr;
	read_start4(&ip, p);
	return true;
}

/* walk_extensions() in the linear part: ip is the address of the IP header. */
GLOBAL __u64 walk_linear(__u64 ip, __u32 linear, __u32 next)
{
	__u32 off = sizeof(struct ip6_header);
	struct ip6_extension h;
	__u64 frag_at = 0;
	bool more = true;

	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		if (off >= MAX_L4)
			return CHAIN_LONG;
		if (!more || !is_extension(next))
			return off | next << 16 | frag_at << 24;
		if (off + sizeof(h) > linear ||
		    bpf_probe_read_kernel(&h, sizeof(h), (void *)(ip + off)))
			return CHAIN_BROKEN;
		if (next == IPPROTO_FRAGMENT) {
			frag_at = off;
			more = is_first(&h);
		}
		off += extension_bytes(&h, next);
		next = h.next;
	}
	return CHAIN_LONG;
}

static __always_inline bool read_ipv6(struct sk_buff *skb, const struct reach *r, struct packet *p)
{
	struct ip6_extension h;
	struct ip6_header ip;
	__u64 chain, ip_at;

	if (r->linear < sizeof(ip) || bpf_probe_read_kernel(&ip, sizeof(ip), r->ip) ||
	    ip.start.version_class >> 4 != 6)
		return false;
	p->v6 = 1;
	p->len = sizeof(ip) + bpf_ntohs(ip.start.payload_len);
	if (!ip.start.payload_len && r->gso_size) {
		p->jumbo = jumbo_option(&ip.start);
		p->len = r->skb_len - p->jumbo;
	}
	p->l4 = sizeof(ip);
	read_start(&ip, p);
	if (!is_extension(p->proto))
		return true;
	/* A number; for the verifier r->ip is a pointer. */
	ip_at = (__u64)BPF_CORE_READ(skb, head) + skb->network_header;
	chain = walk_linear(ip_at, r->linear, p->proto);
	if (chain & (CHAIN_BROKEN | CHAIN_LONG))
		return false;
	p->l4 = CHAIN_L4(chain);
	p->proto = CHAIN_PROTO(chain);
	if (!CHAIN_FRAGMENT(chain))
		return true;
	if (bpf_probe_read_kernel(&h, sizeof(h), r->ip + CHAIN_FRAGMENT(chain)))
		return false;
	read_fragment(&h, p);
	return true;
}

/* Reads ports and tag, as parse_l4() does: equal bytes, equal tag. */
static __always_inline bool read_linear_l4(const struct reach *r, struct packet *p)
{
	__u32 have = p->len - p->l4;
	__be32 w[8] = {};

	if (have > r->linear - p->l4) {
		have = r->linear - p->l4;
		p->partial = have < 32;
	}
	have = have >= 32 ? 32 : have >= 20 ? 20 : have >= 16 ? 16 : have >= 8 ? 8 : 0;
	if (have && bpf_probe_read_kernel(w, sizeof(w), r->ip + (p->l4 & (MAX_L4 - 1))))
		return false;
	make_tag(p, w, have);
	p->flow = flow_hash(p);
	p->l4_hdr = (p->proto == IPPROTO_TCP ? (w[3] & 0xf0) >> 2 : UDP_HDR) - p->jumbo;
	return true;
}

/*
 * How many packets an skb of segments stands for; segs: its own number, 0 if it has none. In the
 * first skb of its queue TCP also counts segments that it has joined to it, whose slots are
 * elsewhere. (A call makes one verifier state of many.)
 */
GLOBAL __u32 count_packets(__u32 len, __u32 hdrs, __u32 gso_size, __u32 segs)
{
	__u32 most = len > hdrs ? (len - hdrs + gso_size - 1) / gso_size : 1;

	return segs && segs < most ? segs : most;
}

/* Reads what parse() reads in TC, from the linear part of the skb. */
static __always_inline bool read_packet(struct sk_buff *skb, struct packet *p)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	struct reach r = {
		.ip = skb->head + skb->network_header,
		.linear = skb->tail - skb->network_header,
		.skb_len = skb->len,
	};
	bool v4 = skb->protocol == bpf_htons(ETH_P_IP);
	__u32 zero;

	if ((!v4 && (!cfg_ip6 || skb->protocol != bpf_htons(ETH_P_IPV6))) ||
	    skb->tail < skb->network_header)
		return false;
	r.gso_size = BPF_CORE_READ(shared, gso_size);
	p->gso_size = r.gso_size;
	if (v4 ? !read_ipv4(&r, p) : !read_ipv6(skb, &r, p))
		return false;
	zero = HIDDEN_ZERO(skb->end);
	p->v6 += zero;
	p->proto += zero;
	p->frag += zero;
	p->len += zero;
	p->l4 += zero;
	p->jumbo += zero;
	if (p->len < p->l4 || r.linear < p->l4 || !read_linear_l4(&r, p))
		return false;
	p->n = 1;
	if (p->gso_size)
		p->n = count_packets(p->len, repeated_hdr(p), p->gso_size,
				     BPF_CORE_READ(shared, gso_segs));
	zero = HIDDEN_ZERO(skb->end);
	forget_form(p, zero);
	p->v6 += zero;
	p->partial += zero;
	return true;
}

/* Port of the device that holds the skb, RDR_NO_PORT if it is none of ours. */
static __always_inline __u32 read_port(struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	struct rdr_dev key = {};
	__u32 *found;

	/* In socket queues the field has another meaning; then the reads fail, or find no such
	 * device. */
	if (!dev)
		return RDR_NO_PORT;
	key.netns_inum = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	key.ifindex = BPF_CORE_READ(dev, ifindex);
	found = bpf_map_lookup_elem(&devs, &key);
	return found ? *found : RDR_NO_PORT;
}

#endif
