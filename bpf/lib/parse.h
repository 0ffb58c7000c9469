/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the link header to a 5-tuple: Ethernet, VLAN tags, IPv4, IPv6, TCP and UDP. All systems use it
 * but the backpack, which also has to know trains, tunnels and its own bits
 * (docs/design/0025-bpf-tree.md).
 *
 * A cursor walks over the bytes that pointers may read. Each function takes the header at the cursor,
 * and leaves the cursor behind it. Every header was written by somebody else: lengths are held against
 * each other, and against the bytes that are there.
 */
#ifndef LIB_PARSE_H
#define LIB_PARSE_H

#include "ipv6.h"
#include "vlan.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define MAX_TAGS 2
#define MAX_IP_HEADER 60
#define FRAGMENTED 0x3fff /* IPv4: more fragments, or an offset */

/* Headers that a packet has at most, up to the end of TCP's without options. */
#define MAX_HEADERS                                                                   \
	(sizeof(struct ethhdr) + MAX_TAGS * sizeof(struct vlan_tag) + MAX_IP_HEADER + \
	 sizeof(struct tcphdr))

/* Bytes that skip_extensions() lets be read behind extension headers. */
#define MAX_L4_READ 64

/* The next byte to read. */
struct cursor {
	void *at;
	void *end;
	__u32 off; /* of `at` from the begin of the frame */
};

/* What headers say of a packet. Offsets are from the begin of the frame, lengths are bytes. */
struct packet {
	__u32 l3;
	__u32 l4;
	__u32 data;   /* what follows the TCP or UDP header */
	__u32 ip_len; /* of the whole IP packet */
	__u32 l4_len; /* of TCP or UDP with its payload */
	__u16 check;  /* TCP's or UDP's, as it is in the packet */
	__be16 dport;
	__u8 proto;
	__u8 dscp;
	bool v6;
	bool tagged; /* the frame has a VLAN tag in it */
};

/* Who sends to whom, as it is in the packet. IPv4 addresses are ::ffff:a.b.c.d. */
struct tuple {
	__u64 saddr[2];
	__u64 daddr[2];
	__be16 sport;
	__be16 dport;
	__u8 proto;
	__u8 pad[3];
};

/* Why headers were not read to their end. */
enum parsed {
	PARSED = 0,
	PARSED_NOT_IP,
	PARSED_TOO_SHORT, /* the packet ends within a header */
	PARSED_BAD_LENGTH,
	PARSED_FRAGMENT,
	PARSED_EXTENSION, /* IPv6 with extension headers: see skip_extensions() */
	PARSED_NOT_TCP_UDP,
};

/* Lets at least the first n bytes of the packet be read and written by pointers, if it has them. */
static __always_inline void pull(struct __sk_buff *skb, __u32 n)
{
	if (skb->data_end - skb->data < n && skb->data_end - skb->data < skb->len)
		bpf_skb_pull_data(skb, n < skb->len ? n : skb->len);
}

static __always_inline struct cursor cursor_at(void *data, void *end, __u32 off)
{
	return (struct cursor){ .at = data + off, .end = end, .off = off };
}

/* A cursor at that offset of a packet, less than 512. */
static __always_inline struct cursor skb_cursor(struct __sk_buff *skb, __u32 off)
{
	return cursor_at((void *)(long)skb->data, (void *)(long)skb->data_end, off & 0x1ff);
}

/* Steps over n bytes; false: there are not so many. */
static __always_inline bool step(struct cursor *c, __u32 n)
{
	if (c->at + n > c->end)
		return false;
	c->at += n;
	c->off += n;
	return true;
}

/* The Ethernet header and its tags. The type of what follows; 0: the frame ends before. */
static __always_inline __be16 parse_link(struct cursor *c, bool *tagged)
{
	struct ethhdr *eth = c->at;
	struct vlan_tag *tag;
	__be16 type;

	if (!step(c, sizeof(*eth)))
		return 0;
	type = eth->h_proto;
	*tagged = false;
	for (int i = 0; i < MAX_TAGS; i++) {
		if (!is_vlan(type))
			break;
		tag = c->at;
		if (!step(c, sizeof(*tag)))
			return 0;
		type = tag->proto;
		*tagged = true;
	}
	return type;
}

/* An IPv4 address as an IPv6 one. */
static __always_inline void map_ipv4(__u64 to[2], __be32 addr)
{
	to[0] = 0;
	to[1] = (__u64)addr << 32 | bpf_htonl(0xffff);
}

static __always_inline void set_ipv4(struct tuple *t, const struct iphdr *ip)
{
	map_ipv4(t->saddr, ip->saddr);
	map_ipv4(t->daddr, ip->daddr);
}

static __always_inline void set_ipv6(struct tuple *t, const struct ip6_header *ip)
{
	t->saddr[0] = ip->saddr[0];
	t->saddr[1] = ip->saddr[1];
	t->daddr[0] = ip->daddr[0];
	t->daddr[1] = ip->daddr[1];
}

/* *p may be in a map: what the verifier is to know is in variables. t may be NULL, as below. */
static __always_inline enum parsed parse_ipv4(struct cursor *c, struct packet *p, struct tuple *t)
{
	__u32 l3 = c->off, size, len;
	struct iphdr *ip = c->at;

	if (!step(c, sizeof(*ip)))
		return PARSED_TOO_SHORT;
	size = ip->ihl * 4;
	if (ip->version != 4 || size < sizeof(*ip))
		return PARSED_BAD_LENGTH;
	len = bpf_ntohs(ip->tot_len);
	p->v6 = false;
	p->l3 = l3;
	p->l4 = l3 + size;
	p->ip_len = len;
	p->dscp = ip->tos >> 2;
	p->proto = ip->protocol;
	if (len < size)
		return PARSED_BAD_LENGTH;
	p->l4_len = len - size;
	if (t)
		set_ipv4(t, ip);
	/* Whether the options are there, who reads behind them will see. */
	c->at = (void *)ip + size;
	c->off = l3 + size;
	return ip->frag_off & bpf_htons(FRAGMENTED) ? PARSED_FRAGMENT : PARSED;
}

static __always_inline enum parsed parse_ipv6(struct cursor *c, struct packet *p, struct tuple *t)
{
	struct ip6_header *ip = c->at;
	__u32 l3 = c->off, len;
	__u8 next;

	if (!step(c, sizeof(*ip)))
		return PARSED_TOO_SHORT;
	if (ip->start.version_class >> 4 != 6)
		return PARSED_BAD_LENGTH;
	len = bpf_ntohs(ip->start.payload_len);
	next = ip->start.next;
	p->v6 = true;
	p->l3 = l3;
	p->l4 = c->off;
	p->ip_len = len + sizeof(*ip);
	p->l4_len = len;
	p->dscp = (bpf_ntohs(*(__be16 *)ip) >> 6) & 0x3f;
	p->proto = next;
	if (t)
		set_ipv6(t, ip);
	if (next == IPPROTO_FRAGMENT)
		return PARSED_FRAGMENT;
	return is_extension(next) ? PARSED_EXTENSION : PARSED;
}

/* From the begin of the frame to what follows the IP header. */
static __always_inline enum parsed parse_ip(struct cursor *c, struct packet *p, struct tuple *t)
{
	bool tagged = false;
	__be16 type = parse_link(c, &tagged);

	p->tagged = tagged;
	if (type == bpf_htons(ETH_P_IP))
		return parse_ipv4(c, p, t);
	if (type == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(c, p, t);
	return type ? PARSED_NOT_IP : PARSED_TOO_SHORT;
}

/* Behind the IPv6 header that *p describes: its extension headers. The cursor is new. */
static __always_inline enum parsed skip_extensions(struct __sk_buff *skb, struct cursor *c,
						   struct packet *p)
{
	__u32 end = p->l3 + p->ip_len, l4;
	__u64 chain;

	chain = walk_extensions(skb, p->l4, end < skb->len ? end : skb->len, p->proto);
	if (chain & CHAIN_LONG)
		return PARSED_EXTENSION;
	if (chain & CHAIN_BROKEN)
		return PARSED_TOO_SHORT;
	if (CHAIN_FRAGMENT(chain))
		return PARSED_FRAGMENT;
	l4 = CHAIN_L4(chain);
	p->l4_len -= l4 - p->l4;
	p->l4 = l4;
	p->proto = CHAIN_PROTO(chain);
	pull(skb, l4 + MAX_L4_READ);
	*c = skb_cursor(skb, l4);
	return PARSED;
}

/* TCP's or UDP's header, of *p's protocol. */
static __always_inline enum parsed parse_l4(struct cursor *c, struct packet *p, struct tuple *t)
{
	struct udphdr *udp = c->at;
	struct tcphdr *tcp = c->at;
	__u32 size;

	if (t)
		t->proto = p->proto;
	if (p->proto == IPPROTO_UDP) {
		if (!step(c, sizeof(*udp)))
			return PARSED_TOO_SHORT;
		size = sizeof(*udp);
		p->check = udp->check;
		if (bpf_ntohs(udp->len) != p->l4_len)
			return PARSED_BAD_LENGTH;
	} else if (p->proto == IPPROTO_TCP) {
		if (!step(c, sizeof(*tcp)))
			return PARSED_TOO_SHORT;
		size = tcp->doff * 4;
		p->check = tcp->check;
		if (size < sizeof(*tcp))
			return PARSED_BAD_LENGTH;
	} else {
		return PARSED_NOT_TCP_UDP;
	}
	p->data = p->l4 + size;
	p->dport = udp->dest; /* both have their ports there */
	if (t) {
		t->sport = udp->source;
		t->dport = udp->dest;
	}
	return size <= p->l4_len ? PARSED : PARSED_BAD_LENGTH;
}

#endif
