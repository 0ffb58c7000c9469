/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets whose slots others have taken while they were in flight. A packet with the bits of a slot and other
 * content is the slot's, if all else agrees (content.h): its content may have been changed. But it may also be
 * another packet of the flow, and the slot's may come behind it. So what the slot said of its packet until then is
 * kept. A packet that has the bits and that content is restored by it, like one that is late, and is an
 * unknown packet from then on.
 */
#ifndef BACKPACK_REPLACED_H
#define BACKPACK_REPLACED_H

#include "train.h"

/* Keeps what restores the packet in the slot at index, which another one takes at that port. Its header spells the
 * slot at bearer on the wire: its own, or that of its train's head, where all segments have one ID or label. */
GLOBAL int keep_replaced(__u32 index, __u32 bearer, __u32 port_no)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	struct rdr_spelled_key key = {};
	struct rdr_spelled kept = {};
	const struct rdr_spelled *before;
	union rdr_bits b;

	if (!s || !own_bits(s,
			    s->state & RDR_ST_IPV6 ? ID_SHARED :
			    index == bearer	   ? ID_COUNTS :
						     ID_FIXED,
			    &b))
		return 0;
	describe(s, bearer, b.word, &key, &kept);
	kept.port = port_no;
	kept.at = bpf_ktime_get_ns() >> RDR_COARSE;
	/* One of another length was the first to take the slot of the packet with that content. */
	before = bpf_map_lookup_elem(&replaced, &key);
	if (before && before->turn == kept.turn && before->len != kept.len)
		return 0;
	bpf_map_update_elem(&replaced, &key, &kept, BPF_ANY);
	return 0;
}

/* Whether the packet that was replaced then is no longer in flight: it would be late twice over. Most are never seen
 * again, since what took their slots was the packet itself, changed. */
static __always_inline bool is_long_gone(const struct rdr_spelled *kept)
{
	__u32 age = (__u32)(bpf_ktime_get_ns() >> RDR_COARSE) - kept->at;

	return age > cfg_timeout_ns >> (RDR_COARSE - 1);
}

/* The length of the packet with that content which the slot at pos was of until another one took it; else 0. */
GLOBAL __u32 len_before(__u64 pos, __u32 flow, __u32 tag, __u32 tag2)
{
	struct rdr_spelled_key key = {
		.index = pos & (cfg_slots - 1), .flow_hash = flow, .tag = tag, .tag2 = tag2
	};
	const struct rdr_spelled *kept = bpf_map_lookup_elem(&replaced, &key);

	return kept && kept->turn == turn_of(pos) ? kept->len : 0;
}

#endif
