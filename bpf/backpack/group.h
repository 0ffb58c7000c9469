/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets for a group: multicast, broadcast, any frame that a bridge copies to all.
 * Bridges, multicast routers and macvlan make copies of them at any time, and each copy
 * has its own end: a tree. The differences:
 *
 *  - Bits. Each branch lowers the TTL by itself, while the slot has one set of bits. So
 *    the slot of a tree keeps the source's bits for good, and the packet itself carries
 *    how much its branch took from the TTL: its wire TTL is the band's top less that.
 *    Half a band is used for it, the other half is left for routers that are not
 *    attached. A packet for which that is too little is found by key, with true bits.
 *  - Life. Nothing says that all branches have ended. The slot of a tree is never
 *    done: it is reused after the timeout, and a copy is restored until then.
 *  - Losses belong to a branch: user space finds out to which.
 */
#ifndef BACKPACK_GROUP_H
#define BACKPACK_GROUP_H

#include "guid.h"
#include "train.h"

/* Whether the frame is for bridges themselves: 01:80:c2:00:00:00 to :0f, which no
 * bridge passes on (IEEE 802.1D, 7.12.6). l3: offset of the IP header. */
static __always_inline bool is_bridge_control(struct __sk_buff *skb, __u32 l3)
{
	__u8 dst[8] = {};

	/* 0: the device has no Ethernet header. */
	return l3 && !bpf_skb_load_bytes(skb, 0, dst, 6) && dst[0] == 0x01 && dst[1] == 0x80 &&
	       dst[2] == 0xc2 && !dst[3] && !dst[4] && !(dst[5] & 0xf0);
}

/*
 * Whether a packet for a group must be left as it is: packets of routers and switches to
 * their neighbours (224.0.0.0/24, RFC 5771, section 4; IGMP), any packet in a frame for a
 * bridge, and the reserved addresses (RFC 1112, section 4).
 */
GLOBAL int is_control(struct __sk_buff *skb, __u32 l3, __be32 daddr, __u32 proto)
{
	__u32 addr = bpf_ntohl(daddr);

	if (proto == IPPROTO_IGMP || addr >> 8 == 0xe00000 ||
	    (addr >= 0xf0000000 && addr != 0xffffffff))
		return true;
	return is_bridge_control(skb, l3);
}

/* Whether the node takes packets for a group that come by that port. */
static __always_inline bool is_member(__u32 port, __be32 group)
{
	struct rdr_local key = { .node = RDR_LOCAL_PORT | (port & 0xffff), .addr = group };

	return bpf_map_lookup_elem(&locals, &key) != NULL;
}

_Static_assert(RDR_ST_GROUP == 1 << 7, "is_tree(): nothing above it in a byte");

/* 1 for a tree, else 0; without a branch, for the verifier. */
static __always_inline __u32 is_tree(const struct rdr_slot *s)
{
	return s->state / RDR_ST_GROUP;
}

/* Makes a tree of the k-th packet of a run that is not a whole train. */
GLOBAL int grow_part(__u32 index, __u32 k, __u32 bits, __u32 id_rule)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *h;
	union rdr_bits b = { .word = bits };

	if (!s)
		return 0;
	h = head_of(s);
	if (h && h->segs > 1)
		cut_train(h);
	keep_own_bits(s, b, k, id_rule);
	s->state = (s->state & ~(RDR_ST_DONE | RDR_ST_LOST)) | RDR_ST_GROUP;
	return 0;
}

/* The same for a run that is a whole train: its head keeps the bits. (What fills its members takes
 * the state from there.) */
GLOBAL int grow_member(__u32 index)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (s)
		s->state = (s->state & ~(RDR_ST_DONE | RDR_ST_LOST)) | RDR_ST_GROUP;
	return 0;
}

/* Makes a tree of the packet in the slot at index: it was for one host and is now for a group
 * (a directed broadcast at its last router), and there are no copies yet. */
GLOBAL int grow_tree(__u32 index, __u32 n, __u32 bits, __u32 id_rule)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	union rdr_bits b = { .word = bits };
	__u32 k;

	if (!s)
		return 0;
	if (!is_whole(s, n)) {
		FOR_RANGE(k, 0, n, cfg_max_run, { grow_part(index + k, k, bits, id_rule); });
		return 0;
	}
	set_slot_bits(s, b);
	grow_member(index);
	if (!has_members(s))
		return 0;
	FOR_RANGE(k, 1, n, cfg_max_segs, { grow_member(index + k); });
	return 0;
}

#define BY_KEY 0xff

/*
 * How much a branch has taken from the TTL of the packet in the slot at index: its wire TTL is
 * lower by that. bits: the branch's. BY_KEY if they cannot be restored from that.
 */
GLOBAL __u32 tree_decrements(__u32 index, __u32 n, __u32 bits, __u32 id_rule)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	union rdr_bits b = { .word = bits }, kept;
	__u32 taken;

	if (!s)
		return BY_KEY;
	if (!is_tree(s)) {
		grow_tree(index, n, bits, id_rule);
		return 0;
	}
	/* All segments have the first one's ID, their slots have others. */
	if (id_rule == ID_FIXED || !own_bits(s, id_rule, &kept))
		return BY_KEY;
	taken = (__u8)(kept.ttl - b.ttl);
	if (kept.id != b.id || (kept.tos ^ b.tos) & dscp_mask() << 2 ||
	    2 * taken >= cfg_ttl_width + (cfg_ttl_width & 1))
		return BY_KEY;
	return taken;
}

#endif
