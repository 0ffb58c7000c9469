/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the headers of a packet are, and whether it could bear INT. */
#ifndef INT_PACKET_H
#define INT_PACKET_H

#include "maps.h"
#include "lib/checksum.h"
#include "lib/parse.h"

#define IP_BASE 20 /* of an IPv4 header without options; the kernel makes room behind it */
#define IP6_BASE 40

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

static __always_inline enum int_skip skip_of(enum parsed parsed)
{
	switch (parsed) {
	case PARSED:
		return INT_SKIP_NONE;
	case PARSED_NOT_IP:
		return INT_SKIP_NOT_IP;
	case PARSED_TOO_SHORT:
		return INT_SKIP_TOO_SHORT;
	case PARSED_FRAGMENT:
		return INT_SKIP_FRAGMENT;
	case PARSED_EXTENSION:
		return INT_SKIP_EXTENSION;
	case PARSED_NOT_TCP_UDP:
		return INT_SKIP_NOT_TCP_UDP;
	default:
		return INT_SKIP_BAD_LENGTH;
	}
}

/* Fills *p, and says why the packet can bear no INT. */
static __always_inline enum int_skip parse(struct __sk_buff *skb, struct packet *p)
{
	struct cursor c;
	enum parsed parsed;

	pull(skb, MAX_HEADERS);
	c = skb_cursor(skb, 0);
	parsed = parse_ip(&c, p, NULL);
	if (!parsed)
		parsed = parse_l4(&c, p, NULL);
	if (parsed)
		return skip_of(parsed);
	/* The other form of 0, which no sender of TCP writes: it would come back as 0. */
	if (p->proto == IPPROTO_TCP && p->check == 0xffff)
		return INT_SKIP_BAD_CHECKSUM;
	return p->l3 + p->ip_len > skb->len ? INT_SKIP_TOO_SHORT : INT_SKIP_NONE;
}

static __always_inline bool is_report(const struct packet *p)
{
	return p->proto == IPPROTO_UDP && p->dport == bpf_htons(cfg_report_port);
}

#endif
