/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What to measure: the expression of attach --watch. */
#ifndef BACKPACK_WATCH_H
#define BACKPACK_WATCH_H

#include "packet.h"
#include "lib/watched.h"

/* The length is that of the record: IP bytes of all segments. */
static __always_inline bool is_watched(struct __sk_buff *skb, const struct packet *p)
{
	__u32 hdr = repeated_hdr(p);

	return !cfg_watch || watched(skb, p->l3, p->len + (p->n - 1) * hdr);
}

#endif
