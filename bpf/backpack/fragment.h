/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fragments that a node makes of a packet, or joins and cuts again: they have the mark of the
 * packet's first one. */
#ifndef BACKPACK_FRAGMENT_H
#define BACKPACK_FRAGMENT_H

#include "find.h"
#include "found.h"

/*
 * The index of the slot of a fragment that was joined with others inside the node, got other
 * addresses (NAT) and was cut again; NO_INDEX if there is none. It has the mark of the first
 * fragment, whose slot is at index. Its key has the addresses that the first fragment had before.
 * rest: of its key.
 */
GLOBAL __u32 find_cut_again(__u32 index, __u64 rest, __u64 tags, __u64 now)
{
	struct rdr_slot *s;
	struct rdr_key key;
	__u64 *pos;

	fill_if_member(index);
	s = slot_at(index & (cfg_slots - 1));
	if (!s || !slot_alive(s, now))
		return NO_INDEX;
	key = unpack_key(addrs_before(index), rest, content_word(tags, tags >> 32));
	pos = bpf_map_lookup_elem(&keys, &key);
	if (!pos)
		return NO_INDEX;
	s = slot_of(*pos);
	if (!s || s->pos != *pos || !slot_alive(s, now) || s->tag != (__u32)tags ||
	    s->tag2 != tags >> 32)
		return NO_INDEX;
	return *pos & (cfg_slots - 1);
}

/* Whether a fragment that leaves by port may have been cut, in its node, from the packet in the
 * slot at index: a socket may set any mark. form: protocol:8, RDR_ST_IPV6 or 0:8. */
GLOBAL int may_be_cut_from(__u32 index, __u32 form, __u32 port_no, __u64 now)
{
	struct rdr_slot *s;

	if (index >= cfg_slots)
		return false;
	fill_if_member(index);
	s = slot_at(index);
	if (!s || !slot_alive(s, now) || s->proto != (form & 0xff) ||
	    (s->state & RDR_ST_IPV6) != form >> 8)
		return false;
	return (s->state & RDR_ST_FULL) || (look_at_visits(index, port_no) & VISIT_NODE);
}

/* Whether p, which leaves by port, is a fragment, but not the first, of the packet whose mark
 * it has. */
static __always_inline bool is_cut_off(const struct packet *p, __u32 mark, __u32 port_no, __u64 now)
{
	return (p->frag & IP_OFFSET) &&
	       may_be_cut_from(marked_index(mark), p->proto | (p->v6 ? RDR_ST_IPV6 << 8 : 0),
			       port_no, now);
}

/* Finds such a fragment, if neither its mark nor its key names it: find_cut_again(). */
static __always_inline __u64 found_cut(__u32 mark, const struct packet *p, __u64 now)
{
	__u32 index;

	if (p->v6)
		return 0;
	index = find_cut_again(marked_index(mark), key_rest(p, p->bits.id),
			       p->tag | (__u64)p->tag2 << 32, now);
	return index == NO_INDEX ? 0 : index | (__u64)ID_COUNTS << 40 | FOUND;
}

#endif
