/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The slots of the ring, by index and by position. */
#ifndef BACKPACK_SLOT_H
#define BACKPACK_SLOT_H

#include "config.h"
#include "maps.h"

static __always_inline struct rdr_slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&ring, &index);
}

static __always_inline struct rdr_slot *slot_of(__u64 pos)
{
	return slot_at(pos & (cfg_slots - 1));
}

/* The low bits of the number of the ring's turn in which a slot had that position. */
static __always_inline __u8 turn_of(__u64 pos)
{
	return pos / cfg_slots;
}

#endif
