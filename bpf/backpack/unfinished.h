/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets that were not seen to their end when others take their slots: late.h. */
#ifndef BACKPACK_UNFINISHED_H
#define BACKPACK_UNFINISHED_H

#include "slot.h"

/* 1 if the packet in slot s was not seen to its end, and bears the slot's index, else 0. (A tree
 * has several ends.) Without a branch, for the verifier. */
static __always_inline __u32 is_unfinished(const struct rdr_slot *s)
{
	__u32 over = s->state & (RDR_ST_DONE | RDR_ST_KEYED | RDR_ST_GROUP);

	return ((s->pos | -s->pos) >> 63) & (over - 1) >> 31;
}

/* What is kept of the packet in slot s, whose header spells that index on the wire, and with what key. bits: its
 * true ones. */
static __always_inline void describe(const struct rdr_slot *s, __u32 index, __u32 bits,
				     struct rdr_spelled_key *key, struct rdr_spelled *kept)
{
	key->index = index & (cfg_slots - 1);
	key->flow_hash = s->flow_hash;
	key->tag = s->tag;
	key->tag2 = s->tag2;
	kept->bits = bits;
	kept->len = s->len;
	kept->proto = s->proto;
	kept->state = s->state & RDR_ST_IPV6;
	kept->cut = s->cut & RDR_MINUS_ZERO;
	kept->turn = turn_of(s->pos);
	kept->port = RDR_NO_PORT;
}

/* Keeps what restores the packet in the slot at index, which another packet may take from now on. */
GLOBAL int keep_one(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_spelled_key key = {};
	struct rdr_spelled kept = {};

	if (!s)
		return 0;
	describe(s, index, *(__u32 *)&s->id, &key, &kept);
	bpf_map_update_elem(&spelled, &key, &kept, BPF_ANY);
	return 0;
}

/* The same for some slots of a window: bit k is for the slot at pos + k. */
GLOBAL int keep_unfinished(__u64 pos, __u32 slots)
{
	for (__u32 k = 0; k < RDR_WINDOW; k++)
		if (slots >> k & 1)
			keep_one(pos + k);
	return 0;
}

#endif
