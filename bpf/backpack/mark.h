/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding the slot of a packet inside a node by its mark. */
#ifndef BACKPACK_MARK_H
#define BACKPACK_MARK_H

#include "find.h"
#include "found.h"

/* What found_by_mark() compares of a packet, in three scalars. */
struct marked {
	__u64 index_len; /* the mark's index, first_len():19, fragment offset:13 */
	__u64 tags;	 /* tag, tag2; flow hash of a partial packet */
	__u64 rest;	 /* ID:16 | hdr:16 | protocol:8 | MARKED_*:8 | packets:16 */
};

#define MARKED_PARTIAL (1ULL << 40)
#define MARKED_FRAGMENT (1ULL << 41)
#define MARKED_V6 (1ULL << 42)
#define MARKED_N_SHIFT 48
#define MARKED_LEN 0x7ffff
#define MARKED_OFFSET_SHIFT 51

static __always_inline struct marked pack_marked(__u32 index, const struct packet *p)
{
	struct marked m = {
		.index_len = index | (__u64)(first_len(p) & MARKED_LEN) << 32 |
			     (__u64)(p->frag & IP_OFFSET) << MARKED_OFFSET_SHIFT,
		.tags = p->tag | (__u64)p->tag2 << 32,
		.rest = p->bits.id | (__u64)(repeated_hdr(p) & 0xffff) << 16 |
			(__u64)p->proto << 32 | (p->v6 ? MARKED_V6 : 0) |
			(__u64)(p->n & 0xffff) << MARKED_N_SHIFT,
	};

	if (p->partial) {
		m.tags = p->flow;
		m.rest |= MARKED_PARTIAL;
	}
	if (is_fragment(p))
		m.rest |= MARKED_FRAGMENT;
	return m;
}

/* same_content() of a packed packet. */
static __always_inline bool same_marked(const struct rdr_slot *s, __u64 tags, __u64 rest)
{
	/* A translator in the node may have turned one IP version into the other. */
	if (s->proto != (__u8)(rest >> 32) || !(s->state & RDR_ST_IPV6) != !(rest & MARKED_V6))
		return false;
	if (rest & MARKED_PARTIAL)
		return s->flow_hash == (__u32)tags;
	return s->tag == (__u32)tags && s->tag2 == tags >> 32;
}

/* How many segments the packet is behind slot s at index, whose mark it has: in a train that
 * was cut inside the node, every segment has the mark of the first. */
static __always_inline __u32 marked_segment(const struct rdr_slot *s, __u32 index, __u64 tags,
					    __u64 rest)
{
	bool partial = rest & MARKED_PARTIAL, v6 = rest & MARKED_V6;

	if (s->proto == IPPROTO_TCP && !partial)
		return segment_by_sequence(index, tags, tags >> 32, rest >> 16 & 0xffff);
	if (v6)
		return segment_by_content(index, tags, tags >> 32);
	if (s->proto != IPPROTO_TCP && s->proto != IPPROTO_UDP)
		return 0;
	return segment_by_id(index, rest & 0xffff, partial, tags, tags >> 32);
}

/* Whether a fragment has the same offset as the one in slot s. If the kernel joins fragments
 * and cuts them again, all of them have the mark of the first. */
static __always_inline bool same_offset(const struct rdr_slot *s, __u32 offset, __u64 rest)
{
	__u32 off = bpf_ntohs(s->frag_off);

	if (!(rest & MARKED_FRAGMENT) || s->seg)
		return true;
	return !(((rest & MARKED_V6 ? off >> 3 : off) ^ offset) & IP_OFFSET);
}

/* The index of the slot of a packet by the index in its mark, NO_INDEX if the mark is
 * not ours. */
GLOBAL __u32 marked_slot(__u64 index_len, __u64 tags, __u64 rest, __u64 now)
{
	__u32 index = index_len, len = index_len >> 32 & MARKED_LEN;
	struct rdr_slot *s;

	if (index >= cfg_slots)
		return NO_INDEX;
	fill_if_member(index);
	s = slot_at(index);
	if (!s || !slot_alive(s, now))
		return NO_INDEX;
	if ((!(rest & MARKED_V6) && s->id != (__be16)rest) || !same_marked(s, tags, rest)) {
		index = (index + marked_segment(s, index, tags, rest)) & (cfg_slots - 1);
		s = slot_at(index);
	}
	if (!s || !same_marked(s, tags, rest) ||
	    !same_offset(s, index_len >> MARKED_OFFSET_SHIFT, rest))
		return NO_INDEX;
	if (s->len != len && !(rest & MARKED_FRAGMENT) &&
	    !(rest & MARKED_PARTIAL && rest >> MARKED_N_SHIFT > 1))
		return NO_INDEX;
	return index;
}

/* marked_slot() in the common case, without a call: s is the slot of a lone packet, this one, which
 * is not done. */
static __always_inline bool is_marked_alone(const struct rdr_slot *s, const struct packet *p,
					    __u64 now)
{
	return p->n == 1 && !p->partial && !is_fragment(p) && !p->v6 && slot_alive(s, now) &&
	       s->id == p->bits.id && s->tag == p->tag && s->tag2 == p->tag2 &&
	       s->proto == p->proto && !(s->state & (RDR_ST_IPV6 | RDR_ST_DONE)) &&
	       s->len == p->len;
}

/* Finds a packet with a mark. */
static __always_inline __u64 found_by_mark(__u32 mark, const struct packet *p, __u64 now)
{
	const struct rdr_slot *s;
	__u32 index = marked_index(mark);
	struct marked m;

	s = index < cfg_slots ? slot_at(index) : NULL;
	if (!s || !is_marked_alone(s, p, now)) {
		m = pack_marked(index, p);
		index = marked_slot(m.index_len, m.tags, m.rest, now);
		if (index == NO_INDEX)
			return 0;
	}
	return index | (__u64)(p->v6 ? ID_SHARED : ID_COUNTS) << 40 | FOUND;
}

#endif
