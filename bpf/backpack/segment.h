/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding the segment of a packet that has the bits, or the mark, of another one of its train. */
#ifndef BACKPACK_SEGMENT_H
#define BACKPACK_SEGMENT_H

#include "train.h"

/* Whether the slot of segment m belongs to the run that begins with slot s and holds
 * the packet with these tags. */
static __always_inline bool is_segment(const struct rdr_slot *s, const struct rdr_slot *m,
				       __u32 off, __u32 tag, __u32 tag2)
{
	return m && m->pos == s->pos + off && m->proto == s->proto && m->tag == tag &&
	       m->tag2 == tag2;
}

/*
 * A run that was cut where no port of ours saw it: inside a node, or by a queue with
 * SKB_GSO_TCP_FIXEDID, which gives every segment the ID of the first. Then each segment
 * has the mark, or the bits, of the run's first packet. TCP's sequence number identifies the
 * segment. Returns how many segments it is behind slot index, 0 if it is none. hdr: bytes
 * of IP and TCP header that each segment repeats.
 */
GLOBAL __u32 segment_by_sequence(__u32 index, __u32 tag, __u32 tag2, __u32 hdr)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *m;
	__u32 off;

	if (!s || s->proto != IPPROTO_TCP || s->len <= hdr)
		return 0;
	off = (tag - s->tag) / (s->len - hdr);
	if (off >= RDR_MAX_RUN)
		return 0;
	fill_if_member(index + off);
	m = slot_at((index + off) & (cfg_slots - 1));
	return is_segment(s, m, off, tag, tag2) ? off : 0;
}

/* The same by the true ID, which counts up from the first packet's: for UDP, whose segments
 * may have equal content. If the content could not be read, tag is the flow hash. */
GLOBAL __u32 segment_by_id(__u32 index, __u32 id, __u32 partial, __u32 tag, __u32 tag2)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *m;
	union rdr_bits first;
	__u32 off;

	if (!s || !own_bits(s, ID_COUNTS, &first))
		return 0;
	off = (__u16)(bpf_ntohs(id) - bpf_ntohs(first.id));
	if (off >= RDR_MAX_RUN)
		return 0;
	fill_if_member(index + off);
	m = slot_at((index + off) & (cfg_slots - 1));
	if (partial && m && m->flow_hash == tag) {
		tag = m->tag;
		tag2 = m->tag2;
	}
	return is_segment(s, m, off, tag, tag2) ? off : 0;
}

/* Whether the slot at pos is of the datagram with these tags. */
static __always_inline bool has_tags(__u64 pos, __u32 tag, __u32 tag2)
{
	struct rdr_slot *s = slot_of(pos);

	return s && s->pos == pos && s->tag == tag && s->tag2 == tag2;
}

/*
 * The same by content: all datagrams of a cut IPv6 train have the bits of the first one, and
 * no ID. (A source measures no train in which two datagrams begin alike.)
 */
GLOBAL __u32 segment_by_content(__u32 index, __u32 tag, __u32 tag2)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 k;

	if (!s || s->proto != IPPROTO_UDP || s->segs <= s->seg)
		return 0;
	FOR_RANGE(k, 1, s->segs - s->seg, cfg_max_segs, {
		if (has_tags(s->pos + k, tag, tag2))
			return k;
	});
	return 0;
}

#endif
