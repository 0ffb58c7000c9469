/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMPv6 errors (RFC 4443) quote packets as ICMP's do, see quote.h. The quoted header has
 * no checksum, so the error's own is corrected by what changes.
 */
#ifndef BACKPACK_QUOTE6_H
#define BACKPACK_QUOTE6_H

#include "quote.h"

/* What identifies a quoted packet. */
struct quoted6 {
	__u32 flow_hash;
	__u32 len;  /* of the whole packet, not of the quote */
	__u32 have; /* bytes of w */
	__u32 more; /* load_more(), if a datagram is long enough and those bytes are quoted */
	__u8 proto;
	bool cut;    /* it is long enough, but those bytes are not quoted */
	__be32 w[5]; /* behind the extension headers */
};

static __always_inline bool is_quoted_echo(__be32 first)
{
	return (first & 0xff) == 128 || (first & 0xff) == 129;
}

/* See quoted_ports(). */
static __always_inline __u32 quoted_ports6(const struct quoted6 *q)
{
	switch (q->proto) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
		return q->w[0];
	case IPPROTO_ICMPV6:
		return is_quoted_echo(q->w[0]) ? q->w[1] : 0;
	}
	return 0;
}

/* How many segments a quoted TCP segment is behind the one in slot s, whose bits it has; 0
 * also if it is none of that train. */
static __always_inline __u32 quoted_segment(struct rdr_slot *s, __u32 seq)
{
	struct rdr_slot *h;
	__u32 off;

	if (s->segs < 2)
		return 0;
	h = head_of(s);
	if (!h || !h->gso_size)
		return 0;
	off = (seq - s->tag) / h->gso_size;
	return s->seg + off < s->segs ? off : 0;
}

/* The slot that was written for the quoted packet, at index or of a segment behind it; NULL:
 * there is none. Addresses, ports and length as in quote_matches(). */
static __always_inline struct rdr_slot *quoted_slot(__u32 index, const struct quoted6 *q)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 tag = q->w[0], tag2 = q->w[1], whole = ~0;

	if (!s || !(s->state & RDR_ST_IPV6) || s->proto != q->proto || s->flow_hash != q->flow_hash)
		return NULL;
	switch (q->proto) {
	case IPPROTO_TCP:
		tag = bpf_ntohl(tag2);
		whole = 0;
		index += quoted_segment(s, tag);
		break;
	case IPPROTO_UDP:
		tag = q->w[2];
		tag2 = q->w[3] ^ q->more;
		/* Datagrams look alike otherwise. */
		if (q->have < 16)
			return s->segs == 1 && s->len == q->len ? s : NULL;
		if (q->cut)
			whole = 0;
		else if (s->tag != tag || s->tag2 != tag2)
			index += segment_by_content(index, tag, tag2);
		break;
	case IPPROTO_UDPLITE:
		tag = q->have < 16 ? s->tag : q->w[2];
		tag2 = q->w[3];
		whole = q->have < 16 ? 0 : ~0;
		break;
	case IPPROTO_SCTP:
		tag = tag2;
		tag2 = q->w[4];
		whole = q->have < 20 ? 0 : ~0;
		break;
	case IPPROTO_ICMPV6:
		tag = q->w[0] & 0xffff;
		tag2 = 0;
		if (!is_quoted_echo(tag))
			break;
		tag |= q->w[1] & 0xffff0000; /* the sequence number */
		tag2 = q->w[2] ^ (q->w[3] * 0x9e3779b1);
		if (q->have < 16)
			whole = 0;
	}
	fill_if_member(index);
	s = slot_at(index & (cfg_slots - 1));
	if (!s || s->tag != tag || ((s->tag2 ^ tag2) & whole) || (s->segs == 1 && s->len != q->len))
		return NULL;
	return s;
}

/* flow_hash() of a packet whose header is at off. */
GLOBAL __u32 flow_hash6(struct __sk_buff *skb, __u32 off, __u32 ports)
{
	__u64 addrs[4];

	if (bpf_skb_load_bytes(skb, off + offsetof(struct ip6_header, saddr), addrs, sizeof(addrs)))
		return 0;
	return tuple_hash(fold_addr(addrs), fold_addr(addrs + 2), ports);
}

/* Reads a quote of len bytes at off. The first extension header is of type `next`. */
static __always_inline bool read_quote6(struct __sk_buff *skb, __u32 off, __u32 len, __u32 next,
					struct quoted6 *q)
{
	__u64 chain = walk_extensions(skb, off + sizeof(struct ip6_header), off + len, next);
	__u32 l4 = CHAIN_L4(chain);

	/* Fragments are found by key: their bits are true. */
	if (chain & (CHAIN_BROKEN | CHAIN_LONG) || CHAIN_FRAGMENT(chain))
		return false;
	q->have = load_quoted(skb, l4, off + len - l4, q->w);
	if (!q->have && !is_quoted_whole(len, q->len, l4 - off))
		return false;
	q->proto = CHAIN_PROTO(chain);
	if (q->proto == IPPROTO_UDP && q->len >= l4 - off + UDP_MORE) {
		q->cut = l4 + UDP_MORE > off + len;
		q->more = q->cut ? 0 : load_more(skb, l4 + 16);
	}
	q->flow_hash = flow_hash6(skb, off, quoted_ports6(q));
	return true;
}

/* Index of the packet that is quoted in the len bytes at off (what follows them is no part of
 * the quote); NO_INDEX if it is none of ours. */
GLOBAL __u32 find_quoted6(struct __sk_buff *skb, __u32 off, __u32 len)
{
	struct quoted6 q = {};
	struct rdr_slot *s;
	struct ip6_start ip;
	__u32 index, decrements;

	if (len < sizeof(struct ip6_header) || bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)))
		return NO_INDEX;
	index = guid_decode(bits6(&ip), &decrements);
	if (index == NO_INDEX || ip.version_class >> 4 != 6)
		return NO_INDEX;
	fill_if_member(index);
	q.len = sizeof(struct ip6_header) + bpf_ntohs(ip.payload_len);
	if (!read_quote6(skb, off, quoted_own(len, ip.payload_len ? q.len : 0), ip.next, &q))
		return NO_INDEX;
	index = guid_decode(bits6(&ip), &decrements); /* again: no room for it on the stack */
	s = quoted_slot(index, &q);
	return s ? s->pos & (cfg_slots - 1) : NO_INDEX;
}

/* Puts the true bits of the packet at index into the quote at off; sum_at: where the
 * checksum over the quote is. */
GLOBAL int write_quote6(struct __sk_buff *skb, __u32 off, __u32 index, __u64 now, __u32 sum_at)
{
	struct found f = { .index = index, .id_rule = ID_SHARED };
	struct packet p = { .n = 1 };
	struct ip6_start old, new;
	union rdr_bits b;
	__s64 diff;

	f.slot = slot_at(index & (cfg_slots - 1));
	if (!f.slot || !slot_alive(f.slot, now) || bpf_skb_load_bytes(skb, off, &old, sizeof(old)))
		return 0;
	p.bits = bits6(&old);
	if (guid_decode(p.bits, &f.decrements) == NO_INDEX || !true_bits(&f, &p, &b))
		return 0;
	new = old;
	set_bits6(&new, b);
	diff = bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)&new, sizeof(new), 0);
	/* The two changes cancel out in the sum over the whole packet. */
	if (bpf_l4_csum_replace(skb, sum_at, 0, diff, 0) ||
	    bpf_skb_store_bytes(skb, off, &new, sizeof(new), 0))
		count(RDR_C_RESTORE_FAILED, 1);
	else
		count(RDR_C_QUOTE_RESTORED, 1);
	return 0;
}

#define REDIRECT_HDR 40 /* with the addresses of target and destination */
#define REDIRECT_OPTIONS 4
#define REDIRECTED_HEADER 4

/*
 * Where the quote is in an ICMPv6 packet whose L4 is [l4, end): offset | its bytes << 32; 0: it
 * has none. A Redirect has it in an option, behind the router's address (RFC 4861, sections 4.5
 * and 4.6.3).
 */
GLOBAL __u64 place_of_quote6(struct __sk_buff *skb, __u32 l4, __u32 end, __u32 type)
{
	__u32 off = l4 + (type == ND_REDIRECT ? REDIRECT_HDR : ICMP_HDR), len;
	__u8 option[2]; /* type, length in units of 8 bytes */

	if (type != ND_REDIRECT)
		return off < end ? off | (__u64)(end - off) << 32 : 0;
	for (int i = 0; i < REDIRECT_OPTIONS; i++) {
		if (bpf_skb_load_bytes(skb, off, option, sizeof(option)))
			return 0;
		len = option[1] * 8;
		if (!len || off + len > end)
			return 0;
		if (option[0] == REDIRECTED_HEADER)
			return (off + 8) | (__u64)(len - 8) << 32;
		off += len;
	}
	return 0;
}

/* Restores the packet that p, an ICMP or ICMPv6 error, quotes. where: the port | QUOTE_OUT. (A call: what it needs is not on the
 * stack of programs, whose other calls go deeper.) */
static __attribute__((noinline)) void restore_quoted(struct __sk_buff *skb, struct packet *p,
						     __u64 now, __u32 where)
{
	bool lost = !(where & QUOTE_OUT) && is_too_big(p);
	__u32 port_no = where & 0xffff, index;
	__u64 place;

	if (where & QUOTE_OUT)
		where |= is_handmade(skb) << QUOTE_BY_SHIFT;
	if (p->icmp_type == (p->v6 ? ND_REDIRECT : ICMP_REDIRECT))
		where |= QUOTE_REDIRECT;
	if (!p->v6) {
		index = find_quoted4(skb, p->l4 + ICMP_HDR, quote_len(p), now);
		if (index == NO_INDEX || !may_be_quoted(index, where))
			return;
		if (lost)
			lose_too_big(index, port_no, now);
		restore_error_tos(skb, p, write_quote4(skb, p->l4 + ICMP_HDR, index));
		return;
	}
	place = place_of_quote6(skb, p->l4, p->l3 + p->len, p->icmp_type);
	index = find_quoted6(skb, place, place >> 32);
	if (index == NO_INDEX || !may_be_quoted(index, where))
		return;
	if (lost)
		lose_too_big(index, port_no, now);
	write_quote6(skb, place, index, now, p->l4 + 2);
}

#endif
