/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet that was found, in one number. */
#ifndef BACKPACK_FOUND_H
#define BACKPACK_FOUND_H

#include "train.h"

/*
 * A packet that was found is passed on as one number, so that the verifier sees one state
 * instead of many: index:32 | decrements:8 | id_rule:8 | FOUND*. 0: nothing.
 */
#define FOUND_SHIFT 48
#define FOUND (1ULL << FOUND_SHIFT)
#define FOUND_BY_KEY_SHIFT 49
#define FOUND_BY_BITS_SHIFT 50
/* Not the packet, but the one inside it: index only. */
#define FOUND_INSIDE_SHIFT 51
#define FOUND_INSIDE (1ULL << FOUND_INSIDE_SHIFT)

/* Nothing was found, though the bits look like ours: what to count. */
#define FOUND_MISSED_SHIFT 52

/* Only in TC: kfree_skb and queues look for the same packet again. */
static __always_inline void count_missed(__u64 r, __u32 n)
{
	__u32 why = r >> FOUND_MISSED_SHIFT;

	if (why)
		count(why, n);
}

static __always_inline __u64 pack_found(const struct found *f)
{
	return f->index | (__u64)(f->decrements & 0xff) << 32 | (__u64)f->id_rule << 40 | FOUND |
	       (__u64)f->by_key << FOUND_BY_KEY_SHIFT | (__u64)f->by_bits << FOUND_BY_BITS_SHIFT;
}

static __always_inline bool unpack_found(__u64 r, struct found *f)
{
	f->index = r;
	f->inside = r >> FOUND_INSIDE_SHIFT & 1;
	if (!(r & FOUND))
		return false;
	f->decrements = (__u8)(r >> 32);
	f->id_rule = (__u8)(r >> 40);
	f->by_key = r >> FOUND_BY_KEY_SHIFT & 1;
	f->by_bits = r >> FOUND_BY_BITS_SHIFT & 1;
	f->slot = slot_at(f->index & (cfg_slots - 1));
	return f->slot;
}

#endif
