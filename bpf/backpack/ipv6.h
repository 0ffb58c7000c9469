/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading IPv6's header and its extension headers. */
#ifndef BACKPACK_IPV6_H
#define BACKPACK_IPV6_H

#include "hash.h"
#include "header.h"
#include "lib/ipv6.h"
#include "packet.h"

static __always_inline void read_fragment(const struct ip6_extension *h, struct packet *p)
{
	p->frag_id = h->id;
	p->frag = bpf_ntohs(h->off) >> 3 | (h->off & bpf_htons(1) ? IP_MF : 0);
}

/* Fills in what the fixed header has, except lengths. */
static __always_inline void read_start(const struct ip6_header *ip, struct packet *p)
{
	p->saddr = fold_addr(ip->saddr);
	p->daddr = fold_addr(ip->daddr);
	p->bits = bits6(&ip->start);
	p->frag = IP_DF;
	p->proto = ip->start.next;
}

/* The fragment header at `at` in one scalar: Identification, offset and flags as in struct
 * packet. at 0: the packet has none, which is like DF. */
GLOBAL __u64 load_fragment(struct __sk_buff *skb, __u32 at)
{
	struct packet p = { .frag = IP_DF };
	struct ip6_extension h;

	if (at && !bpf_skb_load_bytes(skb, at, &h, sizeof(h)))
		read_fragment(&h, &p);
	return p.frag_id | (__u64)p.frag << 32;
}

/* Finds the end of the extension headers, if there are any, and notes the fragment header.
 * The calls are made for every packet: one verifier state instead of three. */
static __always_inline enum parse_result parse_extensions(struct __sk_buff *skb, struct packet *p,
							  __u32 end)
{
	__u64 chain = walk_extensions(skb, p->l4, end, p->proto);
	__u64 fragment;
	__u32 need;

	if (chain & (CHAIN_BROKEN | CHAIN_LONG))
		return chain & CHAIN_LONG ? PARSE_EXTENSIONS : PARSE_MALFORMED;
	p->l4 = CHAIN_L4(chain);
	p->proto = CHAIN_PROTO(chain);
	fragment = load_fragment(skb, CHAIN_FRAGMENT(chain));
	p->frag_id = fragment;
	p->frag = fragment >> 32;
	need = p->l4 + L4_PULL;
	if (need > MAX_PULL)
		bpf_skb_pull_data(skb, skb->len < need ? skb->len : need);
	return PARSE_IPV6;
}

static __always_inline enum parse_result parse_ipv6(struct __sk_buff *skb, struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ip6_header *ip = data + bounded(p->l3);
	__u32 len;

	if ((void *)(ip + 1) > end)
		return PARSE_MALFORMED;
	p->gso_size = skb->gso_size;
	len = sizeof(*ip) + bpf_ntohs(ip->start.payload_len);
	if (!ip->start.payload_len && p->gso_size) {
		/* BIG TCP: Linux removes the jumbo option when it cuts the train. */
		len = skb->len - p->l3;
		p->jumbo = jumbo_option(&ip->start);
	} else if (!ip->start.payload_len && ip->start.next == IPPROTO_HOPOPTS) {
		return PARSE_EXTENSIONS; /* a jumbogram (RFC 2675) */
	}
	if (ip->start.version_class >> 4 != 6 || is_other_size(skb, p->l3, len, p->gso_size))
		return PARSE_MALFORMED;
	p->l4 = p->l3 + sizeof(*ip);
	p->len = len - p->jumbo;
	read_start(ip, p);
	p->group |= (ip->daddr[0] & 0xff) == 0xff; /* ff00::/8 */
	p->n = 1;
	return parse_extensions(skb, p, p->l3 + len);
}

#endif
