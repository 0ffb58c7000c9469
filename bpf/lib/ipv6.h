/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* IPv6's headers (RFC 8200), and the walk along its extension headers. */
#ifndef LIB_IPV6_H
#define LIB_IPV6_H

#include "base.h"

#include <linux/in.h>
#include <linux/in6.h>

/* The fixed header: what comes before the addresses. */
struct ip6_start {
	__u8 version_class; /* version:4 | upper half of the traffic class */
	__u8 class_label;   /* lower half | upper four bits of the flow label */
	__be16 label;	    /* its low 16 bits */
	__be16 payload_len;
	__u8 next;
	__u8 hop_limit;
};

/* The whole fixed header. Addresses are two words each, as they are in the packet. */
struct ip6_header {
	struct ip6_start start;
	__u64 saddr[2];
	__u64 daddr[2];
};

/* What follows an extension header's first byte depends on its type. */
struct ip6_extension {
	__u8 next;
	__u8 len;   /* units of 8 bytes beyond the first; AH: of 4 bytes less 2 */
	__be16 off; /* fragment header: offset:13 | 0:2 | M */
	__be32 id;  /* fragment header: Identification */
};

#define MAX_EXTENSIONS 6
#define MAX_L4 256     /* what follows the extension headers begins below this */
#define JUMBO_OPTION 8 /* bytes of the hop-by-hop header that Linux gives BIG TCP */

static __always_inline bool is_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_FRAGMENT ||
	       next == IPPROTO_AH || next == IPPROTO_DSTOPTS;
}

/* Bytes of extension header h, whose type is next. */
static __always_inline __u32 extension_bytes(const struct ip6_extension *h, __u8 next)
{
	if (next == IPPROTO_FRAGMENT)
		return sizeof(*h);
	return next == IPPROTO_AH ? (h->len + 2) * 4 : (h->len + 1) * 8;
}

/* Whether fragment header h is the first fragment's. */
static __always_inline bool is_first(const struct ip6_extension *h)
{
	return !(h->off & bpf_htons(0xfff8));
}

/* Bytes of the option that a BIG TCP skb has and none of its segments. */
static __always_inline __u8 jumbo_option(const struct ip6_start *ip)
{
	return ip->next == IPPROTO_HOPOPTS ? JUMBO_OPTION : 0;
}

/* What walk_extensions() found, in one scalar: offset of what follows the chain, its
 * protocol, offset of the fragment header (0: there is none). */
#define CHAIN_L4(c) ((c) & 0xffff)
#define CHAIN_PROTO(c) ((c) >> 16 & 0xff)
#define CHAIN_FRAGMENT(c) ((c) >> 24 & 0xffff)
#define CHAIN_BROKEN (1ULL << 62) /* it ends beyond the packet */
#define CHAIN_LONG (1ULL << 63)

/*
 * Walks the extension headers from off on; next is the first one's type, end where the
 * packet ends. A later fragment's payload is no header: the walk ends there.
 */
GLOBAL __u64 walk_extensions(struct __sk_buff *skb, __u32 off, __u32 end, __u32 next)
{
	__u64 frag_at = 0;
	struct ip6_extension h;
	bool more = true;

	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		if (off >= MAX_L4)
			return CHAIN_LONG;
		if (!more || !is_extension(next))
			return off | next << 16 | frag_at << 24;
		if (off + sizeof(h) > end || bpf_skb_load_bytes(skb, off, &h, sizeof(h)))
			return CHAIN_BROKEN;
		if (next == IPPROTO_FRAGMENT) {
			frag_at = off;
			more = is_first(&h);
		}
		off += extension_bytes(&h, next);
		if (off > end)
			return CHAIN_BROKEN;
		next = h.next;
	}
	return CHAIN_LONG;
}

#endif
