/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs know of one packet, and how TC reads it. header.h rewrites it. */
#ifndef BACKPACK_PACKET_H
#define BACKPACK_PACKET_H

#include "config.h"
#include "lib/vlan.h"

#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>

#define IP_DF 0x4000
#define IP_MF 0x2000
#define IP_OFFSET 0x1fff

#define VLAN_DEPTH 2
#define MAX_PULL 128 /* Ethernet, two tags, IP with options, TCP up to its timestamps */
#define L4_PULL 32   /* of the L4 header, what identity.h reads */

/*
 * ID, TTL and TOS of a packet, as one 32-bit word for loads and stores. IPv6: the low 16
 * bits of the flow label, hop limit, traffic class.
 */
union rdr_bits {
	struct {
		__be16 id;
		__u8 ttl;
		__u8 tos;
	};
	__u32 word;
};

struct packet {
	__u32 l3; /* offset of the IP header from skb->data */
	__u32 l4; /* offset of what follows it */
	__u32 n;  /* packets on the wire: segments of a GSO skb, else 1 */
	__u32 gso_size;
	__u32 len;    /* IP bytes of the skb */
	__be32 saddr; /* IPv6: folded, fold_addr() */
	__be32 daddr;
	__be32 frag_id; /* IPv6: Identification of the fragment header, 0 without */
	__be32 ports;	/* source, destination, as in the packet; ICMP echo: identifier, sequence */
	__u32 flow;	/* flow hash of a partial packet */
	__u32 tag;	/* content tag, identity.h */
	__u32 tag2;
	__be32 tcp_ack; /* of TCP: as struct rdr_slot has them; IPv6: see fill_head6() */
	__be32 tcp_rest;
	union rdr_bits bits; /* as the header has them */
	__u16 frag;	     /* IP flags and offset, host order; IPv6: DF if no fragment header */
	__u8 proto;
	__u8 l4_hdr; /* bytes of TCP or UDP header that each segment repeats, less `jumbo` */
	union {
		struct {
			__u8 icmp_type;
			__u8 icmp_code;
			__u8 vlan;
			__u8 odd_train; /* a GSO skb whose segments are not plain TCP or UDP */
		};
		__u32 small; /* all in one register, see forget_form() */
	};
	__u8 group;	 /* 1: for a group, by its address or its frame; else 0 */
	__u8 partial;	 /* the content could not be read: no tag */
	__u8 true_link;	 /* the port's link carries true bits only: RDR_PF_TRUE */
	__u8 v6;	 /* IPv6; a constant in the TC programs */
	__u8 jumbo;	 /* bytes of the skb's header that no segment has (BIG TCP) */
	__u8 minus_zero; /* 1: the header's checksum is 0xffff, see set_bits4(); else 0 */
};

enum parse_result {
	PARSE_IPV4 = 0,
	PARSE_IPV6,
	PARSE_OTHER,
	PARSE_VLAN_DEPTH,
	PARSE_MALFORMED,
	PARSE_EXTENSIONS, /* IPv6: a chain of headers that is too long, a jumbogram */
	PARSE_LOOPED,	  /* the node's own copy of what it sent to a group */
};

static __always_inline bool is_fragment(const struct packet *p)
{
	return p->frag & (IP_MF | IP_OFFSET);
}

/* Bytes of IP and L4 header that each segment of p's train repeats. */
static __always_inline __u32 repeated_hdr(const struct packet *p)
{
	return p->l4 - p->l3 + p->l4_hdr;
}

/* Whether the link of a port with these flags carries true bits only. Tunnels choose
 * their UDP source port by IPv6's flow label, and may copy it. */
static __always_inline __u8 is_true_link(__u32 flags, __u32 v6)
{
	/* No branch, for the verifier. */
	return (flags / RDR_PF_TRUE | (flags / RDR_PF_TUNNEL & v6)) & 1;
}

/* Whether nobody needs the packet's ID (RFC 6864: only atomic packets may have any ID). No bit
 * of others is changed. */
static __always_inline bool is_atomic(const struct packet *p)
{
	return (p->frag & (IP_DF | IP_MF | IP_OFFSET)) == IP_DF;
}

#define ICMP_REDIRECT 5
#define ND_REDIRECT 137
#define ICMP_UNREACHABLE 3
#define ICMP_FRAG_NEEDED 4
#define ICMP6_TOO_BIG 2

/* Whether p is ICMP that quotes a packet. */
static __always_inline bool is_icmp_error(const struct packet *p)
{
	if (p->v6)
		return p->proto == IPPROTO_ICMPV6 && !(p->frag & IP_OFFSET) &&
		       ((p->icmp_type >= 1 && p->icmp_type <= 4) || p->icmp_type == ND_REDIRECT);
	return p->proto == IPPROTO_ICMP && !(p->frag & IP_OFFSET) &&
	       (p->icmp_type == 3 || p->icmp_type == 4 || p->icmp_type == ICMP_REDIRECT ||
		p->icmp_type == 11 || p->icmp_type == 12);
}

/* Whether p, which is one, says that the packet was too large. */
static __always_inline bool is_too_big(const struct packet *p)
{
	if (p->v6)
		return p->icmp_type == ICMP6_TOO_BIG;
	return p->icmp_type == ICMP_UNREACHABLE && p->icmp_code == ICMP_FRAG_NEEDED;
}

/* Shows the verifier (the oldest forgets bounds of spilled values) that an
 * offset into the headers is below MAX_PULL. */
static __always_inline __u32 bounded(__u32 off)
{
	asm volatile("%0 &= 0x7f" : "+r"(off));
	return off;
}

/* Whether data begins with Ethernet, IPv4 without options, and as much of a TCP header as
 * identity.h reads. */
static __always_inline bool begins_with_tcp(void *data, void *end)
{
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);

	return (void *)(ip + 1) + L4_PULL <= end && eth->h_proto == bpf_htons(ETH_P_IP) &&
	       *(__u8 *)ip == 0x45 && ip->protocol == IPPROTO_TCP;
}

/*
 * Pulls headers that are in page fragments of the skb. With TCP often only the payload is there:
 * then nothing is pulled, as that takes 300 ns. (The same goes for IPv6, but 5.10 would look at
 * more than a million instructions.)
 */
static __always_inline void pull_headers(struct __sk_buff *skb, bool may_be_tcp)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (data + MAX_PULL > end && skb->len > (__u32)(end - data) &&
	    !(may_be_tcp && begins_with_tcp(data, end)))
		bpf_skb_pull_data(skb, skb->len < MAX_PULL ? skb->len : MAX_PULL);
}

/* Finds the IP header behind at most two VLAN tags, inline or in the skb. */
static __always_inline enum parse_result parse_link(struct __sk_buff *skb, bool l3_device,
						    struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	__u32 depth = 0, off = 0;
	__be16 proto;

	if (l3_device) {
		proto = skb->protocol;
	} else {
		if ((void *)(eth + 1) > end)
			return PARSE_MALFORMED;
		proto = eth->h_proto;
		p->group = eth->h_dest[0] & 1;
		off = sizeof(*eth);
		depth = skb->vlan_present ? 1 : 0;
	}
#pragma unroll
	for (int i = 0; i < VLAN_DEPTH; i++) {
		struct vlan_tag *tag = data + off;

		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if (depth == VLAN_DEPTH)
			return PARSE_VLAN_DEPTH;
		if ((void *)(tag + 1) > end)
			return PARSE_MALFORMED;
		proto = tag->proto;
		off += sizeof(*tag);
		depth++;
	}
	p->l3 = bounded(off); /* also makes one verifier state of many */
	p->vlan = depth > 0;
	if (proto == bpf_htons(ETH_P_IP))
		return PARSE_IPV4;
	if (proto == bpf_htons(ETH_P_IPV6))
		return PARSE_IPV6;
	if (proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD))
		return PARSE_VLAN_DEPTH;
	return PARSE_OTHER;
}

/*
 * Whether an skb that has len bytes from the IP header on, by that header, has others. Fewer are never
 * right. More are padding, but not in a train: the kernel cuts by what is there, and the segments that
 * no slots were taken for would have IDs that name the slots of others.
 */
static __always_inline bool is_other_size(struct __sk_buff *skb, __u32 l3, __u32 len,
					  __u32 gso_size)
{
	__u32 more = skb->len - l3 - len; /* bytes; with the upper bit, there are fewer */

	return more >= (gso_size ? 1 : 0x80000000);
}

/* Fills in what the fixed header has, except lengths. */
static __always_inline void read_start4(const struct iphdr *ip, struct packet *p)
{
	p->saddr = ip->saddr;
	p->daddr = ip->daddr;
	p->bits.id = ip->id;
	p->bits.ttl = ip->ttl;
	p->bits.tos = ip->tos;
	p->frag = bpf_ntohs(ip->frag_off);
	p->proto = ip->protocol;
	/* Without a branch, for the verifier. */
	p->minus_zero = ((__u32)ip->check + 1) >> 16;
}

static __always_inline enum parse_result parse_ipv4(struct __sk_buff *skb, struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + bounded(p->l3);
	__u32 hdr, len;

	if ((void *)(ip + 1) > end)
		return PARSE_MALFORMED;
	hdr = ip->ihl * 4;
	len = bpf_ntohs(ip->tot_len);
	/* A GSO skb of more than 64 KiB has no total length (BIG TCP). */
	if (!len && skb->gso_size)
		len = skb->len - p->l3;
	if (ip->version != 4 || hdr < sizeof(*ip) || len < hdr ||
	    is_other_size(skb, p->l3, len, skb->gso_size))
		return PARSE_MALFORMED;
	/* 224.0.0.0/3: multicast, reserved, limited broadcast. Without a branch, for the
	 * verifier: 1 if the upper three bits are all set. */
	p->group |= ((bpf_ntohl(ip->daddr) >> 29) + 1) >> 3;
	p->l4 = p->l3 + hdr;
	p->len = len;
	read_start4(ip, p);
	p->gso_size = skb->gso_size;
	p->n = 1;
	return PARSE_IPV4;
}

#endif
