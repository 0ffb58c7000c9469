/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The flow of a report, by the packet that it quotes. A wrong guess only costs time. */
#ifndef COLLECT_FLOW_H
#define COLLECT_FLOW_H

#include "lib/hash.h"
#include "lib/parse.h"

#define MIN_REPORT 16 /* bytes that the programs read of any */

/* Where the quoted packet's Ethernet or IP header is, by the report's own header; 0: not known. */
static __always_inline __u32 quoted_at(const __u8 *p, void *end, bool *ethernet)
{
	const __be32 *w = (const void *)p;
	__u32 first, at;

	if ((void *)(p + MIN_REPORT) > end)
		return 0;
	first = bpf_ntohl(w[0]);
	switch (first >> 28) {
	case 0:
		*ethernet = (first >> 24 & 15) != 4;
		switch (first >> 24 & 15) {
		case 0:
		case 4:
			return 12;
		case 1:
			return 24;
		case 2:
			return 28;
		}
		return 0;
	case 1: {
		__u32 bits = first >> 15 & 0x3f;

		bits = (bits & 0x15) + (bits >> 1 & 0x15);
		bits = (bits & 3) + (bits >> 2 & 3) + (bits >> 4 & 3);
		*ethernet = (first >> 21 & 7) == 0;
		return 16 + 4 * (bits & 7);
	}
	case 2:
		first = bpf_ntohl(w[2]);
		*ethernet = (first >> 24 & 15) == 3;
		at = 12;
		if (first >> 28 == 1)
			at += 8 + 4 * (first >> 8 & 0xff);
		return at;
	}
	return 0;
}

/* Takes who sends to whom into hash h. The upper halves of IPv4's addresses are all the same. */
static __always_inline __u64 hash_tuple(__u64 h, const struct tuple *t, bool v6)
{
	if (v6) {
		h = hash_mix(h, t->saddr[0]);
		h = hash_mix(h, t->daddr[0]);
		h = hash_mix(h, t->saddr[1]);
		h = hash_mix(h, t->daddr[1]);
	} else {
		h = hash_mix(h, (t->saddr[1] & ~0xffffffffULL) | t->daddr[1] >> 32);
	}
	return hash_mix(h, (__u64)t->sport << 48 | (__u64)t->dport << 32 | t->proto);
}

/* The size of an IP header without options or extension headers. */
static __always_inline __u32 ip_size(const struct packet *p)
{
	return p->v6 ? sizeof(struct ip6_header) : sizeof(struct iphdr);
}

/* Reads a quoted packet. Its ports are what stands behind the IP header, whatever that is. */
static __always_inline bool parse_quoted(struct cursor *c, bool ethernet, struct tuple *t, bool *v6)
{
	const struct ports {
		__be16 source, dest;
	} *ports;
	struct packet q;
	bool tagged;
	__u8 *first;

	if (ethernet && !parse_link(c, &tagged))
		return false;
	first = c->at;
	if ((void *)(first + 1) > c->end)
		return false;
	*v6 = *first >> 4 == 6;
	switch (*v6 ? parse_ipv6(c, &q, t) : parse_ipv4(c, &q, t)) {
	case PARSED_TOO_SHORT:
	case PARSED_BAD_LENGTH:
		return false;
	default:
		break;
	}
	ports = c->at;
	if (!step(c, sizeof(*ports)))
		return false;
	t->sport = ports->source;
	t->dport = ports->dest;
	t->proto = q.proto;
	return true;
}

/* The key of a flow: the header of the quoted packet, or without it the report's node. */
static __always_inline __u64 key_of(const __u8 *p, void *end, __u64 from)
{
	__u32 version = p[0] >> 4;
	/* The node, of 1.0 and 2.0; 0.5 has its sequence number there. */
	__u64 h = hash_mix(from, version == 1 || version == 2 ? *(const __be32 *)(p + 4) : 0);
	bool ethernet = false, v6 = false;
	__u32 at = quoted_at(p, end, &ethernet);
	struct cursor c = cursor_at((void *)p, end, at & 0x7ff);
	struct tuple t;

	return at && parse_quoted(&c, ethernet, &t, &v6) ? hash_tuple(h, &t, v6) : h;
}

#endif
