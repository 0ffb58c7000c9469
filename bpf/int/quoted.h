/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors quote the packet that caused them. A node inside the domain quotes it with INT. Where
 * the error leaves the domain, INT is taken out of the quote, and the quoted headers are what they
 * were when the packet came to the domain (but for the TTL).
 */
#ifndef INT_QUOTED_H
#define INT_QUOTED_H

#include "hop.h"

/* The header of an error. */
struct icmp_error {
	__u8 type;
	__u8 code;
	__be16 check;
	__u8 length6; /* of the quote, where extensions follow (RFC 4884): ICMPv6, in 8 bytes */
	__u8 length4; /* ICMP, in 4 bytes */
	__be16 rest;
};

/* Types of ICMP errors (RFC 792), and of ICMPv6 errors with a length (RFC 4443). */
#define ICMP_UNREACHABLE 3
#define ICMP_SOURCE_QUENCH 4
#define ICMP_REDIRECT 5
#define ICMP_TIME 11
#define ICMP_PARAMETER 12
#define ICMP6_UNREACHABLE 1
#define ICMP6_TIME 3

#define MOST_INT (1024 + 8)			 /* bytes that a source and others put in */
#define TOS_OF_ERROR(dscp) (((dscp) & 7) | 0x30) /* what Linux makes of the packet's DSCP */

enum quoted {
	QUOTED_NO_INT,
	QUOTED_RESTORED,
	QUOTED_UNKNOWN, /* it has the mark, but too little is quoted, or it could not be changed */
};

static const __u8 zeros[MOST_INT] = {};

static __always_inline bool is_icmp(const struct packet *p)
{
	return p->proto == (p->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
}

static __always_inline bool is_error(bool v6, __u8 type)
{
	if (v6)
		return type < 128;
	return type == ICMP_UNREACHABLE || type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT ||
	       type == ICMP_TIME || type == ICMP_PARAMETER;
}

/* Bytes of the quote where the error says it: extensions follow them. Else 0. */
static __always_inline __u32 said_length(bool v6, const struct icmp_error *e)
{
	if (v6)
		return e->type == ICMP6_UNREACHABLE || e->type == ICMP6_TIME ? e->length6 * 8 : 0;
	return e->type == ICMP_UNREACHABLE || e->type == ICMP_TIME || e->type == ICMP_PARAMETER ?
		       e->length4 * 4 :
		       0;
}

/* Reads the quoted IP header, at q->l3. */
static __always_inline bool read_quoted_ip(struct __sk_buff *skb, struct packet *q, bool v6)
{
	struct cursor c = { .off = q->l3 };
	struct ip6_header ip6;
	struct iphdr ip;

	if (v6) {
		c.at = &ip6;
		c.end = &ip6 + 1;
		return !bpf_skb_load_bytes(skb, q->l3, &ip6, sizeof(ip6)) &&
		       parse_ipv6(&c, q, NULL) == PARSED;
	}
	c.at = &ip;
	c.end = &ip + 1;
	return !bpf_skb_load_bytes(skb, q->l3, &ip, sizeof(ip)) &&
	       parse_ipv4(&c, q, NULL) == PARSED;
}

/* Reads the quoted header of TCP or UDP, of which 8 bytes are enough where UDP is. */
static __always_inline bool read_quoted_l4(struct __sk_buff *skb, struct packet *q, __u32 own)
{
	__u32 size = q->proto == IPPROTO_UDP ? sizeof(struct udphdr) : sizeof(struct tcphdr);
	union {
		struct udphdr udp;
		struct tcphdr tcp;
	} h;

	if (q->l4 - q->l3 + size > own || q->l4_len < size)
		return false;
	if (q->proto == IPPROTO_UDP) {
		if (bpf_skb_load_bytes(skb, q->l4, &h, sizeof(h.udp)))
			return false;
		q->check = h.udp.check;
	} else {
		if (bpf_skb_load_bytes(skb, q->l4, &h, sizeof(h.tcp)))
			return false;
		size = h.tcp.doff * 4;
		if (size < sizeof(h.tcp) || size > q->l4_len)
			return false;
		q->check = h.tcp.check;
	}
	q->dport = h.udp.dest; /* TCP has its ports there, too */
	q->data = q->l4 + size;
	return true;
}

/* The sum of what is taken out: n bytes at offset `at`. All ones: it cannot be read. */
GLOBAL __u64 sum_out(struct __sk_buff *skb, __u32 at, __u32 n)
{
	__u32 left = n;
	struct work *w = page(&works);
	__u64 size = BOUNDED(n, MOVED);
	__s64 sum = 0;

	if (!w || !n)
		return ~0ULL;
	/* A quote may end within a word: it is summed with zeros behind it. */
	*(__u32 *)(w->moved + ((n - 1) & 0x7fc)) = 0;
	if (bpf_skb_load_bytes(skb, at, w->moved, size))
		return ~0ULL;
	for (__u32 i = 0; i < 2; i++) {
		if (left < 512)
			break;
		sum = bpf_csum_diff(NULL, 0, (void *)(w->moved + i * 512), 512, sum);
		left -= 512;
	}
	if (!left)
		return (__u32)sum;
	size = BOUNDED((left + 3) & ~3U, 512);
	return (__u32)bpf_csum_diff(NULL, 0, (void *)(w->moved + ((n - left) & 0x600)),
				    size & 0x3fc, sum);
}

/* The state of a quoted checksum, of a packet of which `own` bytes are quoted. What a device was to
 * complete has the pseudo header's sum. One finished checksum in 65,536 is that number, too: it is right
 * for the payload, which shows where all of it is quoted. */
static __always_inline enum sum_state quoted_state(struct __sk_buff *skb, const struct work *w,
						   const struct packet *q, __u32 own)
{
	__u64 sum, rest;

	if (!q->check && q->proto == IPPROTO_UDP)
		return SUM_NONE;
	sum = q->v6 ? bpf_csum_diff(NULL, 0,
				    (void *)(w->block + offsetof(struct ip6_header, saddr)),
				    2 * sizeof(struct in6_addr), 0) :
		      bpf_csum_diff(NULL, 0, (void *)(w->block + offsetof(struct iphdr, saddr)),
				    2 * sizeof(__be32), 0);
	sum = (__u32)sum + bpf_htons(q->proto) + bpf_htons(q->l4_len);
	if (fold(sum) != q->check)
		return SUM_DONE;
	if (q->l4 - q->l3 + q->l4_len > own || q->l4_len > INT_MAX_QUOTE)
		return SUM_PARTIAL;
	rest = sum_out(skb, q->l4, q->l4_len);
	return rest != ~0ULL && fold(sum + rest) == 0xffff ? SUM_DONE : SUM_PARTIAL;
}

/* Makes the quoted TCP or UDP header in the block what it was. all: all of INT is quoted, so that
 * the checksum can be known. */
static __always_inline void restore_quoted_l4(struct work *w, const struct packet *q,
					      const struct found *f, __u64 sum,
					      enum sum_state state, bool all)
{
	__u32 at = (q->l4 - q->l3) & 0x3c; /* 20 to 60 */
	__u16 check;

	sum = (__u32)~sum;
	if (f->npt == NPT_PORT) {
		__be16 port = bpf_htons(f->shim);

		((struct udphdr *)(w->block + at))->dest = port;
		sum += sum_change(q->dport, port);
	}
	check = all ? new_check(q, state, sum, less(f->bytes)) : q->check;
	if (q->proto == IPPROTO_UDP) {
		struct udphdr *udp = (void *)(w->block + at);

		udp->check = check;
		udp->len = bpf_htons(q->l4_len - f->bytes);
	} else {
		((struct tcphdr *)(w->block + at))->check = check;
	}
}

/* Makes the quoted IP header in the block what it was. */
static __always_inline void restore_quoted_ip(struct work *w, const struct packet *q, __u8 dscp,
					      __u8 proto, __u32 fewer)
{
	if (q->v6)
		change_ipv6((void *)w->block, q->ip_len - fewer, dscp, proto);
	else
		change_ipv4((void *)w->block, q->ip_len - fewer, dscp, proto);
}

/*
 * Takes n bytes at offset `at` out of the quote, which ends at `end`. With `fixed`, the error stays as
 * long as it is: extensions follow, and the quote is filled with zeros. If it fails, nothing was
 * written; else nothing that is written afterwards can fail (see cut_tail()).
 */
static __always_inline bool cut_out(struct __sk_buff *skb, struct work *w, __u32 at, __u32 n,
				    __u32 end, bool fixed)
{
	__u32 tail = end - at - n;
	__u64 size;

	if (!fixed)
		return cut_tail(skb, w, at + n, at, tail);
	if (n > sizeof(zeros) || bpf_skb_pull_data(skb, skb->len) ||
	    !read_moved(skb, w, at + n, tail) || !put_moved(skb, w, at, tail))
		return false;
	size = BOUNDED(n, 2048);
	return size <= sizeof(zeros) && !bpf_skb_store_bytes(skb, end - n, zeros, size, 0);
}

/* Writes lengths, checksum and DSCP of the error itself. change: of its sum. */
static __always_inline bool write_error(struct __sk_buff *skb, const struct packet *p, __u64 change,
					__u32 fewer, __u8 had, __u8 has)
{
	__u8 dscp = p->dscp;
	__u32 at = p->l4 + offsetof(struct icmp_error, check);
	__be16 check;

	if (bpf_skb_load_bytes(skb, at, &check, sizeof(check)))
		return false;
	change += (__u16)~check;
	if (p->v6 && fewer)
		change += less(fewer);
	check = sum_to_check(fold(change), 0);
	if (bpf_skb_store_bytes(skb, at, &check, sizeof(check), 0))
		return false;
	if (!p->v6 && dscp == TOS_OF_ERROR(had))
		dscp = TOS_OF_ERROR(has);
	return write_ip(skb, p, p->ip_len - fewer, dscp, p->proto);
}

/* Takes INT out of the quote at w->quoted, in which it was found. own: bytes of the quoted packet that
 * are there. The quote ends at `end`; fixed: see cut_out(). */
GLOBAL int take_out_of_quote(struct __sk_buff *skb, __u32 own, __u32 end, __u32 fixed)
{
	__u32 at, n, there, head;
	struct work *w = page(&works);
	const struct packet *p, *q;
	__u64 sum, size, change;
	const struct found *f;
	__u8 dscp, proto;
	bool udp;

	if (!w)
		return QUOTED_UNKNOWN;
	p = &w->packet;
	q = &w->quoted;
	f = &w->found;
	udp = f->npt == NPT_UDP;
	at = udp ? q->l4 : q->data;
	n = f->bytes + (udp ? 8 : 0);
	dscp = q->dscp;
	proto = udp ? f->shim : q->proto;
	head = at - q->l3;
	there = own - head < n ? own - head : n;
	if (end - at - there > MOVED || !head || head > MAX_HEAD)
		return QUOTED_UNKNOWN;
	sum = sum_out(skb, at, there);
	size = BOUNDED(head, MAX_HEAD);
	if (sum == ~0ULL || bpf_skb_load_bytes(skb, q->l3, w->block, size) ||
	    bpf_skb_load_bytes(skb, q->l3, w->quote, size))
		return QUOTED_UNKNOWN;
	if (f->npt == NPT_DSCP)
		dscp = (dscp & ~cfg_dscp_mask) | ((f->shim >> 2 & 0x3f) & cfg_dscp_mask);
	if (!udp)
		restore_quoted_l4(w, q, f, sum, quoted_state(skb, w, q, own), there == n);
	restore_quoted_ip(w, q, dscp, proto, n);
	change = (__u32)bpf_csum_diff((void *)w->quote, size & 0xfc, (void *)w->block, size & 0xfc,
				      0);
	change += (__u32)~sum;
	if (!cut_out(skb, w, at, there, end, fixed))
		return QUOTED_UNKNOWN;
	size = BOUNDED(head, MAX_HEAD); /* once more: Linux 5.10 forgets it on the stack */
	if (bpf_skb_store_bytes(skb, q->l3, w->block, size, 0) ||
	    !write_error(skb, p, change, fixed ? 0 : there, q->dscp, dscp))
		return QUOTED_UNKNOWN;
	return QUOTED_RESTORED;
}

/* Reads the quoted headers at q->l3, of `have` bytes, and looks for INT behind them. */
GLOBAL int find_quoted(struct __sk_buff *skb, __u32 have)
{
	__u32 own, at;
	struct work *w = page(&works);
	__be32 word[4] = {};
	struct packet *q;

	if (!w)
		return QUOTED_NO_INT;
	q = &w->quoted;
	if (!read_quoted_ip(skb, q, w->packet.v6) ||
	    (q->proto != IPPROTO_TCP && q->proto != IPPROTO_UDP))
		return QUOTED_NO_INT;
	own = q->ip_len < have ? q->ip_len : have;
	if (!read_quoted_l4(skb, q, own))
		return dscp_marks(q) ? QUOTED_UNKNOWN : QUOTED_NO_INT;
	if (!is_marked(q))
		return QUOTED_NO_INT;
	at = q->data - q->l3;
	if (at + LEAST_INT > own)
		return at < own ? QUOTED_UNKNOWN : QUOTED_NO_INT;
	if (at + SHIM + HEADER > own ? bpf_skb_load_bytes(skb, q->data, word, LEAST_INT) :
				       bpf_skb_load_bytes(skb, q->data, word, sizeof(word)))
		return QUOTED_NO_INT;
	return read_int(q, &w->found, q->l4_len - (q->data - q->l4), word) ? QUOTED_RESTORED :
									     QUOTED_NO_INT;
}

/* Takes INT out of what the ICMP error quotes that is in works[0]. Returns enum quoted. */
GLOBAL int restore_quote(struct __sk_buff *skb)
{
	__u32 have, own, said;
	struct work *w = page(&works);
	struct packet *p, *q;
	struct icmp_error icmp;
	int found;

	if (!w)
		return QUOTED_NO_INT;
	p = &w->packet;
	q = &w->quoted;
	if (p->l4_len < sizeof(struct icmp_error) || p->l3 + p->ip_len > skb->len ||
	    bpf_skb_load_bytes(skb, p->l4, &icmp, sizeof(icmp)) || !is_error(p->v6, icmp.type))
		return QUOTED_NO_INT;
	have = p->l4_len - sizeof(struct icmp_error);
	said = said_length(p->v6, &icmp);
	if (said > have)
		said = 0;
	if (said)
		have = said;
	q->l3 = p->l4 + sizeof(struct icmp_error);
	found = find_quoted(skb, have);
	if (found != QUOTED_RESTORED)
		return found;
	own = q->ip_len < have ? q->ip_len : have;
	return take_out_of_quote(skb, own, q->l3 + have, said != 0);
}

#endif
