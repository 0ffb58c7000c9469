/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors quote the packet that caused them. A function that shares no kernel with us
 * (or a node under --carry header) quotes it with our bits. They are replaced by the true
 * ones. The quote's own IP checksum is corrected too, so the sum over the quote, and with
 * it the ICMP checksum, does not change.
 */
#ifndef BACKPACK_QUOTE_H
#define BACKPACK_QUOTE_H

#include "find.h"

struct quote {
	struct iphdr ip;
	__be32 w[5]; /* what follows it and its options */
};

/* Bytes of packet p's quote, if it is an ICMP error. */
static __always_inline __u32 quote_len(const struct packet *p)
{
	__u32 before = p->l4 - p->l3 + ICMP_HDR;

	return p->len > before ? p->len - before : 0;
}

/* The quoted packet's ports, or an echo's identifier and sequence, as in its p->ports. */
static __always_inline __u32 quoted_ports(const struct quote *q)
{
	__u8 type = q->w[0] & 0xff;

	switch (q->ip.protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
		return q->w[0];
	case IPPROTO_ICMP:
		return !type || type == 8 ? q->w[1] : 0;
	}
	return 0;
}

/*
 * Whether slot s was written for the quoted packet. Eight bytes of payload are often
 * the same in many packets, and a quote from elsewhere whose own TTL is in a band must
 * not change: so addresses, ports and a lone packet's length must also be as our last
 * port saw them. (Whoever quotes our bits saw the packet on the wire behind that port.)
 */
static __always_inline bool quote_matches(const struct rdr_slot *s, const struct quote *q,
					  __u32 have)
{
	__u32 tag = q->w[0] & 0xffff;
	bool echo = !(tag & 0xff) || (tag & 0xff) == 8;

	if (s->proto != q->ip.protocol ||
	    s->flow_hash != tuple_hash(q->ip.saddr, q->ip.daddr, quoted_ports(q)) ||
	    (s->segs == 1 && s->len != bpf_ntohs(q->ip.tot_len)))
		return false;
	switch (q->ip.protocol) {
	case IPPROTO_TCP:
		return bpf_ntohl(q->w[1]) == s->tag;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		if (have >= 16)
			return q->w[2] == s->tag && q->w[3] == s->tag2;
		return !s->seg; /* nothing tells segments apart */
	case IPPROTO_SCTP:
		return q->w[1] == s->tag && (have < 20 || q->w[4] == s->tag2);
	case IPPROTO_ICMP:
		if (echo)
			tag |= q->w[1] & 0xffff0000; /* the sequence number */
		if (tag != s->tag)
			return false;
		return !echo || have < 16 || s->tag2 == (q->w[2] ^ (q->w[3] * 0x9e3779b1));
	default:
		return q->w[0] == s->tag && q->w[1] == s->tag2;
	}
}

/* Loads the L4 header at off from a quote of len bytes. Returns how many bytes it has: at
 * least 8 (RFC 792), else 0. */
static __always_inline __u32 load_quoted(struct __sk_buff *skb, __u32 off, __u32 len, __be32 *w)
{
	if ((__s32)len >= 20 && !bpf_skb_load_bytes(skb, off, w, 20))
		return 20;
	if ((__s32)len >= 16 && !bpf_skb_load_bytes(skb, off, w, 16))
		return 16;
	if ((__s32)len >= 8 && !bpf_skb_load_bytes(skb, off, w, 8))
		return 8;
	return 0;
}

/* How many of a quote's len bytes are the packet's, whose length is total by its header: the
 * others are padding (RFC 4884, section 5.1). A train of more than 64 KiB has 0. */
static __always_inline __u32 quoted_own(__u32 len, __u32 total)
{
	return total && total < len ? total : len;
}

/* Whether a packet with less than 8 bytes behind its headers, of hdr bytes, is quoted whole. */
static __always_inline bool is_quoted_whole(__u32 own, __u32 total, __u32 hdr)
{
	return own == total && total - hdr < 8;
}

/* What restore_quote() returns for a quote that it has restored: the TOS that it had and has. */
#define QUOTED_TOS(had, has) (1 << 16 | (had) << 8 | (has))

/* off: offset of the quote; len: its bytes (what follows is no part of it). */
GLOBAL int restore_quote(struct __sk_buff *skb, __u32 off, __u32 len, __u64 now)
{
	struct quote q = {};
	struct packet p = {};
	struct found f = {};
	union rdr_bits b;
	__u32 have, own;
	int tos;

	if (len < sizeof(q.ip) || bpf_skb_load_bytes(skb, off, &q.ip, sizeof(q.ip)) ||
	    q.ip.version != 4 || q.ip.ihl < 5 ||
	    (q.ip.frag_off & bpf_htons(IP_DF | IP_MF | IP_OFFSET)) != bpf_htons(IP_DF))
		return 0;
	own = quoted_own(len, bpf_ntohs(q.ip.tot_len));
	have = load_quoted(skb, off + q.ip.ihl * 4, own - q.ip.ihl * 4, q.w);
	if (!have && !is_quoted_whole(own, bpf_ntohs(q.ip.tot_len), q.ip.ihl * 4))
		return 0;
	p.bits.id = q.ip.id;
	p.bits.ttl = q.ip.ttl;
	p.bits.tos = q.ip.tos;
	p.n = 1;
	f.index = guid_decode(p.bits, &f.decrements);
	if (f.index == NO_INDEX)
		return 0;
	fill_if_member(f.index);
	f.slot = slot_at(f.index);
	if (!f.slot || !slot_alive(f.slot, now) || !quote_matches(f.slot, &q, have))
		return 0;
	if (!true_bits(&f, &p, &b))
		return 0;
	tos = QUOTED_TOS(q.ip.tos, b.tos);
	set_bits4(&q.ip, b, f.minus_zero);
	if (bpf_skb_store_bytes(skb, off, &q.ip, sizeof(q.ip), 0))
		count(RDR_C_RESTORE_FAILED, 1);
	else
		count(RDR_C_QUOTE_RESTORED, 1);
	return tos;
}

#define TOS_PRECEDENCE 0xe0
#define TOS_ERROR 0xc0 /* precedence of errors (RFC 1812, 4.3.2.5) */
#define TOS_ECN 3

/*
 * An error has the TOS of the packet that it answers, except for the precedence: our bits in
 * that packet's DSCP are in the error's too. quoted: what restore_quote() returned.
 */
static __always_inline void restore_error_tos(struct __sk_buff *skb, struct packet *p, int quoted)
{
	__u8 ours = (dscp_mask() << 2) & ~TOS_PRECEDENCE, had = quoted >> 8, has = quoted, tos;

	/* An error whose own TTL is in a band may have a GUID of its own. */
	if (!cfg_dscp_bits || !quoted || cfg_ttl_band[p->bits.ttl] ||
	    (p->bits.tos | TOS_ECN) != ((had & ~TOS_PRECEDENCE) | TOS_ERROR | TOS_ECN))
		return;
	tos = (p->bits.tos & ~ours) | (has & ours);
	if (tos == p->bits.tos)
		return;
	if (bpf_l3_csum_replace(skb, p->l3 + offsetof(struct iphdr, check), bpf_htons(p->bits.tos),
				bpf_htons(tos), 2) ||
	    bpf_skb_store_bytes(skb, p->l3 + offsetof(struct iphdr, tos), &tos, 1, 0))
		count(RDR_C_RESTORE_FAILED, 1);
	p->bits.tos = tos;
}

#endif
