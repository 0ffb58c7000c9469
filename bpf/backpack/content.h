/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finding a packet whose bits or content have changed. Something between two of our ports may set the TTL: a rule of a
 * bridge, a router that is not attached, or, in a node that carries the header, its own rules. Then
 * the header names no slot, or another packet's, and only the ID is left of the index. All slots
 * with that ID are tried. Exactly one must be of a packet with this content and flow, in flight to
 * this port.
 */
#ifndef BACKPACK_CONTENT_H
#define BACKPACK_CONTENT_H

#include "late.h"

/* How many values the upper bits of an index may have. */
#define MAX_UPPER 256

/* A TTL that is at most so far below the one that was written was lowered, not set. */
#define FEW_ROUTERS 8

/* Whether the packet in slot s may be the one with these tags. (Any segment of a train may have
 * the bits: changed_slot() finds out which one.) */
static __always_inline bool is_like(const struct rdr_slot *s, __u64 tags, __u32 proto, __u32 flow)
{
	return s->pos && s->flow_hash == flow && s->proto == proto &&
	       (s->segs > 1 || (s->tag == (__u32)tags && s->tag2 == tags >> 32));
}

/* One step of slot_by_content(): 1 + index if such a packet is there, else 0. */
GLOBAL __u64 like_at(__u32 index, __u64 tags, __u32 proto, __u32 flow)
{
	struct rdr_slot *s;

	if (index >= cfg_slots)
		return 0;
	fill_if_member(index);
	s = slot_at(index);
	return s && is_like(s, tags, proto, flow) ? 1ULL + index : 0;
}

/* The index of the only slot of such a packet with that ID, else NO_INDEX. id_proto: ID:16 |
 * protocol:8. */
GLOBAL __u32 slot_by_content(__u32 id_proto, __u64 tags, __u32 flow)
{
	__u64 found = 0, one;
	__u32 k;

	/* 2^16 slots have different IDs. */
	for (k = 0; k < MAX_UPPER && k <= (cfg_slots - 1) >> 16; k++) {
		one = like_at(bpf_ntohs(id_proto) | k << 16, tags, id_proto >> 16 & 0xff, flow);
		if (one && found)
			return NO_INDEX;
		found += one;
	}
	return found ? found - 1 : NO_INDEX;
}

/* find_by_bits() of a packet whose bits should be those of index; else NO_INDEX. size: as in
 * bits_len of wire_by_bits(). */
GLOBAL __u32 changed_slot(__u32 index, __u64 tags, __u64 rest, __u32 size, __u64 now)
{
	__u32 hdr = rest >> 24 & 0x3ff, n = rest >> 34 & 0x7ff, v6 = rest >> 45 & 1;
	struct rdr_slot *s = slot_at(index);

	if (s && (s->tag != (__u32)tags || s->tag2 != tags >> 32)) {
		if (v6 && s->proto == IPPROTO_UDP)
			index += segment_by_content(index, tags, tags >> 32);
		else
			index += segment_by_sequence(index, tags, tags >> 32, hdr);
		index &= cfg_slots - 1;
		s = slot_at(index);
	}
	if (!s || s->tag != (__u32)tags || s->tag2 != tags >> 32 || !slot_alive(s, now) ||
	    s->len != (n > 1 ? hdr + size : size) ||
	    !may_be_here_done(index, now, EXPECT_OURS, v6 ? RDR_ST_IPV6 : 0) ||
	    (n > 1 && !is_run(index, run_form(n, hdr))))
		return NO_INDEX;
	return index;
}

/* Whether any packet of ours may be in flight: sources mark, or did so within the timeout. */
static __always_inline bool may_be_under_way(__u64 now)
{
	struct rdr_control *ctl;
	__u32 zero = 0;

	ctl = bpf_map_lookup_elem(&control, &zero);
	return ctl && (now < cfg_timeout_ns || is_leased(&ctl->lease_ns, now - cfg_timeout_ns));
}

/* Whether a packet may have bits of ours here at all, whatever they are; rest: as below. */
static __always_inline bool may_have_borne(__u64 rest)
{
	__u32 v6 = rest >> 45 & 1;

	return (rest & (IP_DF | IP_MF | IP_OFFSET)) == IP_DF && (rest >> 46 & 3) == EXPECT_OURS &&
	       (!v6 || cfg_ip6 == RDR_IP6_LABEL) && !is_true_link(WIRE_FLAGS(rest), v6);
}

/* What a packet is found by besides its content: flow hash:32 | port:16 | CHANGED_*. */
#define CHANGED_PORT_SHIFT 32
#define CHANGED_WITHIN_SHIFT 48	    /* it was in the port's node */
#define CHANGED_MARKED (1ULL << 49) /* the slot is known by the mark; with CHANGED_WITHIN_SHIFT */

/* bits_len, tags, rest: as wire_by_bits() takes them. */
GLOBAL __u64 wire_by_content(__u64 bits_len, __u64 tags, __u64 rest, __u64 now, __u64 where)
{
	union rdr_bits bits = { .word = bits_len }, wire;
	__u64 decrements = TTL_SET, id_rule;
	__u32 first, index;

	if (!may_have_borne(rest) || !may_be_under_way(now))
		return 0;
	first = slot_by_content((bits_len & 0xffff) | (rest >> 16 & 0xff) << 16, tags, where);
	if (first == NO_INDEX)
		return 0;
	index = changed_slot(first, tags, rest, bits_len >> 32 & 0x7fffffff, now);
	if (index == NO_INDEX ||
	    !is_due(index, where >> CHANGED_PORT_SHIFT & 0xffff, where >> CHANGED_WITHIN_SHIFT))
		return 0;
	wire = guid_encode(first, bits.tos);
	/* Only the DSCP was set; or, in the paper's layout, a hidden router lowered the TTL. */
	if (cfg_ttl_band[bits.ttl] == cfg_ttl_band[wire.ttl] ||
	    (cfg_ttl_width == 1 && (__u8)(wire.ttl - bits.ttl) < FEW_ROUTERS))
		decrements = (__u8)(wire.ttl - bits.ttl);
	id_rule = rest >> 45 & 1 ? ID_SHARED : index == first ? ID_COUNTS : ID_FIXED;
	count(RDR_C_TTL_SET, rest >> 34 & 0x7ff);
	return index | decrements << 32 | id_rule << 40 | FOUND | 1ULL << FOUND_BY_BITS_SHIFT;
}

/*
 * Something between two of our ports, or in a node that carries the header, may also change the
 * content: a tc program behind our hook, a bridge's rule for options of TCP. Then the header names
 * the slot, and the flow is the slot's, which must be in flight to this port. Its length may have
 * changed too.
 */

/* How many segments a packet of TCP with that sequence number is behind slot s, whose bits it has:
 * as segment_by_sequence(), but no other content shows it. */
static __always_inline __u32 segment_by_place(struct rdr_slot *s, __u32 seq)
{
	struct rdr_slot *h = s->proto == IPPROTO_TCP && s->segs > 1 ? head_of(s) : NULL;
	__u32 off;

	if (!h || !h->gso_size)
		return 0;
	off = (seq - s->tag) / h->gso_size;
	return s->seg + off < s->segs ? off : 0;
}

/* The packet in slot s has other content from now on, and is longer by so many bytes. */
static __always_inline void retag(struct rdr_slot *s, __u32 tag, __u32 tag2, __u32 grown)
{
	WRITE_ONCE(s->tag, tag);
	WRITE_ONCE(s->tag2, tag2);
	WRITE_ONCE(s->len, s->len + grown);
}

/* The packet in the slot at index has other content from now on. What it was is kept: it may be another one. */
GLOBAL int take_one(__u32 index, __u32 tag, __u32 tag2, __u32 grown, __u32 port_no)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s)
		return 0;
	fill_part(s, index); /* members take from the head what it had */
	keep_replaced(index, index, port_no);
	if (s->seg)
		keep_replaced(index, index - s->seg, port_no);
	retag(s, tag, tag2, grown);
	return 0;
}

/*
 * The packets of an skb, the first of which is in the slot at index, have other content from now on, and are counted:
 * by it they are known from that port on. In trains of datagrams only the first one's can be seen. tags,
 * rest, size: as wire_by_bits() takes them.
 */
GLOBAL int take_content(__u32 index, __u64 tags, __u64 rest, __u32 size, __u32 port_no)
{
	__u32 hdr = rest >> 24 & 0x3ff, n = rest >> 34 & 0x7ff, k, grown;
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	count(RDR_C_CONTENT_CHANGED, n);
	if (!s)
		return 0;
	grown = (n > 1 ? hdr + size : size) - s->len;
	take_one(index, tags, tags >> 32, grown, port_no);
	if (s->proto != IPPROTO_TCP)
		return 0;
	FOR_RANGE(k, 1, n, cfg_max_run,
		  { take_one(index + k, tags + k * size, tags >> 32, grown, port_no); });
	return 0;
}

/* Whether the packet in slot s may be one of that protocol, flow hash and IP version whose content
 * has changed. A key has the content; a tree is in many places. */
static __always_inline bool may_be_in(struct rdr_slot *s, __u64 rest, __u32 flow, __u64 now)
{
	return slot_alive(s, now) && s->flow_hash == flow && s->proto == (__u8)(rest >> 16) &&
	       !(s->state & (RDR_ST_KEYED | RDR_ST_GROUP)) && !(story_state(s) & RDR_ST_DONE) &&
	       !(s->state & RDR_ST_IPV6) == !(rest >> 45 & 1);
}

/* Whether what is left of the content says that it is the packet in slot s: its length; or TCP's
 * sequence number, since options may make it longer or shorter. */
static __always_inline bool is_alike(const struct rdr_slot *s, __u32 tag, __u32 len)
{
	return s->len == len || (s->proto == IPPROTO_TCP && s->tag == tag);
}

/* Whether the packet in slot s is on a link to that port, and something was changed from this content at another one:
 * then here it may have been changed back. */
static __always_inline bool is_changed_back(struct rdr_slot *s, const struct rdr_spelled *kept,
					    __u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);

	return port && kept->port != RDR_NO_PORT && kept->port != port_no && is_next(s, port->node);
}

/* Whether what is kept is of an earlier turn of the ring, in which another one took the slot. That packet need not be
 * in flight any more, and the one that has the slot now may have got the same content. */
static __always_inline bool is_of_earlier_turn(const struct rdr_slot *s,
					       const struct rdr_spelled *kept)
{
	return kept->port != RDR_NO_PORT && kept->turn != turn_of(s->pos);
}

/*
 * Whether a packet that has the bits of the slot at index was that slot's before: it is late, or comes behind one that
 * has taken its slot. (A call: its caller has no room for a packet on the stack.) bits_len, tags, rest, where: as
 * wire_by_flow() takes them.
 */
GLOBAL int had_slot(__u32 index, __u64 bits_len, __u64 tags, __u64 rest, __u64 where)
{
	struct packet p = unpack_wire(bits_len, tags, rest);
	const struct rdr_spelled *kept = kept_of(&p, index, where);
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return kept && s && !is_of_earlier_turn(s, kept) &&
	       !is_changed_back(s, kept, where >> CHANGED_PORT_SHIFT & 0xffff);
}

/*
 * Whether a packet with the slot at that index is the one in it, changed, or in a cut train one behind
 * it. Returns its index | ID rule << 40 | FOUND, or 0. index_size: the index, and the size as in
 * bits_len of wire_by_bits(); tags, rest: as there.
 */
GLOBAL __u64 changed_at(__u64 index_size, __u64 tags, __u64 rest, __u64 now, __u64 where)
{
	__u32 n = rest >> 34 & 0x7ff, hdr = rest >> 24 & 0x3ff, v6 = rest >> 45 & 1, off;
	__u32 index = (__u32)index_size & (cfg_slots - 1);
	__u32 len = (index_size >> 32 & 0x7fffffff) + (n > 1 ? hdr : 0), flow = where;
	struct rdr_slot *s;

	fill_if_member(index);
	s = slot_at(index);
	if (!s || !s->pos)
		return 0;
	off = n > 1 ? 0 : segment_by_place(s, tags);
	index += off;
	fill_if_member(index);
	s = slot_at(index & (cfg_slots - 1));
	/* A node may also translate addresses. Then TCP's sequence number identifies it. */
	if (s && where & CHANGED_MARKED && s->proto == IPPROTO_TCP && s->tag == (__u32)tags)
		flow = s->flow_hash;
	if (!s || !may_be_in(s, rest, flow, now) || !is_alike(s, tags, len) ||
	    (n > 1 && !is_run(index, run_form(n, hdr))) ||
	    !is_due(index, where >> CHANGED_PORT_SHIFT & 0xffff, where >> CHANGED_WITHIN_SHIFT & 1))
		return 0;
	return index | (__u64)(v6 ? ID_SHARED : off ? ID_FIXED : ID_COUNTS) << 40 | FOUND;
}

/* bits_len, tags, rest: as wire_by_bits() takes them. */
GLOBAL __u64 wire_by_flow(__u64 bits_len, __u64 tags, __u64 rest, __u64 now, __u64 where)
{
	union rdr_bits bits = { .word = bits_len };
	__u32 decrements = 0, index;
	struct rdr_slot *s;
	__u64 r;

	index = guid_decode(bits, &decrements);
	if (index == NO_INDEX || !may_have_borne(rest) || !may_be_under_way(now))
		return 0;
	fill_if_member(index);
	s = slot_at(index & (cfg_slots - 1));
	if (!s || !s->pos || s->flow_hash != (__u32)where)
		return 0;
	if (had_slot(index, bits_len, tags, rest, where))
		return 0;
	r = changed_at(index | (bits_len >> 32 << 32), tags, rest, now, where);
	return r ? r | (__u64)decrements << 32 | 1ULL << FOUND_BY_BITS_SHIFT : 0;
}

/* Finds a packet that comes in by that port, or leaves by it, by its content, or (that has
 * changed) by its flow. within: it was in the port's node, which carries the header. */
static __always_inline __u64 found_changed(const struct wire *w, __u32 flow, __u32 port_no,
					   __u32 within, __u64 now)
{
	__u64 where = flow | (__u64)port_no << CHANGED_PORT_SHIFT |
		      (__u64)within << CHANGED_WITHIN_SHIFT,
	      r;

	r = wire_by_content(w->bits_len, w->tags, w->rest, now, where);
	if (r)
		return r;
	r = wire_by_flow(w->bits_len, w->tags, w->rest, now, where);
	if (r)
		take_content(r, w->tags, w->rest, w->bits_len >> 32 & 0x7fffffff, port_no);
	return r;
}

#endif
