/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What to measure: the expression of attach --watch. */
#ifndef BACKPACK_WATCH_H
#define BACKPACK_WATCH_H

#include "packet.h"

/*
 * Whether the expression matches the packet whose IP header begins at l3; len: the length for
 * the expression. pkg/vnet/datapath replaces the body by the compiled expression when it loads
 * the programs, so the compiler must not know the result.
 */
GLOBAL int watched(struct __sk_buff *skb, __u32 l3, __u32 len)
{
	int verdict = 1;

	asm volatile("" : "+r"(verdict) : "r"(skb), "r"(l3), "r"(len));
	return verdict;
}

/* The length is that of the record: IP bytes of all segments. */
static __always_inline bool is_watched(struct __sk_buff *skb, const struct packet *p)
{
	__u32 hdr = repeated_hdr(p);

	return !cfg_watch || watched(skb, p->l3, p->len + (p->n - 1) * hdr);
}

#endif
