/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The GUID's layout: slot index <-> bits of IP ID, DSCP and TTL (config.h). The
 * only place that knows it; pkg/vnet/datapath/program/layout.go makes the tables. */
#ifndef BACKPACK_GUID_H
#define BACKPACK_GUID_H

#include "packet.h"

#define NO_INDEX 0xffffffff

static __always_inline __u32 dscp_mask(void)
{
	return (1u << cfg_dscp_bits) - 1;
}

/*
 * The index that these bits stand for; NO_INDEX if the TTL is in no band, or the index
 * beyond the ring. *decrements is how often the TTL was lowered since it was written.
 */
static __always_inline __u32 guid_decode(union rdr_bits bits, __u32 *decrements)
{
	__u32 band = cfg_ttl_band[bits.ttl];
	__u32 index;

	if (!band)
		return NO_INDEX;
	band--;
	/* 5.10 does not see that a byte less one is a byte. */
	asm volatile("%0 &= 0xff" : "+r"(band));
	index = bpf_ntohs(bits.id) | ((bits.tos >> 2) & dscp_mask()) << 16 |
		band << (16 + cfg_dscp_bits);
	if (index >= cfg_slots)
		return NO_INDEX;
	*decrements = (__u8)(cfg_band_top[band] - bits.ttl);
	return index;
}

/* Bits that carry index; ECN and the DSCP bits that are not ours stay. */
static __always_inline union rdr_bits guid_encode(__u32 index, __u8 tos)
{
	union rdr_bits bits;

	bits.id = bpf_htons(index);
	bits.tos = (tos & ~(dscp_mask() << 2)) | ((index >> 16) & dscp_mask()) << 2;
	bits.ttl = cfg_band_top[(index >> (16 + cfg_dscp_bits)) & 0xff];
	return bits;
}

/* The index in skb->mark, which must have bits of ours. */
static __always_inline __u32 marked_index(__u32 mark)
{
	return ((mark & cfg_mark_mask) >> cfg_mark_shift) - 1;
}

/* The true TOS of a packet whose header carries a GUID: our bits as kept, ECN and
 * the others as the header has them (a queue may have set CE). */
static __always_inline __u8 true_tos(__u8 kept, __u8 header)
{
	__u8 ours = dscp_mask() << 2;

	return (kept & ours) | (header & ~ours);
}

#endif
