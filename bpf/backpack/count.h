/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Named counters: every packet that is not measured has one. */
#ifndef BACKPACK_COUNT_H
#define BACKPACK_COUNT_H

#include "maps.h"

static __always_inline void count(enum rdr_counter which, __u64 n)
{
	__u32 key = which;
	__u64 *value = bpf_map_lookup_elem(&counters, &key);

	/* Not atomic: a kfree_skb in a hard interrupt may cost one count. The
	 * atomic add costs 5 ns on every packet. */
	if (value)
		*value += n;
}

#endif
