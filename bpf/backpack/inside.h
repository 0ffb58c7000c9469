/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finding the slot of a packet inside a node: by its mark, and what tunnels make of
 * that; without one, as it leaves. */
#ifndef RADAR_INSIDE_H
#define RADAR_INSIDE_H

#include "find.h"

/* What found_by_mark() compares of a packet, in three scalars. */
struct marked {
	__u64 index_len; /* the mark's index, first_len():19, fragment offset:13 */
	__u64 tags;	 /* tag, tag2; of a packet that is partial its flow hash */
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
	/* A translator in the node may have made the one version of the other. */
	if (s->proto != (__u8)(rest >> 32) || !(s->state & RDR_ST_IPV6) != !(rest & MARKED_V6))
		return false;
	if (rest & MARKED_PARTIAL)
		return s->flow_hash == (__u32)tags;
	return s->tag == (__u32)tags && s->tag2 == tags >> 32;
}

/* How many segments the packet lies behind slot s at index, whose mark it bears: a train
 * that was cut inside the node has the mark of its first packet on every piece. */
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

/* Whether a fragment has the place in its packet that the one in slot s has. Who puts
 * fragments together and cuts them again gives all of them the mark of the first. */
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

/*
 * Tunnels: what a packet's mark bears is inherited by the packet around it, and stays
 * on it when that is taken off again.
 */

/* The position of the packet with that index in its mark, if what leaves now by port
 * is the packet around it: it was last seen leaving by a tunnel of this node. 0: not. */
GLOBAL __u64 packet_inside(__u32 index, __u32 port, __u64 now)
{
	const struct rdr_port *here, *tunnel;
	struct rdr_slot *s;
	__u32 entrance;
	__u64 cell;

	if (index >= cfg_slots)
		return 0;
	s = slot_at(index);
	if (!s || !slot_alive(s, now))
		return 0;
	cell = last_event(s);
	if (!went_out(cell))
		return 0;
	entrance = cell_port(cell);
	tunnel = bpf_map_lookup_elem(&ports, &entrance);
	if (!tunnel || !(tunnel->flags & RDR_PF_TUNNEL))
		return 0;
	here = bpf_map_lookup_elem(&ports, &port);
	return port == RDR_NO_PORT || (here && here->node == tunnel->node) ? s->pos : 0;
}

/* The position of the lone packet inside the one at index, as the source noted it; 0 if
 * it has been seen since, or none is. */
GLOBAL __u64 still_inside(__u32 index, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1)), *in;
	__u64 pos;

	if (!s || s->nev < 4 || s->ev0[1] >> RDR_EV_KIND_SHIFT != RDR_EV_INNER)
		return 0;
	pos = s->ev0[2];
	if (packet_inside(pos & (cfg_slots - 1), RDR_NO_PORT, now) != pos)
		return 0;
	in = slot_of(pos);
	return in && in->segs == 1 ? pos : 0;
}

/* Whether the packet with that index in its mark was delivered to node: what bears the
 * mark now came out of it. */
GLOBAL int was_outside(__u32 index, __u32 node, __u64 now)
{
	const struct rdr_port *port;
	struct rdr_slot *s;
	__u32 entrance;
	__u64 cell;

	if (index >= cfg_slots)
		return false;
	s = slot_at(index);
	if (!s || !slot_alive(s, now))
		return false;
	cell = last_event(s);
	entrance = cell_port(cell);
	port = bpf_map_lookup_elem(&ports, &entrance);
	return port && cell_kind(cell) == RDR_EV_DELIVER && port->node == node;
}

/*
 * What is found is handed over as one number, so that the verifier sees one state where
 * there were many: index:32 | decrements:8 | id_rule:8 | FOUND*. 0: nothing.
 */
#define FOUND_SHIFT 48
#define FOUND (1ULL << FOUND_SHIFT)
#define FOUND_BY_KEY_SHIFT 49
#define FOUND_BY_BITS_SHIFT 50
/* Not the packet, but the one inside it: index only. */
#define FOUND_INSIDE_SHIFT 51
#define FOUND_INSIDE (1ULL << FOUND_INSIDE_SHIFT)

/* Nothing, though the bits look like ours: what to count. */
#define FOUND_MISSED_SHIFT 52

/* In TC only: in kfree_skb and queues the same packet is looked for again. */
static __always_inline void count_missed(__u64 r, __u32 n)
{
	__u32 why = r >> FOUND_MISSED_SHIFT;

	if (why)
		count(why, n);
}

static __always_inline __u64 pack_found(const struct found *f)
{
	return f->index | (__u64)(f->decrements & 0xff) << 32 | (__u64)f->id_rule << 40 | FOUND |
	       (__u64)f->by_key << FOUND_BY_KEY_SHIFT |
	       (__u64)f->by_bits << FOUND_BY_BITS_SHIFT;
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

/* marked_slot() in the common case, without a call: s is the slot of a lone packet, this one. */
static __always_inline bool is_marked_alone(const struct rdr_slot *s, const struct packet *p,
					    __u64 now)
{
	return p->n == 1 && !p->partial && !is_fragment(p) && !p->v6 && slot_alive(s, now) &&
	       s->id == p->bits.id && s->tag == p->tag && s->tag2 == p->tag2 &&
	       s->proto == p->proto && !(s->state & RDR_ST_IPV6) && s->len == p->len;
}

/* The same for a packet with a mark. */
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

/* Finds the packet inside one that stands for n and has no backpack yet. That of a train
 * may be cut: then it does not say which segment is inside. */
GLOBAL __u64 found_lost_inside(__u32 index, __u32 n, __u64 now)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	if (!s || s->segs != n || !packet_inside(index, RDR_NO_PORT, now))
		return 0;
	return index | FOUND;
}

/* What leaves by port with a mark that is not its own: the packet inside it. */
GLOBAL __u64 found_inside(__u32 index, __u32 port, __u64 now)
{
	return packet_inside(index, port, now) ? index | FOUND_INSIDE : 0;
}

/*
 * The slot of a fragment that was joined with others inside the node, got other addresses
 * (NAT) and was cut again: it bears the mark of the first one, whose slot is at index,
 * and the first one's addresses before that are those that this one was keyed with.
 * rest: of its key. Returns NO_INDEX if there is none.
 */
GLOBAL __u32 find_cut_again(__u32 index, __u64 rest, __u64 tags, __u64 now)
{
	struct rdr_slot *s;
	struct rdr_key key;
	__u64 *pos;

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

/* Whether the packet in the slot at index may be the one that a fragment which leaves by
 * port was cut from in its node: a socket may set any mark. form: protocol:8, RDR_ST_IPV6
 * or 0:8. */
GLOBAL int may_be_cut_from(__u32 index, __u32 form, __u32 port_no, __u64 now)
{
	struct rdr_slot *s;

	if (index >= cfg_slots)
		return false;
	s = slot_at(index);
	if (!s || !slot_alive(s, now) || s->proto != (form & 0xff) ||
	    (s->state & RDR_ST_IPV6) != form >> 8)
		return false;
	return (s->state & RDR_ST_FULL) || (look_at_visits(index, port_no) & VISIT_NODE);
}

/* Whether p, which leaves by port, is a fragment behind the first of the packet whose mark
 * it bears. */
static __always_inline bool is_cut_off(const struct packet *p, __u32 mark, __u32 port_no,
				       __u64 now)
{
	return (p->frag & IP_OFFSET) &&
	       may_be_cut_from(marked_index(mark), p->proto | (p->v6 ? RDR_ST_IPV6 << 8 : 0),
			       port_no, now);
}

/* Finds such a fragment, which its mark and its key do not name, see find_cut_again(). */
static __always_inline __u64 found_cut(__u32 mark, const struct packet *p, __u64 now)
{
	__u32 index;

	if (p->v6)
		return 0;
	index = find_cut_again(marked_index(mark), key_rest(p, p->bits.id),
			       p->tag | (__u64)p->tag2 << 32, now);
	return index == NO_INDEX ? 0 : index | (__u64)ID_COUNTS << 40 | FOUND;
}

/* What a port's egress may find. A call makes one verifier state of three. */
GLOBAL __u32 expect_out(__u32 flags)
{
	/* A node that carries the header may be a switch, which has handed a copy out
	 * already: see is_over(). */
	if (flags & RDR_PF_BRIDGE_PORT ||
	    (!(flags & RDR_PF_BRIDGE) && carries_header(flags)))
		return EXPECT_OURS;
	return flags & RDR_PF_BRIDGE ? EXPECT_STRAY : EXPECT_COPIES;
}

/* Set in the first scalar if the packet came in by some interface and now leaves. */
#define WIRE_ROUTED (1ULL << 63)

/* What finding takes of a packet. bits_len: its bits:32 | IP bytes, of a train payload
 * bytes of each segment:31 | WIRE_ROUTED. rest: fragment field:16 | protocol:8 | hdr:10 |
 * packets:11 | IPv6:1 | expect:2 | the port's flags:14 | partial:1. */
#define WIRE_PARTIAL (1ULL << 62)
#define WIRE_FLAGS(rest) ((rest) >> 48 & 0x3fff)

static __always_inline struct packet unpack_wire(__u64 bits_len, __u64 tags, __u64 rest)
{
	struct packet p = {
		.bits.word = bits_len,
		.len = bits_len >> 32 & 0x7fffffff,
		.gso_size = bits_len >> 32 & 0x7fffffff,
		.tag = tags,
		.tag2 = tags >> 32,
		.frag = rest,
		.proto = rest >> 16,
		.l4 = rest >> 24 & 0x3ff,
		.n = rest >> 34 & 0x7ff,
		.v6 = rest >> 45 & 1,
		.true_link = is_true_link(WIRE_FLAGS(rest), rest >> 45 & 1),
		.partial = !!(rest & WIRE_PARTIAL),
		.flow = tags,
	};

	return p;
}

/* find_on_wire() and find_lowered() in calls for themselves: the verifier has its limits,
 * and at egress most packets need neither. */
GLOBAL __u64 wire_by_bits(__u64 bits_len, __u64 tags, __u64 rest, __u64 now)
{
	struct packet p = unpack_wire(bits_len, tags, rest);
	struct rdr_port port = { .flags = WIRE_FLAGS(rest) };
	struct found f = { .id_rule = p.v6 ? ID_SHARED : ID_COUNTS };

	if (!may_carry(&p))
		return 0;
	if (!((bits_len & WIRE_ROUTED) && find_lowered(&p, &port, now, &f)) &&
	    !find_by_bits(&p, p.bits, now, rest >> 46 & 3, &f))
		return (__u64)f.missed << FOUND_MISSED_SHIFT;
	return pack_found(&f);
}

/* id_len: ID:16 | the same bytes:16 | flow hash:32. */
GLOBAL __u64 wire_by_key(__u64 id_len, __u64 tags, __u64 addrs, __u64 rest, __u64 now)
{
	struct packet p = unpack_wire((id_len & 0xffff) | (id_len & 0xffff0000) << 16, tags, rest);
	struct found f = { .id_rule = p.v6 ? ID_SHARED : ID_COUNTS };

	p.saddr = addrs;
	p.daddr = addrs >> 32;
	return find_by_key(&p, id_len >> 32, now, &f) ? pack_found(&f) : 0;
}

/*
 * Something between two of our ports may set the TTL: a rule of a bridge, a router that is not
 * attached, in a node that carries the header its own rules. Then the header names no slot, or
 * another packet's. What is left of the name is the ID; the rest is tried, and the content tells:
 * of all slots that the ID may mean, one alone must be of such a packet, of the same flow, and
 * on its way to this port.
 */

/* So many values the upper bits of an index may have. */
#define MAX_UPPER 256

/* A TTL so little below the one that was written was lowered, not set. */
#define FEW_ROUTERS 8

/* Whether the packet in slot s may be the one with these tags. (Of a train any segment may bear
 * the bits: which one it is, changed_slot() finds out.) */
static __always_inline bool is_like(const struct rdr_slot *s, __u64 tags, __u32 proto, __u32 flow)
{
	return s->pos && s->flow_hash == flow && s->proto == proto &&
	       (s->segs > 1 || (s->tag == (__u32)tags && s->tag2 == tags >> 32));
}

/* The index of the only slot of such a packet with that ID, else NO_INDEX. id_proto: ID:16 |
 * protocol:8. */
GLOBAL __u32 slot_by_content(__u32 id_proto, __u64 tags, __u32 flow)
{
	__u32 index, found = NO_INDEX;
	struct rdr_slot *s;

	for (__u32 k = 0; k < MAX_UPPER; k++) {
		index = bpf_ntohs(id_proto) | k << 16;
		if (index >= cfg_slots)
			break;
		s = slot_at(index);
		if (!s || !is_like(s, tags, id_proto >> 16, flow))
			continue;
		if (found != NO_INDEX)
			return NO_INDEX;
		found = index;
	}
	return found;
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
	    (n > 1 && !is_run(index, n, hdr, false)))
		return NO_INDEX;
	return index;
}

/* Whether anything of ours may still be on its way: sources mark, or did so not long ago. */
static __always_inline bool may_be_under_way(__u64 now)
{
	struct rdr_control *ctl;
	__u32 zero = 0;

	ctl = bpf_map_lookup_elem(&control, &zero);
	return ctl && (now < cfg_timeout_ns || now - cfg_timeout_ns < READ_ONCE(ctl->lease_ns));
}

/* Whether a packet may bear bits of ours here at all, whatever they are; rest: as below. */
static __always_inline bool may_have_borne(__u64 rest)
{
	__u32 v6 = rest >> 45 & 1;

	return (rest & (IP_DF | IP_MF | IP_OFFSET)) == IP_DF && (rest >> 46 & 3) == EXPECT_OURS &&
	       (!v6 || cfg_ip6 == RDR_IP6_LABEL) && !is_true_link(WIRE_FLAGS(rest), v6);
}

/* Where a packet is looked for by its content: flow hash:32 | port:16 | CHANGED_*. */
#define CHANGED_PORT_SHIFT 32
#define CHANGED_WITHIN_SHIFT 48 /* it was in the port's node, which carries the header */

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
	/* It was the DSCP that was set; or, in the paper's layout, a router that is not attached. */
	if (cfg_ttl_band[bits.ttl] == cfg_ttl_band[wire.ttl] ||
	    (cfg_ttl_width == 1 && (__u8)(wire.ttl - bits.ttl) < FEW_ROUTERS))
		decrements = (__u8)(wire.ttl - bits.ttl);
	id_rule = rest >> 45 & 1 ? ID_SHARED : index == first ? ID_COUNTS : ID_FIXED;
	count(RDR_C_TTL_SET, rest >> 34 & 0x7ff);
	return index | decrements << 32 | id_rule << 40 | FOUND | 1ULL << FOUND_BY_BITS_SHIFT;
}

/* Whether what leaves by that port of a node that carries the header has come to it by a link
 * inside the domain. */
GLOBAL int came_by_link(struct __sk_buff *skb, __u32 port_no)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no), *in;
	struct rdr_dev dev = { .ifindex = skb->ingress_ifindex };
	__u32 *in_no;

	if (!port || is_closing(port))
		return false;
	dev.netns_inum = port->netns_inum;
	in_no = bpf_map_lookup_elem(&devs, &dev);
	in = in_no ? bpf_map_lookup_elem(&ports, in_no) : NULL;
	return in && !(in->flags & RDR_PF_SOURCE_IN);
}

/* Whether what leaves by a port may be one whose bits were set since it was last seen. */
static __always_inline bool may_be_changed(struct __sk_buff *skb, const struct rdr_port *port,
					   __u32 port_no)
{
	return port->flags & RDR_PF_BRIDGE_PORT ||
	       (carries_header(port->flags) && came_by_link(skb, port_no));
}

/* Whether a node that carries the header may have shown this packet's true bits to itself
 * (a member of the group, a band that is used up) and now sends a copy on, which has a key
 * for that. */
static __always_inline bool may_be_shown(const struct packet *p, __u32 flags)
{
	return p->group && !p->v6 && carries_header(flags);
}

struct wire {
	__u64 bits_len;
	__u64 tags;
	__u64 rest;
};

/* flags: the port's. */
static __always_inline struct wire pack_wire(const struct packet *p, __u32 flags, __u32 expect)
{
	__u32 size = by_number(p->n, p->len, p->gso_size);
	__u32 hdr = repeated_hdr(p) & 0x3ff, n = p->n < 0x7ff ? p->n : 0x7ff;
	struct wire w = {
		.bits_len = p->bits.word | (__u64)size << 32,
		.tags = p->partial ? p->flow : p->tag | (__u64)p->tag2 << 32,
		.rest = p->frag | (__u64)p->proto << 16 | (__u64)hdr << 24 | (__u64)n << 34 |
			(__u64)p->v6 << 45 | (__u64)(expect & 3) << 46 |
			(__u64)(flags & 0x3fff) << 48 | (p->partial ? WIRE_PARTIAL : 0),
	};

	return w;
}

/* Finds by its content what has come to that port, or leaves by it. within: it was in the port's
 * node, which carries the header. */
static __always_inline __u64 found_changed(const struct wire *w, __u32 flow, __u32 port_no,
					   __u32 within, __u64 now)
{
	return wire_by_content(w->bits_len, w->tags, w->rest, now,
			       flow | (__u64)port_no << CHANGED_PORT_SHIFT |
				       (__u64)within << CHANGED_WITHIN_SHIFT);
}

/* routed: the packet came in by some interface and leaves by this port. */
static __always_inline __u64 found_packed(const struct wire *w, const struct packet *p, __u32 flags,
					  __u32 expect, bool routed, __u64 now)
{
	__u64 r = wire_by_bits(w->bits_len | (routed ? WIRE_ROUTED : 0), w->tags, w->rest, now), by_key;

	if (r & FOUND || expect == EXPECT_STRAY ||
	    (!wants_key(p, p->bits.ttl) && !may_be_shown(p, flags)))
		return r;
	by_key = wire_by_key(p->bits.id | (w->bits_len >> 32 & 0xffff) << 16 | (__u64)flow_hash(p) << 32,
			     w->tags, packet_addrs(p), w->rest, now);
	return by_key ? by_key : r;
}

/* flags: the port's. */
static __always_inline __u64 found_on_wire(const struct packet *p, __u32 flags, __u32 expect,
					   __u64 now)
{
	struct wire w = pack_wire(p, flags, expect);

	return found_packed(&w, p, flags, expect, false, now);
}

/*
 * Whether what leaves by that port of a node that carries the header, and was found by its
 * bits, is another packet: the one in the slot at index has arrived, and not in copies that
 * this node makes. Where the log may lack a copy (it is full, see note_copy(); a segment's
 * own is not all) nothing is over: wire bits must not leave.
 */
GLOBAL int is_over(__u32 index, __u32 port_no)
{
	struct rdr_slot *s = slot_at(index & (cfg_slots - 1));
	__u32 visits;

	if (!s || !has_arrived(index) || s->seg || s->cut & (RDR_CUT | RDR_OWN) ||
	    is_log_short(s))
		return false;
	visits = look_at_visits(index, port_no);
	return !(visits & VISIT_STAYS) && (visits & (VISIT_NODE | VISIT_LEFT)) != VISIT_NODE;
}

/*
 * Whether what leaves a node that carries the header, and came by the interface `from`, came by
 * an edge, which has not taken it for the packet in the slot at index: of another flow, it only
 * looks like that.
 */
GLOBAL int is_from_outside(__u32 index, __u32 port_no, __u32 from)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no), *in;
	struct rdr_dev dev = { .ifindex = from };
	__u32 *in_no;

	if (!port || !from)
		return false;
	dev.netns_inum = port->netns_inum;
	in_no = bpf_map_lookup_elem(&devs, &dev);
	in = in_no ? bpf_map_lookup_elem(&ports, in_no) : NULL;
	return in && in->flags & RDR_PF_SOURCE_IN && !(look_at_visits(index, *in_no) & VISIT_CAME);
}

/* Whether is_over() may say so, without a call: the packet in the slot at index is done. */
static __always_inline bool may_be_over(__u32 index)
{
	const struct rdr_slot *s = slot_at(index & (cfg_slots - 1));

	return s && s->state & RDR_ST_DONE;
}

/* What found_on_wire() has found for a packet of that flow which came by the interface `from`
 * and leaves by that port; if that is another packet, what is to be counted. (A call makes one
 * verifier state of many.) */
GLOBAL __u64 sift_found(__u64 r, __u32 port_no, __u32 flow, __u32 from)
{
	const struct rdr_port *port = bpf_map_lookup_elem(&ports, &port_no);

	if (!(r & FOUND) || !port)
		return r;
	if (r >> FOUND_BY_KEY_SHIFT & 1)
		return is_equal_leaving(r, port_no, is_closing(port)) ? 0 : r;
	if (is_closing(port))
		return r;
	if (is_elsewhere(r, port_no, 0, false))
		return (__u64)RDR_C_NOT_HERE << FOUND_MISSED_SHIFT;
	if (!mark_mask(port) &&
	    ((may_be_over(r) && is_over(r, port_no)) ||
	     (is_other_flow(r, flow) && is_from_outside(r, port_no, from))))
		return (__u64)RDR_C_FOREIGN << FOUND_MISSED_SHIFT;
	return r;
}

/* What sift_marked() takes of a packet: packets:16 | headers that each repeats:15 | IPv6:1. */
static __always_inline __u32 run_form(const struct packet *p)
{
	return (p->n & 0xffff) | (repeated_hdr(p) & 0x7fff) << 16 | (__u32)p->v6 << 31;
}

/* What found_by_mark() has found for what leaves by that port with these bits, 0 if that is
 * another packet: it is counted, and its mark is left to whoever has set it. */
GLOBAL __u64 sift_marked(__u64 r, __u32 port_no, __u32 bits, __u32 form)
{
	__u32 n = form & 0xffff;

	if (!r)
		return 0;
	if ((n > 1 && !is_run(r, n, form >> 16 & 0x7fff, false)) ||
	    is_elsewhere(r, port_no, bits, form >> 31)) {
		count(RDR_C_NOT_HERE, n);
		return 0;
	}
	return r;
}

/* The same for what leaves without a mark: from a function in user space that shares no
 * skb, under --carry header, by a bridge. */
static __always_inline __u64 found_unmarked(struct __sk_buff *skb, const struct packet *p,
					    const struct rdr_port *port, __u32 port_no, __u64 now)
{
	__u32 from = skb->ingress_ifindex;
	__u32 expect = expect_out(port->flags);
	struct wire w = pack_wire(p, port->flags, expect);
	__u64 r = found_packed(&w, p, port->flags, expect, from, now), changed = 0;

	/* What is sifted out is another packet, whatever its content is. */
	if (r & FOUND)
		r = sift_found(r, port_no, flow_hash(p), from);
	else if (may_be_changed(skb, port, port_no))
		changed = found_changed(&w, flow_hash(p), port_no, !is_closing(port), now);
	r = changed ? changed : r;
	if (r & FOUND)
		return r;
	count_missed(r, p->n);
	return 0;
}

#endif
