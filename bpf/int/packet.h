/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the headers of a packet are, and whether it could bear INT. */
#ifndef INT_PACKET_H
#define INT_PACKET_H

#include "maps.h"
#include "lib/checksum.h"
#include "lib/vlan.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define IP_BASE 20 /* of an IPv4 header without options; the kernel makes room behind it */
#define IP6_BASE 40

/* Of a packet. Offsets are from the begin of the frame, lengths are bytes. */
struct packet {
	__u32 l3;
	__u32 l4;
	__u32 data;   /* what follows the TCP or UDP header: where INT is */
	__u32 ip_len; /* of the whole IP packet */
	__u32 l4_len; /* of TCP or UDP with its payload */
	__u16 check;  /* TCP's or UDP's, as it is in the packet */
	__u16 dport;  /* network byte order */
	__u8 proto;
	__u8 dscp;
	bool v6;
	bool tagged; /* the frame has a VLAN tag in it */
};

/*
 * x, which is 1 to max (a power of two), so that the verifier knows it. (Linux 5.10 forgets a bound
 * that a comparison gave.)
 */
#define BOUNDED(x, max)                                                 \
	({                                                              \
		__u64 less = (x) - 1;                                   \
		asm volatile("%0 &= %1" : "+r"(less) : "i"((max) - 1)); \
		less + 1;                                               \
	})

/* Lets at least the first n bytes of the packet be read and written by pointers, if it has them. */
static __always_inline void pull(struct __sk_buff *skb, __u32 n)
{
	if (skb->data_end - skb->data < n && skb->data_end - skb->data < skb->len)
		bpf_skb_pull_data(skb, n < skb->len ? n : skb->len);
}

/* Headers that are always linear: Ethernet, two tags, IPv4 with options, TCP without. */
#define HEADERS (14 + 8 + 60 + 20)

/* Reads the Ethernet header and its tags; *l3: where they end. The type of what follows, 0: nothing
 * known. */
static __always_inline __be16 parse_link(void *data, void *end, struct packet *p, __u32 *l3)
{
	struct ethhdr *eth = data;
	struct vlan_tag *tag = (void *)(eth + 1);
	__be16 type;

	if ((void *)(eth + 1) > end)
		return 0;
	type = eth->h_proto;
	*l3 = sizeof(*eth);
	p->tagged = false;
	for (int i = 0; i < 2; i++) {
		if (!is_vlan(type))
			break;
		if ((void *)(tag + 1) > end)
			return 0;
		type = tag->proto;
		p->tagged = true;
		*l3 += sizeof(*tag);
		tag++;
	}
	return type;
}

/* Reads TCP's or UDP's header at l4, which has l4_len bytes. */
static __always_inline enum int_skip parse_l4(void *l4, void *end, struct packet *p)
{
	if (p->proto == IPPROTO_UDP) {
		struct udphdr *udp = l4;

		if ((void *)(udp + 1) > end)
			return INT_SKIP_TOO_SHORT;
		p->data = p->l4 + sizeof(*udp);
		p->check = udp->check;
		p->dport = udp->dest;
		return bpf_ntohs(udp->len) == p->l4_len && p->l4_len >= sizeof(*udp) ?
			       INT_SKIP_NONE :
			       INT_SKIP_BAD_LENGTH;
	}
	if (p->proto == IPPROTO_TCP) {
		struct tcphdr *tcp = l4;
		__u32 size;

		if ((void *)(tcp + 1) > end)
			return INT_SKIP_TOO_SHORT;
		size = (((__u8 *)tcp)[12] >> 4) * 4;
		p->data = p->l4 + size;
		p->check = tcp->check;
		p->dport = tcp->dest;
		if (size < sizeof(*tcp) || size > p->l4_len)
			return INT_SKIP_BAD_LENGTH;
		/* The other form of 0, which no sender writes: it would come back as 0. */
		return p->check == 0xffff ? INT_SKIP_BAD_CHECKSUM : INT_SKIP_NONE;
	}
	return INT_SKIP_NOT_TCP_UDP;
}

static __always_inline enum int_skip parse_ipv4(void *l3, void *end, struct packet *p)
{
	struct iphdr *ip = l3;
	__u32 size;

	if ((void *)(ip + 1) > end)
		return INT_SKIP_TOO_SHORT;
	size = (*(__u8 *)ip & 0xf) * 4;
	if (*(__u8 *)ip >> 4 != 4 || size < sizeof(*ip))
		return INT_SKIP_BAD_LENGTH;
	p->v6 = false;
	p->ip_len = bpf_ntohs(ip->tot_len);
	p->dscp = ip->tos >> 2;
	p->proto = ip->protocol;
	p->l4 = p->l3 + size;
	if (p->ip_len < size)
		return INT_SKIP_BAD_LENGTH;
	p->l4_len = p->ip_len - size;
	if (ip->frag_off & bpf_htons(0x3fff))
		return INT_SKIP_FRAGMENT;
	return parse_l4((void *)ip + size, end, p);
}

static __always_inline enum int_skip parse_ipv6(void *l3, void *end, struct packet *p)
{
	struct ipv6hdr *ip = l3;

	if ((void *)(ip + 1) > end)
		return INT_SKIP_TOO_SHORT;
	if (*(__u8 *)ip >> 4 != 6)
		return INT_SKIP_BAD_LENGTH;
	p->v6 = true;
	p->l4_len = bpf_ntohs(ip->payload_len);
	p->ip_len = p->l4_len + sizeof(*ip);
	p->dscp = (bpf_ntohs(*(__be16 *)ip) >> 6) & 0x3f;
	p->proto = ip->nexthdr;
	p->l4 = p->l3 + sizeof(*ip);
	switch (p->proto) {
	case IPPROTO_FRAGMENT:
		return INT_SKIP_FRAGMENT;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_AH:
	case IPPROTO_DSTOPTS:
		return INT_SKIP_EXTENSION;
	}
	return parse_l4((void *)(ip + 1), end, p);
}

/* Fills *p, and says why the packet can bear no INT. (*p is in a map: what the verifier is to know
 * is in variables.) */
static __always_inline enum int_skip parse(struct __sk_buff *skb, struct packet *p)
{
	void *data, *end;
	__u32 l3 = 0;
	enum int_skip why;
	__be16 type;

	pull(skb, HEADERS);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	type = parse_link(data, end, p, &l3);
	p->l3 = l3;
	if (type == bpf_htons(ETH_P_IP))
		why = parse_ipv4(data + l3, end, p);
	else if (type == bpf_htons(ETH_P_IPV6))
		why = parse_ipv6(data + l3, end, p);
	else
		return type ? INT_SKIP_NOT_IP : INT_SKIP_TOO_SHORT;
	if (!why && p->l3 + p->ip_len > skb->len)
		return INT_SKIP_TOO_SHORT;
	return why;
}

static __always_inline bool is_report(const struct packet *p)
{
	return p->proto == IPPROTO_UDP && p->dport == bpf_htons(cfg_report_port);
}

#endif
